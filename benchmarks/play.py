"""A Deployment with a claim: podtui beside ``podman kube play``, in the same run.

The time ends with the first answer of the program at its host port. For podtui it is measured with
a running agent, and from the start of the agent; podman has no process that must run before.
kind and minikube need images of a registry and are not measured here.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from benchmarks import agent as agents
from benchmarks.api import create
from benchmarks.peers import NOT_HERE, peer
from benchmarks.pods import podman
from benchmarks.report import Absent, Row, row
from benchmarks.workloads import APPS, delete

PORT = 18431
CLAIMS = "http://localhost/api/v1/namespaces/default/persistentvolumeclaims"
_SERVER = f"echo hello > /data/index.html; exec httpd -f -p {PORT} -h /data"
_ANSWER_SECONDS = 120.0


def claim() -> dict[str, Any]:
    requests = {"storage": "1Mi"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "play-data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}},
    }


def deployment() -> dict[str, Any]:
    """Return a Deployment of one replica: podman runs no more."""
    labels = {"app": "play"}
    container = {
        "name": "app",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _SERVER],
        "ports": [{"containerPort": PORT, "hostPort": PORT}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "play-data"}}
    pod = {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [volume],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "play"},
        "spec": spec,
    }


def measure(*, quick: bool) -> list[Row | Absent]:
    runs = 1 if quick else 9
    environment = podman()
    started: list[float] = []
    created: list[float] = []
    played: list[float] = []
    memory: list[float] = []
    monitors: list[float] = []
    disk: list[float] = []
    for _ in range(runs):
        begin = time.monotonic()
        with agents.running() as agent:
            _apply(agent)
            started.append(_first_answer(begin))
            _remove(agent)
            begin = time.monotonic()
            _apply(agent)
            created.append(_first_answer(begin))
            memory.append(psutil.Process(agent.process.pid).memory_info().rss / 1e6)
            files = (path for path in agent.root.rglob("*") if path.is_file())
            disk.append(sum(path.stat().st_size for path in files) / 1e6)
            _remove(agent)
        if environment is not None:
            seconds, used = _play(environment)
            played.append(seconds)
            monitors.append(used)
    what = "a Deployment with a claim"
    name = "podman kube play"
    return [
        row(f"{what}, create → first answer", created, "s", floor=played, floor_name=name),
        row(f"{what}, start of the agent → first answer", started, "s", floor=played,
            floor_name=name),
        row(f"{what}: memory of the agent", memory, "MB", floor=monitors,
            floor_name="podman's monitors"),
        row(f"{what}: files of the agent", disk, "MB"),
        *([] if played else [Absent(name, NOT_HERE)]),
        *(Absent(tool, _absence(tool)) for tool in ("kind", "minikube")),
    ]  # fmt: skip


def _absence(tool: str) -> str:
    return NOT_HERE if peer(tool) is None else "installed here, but not measured"


def _apply(agent: agents.Agent) -> None:
    create(agent, claim(), url=CLAIMS)
    create(agent, deployment(), url=APPS)


def _remove(agent: agents.Agent) -> None:
    delete(agent, APPS, "play")
    delete(agent, CLAIMS, "play-data")
    _wait(lambda: not _answers() and not agent.pods(), "the pods are gone")


def _play(environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until the first answer, and the memory of podman's processes in MB."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder, "play.yaml")
        manifest.write_text("\n---\n".join(json.dumps(item) for item in (claim(), deployment())))

        def run(*arguments: str) -> None:
            subprocess.run(
                ["podman", *arguments],
                env=environment,
                capture_output=True,
                check=True,
                timeout=120,
            )

        begin = time.monotonic()
        run("kube", "play", str(manifest))
        seconds = _first_answer(begin)
        used = sum(
            process.memory_info().rss
            for process in psutil.process_iter(["name"])
            if process.info["name"] == "conmon"
        )
        run("kube", "down", str(manifest))
        run("volume", "rm", "--force", "play-data")
        _wait(lambda: not _answers(), "the port is free")
    return seconds, used / 1e6


def _first_answer(begin: float) -> float:
    """Return the seconds until the program answers. Raises TimeoutError."""
    _wait(_answers, "an answer")
    return time.monotonic() - begin


def _answers() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/index.html", timeout=2) as response:
            return response.read() == b"hello\n"
    except OSError:
        return False


def _wait(condition: Any, what: str) -> None:
    deadline = time.monotonic() + _ANSWER_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_ANSWER_SECONDS:.0f} s: {what}")
        time.sleep(0.01)
