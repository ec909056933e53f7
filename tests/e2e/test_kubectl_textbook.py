"""The first session of a textbook: a pod is created, shown, read and deleted with kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import docker
import pytest
from kubectl_agent import KubectlAgent, kubectl_agent
from registry_server import pushed_image, registry

POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: simple-sample-pod
  labels:
    purpose: pod-test
spec:
  containers:
  - name: test-container
    image: {image}
    env:
    - name: DEMO_GREETING
      value: "Hello from the environment"
  restartPolicy: Never
"""
SECTIONS: Final = (
    "Name:", "Namespace:", "Priority:", "Service Account:", "Node:", "Start Time:", "Labels:",
    "Annotations:", "Status:", "IP:", "IPs:", "Containers:", "Conditions:", "Volumes:",
    "QoS Class:", "Node-Selectors:", "Tolerations:", "Events:",
)  # fmt: skip


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path, node="n1") as found:
        yield found


@pytest.fixture
def image(tmp_path: Path, engine_url: str) -> Iterator[str]:
    """Provide an image ``tomcat:8`` in a local registry only; it prints its environment."""
    raw = docker.APIClient() if engine_url == "auto" else docker.APIClient(engine_url)
    folder = tmp_path / "registry"
    folder.mkdir()
    with registry(folder) as server:
        name = server.image("tomcat:8")
        command = 'CMD ["sh", "-c", "echo $DEMO_GREETING; sleep 3600"]'
        with pushed_image(raw, name, changes=[command]):
            yield name


def test_a_textbook_pod_runs_and_is_deleted(agent: KubectlAgent, image: str) -> None:
    (agent.work / "pod-solo.yaml").write_text(POD.format(image=image))
    assert agent.out("create", "-f", "pod-solo.yaml") == "pod/simple-sample-pod created\n"
    agent.out("wait", "--for=condition=Ready", "pod/simple-sample-pod", "--timeout=120s")

    header, row = agent.out("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["simple-sample-pod", "1/1", "Running", "0"]
    agent.until(lambda: bool(agent.out("logs", "simple-sample-pod")))
    assert agent.out("logs", "simple-sample-pod") == "Hello from the environment\n"

    shown = agent.out("describe", "pod", "simple-sample-pod")
    for section in SECTIONS:
        assert f"\n{section}" in f"\n{shown}", section
    assert "purpose=pod-test" in shown
    assert "DEMO_GREETING:  Hello from the environment" in shown
    events = [line.split()[1] for line in shown.partition("Events:")[2].splitlines()[3:]]
    expected = ["Scheduled", "Pulling", "Pulled", "Created", "Started"]
    assert [reason for reason in events if reason in expected] == expected

    deleted = agent.out("delete", "-f", "pod-solo.yaml", "--grace-period=1")
    assert deleted == 'pod "simple-sample-pod" deleted\n'
    assert "NotFound" in agent.run("get", "pod", "simple-sample-pod").stderr
