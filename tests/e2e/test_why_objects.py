"""``podtui why`` on objects that kubectl creates and that cannot work, on the simulated engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

OBJECTS: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: crash}
spec:
  selector: {matchLabels: {app: crash}}
  template:
    metadata: {labels: {app: crash}}
    spec: {containers: [{name: c, image: "busybox:1.36", command: [sh, -c, "exit 3"]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: account}
spec:
  selector: {matchLabels: {app: account}}
  template:
    metadata: {labels: {app: account}}
    spec: {serviceAccountName: ghost, containers: [{name: c, image: "busybox:1.36"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ssd}
spec:
  selector: {matchLabels: {app: ssd}}
  template:
    metadata: {labels: {app: ssd}}
    spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: "busybox:1.36"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "busybox:1.36", command: ["false"]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: crsh}, ports: [{port: 80}]}
"""
EXPLAINED: Final = {
    "deploy/crash": "c fails: it exited with code 3.",
    "deployment account": "the service account ghost does not exist in the namespace default",
    "deploy/ssd": "Label the node: kubectl label node n1 disk=ssd",
    "job/fails": "Its pods failed more often than its backoffLimit of 0 allows.",
    "pvc/data": "Its storage class fast does not exist, and no volume fits.",
    "svc/web": "Its selector matches no pod: app=crsh.",
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("why"), node="n1", engine="memory") as started:
        started.out("apply", "-f", "-", text=OBJECTS)
        yield started


def podtui(agent: KubectlAgent, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "podtui", *arguments, "--root-dir", str(agent.root)]
    return subprocess.run(program, env=agent.environment, capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip


@pytest.mark.parametrize("name", EXPLAINED)
def test_an_object_that_cannot_work_is_explained(agent: KubectlAgent, name: str) -> None:
    def explained() -> bool:
        done = podtui(agent, "why", *name.split())
        return done.returncode == 1 and EXPLAINED[name] in " ".join(done.stdout.split())

    agent.until(explained, 120)


def test_a_label_that_podtui_sets_lets_the_pod_run(agent: KubectlAgent) -> None:
    pod = agent.out("get", "pods", "-l", "app=ssd", "-o", "name").strip().removeprefix("pod/")
    done = podtui(agent, "why", pod, "--label-node")
    assert done.stdout == "The node n1 has the labels disk=ssd now.\n"
    agent.until(lambda: podtui(agent, "why", "deploy/ssd").returncode == 0, 120)
    assert agent.out("get", "node", "n1", "-o", "jsonpath={.metadata.labels.disk}") == "ssd"
    assert "deploy/crash" in podtui(agent, "status").stdout
