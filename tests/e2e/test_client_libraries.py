"""Client libraries against an agent on the real engine: list, watch, create, exec, port-forward."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import aiohttp
import kr8s
import kr8s.asyncio
import kubernetes
import kubernetes.stream
import pytest
from kr8s.asyncio.objects import Pod
from kubectl_agent import KubectlAgent, kubectl_agent

pytestmark = [
    # Both libraries let the garbage collector close connections.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # kr8s warns about versions that it was not tested with.
    pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning"),
]
COMMAND: Final = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]


def manifest(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1.36", "command": COMMAND}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"of": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Close what the libraries leave open while their warnings are ignored."""
    yield
    gc.collect()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path, node="n1") as found:
        yield found


def test_the_official_client_creates_watches_and_executes(agent: KubectlAgent) -> None:
    kubernetes.config.load_kube_config(agent.environment["KUBECONFIG"])
    api = kubernetes.client.CoreV1Api()
    version = api.list_namespaced_pod("default").metadata.resource_version
    phases: list[str] = []

    def watch() -> None:
        events = kubernetes.watch.Watch().stream(
            api.list_namespaced_pod,
            "default",
            label_selector="of=lib",
            resource_version=version,
            timeout_seconds=90,
        )
        for event in events:
            phases.append(event["object"].status.phase)
            if phases[-1] == "Running":
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    api.create_namespaced_pod("default", manifest("lib"))
    watcher.join(timeout=120)
    assert phases[0] == "Pending"
    assert phases[-1] == "Running"
    assert [one.metadata.name for one in api.list_namespaced_pod("default").items] == ["lib"]
    output = kubernetes.stream.stream(
        kubernetes.client.CoreV1Api().connect_get_namespaced_pod_exec,
        "lib",
        "default",
        command=["sh", "-c", "echo inside"],
        stdout=True,
        stderr=True,
    )
    assert output == "inside\n"
    kubernetes.client.CoreV1Api().delete_namespaced_pod("lib", "default")
    agent.until(lambda: not api.list_namespaced_pod("default").items)


async def test_kr8s_creates_watches_and_executes(agent: KubectlAgent) -> None:
    api = await kr8s.asyncio.api(kubeconfig=agent.environment["KUBECONFIG"])
    pod = await Pod(manifest("kr"), api=api)
    async with asyncio.timeout(90):
        await pod.create()
        await pod.wait("condition=Ready")
        assert [one.name async for one in api.get("pods", namespace="default")] == ["kr"]
        done = await pod.exec(["sh", "-c", "echo inside"])
        assert done.stdout == b"inside\n"
        async for event, one in api.watch("pods", namespace="default"):
            assert (event, one.name) == ("ADDED", "kr")
            break
        await pod.delete()
        await pod.wait("delete")


def server_manifest(name: str, port: int) -> dict[str, Any]:
    """Return a pod with a web server on a port of the host's network."""
    pod = manifest(name)
    command = f"echo hello > /tmp/index.html; exec httpd -f -p 127.0.0.1:{port} -h /tmp"
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", command]
    return {**pod, "spec": {**pod["spec"], "hostNetwork": True}}


def test_the_official_client_forwards_ports(agent: KubectlAgent) -> None:
    kubernetes.config.load_kube_config(agent.environment["KUBECONFIG"])
    api = kubernetes.client.CoreV1Api()
    port, closed = free_port(), free_port()
    api.create_namespaced_pod("default", server_manifest("lib", port))
    agent.until(lambda: api.read_namespaced_pod("lib", "default").status.phase == "Running")

    def answer() -> bytes:
        forward = kubernetes.stream.portforward(
            kubernetes.client.CoreV1Api().connect_get_namespaced_pod_portforward,
            "lib",
            "default",
            ports=f"{port},{closed}",
        )
        assert "Connection refused" in until_error(forward, closed)
        with closing(forward.socket(port)) as connection:
            connection.setblocking(True)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: connection.recv(4096), b""))

    agent.until(lambda: answer().endswith(b"hello\n"))
    api.delete_namespaced_pod("lib", "default")
    agent.until(lambda: not api.list_namespaced_pod("default").items)


def until_error(forward: Any, port: int) -> str:
    """Return the error of a port, which arrives before the end of its data."""
    with closing(forward.socket(port)) as connection:
        connection.setblocking(True)
        while connection.recv(1):
            pass
    return forward.error(port) or ""


async def test_kr8s_forwards_ports(agent: KubectlAgent) -> None:
    api = await kr8s.asyncio.api(kubeconfig=agent.environment["KUBECONFIG"])
    remote = free_port()
    pod = await Pod(server_manifest("kr", remote), api=api)
    async with asyncio.timeout(120), aiohttp.ClientSession() as http:
        await pod.create()
        await pod.wait("condition=Ready")
        async with pod.portforward(remote_port=remote, local_port=free_port()) as port:
            while True:
                try:
                    async with http.get(f"http://localhost:{port}/") as response:
                        assert await response.text() == "hello\n"
                    break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.1)
        await pod.delete()
        await pod.wait("delete")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
