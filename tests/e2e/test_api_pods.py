"""Pods that kubectl creates on the real engine; the agent is killed and restarted."""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from real_kubectl import kubectl

PATIENCE = 120.0


class Home:
    """An agent with its own root directory on the real engine, and kubectl."""

    def __init__(self, place: Path, engine: str) -> None:
        self._place = place
        (place / "pods").mkdir()
        self._flags = ["--root-dir", str(place / "root"), "--static-pod-path", str(place / "pods")]
        self._flags += ["--engine", engine, "--node-name", "home"]
        self._flags += ["--config", str(place / "config.yaml")]
        kubeconfig = str(place / "root" / "kubeconfig")
        self._env = {**os.environ, "HOME": str(place), "KUBECONFIG": kubeconfig}
        self._agent: subprocess.Popen[str] | None = None
        self._drain: threading.Thread | None = None
        self.configure({})

    def configure(self, settings: dict[str, Any]) -> None:
        kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        (self._place / "config.yaml").write_text(json.dumps({**kind, **settings}))

    def start(self) -> None:
        self._agent = subprocess.Popen(
            [sys.executable, "-m", "podtui", "agent", *self._flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self._env,
        )
        log = self._agent.stderr
        assert log is not None
        assert any("serving https" in line for line in log), "the agent ended"
        self._drain = threading.Thread(target=log.read)
        self._drain.start()

    def kill(self) -> None:
        """End the agent as ``kill -9`` does."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        assert self._agent is not None
        self._agent.send_signal(number)
        self._agent.wait(timeout=120)
        assert self._drain is not None
        self._drain.join(timeout=120)
        assert self._agent.stderr is not None
        self._agent.stderr.close()
        self._agent = None

    def clear(self) -> None:
        """End the agent, and remove every pod."""
        if self._agent is not None:
            self._end(signal.SIGTERM)
        down = [sys.executable, "-m", "podtui", "down", "--yes", *self._flags]
        subprocess.run(down, env=self._env, capture_output=True, timeout=120, check=False)

    def run(self, *arguments: str, manifest: Any = None) -> str:
        done = subprocess.run(
            [kubectl(), f"--cache-dir={self._place / 'cache'}", *arguments],
            input=None if manifest is None else json.dumps(manifest),
            capture_output=True,
            text=True,
            env=self._env,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, kind: str, name: str, **fields: Any) -> None:
        document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}
        self.run("apply", "--validate=false", "-f", "-", manifest=document)

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("get", "pod", name, "-o", "json"))
        return found

    def stored_reasons(self) -> set[str]:
        """Return the reasons of the events that are on disk."""
        with closing(sqlite3.connect(self._place / "root" / "records.db")) as records:
            rows = records.execute("SELECT data FROM records WHERE resource = 'events'")
            return {json.loads(data)["reason"] for (data,) in rows}

    def until(self, condition: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < ends, self.run("get", "pods,events", "-A", "-o", "wide")


@pytest.fixture
def home(tmp_path: Path, engine_url: str) -> Iterator[Home]:
    one = Home(tmp_path, engine_url)
    try:
        yield one
    finally:
        one.clear()


def spec(**changes: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sh", "-c", 'trap "exit 0" TERM; while :; do sleep 1; done'],
        **changes.pop("container", {}),
    }
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        **changes,
    }


def test_a_pod_survives_its_agent_sees_a_changed_config_map_and_is_deleted(
    home: Home,
) -> None:
    home.start()
    home.apply("ConfigMap", "settings", data={"key": "one"})
    home.apply(
        "Pod",
        "web",
        spec=spec(
            container={"volumeMounts": [{"name": "v", "mountPath": "/settings"}]},
            volumes=[{"name": "v", "configMap": {"name": "settings"}}],
        ),
    )
    home.run("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    before = home.pod("web")["status"]["containerStatuses"]
    # A killed agent loses the events that are not stored yet.
    home.until(lambda: "Started" in home.stored_reasons())
    home.kill()
    home.start()
    home.run("wait", "--for=condition=Ready", "node/home", "--timeout=120s")
    home.apply("ConfigMap", "settings", data={"key": "two"})
    show = ("exec", "web", "--", "cat", "/settings/key")
    home.until(lambda: home.run(*show) == "two")
    assert home.pod("web")["status"]["containerStatuses"] == before
    home.run("delete", "pod", "web", "--wait", "--timeout=120s")
    listed = json.loads(home.run("get", "pods", "-o", "json"))
    assert listed["items"] == []
    reasons = home.run("get", "events", "-o", "jsonpath={.items[*].reason}").split()
    assert reasons.count("Started") == 1
    assert reasons.count("Killing") == 1


def test_a_pod_has_a_token_of_its_service_account_and_the_root_certificate(home: Home) -> None:
    home.start()
    home.apply("ServiceAccount", "robot")
    with_token = spec(serviceAccountName="robot", automountServiceAccountToken=True)
    home.apply("Pod", "web", spec=with_token)
    home.run("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    mounted = "/var/run/secrets/kubernetes.io/serviceaccount"
    token = home.run("exec", "web", "--", "cat", f"{mounted}/token")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert claims["kubernetes.io"]["pod"]["name"] == "web"
    assert "BEGIN CERTIFICATE" in home.run("exec", "web", "--", "cat", f"{mounted}/ca.crt")
    assert home.run("exec", "web", "--", "cat", f"{mounted}/namespace") == "default"


def test_ended_and_resized_pods_keep_their_status_under_a_new_agent(home: Home) -> None:
    amounts, more = {"cpu": "100m", "memory": "32Mi"}, {"cpu": "200m", "memory": "32Mi"}
    home.start()
    sized = {"resources": {"requests": amounts, "limits": amounts}}
    home.apply("Pod", "sized", spec=spec(container=sized))
    ending = spec(container={"command": ["sh", "-c", "exit 3"]}, restartPolicy="Never")
    home.apply("Pod", "once", spec=ending)
    home.run("wait", "--for=condition=Ready", "pod/sized", "--timeout=120s")
    resources = {"name": "main", "resources": {"limits": more, "requests": more}}
    change = json.dumps({"spec": {"containers": [resources]}})
    home.run("patch", "pod", "sized", "--subresource=resize", "-p", change)

    def resized() -> bool:
        status = home.pod("sized")["status"]
        (main,) = status["containerStatuses"]
        under_way = any(one["type"].startswith("PodResize") for one in status["conditions"])
        return bool(main["resources"]["limits"] == more and not under_way)

    home.until(resized)
    home.until(lambda: home.pod("once")["status"]["phase"] == "Failed")
    before = {name: home.pod(name)["status"] for name in ("sized", "once")}
    home.kill()
    home.start()
    home.run("wait", "--for=condition=Ready", "node/home", "--timeout=120s")
    home.apply("Pod", "later", spec=spec())
    home.run("wait", "--for=condition=Ready", "pod/later", "--timeout=120s")
    for name, status in before.items():
        assert home.pod(name)["status"] == status
    reasons = home.run("get", "events", "-o", "jsonpath={.items[*].reason}").split()
    assert reasons.count("Started") == 3


def test_a_container_that_is_killed_without_an_agent_is_started_again(home: Home) -> None:
    home.start()
    home.apply("Pod", "web", spec=spec())
    home.run("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    (before,) = home.pod("web")["status"]["containerStatuses"]
    home.kill()
    identity = before["containerID"].partition("://")[2]
    subprocess.run(["docker", "kill", identity], check=True, capture_output=True, timeout=120)
    home.start()

    def has_restarted() -> bool:
        (status,) = home.pod("web")["status"]["containerStatuses"]
        return bool(status["restartCount"] == 1 and status["ready"])

    home.until(has_restarted)
    (after,) = home.pod("web")["status"]["containerStatuses"]
    assert after["lastState"]["terminated"]["containerID"] == before["containerID"]
    assert after["lastState"]["terminated"]["exitCode"] == 137


def test_the_next_agent_finishes_an_interrupted_deletion(home: Home) -> None:
    home.start()
    home.apply("Pod", "deaf", spec=spec(container={"command": ["sleep", "3600"]}))
    home.run("wait", "--for=condition=Ready", "pod/deaf", "--timeout=120s")
    home.run("delete", "pod", "deaf", "--wait=false")
    home.until(lambda: "Killing" in home.run("get", "events"))
    home.kill()
    home.start()
    home.run("wait", "--for=delete", "pod/deaf", "--timeout=120s")
    assert "deaf" not in home.run("get", "pods", "--output=name")


def test_a_node_short_of_memory_evicts_the_api_pod_and_keeps_the_static_one(
    home: Home, tmp_path: Path
) -> None:
    home.configure({"evictionHard": {"memory.available": "99%"}})
    file = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "file"}, "spec": spec()}
    del file["spec"]["automountServiceAccountToken"]
    (tmp_path / "pods" / "file.json").write_text(json.dumps(file))
    home.start()
    home.run("wait", "--for=condition=MemoryPressure", "node/home", "--timeout=120s")
    # A node under memory pressure takes pods that request memory, if they tolerate its taint.
    home.apply(
        "Pod",
        "guest",
        spec=spec(
            container={"resources": {"requests": {"memory": "1Ki"}}},
            tolerations=[{"operator": "Exists"}],
        ),
    )
    home.until(lambda: home.pod("guest")["status"].get("reason") == "Evicted")
    status = home.pod("guest")["status"]
    assert status["phase"] == "Failed"
    assert status["message"].startswith("The node was low on resource: memory. Threshold quantity:")
    assert home.pod("file-home")["status"]["phase"] == "Running"
