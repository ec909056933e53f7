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


WAITING: Final = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: outside}
provisioner: example.com/disk
volumeBindingMode: WaitForFirstConsumer
"""
USER: Final = """\
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {accessModes: [MODE], storageClassName: NAME, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "busybox:1", volumeMounts: [{name: d, mountPath: /d}]}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: NAME}}]
"""
LOCAL: Final = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  accessModes: [ReadWriteOncePod]
  capacity: {storage: 5Gi}
  storageClassName: local
  local: {path: /srv}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1]}]
"""


def test_pods_wait_without_a_node_until_their_claims_can_be_bound(agent: KubectlAgent) -> None:
    def user(name: str, mode: str = "ReadWriteOnce") -> str:
        return USER.replace("NAME", name).replace("MODE", mode)

    def node(name: str) -> str:
        return agent.out("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")

    def says(name: str, text: str) -> None:
        agent.until(lambda: text in agent.out("describe", "pod", name))

    text = WAITING + user("local", "ReadWriteOncePod") + user("missing") + user("outside")
    agent.out("create", "-f", "-", text=text)
    says("local", "1 node(s) didn't find available persistent volumes to bind.")
    says("missing", "pod has unbound immediate PersistentVolumeClaims.")
    claim = ("get", "pvc", "outside", "-o", "jsonpath={.metadata.annotations}")
    selected = '"volume.kubernetes.io/selected-node":"n1"'
    agent.until(lambda: selected in agent.out(*claim))
    assert [node(name) for name in ("local", "missing", "outside")] == ["", "", ""]

    agent.out("create", "-f", "-", text=LOCAL)
    agent.out("wait", "--for=condition=Ready", "pod/local", "--timeout=60s")
    assert "Bound" in agent.out("get", "pv", "disk", "--no-headers")

    pod = user("local").split("---")[-1]
    second = pod.replace("name: local", "name: second", 1)
    agent.out("create", "-f", "-", text=second)
    says("second", "1 node has pod using PersistentVolumeClaim with the same name and")
    agent.out("delete", "pod", "local")
    agent.out("wait", "--for=condition=Ready", "pod/second", "--timeout=60s")


ACCOUNT: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: robot}
spec:
  serviceAccountName: robot
  containers: [{name: c, image: "busybox:1"}]
"""


def test_a_static_pod_waits_for_its_account(agent: KubectlAgent) -> None:
    (agent.folder / "robot.yaml").write_text(ACCOUNT)
    text = 'failed to fetch token: serviceaccounts "robot" not found'
    agent.until(lambda: text in agent.out("get", "events"))
    agent.out("create", "serviceaccount", "robot")
    agent.out("wait", "--for=condition=Ready", "pod/robot-n1", "--timeout=60s")
