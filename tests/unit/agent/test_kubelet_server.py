"""The kubelet server as the settings describe it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
from cluster_server import Authority
from kubelet_server_world import FakeFigures, ask, write_certificate
from served import FakeKubelet

from podtui.agent.kubelet_server import kubelet_server
from podtui.client.any_kind import AnyObject, ServedKind
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.pki.access_point import choose_access_point
from podtui.pki.pki import Pki
from podtui.settings import Settings


class Kubelet(FakeFigures, FakeKubelet): ...


class Client(UnixClient):
    """Knows every token, and allows everything."""

    async def create_object(
        self, kind: ServedKind, namespace: str, content: Any, *, dry_run: bool = False
    ) -> AnyObject:
        user = {"username": "robot"}
        status = {"authenticated": True, "user": user, "allowed": True}
        return AnyObject(content.get("metadata"), {"status": status})


async def served_to(folder: Path, authority: bytes, **changes: Any) -> tuple[int, str]:
    """Return the answer for ``/metrics`` of a server with these settings."""
    clock = SystemClock()
    port = choose_access_point(folder, "127.0.0.1", 0).port
    settings = Settings(
        rootDir=folder,
        staticPodPath=folder,
        nodeName="node",
        kubeletAddress="127.0.0.1",
        kubeletPort=port,
        **changes,
    )
    server = kubelet_server(
        settings,
        Kubelet(),
        Client(folder / "s.sock"),
        lambda: folder / "pki" / "server.pem",
        config=b"{}",
        clock=clock,
    )
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.load_verify_locations(cadata=authority.decode())
    headers = {"Authorization": "Bearer token"}
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        async with asyncio.timeout(120):
            await server.listening.wait()
        connector = aiohttp.TCPConnector(ssl=trust)
        url = f"https://127.0.0.1:{port}"
        async with aiohttp.ClientSession(url, connector=connector, headers=headers) as client:
            answer = await ask(client, "/metrics")
        task.cancel()
    return answer


async def test_settings_of_the_server(tmp_path: Path) -> None:
    clock = SystemClock()
    pki = Pki(tmp_path / "pki", clock.now())
    pki.ensure_server_certificate(("127.0.0.1",), clock.now())
    assert pki.server_path == tmp_path / "pki" / "server.pem"
    assert await served_to(tmp_path, pki.authority) == (200, "metrics")
    answer = await served_to(tmp_path, pki.authority, authenticationTokenWebhook=False)
    assert answer == (401, "Unauthorized")
    authority = Authority()
    write_certificate(tmp_path, authority)
    (tmp_path / "clients.crt").write_bytes(authority.pem)
    assert await served_to(
        tmp_path,
        authority.pem,
        tlsCertFile=tmp_path / "server.crt",
        tlsPrivateKeyFile=tmp_path / "server.key",
        clientCAFile=tmp_path / "clients.crt",
    ) == (200, "metrics")
