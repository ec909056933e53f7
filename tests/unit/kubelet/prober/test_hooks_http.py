"""httpGet hooks on real sockets (kubelet.md §9, case 72)."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubelet_listener import answer, closed_port, listening, server_tls
from pod_builders import box, engine, make_pod, seen

from podtui.api.v1 import (
    Container,
    ContainerPort,
    HTTPGetAction,
    HTTPHeader,
    Lifecycle,
    LifecycleHandler,
    Pod,
)
from podtui.clock import SystemClock
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.prober.dialing import PodAddresses
from podtui.kubelet.prober.hooks import HookRunner
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import EngineInfo

LOCAL = seen(sandboxes=(box(ips=("127.0.0.1",)),))
Events = list[tuple[str, str, str, str]]


class Recorder:
    def __init__(self) -> None:
        self.events: Events = []

    def pod(self, pod: Pod, kind: str, reason: str, message: str, field_path: str = "") -> None:
        self.events.append((kind, reason, message, field_path))


def with_hook(**action: Any) -> Container:
    handler = LifecycleHandler(httpGet=HTTPGetAction(**action))
    ports = (ContainerPort(name="web", containerPort=action.pop("named", 1)),)
    return Container(name="c", ports=ports, lifecycle=Lifecycle(postStart=handler, preStop=handler))


async def post_start(
    container: Container,
    *,
    pod: Pod | None = None,
    observed: ObservedPod = LOCAL,
    info: EngineInfo | None = None,
    runtime: Pods | None = None,
) -> tuple[str, Events]:
    recorder = Recorder()
    runner = HookRunner(
        runtime=runtime,  # type: ignore[arg-type]
        addresses=PodAddresses(lambda uid: observed, lambda: info or engine()),
        events=recorder,  # type: ignore[arg-type]
        clock=SystemClock(),
    )
    problem = await runner.post_start(pod or make_pod(), container, "c-0")
    return problem, recorder.events


async def test_any_http_status_is_success() -> None:
    async with listening(answer("500 Oops")) as server:
        assert await post_start(with_hook(port=server.port, path="/go")) == ("", [])
        assert server.paths() == ["/go"]
        assert server.headers()["user-agent"] == "kube-lifecycle/1.36"


async def test_connection_refused() -> None:
    port = closed_port()
    problem, events = await post_start(with_hook(port=port, path="/go"))
    assert problem == (
        'HTTP lifecycle hook (/go) for Container "c" in Pod "web-n1_default(u1)" failed - error:'
        f' Get "http://127.0.0.1:{port}/go": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert events == []


async def test_https_to_an_http_server_is_retried_with_http() -> None:
    headers = (HTTPHeader(name="Authorization", value="secret"), HTTPHeader(name="X", value="1"))
    async with listening(answer("200 OK")) as server:
        hook = with_hook(port=server.port, path="/go", scheme="HTTPS", httpHeaders=headers)
        problem, events = await post_start(hook)
        assert "authorization" not in server.headers()
        assert server.headers()["x"] == "1"
    assert problem == ""
    text = (
        f"request to HTTPS lifecycle hook 127.0.0.1:{server.port} got HTTP response,"
        " retry with HTTP succeeded"
    )
    assert events == [("Warning", "LifecycleHTTPFallback", text, "")]


async def test_https(tmp_path: Path) -> None:
    async with listening(answer("404 Gone"), tls=server_tls(tmp_path)) as server:
        hook = with_hook(port=server.port, path="/", scheme="HTTPS")
        assert await post_start(hook) == ("", [])


async def test_on_the_hosts_network_it_always_fails() -> None:
    observed = seen(sandboxes=(box(host_network=True),))
    pod = make_pod(hostNetwork=True)
    problem, _ = await post_start(with_hook(port=80, path="/"), pod=pod, observed=observed)
    assert "failed - error: failed to find networking container: " in problem
    async with listening(answer("200 OK")) as server:
        hook = with_hook(port=server.port, path="/", host="127.0.0.1")
        assert await post_start(hook, pod=pod, observed=observed) == ("", [])


async def test_a_port_by_name() -> None:
    problem, _ = await post_start(with_hook(port="nameless", path="/"))
    assert problem.endswith("failed - error: couldn't find port: nameless")


class Pods:
    """A runtime of which only ``pod_socket`` is used."""

    def __init__(self, failure: EngineError | None = None) -> None:
        self._failure = failure

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        if self._failure is not None:
            raise self._failure
        sock = socket.socket()
        sock.setblocking(False)
        return sock


INSIDE = seen(sandboxes=(replace(box(ips=("127.0.0.1",)), routable=False, enterable=True),))


async def test_a_request_from_inside_the_pod() -> None:
    async with listening(answer("200 OK")) as server:
        hook = with_hook(port=server.port, path="/go", scheme="HTTPS")
        problem, events = await post_start(hook, observed=INSIDE, runtime=Pods())
    assert (problem, [reason for _, reason, _, _ in events]) == ("", ["LifecycleHTTPFallback"])


async def test_a_pod_that_cannot_be_entered_does_not_crash_loop() -> None:
    hook = with_hook(port=80, path="/go")
    lost = Pods(EngineError("no entry"))
    problem, events = await post_start(hook, observed=INSIDE, runtime=lost)
    text = "life-cycle hook of container c is not run: no entry"
    assert (problem, events) == ("", [("Warning", "Degraded", text, "spec.containers{c}")])
    with pytest.raises(EngineUnavailable):
        await post_start(hook, observed=INSIDE, runtime=Pods(EngineUnavailable("gone")))


async def test_an_unsupported_hook_does_not_crash_loop() -> None:
    far = engine(routable_pods=False, local=False)
    problem, events = await post_start(with_hook(port=81, path="/"), info=far)
    assert problem == ""
    assert [(kind, reason, path) for kind, reason, _, path in events] == [
        ("Warning", "Degraded", "spec.containers{c}")
    ]
