"""Measure cluster addresses of Services against addresses of pods, from inside a pod.

The client is a socket in the network of one pod, the server a child process with a socket in the
network of another. All pods have the rules of 200 Services with five endpoints each. Both addresses
are measured alternately. A change is measured from that of an EndpointSlice in the cache to the
first connection that is refused, in the last of ten attached pods. At rest, twenty pods have the
rules of twenty Services.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack

import psutil

from benchmarks.report import Absent, Row, row
from podtui.agent.pod_networks import EngineNetworks
from podtui.api.discovery import Endpoint, EndpointPort, EndpointSlice
from podtui.api.objects import Object
from podtui.api.v1 import Node, ObjectMeta, Pod, PodSpec, Service, ServicePort, ServiceSpec
from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.protocol import SandboxConfig
from podtui.services.manager import Services
from podtui.services.protocol import AttachedPod

SERVICES, ENDPOINTS, PODS, AT_REST = 200, 5, 10, 20
MEASURED = "10.96.0.200"
PIECE = 1 << 20
PIECES = 512
MOST_TIME = 1 / 0.9
"""The throughput through a cluster address is at least 0.9 times that to the pod."""


class NoEvents:
    def record(
        self, component: str, item: Object, event_type: str, reason: str, message: str
    ) -> None:
        raise AssertionError(f"{item.metadata.name}: {reason}: {message}")


def measure(*, quick: bool) -> Sequence[Row | Absent]:
    if os.geteuid() != 0:
        return [Absent("cluster addresses of Services", "needs root")]
    return asyncio.run(_measure(40 if quick else 1000, 2 if quick else 25, 5 if quick else 180))


async def _measure(connections: int, runs: int, rest: float) -> list[Row | Absent]:
    runtime = DockerRuntime(None, root=f"benchmark-{uuid.uuid4().hex[:8]}", clock=SystemClock())
    networks = EngineNetworks(runtime)
    await runtime.connect()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runtime.close)
        pods: list[AttachedPod] = []
        for number in range(PODS):
            pods.append(await _pod(runtime, number))
            stack.push_async_callback(runtime.remove_sandbox, pods[-1].sandbox_id)
        server = await runtime.pod_listener(pods[0].sandbox_id, "TCP", pods[0].ips[0])
        server.setblocking(True)
        address: tuple[str, int] = server.getsockname()
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(server,))
        process.start()
        stack.callback(process.kill)
        server.close()
        services = Services(
            networks, NoEvents(), SystemClock(), node_name="n1", host_table="podtui-benchmark"
        )
        _fill(services, address)
        for kind in (Service, EndpointSlice, Node):
            services.cache.replace(kind, services.cache.list(kind))
        async with asyncio.TaskGroup() as group:
            proxy = group.create_task(services.proxy.run())
            await asyncio.sleep(1)
            attaching: list[float] = []
            for pod in pods:
                began = time.perf_counter()
                await services.proxy.attach(pod)
                attaching.append((time.perf_counter() - began) * 1000)
            client = pods[-1].sandbox_id
            targets = {"cluster": (MEASURED, 80), "pod": address}
            times: dict[str, list[float]] = {"cluster": [], "pod": []}
            for _ in range(connections):
                for name, target in targets.items():
                    times[name].append(await _exchange(runtime, client, target))
            transfers: dict[str, list[float]] = {"cluster": [], "pod": []}
            for _ in range(runs):
                for name, target in targets.items():
                    transfers[name].append(await _transfer(runtime, client, target))
            changes = [
                await _change(runtime, services, client, address, version)
                for version in range(10_000, 10_000 + 2 * runs, 2)
            ]
            for number in range(PODS, AT_REST):
                pod = await _pod(runtime, number)
                stack.push_async_callback(runtime.remove_sandbox, pod.sandbox_id)
                await services.proxy.attach(pod)
            for kind in (Service, EndpointSlice):
                services.cache.replace(kind, services.cache.list(kind)[:AT_REST])
            await asyncio.sleep(5)
            before = _cpu_seconds(process.pid)
            await asyncio.sleep(rest)
            idle = (_cpu_seconds(process.pid) - before) / rest * 100
            proxy.cancel()
    added = [cluster - pod for cluster, pod in zip(*times.values(), strict=True)]
    return [
        row("rules of 200 Services in a new pod", attaching, "ms"),
        row(
            "connect, one byte there and back, through a cluster address",
            times["cluster"],
            "ms",
            floor=times["pod"],
            floor_name="to the pod",
        ),
        row("added by the cluster address", added, "ms", bound=0.1),
        row(
            f"{PIECES * PIECE >> 20} MiB through a cluster address",
            transfers["cluster"],
            "s",
            floor=transfers["pod"],
            floor_name="to the pod",
            bound=MOST_TIME,
        ),
        row("one endpoint among 1,000 leaves", changes, "ms", bound=200),
        row(
            f"at rest, {AT_REST} pods with the rules of {AT_REST} Services: CPU",
            [idle],
            "% of a core",
            bound=0.05,
        ),
    ]


def _cpu_seconds(server: int | None) -> float:
    """Return the CPU time of this process and of the helper that enters networks of pods."""
    this = psutil.Process()
    processes = [this, *(child for child in this.children() if child.pid != server)]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


async def _pod(runtime: DockerRuntime, number: int) -> AttachedPod:
    name = f"p{number}"
    config = SandboxConfig(name=name, namespace="default", uid=str(uuid.uuid4()), attempt=0)
    sandbox_id = (await runtime.run_sandbox(config)).id
    status = await runtime.sandbox_status(sandbox_id)
    pod = Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=PodSpec(containers=()))
    return AttachedPod(pod=pod, sandbox_id=sandbox_id, ips=status.ips)


def _serve(server: socket.socket) -> None:
    """Answer a byte, or send `PIECES` after another one, until the process is killed."""
    data = bytes(PIECE)
    while True:
        connection, _ = server.accept()
        with connection:
            if connection.recv(1) == b"s":
                for _ in range(PIECES):
                    connection.sendall(data)
            else:
                connection.sendall(b"e")


def _fill(services: Services, address: tuple[str, int]) -> None:
    for number in range(1, SERVICES + 1):
        spec = ServiceSpec(
            type="ClusterIP",
            clusterIP=f"10.96.0.{number}",
            clusterIPs=(f"10.96.0.{number}",),
            ports=(ServicePort(port=80, protocol="TCP"),),
        )
        services.cache.put(Service(metadata=_meta(f"s{number}", number), spec=spec))
        ips = [f"10.1.{number}.{n}" for n in range(1, ENDPOINTS + 1)]
        port = 8080
        if number == SERVICES:
            ips, port = [address[0]], address[1]
        services.cache.put(_slice(number, number, ips, port))


def _meta(name: str, version: int) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace="default",
        uid=name,
        resourceVersion=str(version),
        labels={"kubernetes.io/service-name": name},
    )


def _slice(number: int, version: int, ips: Sequence[str], port: int) -> EndpointSlice:
    return EndpointSlice(
        metadata=_meta(f"s{number}", version),
        addressType="IPv4",
        ports=(EndpointPort(name="", port=port, protocol="TCP"),),
        endpoints=tuple([Endpoint(addresses=(ip,)) for ip in ips]),
    )


async def _exchange(runtime: DockerRuntime, sandbox: str, target: tuple[str, int]) -> float:
    """Return the milliseconds of a short connection. The socket is opened before."""
    with await runtime.pod_socket(sandbox, target[0]) as sock:
        sock.setblocking(True)
        sock.settimeout(10)
        began = time.perf_counter()
        sock.connect(target)
        sock.sendall(b"e")
        sock.recv(1)
        return (time.perf_counter() - began) * 1000


async def _transfer(runtime: DockerRuntime, sandbox: str, target: tuple[str, int]) -> float:
    """Return the seconds in which one connection has received all bytes."""
    buffer = bytearray(PIECE)
    with await runtime.pod_socket(sandbox, target[0]) as sock:
        sock.setblocking(True)
        sock.settimeout(60)
        sock.connect(target)
        began, count = time.perf_counter(), 0
        sock.sendall(b"s")
        while received := sock.recv_into(buffer):
            count += received
        assert count == PIECE * PIECES, count
        return time.perf_counter() - began


async def _change(
    runtime: DockerRuntime,
    services: Services,
    sandbox: str,
    address: tuple[str, int],
    version: int,
) -> float:
    """Return the milliseconds until an endpoint has left, and let it return."""
    began = time.perf_counter()
    services.cache.put(_slice(SERVICES, version, [], address[1]))
    while await _connects(runtime, sandbox):
        pass
    left = (time.perf_counter() - began) * 1000
    services.cache.put(_slice(SERVICES, version + 1, [address[0]], address[1]))
    while not await _connects(runtime, sandbox):
        pass
    return left


async def _connects(runtime: DockerRuntime, sandbox: str) -> bool:
    with await runtime.pod_socket(sandbox, MEASURED) as sock:
        try:
            await asyncio.get_running_loop().sock_connect(sock, (MEASURED, 80))
        except ConnectionRefusedError:
            return False
        return True
