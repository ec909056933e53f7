"""Cluster addresses of Services from inside pods: a whole agent on the real engine.

Clients are sockets of this process in the networks of pods, as processes of the pods have them.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import dns.message
import pytest
import yaml
from unavailable import declare

from podtui.agent.pod_networks import host_table
from podtui.api.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from podtui.api.networking import ServiceCIDR, ServiceCIDRSpec
from podtui.api.v1 import (
    ClientIPConfig,
    Event,
    ObjectMeta,
    Pod,
    Service,
    ServicePort,
    ServiceSpec,
    SessionAffinityConfig,
)
from podtui.client.protocol import Synced
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import PodtuiError
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.protocol import EngineInfo

pytestmark = pytest.mark.engine
PATIENCE = 300.0
SERVER = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: web}}}}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  hostNetwork: {host}
  containers:
  - name: c
    image: busybox:1.36
    imagePullPolicy: Never
    command:
    - sh
    - -c
    - mkdir /w; echo {name} > /w/index.html; touch /w/ready;
      httpd -p {port} -h /w; httpd -p 127.0.0.1:{other} -h /w; exec sleep 100000
    ports: [{{name: http, containerPort: {port}}}]
    readinessProbe:
      exec: {{command: [cat, /w/ready]}}
      periodSeconds: 1
      timeoutSeconds: 9
      failureThreshold: 1
"""
CLIENT = """
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
  - {name: c, image: "busybox:1.36", imagePullPolicy: Never, command: [sleep, "100000"]}
"""
WEB = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.7.7
  selector: {app: web}
  ports:
  - {name: a, port: 80, targetPort: http}
  - {name: b, port: 81, targetPort: 8080}
  - {name: c, port: 82, targetPort: 9999}
"""
NONE = """
apiVersion: v1
kind: Service
metadata: {name: none}
spec: {clusterIP: 10.96.7.8, selector: {app: none}, ports: [{port: 80}]}
"""


def server(name: str, *, port: int = 8080, host: bool = False) -> str:
    return SERVER.format(name=name, port=port, other=port + 1, host=str(host).lower())


class Agent:
    info: EngineInfo

    def __init__(self, folder: Path, url: str) -> None:
        self.root, self.pods = folder / "root", folder / "pods"
        self.pods.mkdir()
        self._url = url
        self._folder = folder
        self._flags = ["--root-dir", str(self.root), "--engine", url]
        self.process: subprocess.Popen[bytes] | None = None
        self.runtime = DockerRuntime(url, root=str(self.root), clock=SystemClock())
        self.client = UnixClient(self.root / "podtui.sock")
        self.sandboxes: dict[str, str] = {}

    def write(self, **documents: str) -> None:
        for name, text in documents.items():
            (self.pods / f"{name}.yaml").write_text(text)

    def start(self) -> None:
        flags = ["--static-pod-path", str(self.pods), "--node-name", "n1", *self._flags]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "podtui", "agent", *flags], stdout=log, stderr=log
            )

    def end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)
            self.process = None

    def down(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "podtui", "down", "--yes", *self._flags],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    async def until(self, condition: Callable[[], Awaitable[Any]]) -> None:
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                if await condition():
                    return
            except (PodtuiError, OSError) as error:
                last: object = error
            else:
                last = ""
            assert time.monotonic() < ends, (last, (self._folder / "log").read_text()[-5000:])
            await asyncio.sleep(0.02)

    async def ready(self, *names: str) -> None:
        async def check() -> bool:
            pods = [await self.client.get(Pod, "default", f"{name}-n1") for name in names]
            return all(
                any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
                for pod in pods
            )

        await self.until(check)
        records = (await self.runtime.list()).sandboxes
        self.sandboxes = {record.name.removesuffix("-n1"): record.id for record in records}

    async def ip(self, name: str) -> str:
        return (await self.client.get(Pod, "default", f"{name}-n1")).status.podIP

    async def ask(self, name: str, ip: str, port: int) -> str:
        """Return the answer to an HTTP request from inside a pod. Raises OSError."""
        loop = asyncio.get_running_loop()
        with await self.runtime.pod_socket(self.sandboxes[name], ip) as sock:
            async with asyncio.timeout(10):
                await loop.sock_connect(sock, (ip, port))
                await loop.sock_sendall(sock, b"GET /index.html HTTP/1.0\r\n\r\n")
                answer = b""
                while piece := await loop.sock_recv(sock, 4096):
                    answer += piece
        return answer.decode().split()[-1]

    @asynccontextmanager
    async def connected(
        self, name: str, ip: str, port: int, context: ssl.SSLContext | None = None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect from inside a pod."""
        sock = await self.runtime.pod_socket(self.sandboxes[name], ip)
        host = None if context is None else "kubernetes.default"
        async with asyncio.timeout(PATIENCE):
            await asyncio.get_running_loop().sock_connect(sock, (ip, port))
            reader, writer = await asyncio.open_connection(
                sock=sock, ssl=context, server_hostname=host
            )
            try:
                yield reader, writer
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    async def resolve(self, name: str, question: str) -> list[str]:
        """Return the addresses of a name, asked of the cluster's name server from inside a pod."""
        query = dns.message.make_query(question, "A").to_wire()
        async with self.connected(name, "10.96.0.10", 53) as (reader, writer):
            writer.write(len(query).to_bytes(2) + query)
            length = int.from_bytes(await reader.readexactly(2))
            answer = dns.message.from_wire(await reader.readexactly(length))
        return [address.to_text() for records in answer.answer for address in records]

    async def status_of_api(self, name: str) -> str:
        """Return the status line of a request without a token from inside a pod."""
        (cluster,) = yaml.safe_load((self.root / "kubeconfig").read_text())["clusters"]
        authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        async with self.connected(name, "10.96.0.1", 443, context) as (reader, writer):
            writer.write(b"GET /api/v1/pods HTTP/1.1\r\nHost: kubernetes.default\r\n\r\n")
            return (await reader.readline()).decode()

    async def answers(self, name: str, ip: str, port: int, expected: set[str]) -> None:
        """Wait until a Service answers from all of the expected backends."""
        seen: set[str] = set()

        async def check() -> bool:
            seen.add(await self.ask(name, ip, port))
            return seen >= expected

        await self.until(check)


@asynccontextmanager
async def running(folder: Path, url: str) -> AsyncIterator[Agent]:
    agent = Agent(folder, url)
    agent.info = await agent.runtime.connect()
    try:
        yield agent
    finally:
        agent.end(signal.SIGKILL)
        await agent.client.close()
        await agent.runtime.close()
        agent.down()


@pytest.fixture
async def agent(
    request: pytest.FixtureRequest, tmp_path: Path, engine_url: str
) -> AsyncIterator[Agent]:
    async with running(tmp_path, engine_url) as agent:
        declare(request, agent.info)
        yield agent
    # Nothing is left in this machine's kernel.
    assert host_table(str(agent.root)) not in tables()


def nft(*arguments: str) -> str:
    return subprocess.run(
        ["nft", *arguments], capture_output=True, text=True, check=True, timeout=30
    ).stdout


def tables() -> str:
    return nft("list", "tables")


def service(name: str, ip: str, protocol: str = "TCP", *, affinity: int = 0) -> Service:
    """Return a Service without a selector."""
    config = SessionAffinityConfig(clientIP=ClientIPConfig(timeoutSeconds=affinity))
    return Service(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ServiceSpec(
            type="ClusterIP",
            clusterIP=ip,
            clusterIPs=(ip,),
            ports=(ServicePort(port=53, protocol=protocol, targetPort=53),),
            sessionAffinity="ClientIP" if affinity else "None",
            sessionAffinityConfig=config if affinity else None,
        ),
    )


def endpoints(name: str, of: str, ip: str, port: int, protocol: str = "TCP") -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name, namespace="default", labels={"kubernetes.io/service-name": of}
        ),
        addressType="IPv4",
        ports=(EndpointPort(name="", port=port, protocol=protocol),),
        endpoints=(Endpoint(addresses=(ip,), conditions=EndpointConditions(ready=True)),),
    )


async def test_every_mapping_of_ports_works_from_inside_pods(agent: Agent) -> None:
    agent.write(a=server("a"), b=server("b"), client=CLIENT, web=WEB, none=NONE)
    agent.start()
    await agent.ready("a", "b", "client")
    # A named port, a number, and a pod that reaches itself through its Service.
    await agent.answers("client", "10.96.7.7", 80, {"a", "b"})
    await agent.answers("client", "10.96.7.7", 81, {"a", "b"})
    await agent.answers("a", "10.96.7.7", 80, {"a", "b"})
    counts = Counter([await agent.ask("client", "10.96.7.7", 80) for _ in range(1000)])
    # 500 each; eight standard deviations are 127.
    assert set(counts) == {"a", "b"}
    assert min(counts.values()) > 370, counts
    for ip, port in (
        ("10.96.7.7", 82),  # A port of the Service at which the pods do not listen.
        ("10.96.7.7", 83),  # A port that the Service does not have.
        ("10.96.7.8", 80),  # A Service without endpoints.
    ):
        began = time.monotonic()
        with pytest.raises(ConnectionRefusedError):
            await agent.ask("client", ip, port)
        assert time.monotonic() - began < 1.0

    # The names of Services, and the API.
    assert await agent.resolve("client", "web.default.svc.cluster.local") == ["10.96.7.7"]
    assert "403" in await agent.status_of_api("client")

    # The client keeps its backend, also when another endpoint comes.
    await agent.client.create(Service, service("sticky", "10.96.7.9", affinity=60))
    a, b = await agent.ip("a"), await agent.ip("b")
    await agent.client.create(EndpointSlice, endpoints("sticky-a", "sticky", a, 8080))
    await agent.answers("client", "10.96.7.9", 53, {"a"})
    await agent.client.create(EndpointSlice, endpoints("sticky-b", "sticky", b, 8080))
    # When a later change has arrived, this one has, too.
    await agent.client.create(Service, service("later", "10.96.7.10"))
    await agent.client.create(EndpointSlice, endpoints("later-b", "later", b, 8080))
    await agent.answers("client", "10.96.7.10", 53, {"b"})
    assert {await agent.ask("client", "10.96.7.9", 53) for _ in range(20)} == {"a"}
    # Its backend is gone: it gets another one.
    await agent.client.delete(EndpointSlice, "default", "sticky-a")
    await agent.answers("client", "10.96.7.9", 53, {"b"})

    # An address of another range.
    cidr = ServiceCIDRSpec(cidrs=("203.0.113.0/24",))
    await agent.client.create(ServiceCIDR, ServiceCIDR(metadata=ObjectMeta(name="t"), spec=cidr))
    await agent.client.create(Service, service("other", "203.0.113.10"))
    await agent.client.create(EndpointSlice, endpoints("other-a", "other", a, 8080))
    await agent.answers("client", "203.0.113.10", 53, {"a"})

    # A connection outlives the change of its Service.
    loop = asyncio.get_running_loop()
    with await agent.runtime.pod_socket(agent.sandboxes["client"], "10.96.7.9") as sock:
        await loop.sock_connect(sock, ("10.96.7.9", 53))
        await agent.client.delete(Service, "default", "sticky")

        async def gone() -> bool:
            # The address leads out of the pod again, where anything may answer.
            try:
                return await agent.ask("client", "10.96.7.9", 53) not in ("a", "b")
            except (OSError, IndexError):
                return True

        await agent.until(gone)
        await loop.sock_sendall(sock, b"GET /index.html HTTP/1.0\r\n\r\n")
        assert (await loop.sock_recv(sock, 4096)).startswith(b"HTTP/1.")


async def test_udp_and_a_backend_that_leaves(agent: Agent) -> None:
    agent.write(a=server("a"), b=server("b"), client=CLIENT)
    agent.start()
    await agent.ready("a", "b", "client")
    await agent.client.create(Service, service("dns", "10.96.7.9", "UDP"))
    runtime, loop = agent.runtime, asyncio.get_running_loop()
    a, b = await agent.ip("a"), await agent.ip("b")
    client_ip = await agent.ip("client")
    with (
        await runtime.pod_listener(agent.sandboxes["a"], "UDP", a) as first,
        await runtime.pod_listener(agent.sandboxes["b"], "UDP", b) as second,
        await runtime.pod_listener(agent.sandboxes["client"], "UDP", client_ip) as client,
    ):
        for name, ip, sock in (("dns-a", a, first), ("dns-b", b, second)):
            port = sock.getsockname()[1]
            await agent.client.create(EndpointSlice, endpoints(name, "dns", ip, port, "UDP"))
        client.connect(("10.96.7.9", 53))

        async def exchange(server: Any) -> bool:
            with suppress(PermissionError):  # Without a backend, the packet is rejected.
                client.send(b"question")
            try:
                async with asyncio.timeout(0.2):
                    _, peer = await loop.sock_recvfrom(server, 100)
            except TimeoutError:
                return False
            assert peer[0] == client_ip
            await loop.sock_sendto(server, b"answer", peer)
            async with asyncio.timeout(5):
                return await loop.sock_recv(client, 100) == b"answer"

        async def either() -> bool:
            return await exchange(first) or await exchange(second)

        await agent.until(either)
        # The flow of the socket stays at one backend, until that is gone.
        used, name, other = (
            (first, "dns-a", second) if await exchange(first) else (second, "dns-b", first)
        )
        for _ in range(5):
            assert await exchange(used)
        await agent.client.delete(EndpointSlice, "default", name)
        await agent.until(lambda: exchange(other))


async def test_an_endpoint_that_turns_unready_leaves_within_a_second(
    agent: Agent, raw: Any
) -> None:
    agent.write(a=server("a"), b=server("b"), client=CLIENT, web=WEB)
    agent.start()
    await agent.ready("a", "b", "client")
    await agent.answers("client", "10.96.7.7", 80, {"a", "b"})
    (container,) = [c.id for c in (await agent.runtime.list()).containers if c.pod_name == "a-n1"]
    made = raw.exec_create(container, ["rm", "/w/ready"])
    raw.exec_start(made["Id"])

    async def unready() -> bool:
        pod = await agent.client.get(Pod, "default", "a-n1")
        return any(c.type == "Ready" and c.status == "False" for c in pod.status.conditions)

    await agent.until(unready)
    await asyncio.sleep(1)
    assert {await agent.ask("client", "10.96.7.7", 80) for _ in range(50)} == {"b"}


async def test_rules_outlive_an_agent_that_is_killed(agent: Agent) -> None:
    port = 20000 + os.getpid() % 10000
    agent.write(a=server("a"), client=CLIENT, web=WEB)
    host = () if agent.info.rootless else ("host",)
    if host:
        agent.write(host=server("host", port=port, host=True))
    agent.start()
    await agent.ready("a", "client", *host)
    table = host_table(str(agent.root))
    # A pod with the host's network reaches Services, and is reached through them.
    for name in ("client", *host):
        await agent.answers(name, "10.96.7.7", 80, {"a", *host})
    assert (table in tables()) == bool(host)
    agent.end(signal.SIGKILL)
    assert await agent.ask("client", "10.96.7.7", 80) in ("a", *host)
    # The changes while no agent runs are made up for.
    agent.write(b=server("b"), none=NONE)
    if host:
        (agent.pods / "host.yaml").unlink()
    agent.start()
    await agent.ready("a", "b", "client")
    await agent.answers("client", "10.96.7.7", 80, {"a", "b"})
    with pytest.raises(ConnectionRefusedError):
        await agent.ask("client", "10.96.7.8", 80)

    async def removed() -> bool:
        return table not in tables()

    await agent.until(removed)
    # A regular stop leaves the rules in the pods, too.
    agent.end(signal.SIGTERM)
    assert await agent.ask("client", "10.96.7.7", 80) in ("a", "b")


async def test_a_flushed_table_of_the_host_is_restored(agent: Agent) -> None:
    """As by a reload of a firewall, which flushes all tables."""
    port = 20000 + os.getpid() % 10000
    agent.write(web=WEB, host=server("host", port=port, host=True))
    agent.start()
    await agent.ready("host")
    await agent.answers("host", "10.96.7.7", 80, {"host"})
    table = host_table(str(agent.root))
    nft("delete", "table", "ip", table)
    await agent.answers("host", "10.96.7.7", 80, {"host"})

    async def reported() -> bool:
        async with aclosing(agent.client.follow(Event, "default")) as deltas:
            first = await anext(deltas)
        assert isinstance(first, Synced)
        reasons = [event.reason for event in first.items if isinstance(event, Event)]
        return "RestoredServiceRules" in reasons

    await agent.until(reported)
    agent.end(signal.SIGKILL)
    assert table in tables()
