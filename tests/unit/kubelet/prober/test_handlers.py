"""The handlers against real sockets: their requests, and their error messages."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from grpc_server import GrpcServer, grpc_server
from kubelet_listener import answer, closed_port, listening, server_tls
from pod_builders import box, engine, make_pod, seen

from podtui.api.v1 import (
    Container,
    ContainerPort,
    EnvVar,
    EnvVarSource,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    ObjectFieldSelector,
    Pod,
    Probe,
    TCPSocketAction,
)
from podtui.errors import EngineConflict, EngineError, EngineUnavailable, ExecTimeout
from podtui.kubelet.prober.dialing import Address, PodAddresses, connect
from podtui.kubelet.prober.handlers import Handlers
from podtui.kubelet.prober.http_get import HttpProblem, HttpRequest, get, request_for
from podtui.kubelet.prober.state import ProbeOutcome, ProbeVerdict
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import EngineInfo, ExecResult

LOCAL = seen(sandboxes=(box(ips=("127.0.0.1",)),))
HOST_NETWORK = seen(sandboxes=(box(host_network=True),))


class Commands:
    """A runtime of which only ``exec`` and ``pod_socket`` are used."""

    def __init__(self, result: ExecResult | EngineError | None = None) -> None:
        self.result = result or ExecResult(exit_code=0, output=b"")
        self.calls: list[tuple[str, tuple[str, ...], float, int]] = []
        self.opened: list[tuple[str, str]] = []

    async def exec(
        self, container_id: str, command: list[str], *, timeout: float, limit: int
    ) -> ExecResult:
        self.calls.append((container_id, tuple(command), timeout, limit))
        if isinstance(self.result, EngineError):
            raise self.result
        return self.result

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        """Connect to a port of this machine."""
        self.opened.append((sandbox_id, host))
        if isinstance(self.result, EngineError):
            raise self.result
        sock = socket.socket()
        sock.setblocking(False)
        return sock


async def run(
    probe: Probe,
    *,
    container: Container | None = None,
    pod: Pod | None = None,
    observed: ObservedPod = LOCAL,
    runtime: Commands | None = None,
    info: EngineInfo | None = None,
    simulated: bool = False,
) -> ProbeOutcome:
    addresses = PodAddresses(lambda uid: observed, lambda: info or engine())
    handlers = Handlers(runtime or Commands(), addresses, simulated=simulated)  # type: ignore[arg-type]
    return await handlers.run(pod or make_pod(), container or Container(name="c"), "c-0", probe)


def http(port: int | str, path: str = "/", **fields: Any) -> Probe:
    timeout = fields.pop("timeout", 5)
    return Probe(httpGet=HTTPGetAction(port=port, path=path, **fields), timeoutSeconds=timeout)


def tcp(port: int | str, host: str = "") -> Probe:
    return Probe(tcpSocket=TCPSocketAction(port=port, host=host))


def exec_(*command: str, timeout: int = 1) -> Probe:
    return Probe(exec=ExecAction(command=command), timeoutSeconds=timeout)


# --- exec


async def test_exec_passes_the_command_unchanged() -> None:
    runtime = Commands()
    env = (
        EnvVar(name="A", value="1"),
        EnvVar(
            name="N",
            valueFrom=EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath="metadata.name")),
        ),
    )
    probe = exec_("echo", "$(A)", "$$(A)", "$(N)", "$(NONE)", timeout=3)
    found = await run(probe, container=Container(name="c", env=env), runtime=runtime)
    assert found.verdict is ProbeVerdict.SUCCESS
    assert runtime.calls == [("c-0", ("echo", "1", "$(A)", "$(N)", "$(NONE)"), 3.0, 10240)]


async def test_exec_fails_with_its_output() -> None:
    """As in the golden case liveness-fail, line feed included."""
    output = b"cat: can't open '/tmp/ok': No such file or directory\n"
    found = await run(
        exec_("cat", "/tmp/ok"), runtime=Commands(ExecResult(exit_code=1, output=output))
    )
    assert found == ProbeOutcome(
        ProbeVerdict.FAILURE, "cat: can't open '/tmp/ok': No such file or directory\n"
    )


async def test_exec_that_times_out() -> None:
    found = await run(exec_("sleep", "5"), runtime=Commands(ExecTimeout("too long")))
    assert found == ProbeOutcome(
        ProbeVerdict.FAILURE, 'command timed out: "sleep 5" timed out after 1s'
    )


async def test_exec_that_cannot_start() -> None:
    found = await run(exec_("true"), runtime=Commands(EngineConflict("container is not running")))
    assert found == ProbeOutcome(ProbeVerdict.ERROR, "container is not running")
    found = await run(exec_("true"), runtime=Commands(EngineUnavailable("gone")))
    assert found.verdict is ProbeVerdict.NO_ENGINE


# --- httpGet


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "299 Fine"])
async def test_http_success(status: str) -> None:
    async with listening(answer(status)) as server:
        assert (await run(http(server.port))).verdict is ProbeVerdict.SUCCESS


@pytest.mark.parametrize("code", [400, 404, 500, 503])
async def test_http_failure_does_not_show_the_body(code: int) -> None:
    async with listening(answer(f"{code} Oops", b"secret")) as server:
        found = await run(http(server.port))
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, f"HTTP probe failed with statuscode: {code}")


async def test_http_sends_the_kubelets_headers() -> None:
    async with listening(answer("200 OK")) as server:
        await run(http(server.port, "/health?x=1&y=a b#frag"))
        received = server.headers()
        assert server.requests[0].startswith("GET /health?x=1&y=a%20b HTTP/1.1\r\n")
        assert received == {
            "user-agent": "kube-probe/1.36",
            "accept": "*/*",
            "host": f"127.0.0.1:{server.port}",
            "connection": "close",
        }


async def test_http_headers_are_the_manifests() -> None:
    headers = (
        HTTPHeader(name="Host", value="example.org"),
        HTTPHeader(name="user-agent", value="mine"),
        HTTPHeader(name="Accept", value=""),
        HTTPHeader(name="X-Two", value="a"),
        HTTPHeader(name="X-Two", value="b"),
    )
    async with listening(answer("200 OK")) as server:
        await run(http(server.port, "relative", httpHeaders=headers))
        assert server.paths() == ["/relative"]
        received = server.headers()
    assert received["host"] == "example.org"
    assert received["user-agent"] == "mine"
    assert received["x-two"] == "a|b"
    assert "accept" not in received


async def test_http_does_not_follow_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    async with listening(answer("200 OK")) as server:
        assert (await run(http(server.port))).verdict is ProbeVerdict.SUCCESS


async def test_http_named_port() -> None:
    async with listening(answer("200 OK")) as server:
        ports = (ContainerPort(name="web", containerPort=server.port),)
        container = Container(name="c", ports=ports)
        assert (await run(http("web"), container=container)).verdict is ProbeVerdict.SUCCESS
        assert (await run(http(str(server.port)))).verdict is ProbeVerdict.SUCCESS
    found = await run(http("nameless"))
    assert found == ProbeOutcome(
        ProbeVerdict.ERROR, 'strconv.Atoi: parsing "nameless": invalid syntax'
    )
    assert await run(http(0)) == ProbeOutcome(ProbeVerdict.ERROR, "invalid port number: 0")


async def test_https_is_not_verified(tmp_path: Path) -> None:
    async with listening(answer("200 OK"), tls=server_tls(tmp_path)) as server:
        found = await run(http(server.port, scheme="HTTPS"))
    assert found.verdict is ProbeVerdict.SUCCESS


async def test_https_to_a_plain_server() -> None:
    async with listening(answer("200 OK")) as server:
        found = await run(http(server.port, scheme="HTTPS"))
    url = f"https://127.0.0.1:{server.port}/"
    text = f'Get "{url}": http: server gave HTTP response to HTTPS client'
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, text)


# --- redirects (case 67)


async def test_redirect_on_the_same_host_is_followed() -> None:
    async with listening(answer("200 OK")) as server:
        server.answers["/"] = answer("302 Found", Location="/next?a=1")
        server.answers["/next?a=1"] = answer("307 Temporary Redirect", Location="last")
        server.answers["/last"] = answer("500 Oops")
        found = await run(http(server.port))
        assert server.paths() == ["/", "/next?a=1", "/last"]
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, "HTTP probe failed with statuscode: 500")


async def test_redirect_keeps_the_host_only_where_it_is_relative() -> None:
    headers = (HTTPHeader(name="Host", value="example.org"),)
    async with listening(answer("200 OK")) as server:
        server.answers["/"] = answer("302 Found", Location="/relative")
        await run(http(server.port, httpHeaders=headers))
        assert server.headers()["host"] == "example.org"
        server.answers["/"] = answer("302 Found", Location=f"http://127.0.0.1:{server.port}/whole")
        await run(http(server.port, httpHeaders=headers))
        assert server.headers()["host"] == f"127.0.0.1:{server.port}"


async def test_redirect_to_another_host_is_a_warning() -> None:
    async with listening() as server:
        server.answers[""] = answer("302 Found", b"see there", Location="http://example.org/")
        found = await run(http(server.port))
        assert len(server.requests) == 1
    text = "Probe terminated redirects, Response body: see there"
    assert found == ProbeOutcome(ProbeVerdict.WARNING, text)


@pytest.mark.parametrize("status", ["304 Not Modified", "300 Choices", "302 Found"])
async def test_redirect_to_nowhere_is_a_warning(status: str) -> None:
    async with listening(answer(status)) as server:
        assert (await run(http(server.port))).verdict is ProbeVerdict.WARNING


async def test_endless_redirects() -> None:
    async with listening(answer("302 Found", Location="/again")) as server:
        found = await run(http(server.port))
        assert len(server.requests) == 10
        url = f"http://127.0.0.1:{server.port}/again"
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, f'Get "{url}": stopped after 10 redirects')


# --- errors


async def test_http_refused() -> None:
    port = closed_port()
    found = await run(http(port, "/h"))
    text = (
        f'Get "http://127.0.0.1:{port}/h": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, text)


def request(port: int) -> HttpRequest:
    return request_for(HTTPGetAction(port=port, path="/"), Address("127.0.0.1", port), "test")


async def get_within(port: int, expected: str) -> object:
    """Get with a longer timeout until the problem has the ``expected`` text: a busy machine may
    connect or send late."""
    found: object = None
    for timeout in (0.1, 1.0, 10.0):
        found = await get(request(port), timeout=timeout)
        if isinstance(found, HttpProblem) and expected in found.text:
            break
    return found


async def test_http_without_a_response() -> None:
    async with listening(b"", stall=True) as server:
        found = await get_within(server.port, "context deadline exceeded")
    url = f"http://127.0.0.1:{server.port}/"
    cause = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert found == HttpProblem(f'Get "{url}": {cause}')


async def test_http_without_a_connection() -> None:
    """A full backlog accepts no connection."""
    with socket.socket() as busy, contextlib.ExitStack() as others:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        port: int = busy.getsockname()[1]
        for _ in range(3):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(("127.0.0.1", port))
        found = await get(request(port), timeout=0.1)
        tried = await connect(Address("127.0.0.1", port), 0.1)
    cause = f"dial tcp 127.0.0.1:{port}: i/o timeout"
    late = "(Client.Timeout exceeded while awaiting headers)"
    assert found == HttpProblem(f'Get "http://127.0.0.1:{port}/": {cause} {late}')
    assert tried == ProbeOutcome(ProbeVerdict.FAILURE, cause)


async def test_http_body_that_stalls_gives_no_result() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    async with listening(head, stall=True) as server:
        found = await get_within(server.port, "while reading body")
    assert isinstance(found, HttpProblem)
    assert found.broken_body
    assert "while reading body" in found.text


async def test_http_body_that_is_truncated_gives_no_result() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    async with listening(head) as server:
        assert await run(http(server.port)) == ProbeOutcome(ProbeVerdict.ERROR, "unexpected EOF")


async def test_http_connection_closed_without_a_response() -> None:
    async with listening(b"") as server:
        found = await run(http(server.port))
    assert found == ProbeOutcome(
        ProbeVerdict.FAILURE, f'Get "http://127.0.0.1:{server.port}/": EOF'
    )
    # A new connection that breaks is not a reason to send the request again.
    assert len(server.requests) == 1


async def test_http_malformed_response() -> None:
    async with listening(b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as server:
        found = await run(http(server.port))
    assert found.verdict is ProbeVerdict.FAILURE
    assert "malformed HTTP response" in found.text


async def test_http_reads_no_more_than_it_needs() -> None:
    """Of an endless response, 10 KiB are read."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
    async with listening(head + b"x" * 50_000, stall=True) as server:
        assert (await run(http(server.port))).verdict is ProbeVerdict.SUCCESS


# --- tcpSocket and grpc


async def test_tcp_connects() -> None:
    async with listening(b"") as server:
        assert (await run(tcp(server.port))).verdict is ProbeVerdict.SUCCESS


async def test_tcp_refused() -> None:
    port = closed_port()
    text = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert await run(tcp(port)) == ProbeOutcome(ProbeVerdict.FAILURE, text)


# --- addresses


async def test_a_pod_on_the_hosts_network_is_on_localhost() -> None:
    pod = make_pod(hostNetwork=True)
    async with listening(answer("200 OK")) as server:
        found = await run(http(server.port), pod=pod, observed=HOST_NETWORK)
    assert found.verdict is ProbeVerdict.SUCCESS


async def test_a_pod_without_an_address() -> None:
    found = await run(tcp(80), observed=seen(sandboxes=(box(ready=False),)))
    assert found == ProbeOutcome(ProbeVerdict.ERROR, "the pod has no address")


async def test_the_host_of_the_manifest_takes_precedence() -> None:
    async with listening(b"") as server:
        found = await run(tcp(server.port, host="127.0.0.1"), observed=seen())
        assert found.verdict is ProbeVerdict.SUCCESS


async def test_an_unroutable_pod_is_reached_by_its_published_port() -> None:
    rootless = engine(routable_pods=False, rootless=True)
    async with listening(answer("200 OK")) as server:
        ports = [{"containerPort": 80, "hostPort": server.port}]
        pod = make_pod({"name": "c", "ports": ports})
        found = await run(http(80), pod=pod, info=rootless)
        assert found.verdict is ProbeVerdict.SUCCESS
    found = await run(http(81), pod=pod, info=rootless)
    assert found.verdict is ProbeVerdict.ERROR
    assert "give port 81 a hostPort" in found.text


INSIDE = seen(sandboxes=(replace(box(ips=("127.0.0.1",)), routable=False, enterable=True),))


async def test_http_from_inside_the_pod() -> None:
    runtime = Commands()
    async with listening(answer("200 OK")) as server:
        server.answers["/moved"] = answer("302 Found", Location="/here")
        found = await run(http(server.port, "/moved"), observed=INSIDE, runtime=runtime)
        assert found.verdict is ProbeVerdict.SUCCESS
        assert server.paths() == ["/moved", "/here"]
        assert server.headers()["host"] == f"127.0.0.1:{server.port}"
    assert runtime.opened == [("s0", "127.0.0.1")] * 2
    port = closed_port()
    refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    found = await run(http(port), observed=INSIDE, runtime=runtime)
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, f'Get "http://127.0.0.1:{port}/": {refused}')
    found = await run(tcp(port), observed=INSIDE, runtime=runtime)
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, refused)


async def test_tcp_and_grpc_from_inside_the_pod() -> None:
    runtime = Commands()
    async with listening(b"") as server:
        found = await run(tcp(server.port), observed=INSIDE, runtime=runtime)
        assert found.verdict is ProbeVerdict.SUCCESS
    async with grpc_server(GrpcServer()) as server:
        probe = Probe(grpc=GRPCAction(port=server.port), timeoutSeconds=5)
        found = await run(probe, observed=INSIDE, runtime=runtime)
        assert found.verdict is ProbeVerdict.SUCCESS
    assert runtime.opened == [("s0", "127.0.0.1")] * 2


async def test_a_host_of_the_manifest_is_not_dialled_from_inside_the_pod() -> None:
    runtime = Commands()
    async with listening(b"") as server:
        probe = tcp(server.port, host="127.0.0.1")
        assert (await run(probe, observed=INSIDE, runtime=runtime)).verdict is ProbeVerdict.SUCCESS
    assert runtime.opened == []


@pytest.mark.parametrize("probe", [http(80), tcp(80), Probe(grpc=GRPCAction(port=80))])
@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        (EngineError("no entry"), ProbeVerdict.ERROR),
        (EngineUnavailable("gone"), ProbeVerdict.NO_ENGINE),
    ],
)
async def test_a_pod_that_cannot_be_entered(
    probe: Probe, lost: EngineError, verdict: ProbeVerdict
) -> None:
    found = await run(probe, observed=INSIDE, runtime=Commands(lost))
    assert found == ProbeOutcome(verdict, str(lost))


async def test_nothing_is_dialled_in_a_simulation() -> None:
    assert (await run(tcp(closed_port()), simulated=True)).verdict is ProbeVerdict.SUCCESS
    failing = Commands(ExecResult(exit_code=1, output=b"no"))
    assert (
        await run(exec_("false"), runtime=failing, simulated=True)
    ).verdict is ProbeVerdict.FAILURE
