"""Measure the cluster's name server: 500 queries a second over UDP, among 200 Services, while one
endpoint of 1,000 changes ten times a second.

The client is a child process. Its names are those of Services and of names that do not exist, each
query of another one, so that few answers are kept ones. The time is from a query to its answer.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

import dns.message

from benchmarks.report import Absent, Row, row
from podtui.api.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from podtui.api.v1 import Namespace, ObjectMeta, Pod, PodSpec, Service, ServicePort, ServiceSpec
from podtui.client.cache import Cache
from podtui.clock import SystemClock
from podtui.services.dns_server import DnsServer
from podtui.services.forwarding import Forwarder, Resolver
from podtui.services.index import ServiceIndex
from podtui.services.name_index import NameIndex
from podtui.services.protocol import AttachedPod

RATE = 500
SERVICES = 200
SLICES, ENDPOINTS = 10, 100
CHANGE_SECONDS = 0.1
BOUND_MS = 3.0
_LOOPBACK = "127.0.0.1"


def measure(*, quick: bool) -> Sequence[Row | Absent]:
    return asyncio.run(_measure(1000 if quick else 10_000))


async def _measure(queries: int) -> list[Row | Absent]:
    cache = Cache()
    index = NameIndex(cache, ServiceIndex(cache))
    for item in (
        Namespace(metadata=ObjectMeta(name="default")),
        *(_service(number) for number in range(SERVICES)),
        *(_slice(number, ready=True, version=1) for number in range(SLICES)),
    ):
        cache.put(item)
    for kind in (Namespace, Service, EndpointSlice):
        cache.replace(kind, cache.list(kind))
    server = DnsServer(index, "cluster.local", Forwarder(_no_resolvers), SystemClock())
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tcp = socket.socket()
    for sock in (udp, tcp):
        sock.setblocking(False)
        sock.bind((_LOOPBACK, 0))
    tcp.listen()
    await server.attach(
        AttachedPod(pod=Pod(spec=PodSpec(containers=())), sandbox_id="client", ips=()), (udp, tcp)
    )
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    client = context.Process(target=_ask, args=(udp.getsockname(), queries, sending))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(server.run()), group.create_task(_change(cache))]
        client.start()
        try:
            times: list[float] = await asyncio.to_thread(receiving.recv)
        finally:
            for task in tasks:
                task.cancel()
    server.close()
    await asyncio.to_thread(client.join)
    times.sort()
    p99 = times[int(len(times) * 0.99)]
    return [
        row("a DNS answer at 500 queries/s, median", [times[len(times) // 2]], "ms"),
        row("a DNS answer at 500 queries/s, p99", [p99], "ms", bound=BOUND_MS),
    ]


async def _no_resolvers() -> Sequence[Resolver]:
    return ()


async def _change(cache: Cache) -> None:
    version = 1
    while True:
        await asyncio.sleep(CHANGE_SECONDS)
        version += 1
        cache.put(_slice(0, ready=version % 2 == 0, version=version))


def _service(number: int) -> Service:
    ip = f"10.96.{number // 250}.{number % 250 + 1}"
    return Service(
        metadata=ObjectMeta(name=f"web-{number}", namespace="default"),
        spec=ServiceSpec(
            clusterIP=ip, clusterIPs=(ip,), ports=(ServicePort(port=80, protocol="TCP"),)
        ),
    )


def _slice(number: int, *, ready: bool, version: int) -> EndpointSlice:
    """Return a slice of one Service; its first endpoint may be unready."""
    return EndpointSlice(
        metadata=ObjectMeta(
            name=f"web-0-{number}",
            namespace="default",
            labels={"kubernetes.io/service-name": "web-0"},
            resourceVersion=str(version),
        ),
        addressType="IPv4",
        ports=(EndpointPort(name="", port=8080, protocol="TCP"),),
        endpoints=tuple(
            Endpoint(
                addresses=(f"10.1.{number}.{host}",),
                conditions=EndpointConditions(ready=ready or host > 0),
            )
            for host in range(ENDPOINTS)
        ),
    )


def _ask(address: tuple[str, int], queries: int, results: Connection) -> None:
    """Send queries at the rate, and send the milliseconds that each answer took."""
    names = [
        f"web-{number % (SERVICES + 50)}.default.svc.cluster.local" for number in range(queries)
    ]
    messages = [dns.message.make_query(name, "A", use_edns=0).to_wire() for name in names]
    times: list[float] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        sock.settimeout(30)
        began = time.perf_counter()
        for number, message in enumerate(messages):
            time.sleep(max(began + number / RATE - time.perf_counter(), 0))
            sent = time.perf_counter()
            sock.send(message)
            sock.recv(4096)
            times.append((time.perf_counter() - sent) * 1000)
    results.send(times)
