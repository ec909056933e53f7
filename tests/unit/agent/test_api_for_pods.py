"""The API at its cluster address: credentials, hosts, limits, and the end of a pod.

The listeners are on a loopback address of this machine instead of one inside a pod's network.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from pod_builders import ctr, make_pod
from tls_world import ShiftedClock, TlsWorld, tls_world

from podtui.agent.api_for_pods import ADDRESS, ApiForPods
from podtui.clock import SystemClock
from podtui.pki.access_point import listen
from podtui.pki.certificates import SERVER_LIFE, cluster_names, make_key
from podtui.pki.tokens import TokenIssuer
from podtui.server.audit import AuditFile, AuditLog
from podtui.server.auth.reviews import ReviewRoutes
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.server.transport.pod_server import PodServers
from podtui.services.protocol import AttachedPod
from podtui.store import open_store

NAMES = cluster_names("cluster.local")


@dataclass
class PodsWorld:
    tls: TlsWorld
    api: ApiForPods

    async def attach(self, name: str = "web", **fields: Any) -> int:
        """Attach a pod, and return the port of its listener."""
        listener = listen(ADDRESS, 0)
        pod = make_pod(ctr(), name=name, **fields)
        ips = () if pod.spec.hostNetwork else ("10.1.2.3",)
        attached = AttachedPod(pod=pod, sandbox_id=name, ips=ips)
        await self.api.attach(attached, [listener])
        return listener.getsockname()[1]

    @asynccontextmanager
    async def client(
        self, port: int, token: str = "", host: str = NAMES[0]
    ) -> AsyncIterator[aiohttp.ClientSession]:
        """A client that resolves the names of the API to a listener, as rules in a pod do."""

        class Resolver(AbstractResolver):
            async def resolve(
                self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
            ) -> list[ResolveResult]:
                return [
                    ResolveResult(
                        hostname=host, host=ADDRESS, port=port, family=socket.AF_INET, proto=0,
                        flags=socket.AI_NUMERICHOST,
                    )
                ]  # fmt: skip

            async def close(self) -> None:
                return

        connector = aiohttp.TCPConnector(ssl=self.tls.trust(), resolver=Resolver())
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"https://{host}:{port}"
        async with aiohttp.ClientSession(url, connector=connector, headers=headers) as session:
            yield session


@asynccontextmanager
async def running(api: ApiForPods) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(api.run())
        try:
            yield
        finally:
            task.cancel()


@asynccontextmanager
async def pods_world(
    folder: Path, *, servers: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[PodsWorld]:
    async with tls_world(folder, **options) as world:
        clock = options.get("clock") or SystemClock()
        made = PodServers(world.served.runner, world.certificate, clock=clock, **(servers or {}))
        api = ApiForPods(made)
        async with running(api):
            yield PodsWorld(world, api)
        api.close()


async def status(client: aiohttp.ClientSession, path: str = "/api", **options: Any) -> int:
    async with client.get(path, **options) as response:
        await response.read()
        return response.status


async def test_a_pod_needs_a_token_and_a_name_of_the_cluster(tmp_path: Path) -> None:
    async with pods_world(tmp_path) as world:
        port = await world.attach()
        for name in NAMES[:-1]:
            async with world.client(port, host=name) as client:
                assert await status(client) == 403
                assert await status(client, "/version") == 200
                headers = {"Authorization": "Bearer x"}
                assert await status(client, headers=headers) == 401
            async with world.client(port, world.tls.pki.token, host=name) as client:
                assert await status(client) == 200
                assert await status(client, headers={"Host": "10.96.0.1"}) == 200
                for host in ("evil.example", "localhost", "127.0.0.1", ADDRESS, "node-1"):
                    assert await status(client, headers={"Host": host}) == 403
        async with world.tls.client() as client:
            assert await status(client) == 200
            for host in NAMES:
                assert await status(client, headers={"Host": host}) == 403


async def test_the_certificate_has_the_cluster_address(tmp_path: Path) -> None:
    async with pods_world(tmp_path) as world:
        port = await world.attach()

        def names() -> set[str]:
            with (
                socket.create_connection((ADDRESS, port), timeout=10) as plain,
                world.tls.trust().wrap_socket(plain, server_hostname="10.96.0.1") as connection,
            ):
                found = connection.getpeercert()
                assert found is not None
                return {value for _, value in found["subjectAltName"]}

        assert set(NAMES) < await asyncio.to_thread(names)


async def test_pods_find_the_keys_of_tokens_at_the_cluster_address(tmp_path: Path) -> None:
    store = open_store(None, clock=SystemClock())
    tokens = TokenRegistry(store, TokenIssuer(make_key()), SystemClock())
    routes = ReviewRoutes(tokens, SystemClock(), server="https://127.0.0.1:6443").routes()
    async with pods_world(tmp_path, extra_routes=routes) as world:
        port = await world.attach()
        path = "/.well-known/openid-configuration"
        async with world.client(port, world.tls.pki.token) as pod, world.tls.client() as machine:
            async with pod.get(path) as response:
                assert (await response.json())["jwks_uri"] == "https://10.96.0.1/openid/v1/jwks"
            async with machine.get(path) as response:
                found = await response.json()
                assert found["jwks_uri"] == "https://127.0.0.1:6443/openid/v1/jwks"
    await store.close()


async def test_the_audit_log_names_the_pod(tmp_path: Path) -> None:
    audit = AuditLog(AuditFile(tmp_path / "audit.log"), SystemClock())
    async with pods_world(tmp_path, audit=audit) as world:
        for port in (await world.attach(), await world.attach("host", hostNetwork=True)):
            async with (
                world.client(port, world.tls.pki.token) as client,
                client.delete("/api/v1/namespaces/default/pods/none") as response,
            ):
                assert response.status == 404
        async with (
            world.tls.client() as client,
            client.delete("/api/v1/namespaces/default/pods/none") as response,
        ):
            assert response.status == 404
    audit.close()
    lines = (tmp_path / "audit.log").read_text().splitlines()
    pod, host, machine = map(json.loads, lines)
    assert pod["sourceIPs"] == ["10.1.2.3"]
    assert pod["annotations"] == {
        "authorization.k8s.io/decision": "allow",
        "podtui.dev/source-pod": "default/web",
    }
    # Other programs reach the listener in the host's network as well.
    for event in (host, machine):
        assert event["sourceIPs"] == ["127.0.0.1"]
        assert event["annotations"] == {"authorization.k8s.io/decision": "allow"}


async def test_a_pod_cannot_use_up_the_connections_of_another(tmp_path: Path) -> None:
    async with pods_world(tmp_path, servers={"most_each": 2, "most": 3}) as world:
        ports = [await world.attach(name) for name in ("a", "b", "c")]

        def connect(port: int) -> socket.socket:
            plain = socket.create_connection((ADDRESS, port), timeout=10)
            try:
                return world.tls.trust().wrap_socket(plain, server_hostname=NAMES[0])
            except OSError:
                plain.close()
                raise

        with contextlib.ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(await asyncio.to_thread(connect, ports[0]))
            with pytest.raises(OSError):  # noqa: PT011 - closed, by FIN or RST
                await asyncio.to_thread(connect, ports[0])
            stack.enter_context(await asyncio.to_thread(connect, ports[1]))
            with pytest.raises(OSError):  # noqa: PT011
                await asyncio.to_thread(connect, ports[2])
            # The machine's own listener has its own limit.
            async with world.tls.client() as client:
                assert await status(client) == 200


async def test_a_renewed_certificate_is_served_to_pods(tmp_path: Path) -> None:
    clock = ShiftedClock(ahead=-SERVER_LIFE * 2 / 3)
    async with pods_world(tmp_path, clock=clock) as world:
        port = await world.attach()

        def serial() -> object:
            with (
                socket.create_connection((ADDRESS, port), timeout=10) as plain,
                world.tls.trust().wrap_socket(plain, server_hostname=NAMES[0]) as connection,
            ):
                found = connection.getpeercert()
                assert found is not None
                return found["serialNumber"]

        first = await asyncio.to_thread(serial)
        async with world.client(port, world.tls.pki.token) as client:
            assert await status(client) == 200
            clock.ahead = timedelta()
            assert await asyncio.to_thread(serial) != first
            # The open connection continues.
            assert await status(client) == 200


async def test_connections_end_with_the_pod(tmp_path: Path) -> None:
    async with pods_world(tmp_path) as world:
        gone, stays = await world.attach("gone"), await world.attach("stays")
        token = world.tls.pki.token
        async with world.client(gone, token) as first, world.client(stays, token) as second:
            watch = "/api/v1/pods?watch=1"
            async with first.get(watch) as ending, second.get(watch) as lasting:
                async with asyncio.timeout(60):
                    await world.api.detach("gone")
                    await world.api.detach("gone")
                    with contextlib.suppress(aiohttp.ClientError):
                        assert await ending.content.read() == b""
                    with pytest.raises(aiohttp.ClientConnectionError):
                        await status(first)
                assert not lasting.content.at_eof()
                assert await status(second) == 200


async def test_an_attached_pod_is_served_after_a_failure(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as tls:
        api = ApiForPods(PodServers(tls.served.runner, tls.certificate, clock=SystemClock()))
        world = PodsWorld(tls, api)
        port = await world.attach()
        for _ in range(2):
            async with running(api), world.client(port, tls.pki.token) as client:
                assert await status(client) == 200
        api.close()


async def test_a_thousand_pods_leave_nothing_behind(tmp_path: Path) -> None:
    async with pods_world(tmp_path) as world:
        port = await world.attach("first")
        async with world.client(port) as client:
            assert await status(client, "/version") == 200
        await world.api.detach("first")
        await asyncio.sleep(0)
        descriptors, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for number in range(1000):
            await world.attach(f"p{number}")
            if number % 100 == 0:
                await asyncio.sleep(0)
            await world.api.detach(f"p{number}")
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == tasks
        assert len(os.listdir("/proc/self/fd")) <= descriptors
