"""The data of claims outlives pods, files of the folder, agents and engines (real engine)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

from soak.engine import Engine

CLAIM: Final = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox:1.36
    imagePullPolicy: Never
    command: [sleep, "100000"]
    volumeMounts: [{name: d, mountPath: /d}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: NAME}}]
"""
WAIT: Final = ("wait", "--for=condition=Ready", "--timeout=120s")
TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine that the test may stop. Needs root."""
    # Paths of sockets must be short.
    engine = Engine(Path(tempfile.mkdtemp(prefix="podtui-engine-")), ("unshare", "--net"))
    try:
        engine.start()
        engine.load_image()
        yield engine
    finally:
        engine.remove()


@pytest.fixture
def agent(engine: Engine, tmp_path: Path) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path, node="n1", engine=engine.url) as agent:
        yield agent


def test_data_outlive_pods_files_agents_and_engines(engine: Engine, agent: KubectlAgent) -> None:
    def write(pod: str, text: str) -> None:
        agent.out("exec", pod, "--", "sh", "-c", f"echo {text} >> /d/notes")

    def notes(pod: str) -> list[str]:
        return agent.out("exec", pod, "--", "cat", "/d/notes").split()

    for name in ("web", "static"):
        agent.out("create", "-f", "-", text=CLAIM.replace("NAME", name))
    agent.out("create", "-f", "-", text=POD.replace("NAME", "web"))
    file = agent.folder / "static.yaml"
    file.write_text(POD.replace("NAME", "static"))
    agent.until(lambda: "static-n1" in agent.out("get", "pods"))
    agent.out(*WAIT, "pod/web", "pod/static-n1")
    agent.out("label", "node", "n1", "disk=ssd")
    write("web", "one")
    write("static-n1", "one")
    volumes = sorted(path.name for path in (agent.root / "volumes").iterdir())
    assert [name.partition("_pvc-")[0] for name in volumes] == ["default_static", "default_web"]

    agent.kill()
    labels = json.loads(agent.out("get", "node", "n1", "-o", "json"))["metadata"]["labels"]
    assert labels["disk"] == "ssd"
    assert notes("web") == notes("static-n1") == ["one"]

    agent.out("delete", "pod", "web")
    agent.out("create", "-f", "-", text=POD.replace("NAME", "web"))
    file.unlink()
    agent.until(lambda: "static-n1" not in agent.out("get", "pods"))
    file.write_text(POD.replace("NAME", "static").replace("100000", "99999"))
    agent.until(lambda: "static-n1" in agent.out("get", "pods"))
    agent.out(*WAIT, "pod/web", "pod/static-n1")
    assert notes("web") == notes("static-n1") == ["one"]
    write("web", "two")

    engine.stop()
    agent.until(lambda: "NotReady" in agent.out("get", "node", "n1"), 120)
    engine.start()
    agent.wait_for_node()
    agent.out(*WAIT, "pod/web", "pod/static-n1")
    agent.until(lambda: agent.run("exec", "web", "--", "true").returncode == 0)
    assert notes("web") == ["one", "two"]

    agent.out("delete", "pvc", "web", "--wait=false")
    agent.out("delete", "pod", "web")
    agent.until(lambda: len(list((agent.root / "volumes").iterdir())) == 1)
    assert notes("static-n1") == ["one"]


def test_a_static_pod_has_the_token_of_its_account(agent: KubectlAgent) -> None:
    text = POD.replace("NAME", "static").partition("    volumeMounts")[0]
    (agent.folder / "robot.yaml").write_text(
        text.replace("spec:", "spec:\n  serviceAccountName: robot")
    )
    agent.out("create", "serviceaccount", "robot")
    agent.until(lambda: "static-n1" in agent.out("get", "pods"))
    agent.out(*WAIT, "pod/static-n1")
    token = agent.out("exec", "static-n1", "--", "cat", TOKEN)
    assert "system:serviceaccount:default:robot" in agent.out("auth", "whoami", "--token", token)
    refused = agent.run("get", "pods", "--token", token)
    assert (
        'User "system:serviceaccount:default:robot" cannot list resource "pods"' in refused.stderr
    )
