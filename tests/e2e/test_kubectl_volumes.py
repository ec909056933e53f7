"""Claims with real kubectl, from creation to the deletion of their data (simulated engine)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

CLAIM: Final = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox:1
    volumeMounts: [{name: d, mountPath: /d}, {name: e, mountPath: /e}]
  volumes:
  - {name: d, persistentVolumeClaim: {claimName: data}}
  - name: e
    ephemeral:
      volumeClaimTemplate:
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Mi}}}
"""
STATIC: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: static}
spec:
  containers: [{name: c, image: "busybox:1", volumeMounts: [{name: d, mountPath: /d}]}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: kept}}]
"""


@pytest.fixture
def agent(tmp_path: Any) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path, node="n1", engine="memory") as found:
        yield found


def documents(agent: KubectlAgent, *arguments: str) -> list[dict[str, Any]]:
    return json.loads(agent.out("get", *arguments, "-o", "json"))["items"]


def test_a_claim_from_its_creation_to_the_deletion_of_its_data(agent: KubectlAgent) -> None:
    agent.out("create", "-f", "-", text=CLAIM.replace("NAME", "data"))
    agent.until(
        lambda: (
            "waiting for first consumer to be created before binding"
            in agent.out("describe", "pvc", "data")
        )
    )
    assert agent.out("get", "pv") == ""
    agent.out("create", "-f", "-", text=POD)
    agent.out("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    first, second = documents(agent, "pvc")
    assert [first["metadata"]["name"], second["metadata"]["name"]] == ["data", "web-e"]
    assert second["metadata"]["ownerReferences"][0]["name"] == "web"
    name = first["spec"]["volumeName"]
    assert name == f"pvc-{first['metadata']['uid']}"
    assert first["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    [volume] = [item for item in documents(agent, "pv") if item["metadata"]["name"] == name]
    directory = agent.root / "volumes" / f"default_data_{name}"
    assert volume["spec"]["hostPath"] == {"path": str(directory), "type": "DirectoryOrCreate"}
    described = agent.out("describe", "pvc", "data")
    assert f"Successfully provisioned volume {name} using podtui.dev/directory" in described
    assert "Used By:       web\n" in described

    grown = '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'
    agent.out("patch", "pvc", "data", "-p", grown)
    agent.until(lambda: "2Gi" in agent.out("get", "pvc", "data", "--no-headers"))

    agent.out("delete", "pvc", "data", "--wait=false")
    assert "Terminating" in agent.out("get", "pvc", "data", "--no-headers")
    agent.out("delete", "pod", "web")
    agent.until(lambda: not documents(agent, "pvc") and not documents(agent, "pv"))


def test_a_static_pod_waits_for_its_claim(agent: KubectlAgent) -> None:
    (agent.folder / "static.yaml").write_text(STATIC)
    text = "failed to fetch PVC from API server: persistentvolumeclaims"
    agent.until(lambda: text in agent.out("get", "events"))
    agent.out("create", "-f", "-", text=CLAIM.replace("NAME", "kept"))
    agent.out("wait", "--for=condition=Ready", "pod/static-n1", "--timeout=60s")
    (agent.folder / "static.yaml").unlink()
    agent.until(lambda: not documents(agent, "pod"))
    assert "Bound" in agent.out("get", "pvc", "kept", "--no-headers")


def test_a_volume_of_the_user_is_bound_and_retained(agent: KubectlAgent) -> None:
    volume = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 5Gi}
  storageClassName: manual
  hostPath: {path: /srv}
"""
    claim = CLAIM.replace("NAME", "data").replace("spec: {", "spec: {storageClassName: manual, ")
    agent.out("create", "-f", "-", text=volume)
    agent.out("create", "-f", "-", text=claim)
    agent.out("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=60s")
    assert agent.out("get", "pvc", "data", "--no-headers").split()[:4] == [
        "data",
        "Bound",
        "disk",
        "5Gi",
    ]
    agent.out("delete", "pvc", "data")
    agent.out("wait", "--for=jsonpath={.status.phase}=Released", "pv/disk", "--timeout=60s")
    agent.out("delete", "pv", "disk")


CLASS: Final = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: manual}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "busybox:1"}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: disk}}]
"""
VOLUME: Final = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  local: {path: /mnt/disk}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [NODE]}]
"""


def test_a_pod_waits_for_a_volume_on_its_node(agent: KubectlAgent) -> None:
    agent.out("create", "-f", "-", text=CLASS)
    reason = "1 node(s) didn't find available persistent volumes to bind."
    agent.until(lambda: reason in agent.out("describe", "pod", "waits"))
    assert "waiting for pod waits to be scheduled" in agent.out("describe", "pvc", "disk")
    agent.out("create", "-f", "-", text=VOLUME.replace("NODE", "elsewhere"))
    agent.out("wait", "--for=jsonpath={.status.phase}=Available", "pv/disk", "--timeout=60s")
    assert agent.out("get", "pod", "waits", "-o", "jsonpath={.spec.nodeName}") == ""
    agent.out("delete", "pv", "disk")
    hostname = agent.out(
        "get", "node", "n1", "-o", r"jsonpath={.metadata.labels.kubernetes\.io/hostname}"
    )
    agent.out("create", "-f", "-", text=VOLUME.replace("NODE", hostname))
    agent.out("wait", "--for=condition=PodScheduled", "pod/waits", "--timeout=60s")
    agent.out("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/disk", "--timeout=60s")
