"""Selection of the proxy for a cluster, and connections through it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cluster_server import FakeCluster, cluster

from podtui.client.cluster import ClusterClient
from podtui.client.proxies import is_direct, proxy_for
from podtui.errors import AgentUnavailable, UsageError
from podtui.kubeconfig import choose, load

SERVER = "https://api.example:6443"


@pytest.mark.parametrize(
    ("server", "given", "environ", "expected"),
    [
        (SERVER, "", {}, ""),
        (SERVER, "http://own:1", {"HTTPS_PROXY": "http://p:2", "NO_PROXY": "*"}, "http://own:1"),
        (SERVER, "", {"HTTPS_PROXY": "http://p:2"}, "http://p:2"),
        (SERVER, "", {"https_proxy": "https://p:2"}, "https://p:2"),
        (SERVER, "", {"HTTPS_PROXY": "http://upper", "https_proxy": "http://low"}, "http://upper"),
        (SERVER, "", {"HTTPS_PROXY": " p.corp:3128 "}, "http://p.corp:3128"),
        (SERVER, "", {"HTTP_PROXY": "http://p:2", "ALL_PROXY": "http://p:3"}, ""),
        ("http://api.example", "", {"HTTP_PROXY": "http://p:2"}, "http://p:2"),
        (SERVER, "", {"HTTPS_PROXY": "http://p:2", "no_proxy": "a,.example"}, ""),
        ("https://localhost:6443", "", {"HTTPS_PROXY": "http://p:2"}, ""),
        ("https://127.8.8.8:6443", "", {"HTTPS_PROXY": "http://p:2"}, ""),
        ("https://[::1]:6443", "", {"HTTPS_PROXY": "http://p:2"}, ""),
    ],
)
def test_selects_the_proxy(server: str, given: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_for(server, given, environ) == expected


def test_an_unusable_proxy_is_reported_without_secrets() -> None:
    with pytest.raises(UsageError, match="HTTPS_PROXY is a socks5 proxy") as caught:
        proxy_for(SERVER, "", {"HTTPS_PROXY": "socks5://me:hush@p:1080"})
    assert "hush" not in str(caught.value)
    assert proxy_for(SERVER, "", {"HTTPS_PROXY": "socks5://p", "NO_PROXY": "api.example"}) == ""


@pytest.mark.parametrize(
    ("host", "exceptions", "expected"),
    [
        ("api.example", "", False),
        ("api.example", "*", True),
        ("api.example", "example", True),
        ("api.example", " , EXAMPLE ,", True),
        ("api.example", "api.example:6443", True),
        ("api.example", "api.example:443", False),
        ("api.example", "*.example", True),
        ("example", ".example", False),
        ("example", "example", True),
        ("notexample", "example", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.2.0.0/16,fd00::/8", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:6443", True),
        ("10.1.2.3", "10.1.2.3:80", False),
        ("10.1.2.3", "3", False),
        ("fd00::7", "fd00::/8", True),
        ("fd00::7", "fd00:0::7", True),
        ("fd00::7", "[fd00::7]:6443", True),
        ("fd00::7", "[fd00::7]:80", False),
        ("api.example", "api.example/8", False),
    ],
)
def test_no_proxy_exceptions(host: str, exceptions: str, expected: bool) -> None:
    assert is_direct(host, "6443", exceptions) is expected


# --- through a proxy


class Proxy:
    """Supports CONNECT; ``heads`` are the received requests."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.refuses = False
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self.refuses:
                writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
                return
            host, _, port = head.split()[1].rpartition(":")
            there, onward = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, onward))
                group.create_task(_pump(there, writer))
        finally:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def fake_cluster(tmp_path: Path) -> AsyncIterator[FakeCluster]:
    async with cluster(tmp_path) as it:
        yield it


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    it = Proxy()
    server = await asyncio.start_server(it.serve, "127.0.0.1", 0)
    it.url = f"me:hush@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield it


async def test_tls_is_tunnelled_and_only_the_proxy_gets_its_password(
    fake_cluster: FakeCluster, proxy: Proxy
) -> None:
    path = fake_cluster.kubeconfig({"token": "sesame"}, **{"proxy-url": f"http://{proxy.url}"})
    client = ClusterClient(choose(load(path, {})))
    assert await client.version()
    await client.close()
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {fake_cluster.server.removeprefix('https://')} ")
    assert f"Basic {base64.b64encode(b'me:hush').decode()}" in head
    assert "sesame" not in head
    assert fake_cluster.rules.heads[-1]["Authorization"] == "Bearer sesame"
    assert "Proxy-Authorization" not in fake_cluster.rules.heads[-1]


async def test_a_refusing_proxy_is_named_without_its_password(
    fake_cluster: FakeCluster, proxy: Proxy
) -> None:
    proxy.refuses = True
    path = fake_cluster.kubeconfig({"token": "sesame"}, **{"proxy-url": f"http://{proxy.url}"})
    client = ClusterClient(choose(load(path, {})))
    with pytest.raises(AgentUnavailable, match="the proxy refused: 407") as caught:
        await client.version()
    await client.close()
    assert "hush" not in str(caught.value)
