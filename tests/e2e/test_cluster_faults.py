"""Faults of the connection between an agent that is a node and its cluster: an agent, too. Both
have the simulated engine."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from control_plane import free_port
from engine_proxy import EngineProxy
from kubectl_agent import KubectlAgent, kubectl_agent
from on_thread import Ask, on_thread

NODE = "member"
AWAY_SECONDS = 60.0
WITHIN = 120.0
"""More than the minute of the tests in virtual time: this machine may be busy."""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  containers: [{name: c, image: "busybox:1.36"}]
"""


@dataclass(frozen=True, slots=True)
class Connected:
    """``proxy`` is between the node and the API server."""

    cluster: KubectlAgent
    member: KubectlAgent
    proxy: EngineProxy
    ask: Ask

    def containers(self) -> list[str]:
        """Return the IDs of all containers that run in pods of the node, by the node's copy."""
        path = "jsonpath={.items[*].status.containerStatuses[*].containerID}"
        return sorted(self.member.out("get", "pods", "-o", path).split())

    def problem(self) -> str:
        """Return what ``podtui status`` says about the cluster."""
        command = [sys.executable, "-m", "podtui", "--root-dir", str(self.member.root), "status"]
        done = subprocess.run(
            command, env=self.member.environment, capture_output=True, text=True, check=False
        )
        lines = [line for line in done.stdout.splitlines() if "connection refused" in line]
        return lines[0] if lines else ""


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    base = tmp_path_factory.mktemp("cluster")
    with kubectl_agent(base, node="control", engine="memory") as cluster:
        cluster.out("cordon", "control")
        config = Path(cluster.environment["KUBECONFIG"]).read_text()
        address = re.search(r"https://127\.0\.0\.1:(\d+)", config)
        assert address is not None
        port = int(address[1])

        @asynccontextmanager
        async def proxied() -> AsyncGenerator[EngineProxy]:
            proxy = EngineProxy(port)
            await proxy.listen()
            yield proxy
            await proxy.cut()

        with on_thread(proxied) as (proxy, ask):
            path = base / "node.conf"
            path.write_text(config.replace(address[0], f"https://127.0.0.1:{proxy.port}"))
            settings = {"PODTUI_KUBELET_PORT": str(free_port())}
            options: dict[str, Any] = {"node_kubeconfig": str(path), "settings": settings}
            member = tmp_path_factory.mktemp("member")
            with kubectl_agent(member, node=NODE, engine="memory", **options) as agent:
                yield Connected(cluster, agent, proxy, ask)


def test_fifty_broken_connections_during_rollouts(connected: Connected) -> None:
    cluster, member = connected.cluster, connected.member
    create = ("create", "deployment", "web", "--image=busybox:1.36", "--replicas=5")
    cluster.out(*create, "--", "sleep", "86400")
    for number in range(50):
        if number % 20 == 10:
            cluster.out("set", "env", "deployment/web", f"NUMBER={number}")
        connected.ask(connected.proxy.cut())
        connected.ask(connected.proxy.listen())
        time.sleep(0.2 + number % 5 / 5)
    cluster.out("rollout", "status", "deployment/web", f"--timeout={WITHIN:.0f}s")
    member.until(lambda: len(connected.containers()) == 5, WITHIN)
    restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}"
    assert set(cluster.out("get", "pods", "-o", restarts).split()) == {"0"}
    seen = "jsonpath={.items[*].status.containerStatuses[*].containerID}"
    cluster.until(
        lambda: sorted(cluster.out("get", "pods", "-o", seen).split()) == connected.containers(),
        WITHIN,
    )


def test_an_api_server_that_is_away(connected: Connected) -> None:
    cluster, member, proxy = connected.cluster, connected.member, connected.proxy
    before = connected.containers()
    connected.ask(proxy.cut())
    (member.folder / "late.yaml").write_text(POD)
    cluster.out("scale", "deployment/web", "--replicas=3")
    time.sleep(AWAY_SECONDS)
    assert "connection refused" in connected.problem()
    assert set(before) < set(connected.containers())
    accepted = proxy.accepted
    connected.ask(proxy.listen())
    time.sleep(5)
    assert proxy.accepted - accepted < 20
    member.until(lambda: len(connected.containers()) == 3 + 1, WITHIN)
    phase = ("get", "pod", f"late-{NODE}", "-o", "jsonpath={.status.phase}")
    cluster.until(lambda: cluster.run(*phase).stdout == "Running", WITHIN)
    cluster.out("wait", "--for=condition=Ready", f"node/{NODE}", f"--timeout={WITHIN:.0f}s")
    assert connected.problem() == ""
    # Three of the former containers are left, and the one of the static pod.
    assert len(set(before) & set(connected.containers())) == 3
    cluster.out("delete", "deployment", "web")
    member.until(lambda: len(connected.containers()) == 1, WITHIN)
