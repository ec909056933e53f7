"""Pods copied from a cluster: one finding for everything that the cluster added."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from manifests import NODE, pod_text
from repository import GOLDEN

from podtui.api.local import Diagnostic, Severity
from podtui.manifest.cluster_copy import added_fields
from podtui.manifest.diagnose import read_manifest

RECORDS = sorted(GOLDEN.glob("**/pod.json"))
GOLDEN_PODS = [path for path in RECORDS if path.read_bytes().startswith(b"{")]
COPY = """apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"a":"b"}
  creationTimestamp: "2024-05-06T07:08:09Z"
  generateName: web-5d8f7c9b4-
  labels:
    app: web
    pod-template-hash: 5d8f7c9b4
  name: web-5d8f7c9b4-x2x8k
  namespace: default
  ownerReferences:
  - {apiVersion: apps/v1, kind: ReplicaSet, name: web-5d8f7c9b4, uid: u}
  resourceVersion: "123456"
  uid: 0f2f6f0e-43c8-4f1c-9a49-0f9f7b1c2d3e
spec:
  containers:
  - image: busybox:1.36
    name: web
    volumeMounts:
    - mountPath: /cache
      name: cache
    - mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      name: kube-api-access-7xk2p
      readOnly: true
  nodeName: kind-worker
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  schedulerName: default-scheduler
  serviceAccount: default
  serviceAccountName: default
  tolerations:
  - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}
  - {key: mine, operator: Exists}
  volumes:
  - emptyDir: {}
    name: cache
  - name: kube-api-access-7xk2p
    projected:
      sources:
      - serviceAccountToken: {path: token}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
status:
  phase: Running
"""


def found(text: str, *, strict: bool = False) -> tuple[Diagnostic, ...]:
    return read_manifest("/m/x.yaml", text.encode(), node_name=NODE, strict=strict).diagnostics


def test_a_cluster_copy_gets_one_finding_that_removes_cluster_fields() -> None:
    copy, mine = found(COPY)
    assert (copy.code, copy.severity) == ("ClusterCopy", Severity.WARNING)
    assert "kubectl get -o yaml" in copy.message
    assert copy.fix == "remove these 17 fields"
    assert set(copy.remove) == {
        "metadata.annotations",
        "metadata.creationTimestamp",
        "metadata.generateName",
        "metadata.labels.pod-template-hash",
        "metadata.ownerReferences",
        "metadata.resourceVersion",
        "metadata.uid",
        "spec.containers[0].volumeMounts[1]",
        "spec.nodeName",
        "spec.preemptionPolicy",
        "spec.priority",
        "spec.schedulerName",
        "spec.serviceAccount",
        "spec.serviceAccountName",
        "spec.tolerations[0]",
        "spec.volumes[1]",
        "status",
    }
    assert (mine.code, mine.field) == ("NoEffect", "spec.tolerations")


def test_under_strict_the_kubelets_errors_are_kept() -> None:
    diagnostics = found(COPY, strict=True)
    errors = [d.message for d in diagnostics if d.severity is Severity.ERROR]
    assert errors[0] == "Forbidden: static pods may not reference serviceaccounts"
    assert len(errors) == 3
    assert [d.severity for d in diagnostics if d.code == "ClusterCopy"] == [Severity.WARNING]


@pytest.mark.parametrize(
    "extra",
    ["  uid: u\n", '  resourceVersion: "5"\n', "  ownerReferences: []\n"],
)
def test_a_single_cluster_field_is_not_a_copy(extra: str) -> None:
    text = pod_text().replace("metadata:\n", f"metadata:\n{extra}")
    assert "ClusterCopy" not in {d.code for d in found(text)}


def test_records_of_a_real_api_server_are_detected() -> None:
    for path in GOLDEN_PODS:
        tree: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        assert {("status",), ("metadata", "uid")} <= set(added_fields(tree)), path


def test_a_mirror_pod_name_has_the_node_suffix() -> None:
    text = """apiVersion: v1
kind: Pod
metadata:
  name: web-cp1
  annotations: {kubernetes.io/config.mirror: x}
  resourceVersion: "1"
  uid: u
spec:
  nodeName: cp1
  containers: [{name: a, image: b}]
"""
    fixes = {d.field: d.fix for d in found(text)}
    assert fixes["metadata.name"] == 'a valid name: "web"'


def test_the_annotations_of_podtui_are_removed() -> None:
    text = COPY.replace(
        "  annotations:\n", "  annotations:\n    podtui.dev/manifest: /m/web.yaml\n"
    )
    copy, *_ = found(text)
    # All annotations were added.
    assert "metadata.annotations" in copy.remove
