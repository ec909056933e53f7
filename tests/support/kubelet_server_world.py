"""A kubelet server on a free port of this machine, with certificates in a folder of the test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from cluster_server import Authority
from served import FakeKubelet, pod
from tls_world import ShiftedClock

from podtui.api.summary import NodeSummary, Summary
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.errors import AgentUnavailable
from podtui.pki.access_point import choose_access_point
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.users import User
from podtui.server.kubelet_server.access import AccessRules, KubeletAccess, Reviewer
from podtui.server.kubelet_server.app import build_kubelet_app
from podtui.server.kubelet_server.server import KubeletServer
from podtui.server.transport.certificate_files import CertificateFiles

ROBOT = User("robot", ("machines",), "uid-1", {"zone": ("a", "b")})


@dataclass
class FakeReviewer:
    """Knows the user of the token ``robot-token``, and allows everything but ``refused``: the
    subresources that nobody may use."""

    refused: set[str] = field(default_factory=set)
    away: bool = False
    tokens: list[str] = field(default_factory=list)
    decisions: list[tuple[User, Attributes]] = field(default_factory=list)

    async def token(self, text: str) -> User | None:
        self.tokens.append(text)
        self._answer()
        return ROBOT if text == "robot-token" else None

    async def allows(self, user: User, wanted: Attributes) -> bool:
        self.decisions.append((user, wanted))
        self._answer()
        return wanted.subresource not in self.refused

    def _answer(self) -> None:
        if self.away:
            raise AgentUnavailable("10.0.0.1:6443: connection refused")


class FakeFigures:
    """Figures that name themselves."""

    async def summary(self) -> Summary:
        return Summary(node=NodeSummary(nodeName="node"))

    def pods(self) -> tuple[Pod, ...]:
        return (pod("web"),)

    def running_pods(self) -> tuple[Pod, ...]:
        return ()

    def prometheus(self) -> bytes:
        return b"metrics"

    def probe_prometheus(self) -> bytes:
        return b"probes"

    def sli_prometheus(self) -> bytes:
        return b"slis"

    async def resource_prometheus(self) -> bytes:
        return b"resource"

    async def cadvisor_prometheus(self) -> bytes:
        return b"cadvisor"


@dataclass
class KubeletServerWorld:
    """``authority`` signed the server's certificate, ``clients`` those of clients. The files of the
    server are in ``folder``."""

    folder: Path
    port: int
    authority: Authority
    clients: Authority
    kubelet: FakeKubelet
    task: asyncio.Task[None]

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def trust(self, pair: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
        """Return a client's context, with certificate and key if there are any."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.authority.pem.decode())
        if pair is not None:
            path = self.folder / "client.pem"
            path.write_bytes(b"".join(pair))
            context.load_cert_chain(path)
        return context

    def client(
        self, token: str = "", pair: tuple[bytes, bytes] | None = None, **headers: str
    ) -> aiohttp.ClientSession:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connector = aiohttp.TCPConnector(ssl=self.trust(pair))
        return aiohttp.ClientSession(self.url, connector=connector, headers=headers)

    def robot(self) -> aiohttp.ClientSession:
        return self.client("robot-token")


@asynccontextmanager
async def kubelet_server_world(
    folder: Path,
    reviewer: Reviewer,
    *,
    kubelet: FakeKubelet | None = None,
    clock: Clock | None = None,
    rules: AccessRules | None = None,
) -> AsyncIterator[KubeletServerWorld]:
    clock = clock or ShiftedClock()
    kubelet = kubelet or FakeKubelet()
    authority, clients = Authority("cluster"), Authority("clients")
    port = choose_access_point(folder, "127.0.0.1", 0).port
    files = CertificateFiles(
        lambda: (folder / "server.crt", folder / "server.key"), folder / "clients.crt"
    )
    access = KubeletAccess(reviewer, kubelet.node_name, clock, rules)

    def build() -> Any:
        return build_kubelet_app(kubelet, FakeFigures(), access, config=b"{}", clock=clock)

    server = KubeletServer(build, files, "127.0.0.1", port, clock=clock)
    (folder / "clients.crt").write_bytes(clients.pem)
    write_certificate(folder, authority)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        async with asyncio.timeout(120):
            await server.listening.wait()
        try:
            yield KubeletServerWorld(folder, port, authority, clients, kubelet, task)
        finally:
            task.cancel()


def write_certificate(folder: Path, authority: Authority) -> None:
    certificate, key = authority.issue("kubelet", "localhost", "127.0.0.1")
    (folder / "server.key").write_bytes(key)
    (folder / "server.crt").write_bytes(certificate)


async def ask(
    client: aiohttp.ClientSession, path: str, method: str = "GET", **options: Any
) -> tuple[int, str]:
    async with client.request(method, path, **options) as response:
        return response.status, await response.text()
