"""kubectl creates pods, and the agent's scheduler binds them: on the simulated engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real_kubectl import kubectl

Kubectl = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Kubectl]:
    """Run kubectl against an agent, once its node is ready."""
    pods, root = tmp_path / "pods", tmp_path / "root"
    pods.mkdir()
    flags = ["--root-dir", root, "--static-pod-path", pods, "--engine", "memory"]
    env = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(root / "kubeconfig")}

    def run(*arguments: str, manifest: Any = None) -> str:
        done = subprocess.run(
            [kubectl(), f"--cache-dir={tmp_path / 'cache'}", *arguments],
            input=None if manifest is None else json.dumps(manifest),
            capture_output=True,
            text=True,
            env=env,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with (tmp_path / "log").open("w") as log:
        agent = subprocess.Popen(
            [sys.executable, "-m", "podtui", "agent", *flags, "--node-name", "home"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        try:
            stderr = agent.stderr
            assert stderr is not None
            assert any("serving https" in line for line in stderr), "the agent ended"
            drain = threading.Thread(target=log.writelines, args=(stderr,))
            drain.start()
            run("wait", "--for=condition=Ready", "node/home", "--timeout=120s")
            yield run
        finally:
            agent.terminate()
            agent.wait(timeout=120)
            drain.join(timeout=120)
            agent.stderr.close()


def manifest(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container],
            **spec,
        },
    }


def create(run: Kubectl, name: str, cpu: str = "10m", **spec: Any) -> None:
    run("create", "--validate=false", "-f", "-", manifest=manifest(name, cpu, **spec))


def becomes_ready(run: Kubectl, name: str) -> None:
    run("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=120s")


def why_pending(run: Kubectl, name: str) -> str:
    run("wait", "--for=condition=PodScheduled=False", f"pod/{name}", "--timeout=120s")
    path = '{.status.conditions[?(@.type=="PodScheduled")].message}'
    return run("get", "pod", name, "-o", f"jsonpath={path}")


def test_a_pod_is_scheduled_and_runs(run: Kubectl) -> None:
    create(run, "web")
    becomes_ready(run, "web")
    description = run("describe", "pod", "web")
    rows = [
        line.split(None, 4) for line in description.split("Events:")[1].splitlines()[3:] if line
    ]
    assert [row[1] for row in rows] == ["Scheduled", "Pulling", "Pulled", "Created", "Started"]
    assert rows[0][3:] == ["default-scheduler", "Successfully assigned default/web to home"]


def test_cordons_taints_and_large_pods_prevent_scheduling(run: Kubectl) -> None:
    no_help = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    create(run, "big", "900")
    assert why_pending(run, "big") == (
        f"0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, {no_help}"
    )
    run("cordon", "home")
    create(run, "late")
    assert "1 node(s) were unschedulable" in why_pending(run, "late")
    run("uncordon", "home")
    becomes_ready(run, "late")
    run("taint", "node", "home", "only=some:NoSchedule")
    create(run, "tainted")
    assert "1 node(s) had untolerated taint(s)" in why_pending(run, "tainted")
    create(run, "tolerant", tolerations=[{"key": "only", "operator": "Exists"}])
    becomes_ready(run, "tolerant")
    run("taint", "node", "home", "only-")
    becomes_ready(run, "tainted")


def test_a_deleted_pod_frees_resources_and_priority_preempts(run: Kubectl) -> None:
    cpus = int(run("get", "node", "home", "-o", "jsonpath={.status.allocatable.cpu}"))
    most = str(cpus - 1)
    create(run, "first", most)
    becomes_ready(run, "first")
    create(run, "second", most)
    assert "1 Insufficient cpu" in why_pending(run, "second")
    run("delete", "pod", "first")
    becomes_ready(run, "second")

    create(run, "important", most, priorityClassName="system-cluster-critical")
    becomes_ready(run, "important")
    assert run("get", "pods", "-o", "name").split() == ["pod/important"]
    events = run("get", "events", "-o", "custom-columns=R:.reason,M:.message", "--no-headers")
    assert any("Preempted by pod" in one for one in events.splitlines())
