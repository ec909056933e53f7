"""Probes and hooks of pods without a hostPort, on a real engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pod_builders import make_pod, seen
from runtime_bench import Bench, until

from podtui.api.v1 import (
    Container,
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    TCPSocketAction,
)
from podtui.clock import SystemClock
from podtui.kubelet.pleg.observer import PodObserver
from podtui.kubelet.prober.dialing import PodAddresses
from podtui.kubelet.prober.handlers import Handlers
from podtui.kubelet.prober.hooks import HookRunner
from podtui.kubelet.prober.state import ProbeOutcome, ProbeVerdict
from podtui.runtime.protocol import NamespaceMode

pytestmark = pytest.mark.engine
SERVE = (
    "mkdir -p /www/dir; echo ok > /www/index.html; cp /www/index.html /www/dir;"
    " httpd -p 8080 -h /www; while true; do nc -l -p 8081; done"
)


class Prober:
    """Runs handlers once, as the kubelet does for an observed pod."""

    def __init__(self, bench: Bench, addresses: PodAddresses, spec: dict[str, Any]) -> None:
        self._bench = bench
        self._addresses = addresses
        self._pod = make_pod(**spec)

    async def probe(self, timeout: int = 10, **action: Any) -> ProbeOutcome:
        handlers = Handlers(self._bench.runtime, self._addresses)
        probe = Probe(**action, timeoutSeconds=timeout)
        return await handlers.run(self._pod, Container(name="c"), "c-0", probe)

    async def post_start(self, action: HTTPGetAction) -> str:
        hooks = HookRunner(
            runtime=self._bench.runtime,
            addresses=self._addresses,
            events=None,  # type: ignore[arg-type]
            clock=SystemClock(),
        )
        lifecycle = Lifecycle(postStart=LifecycleHandler(httpGet=action))
        return await hooks.post_start(self._pod, Container(name="c", lifecycle=lifecycle), "c-0")


async def serving(bench: Bench, sandbox: str, script: str, **spec: Any) -> tuple[Prober, str]:
    """Start a container; returns a prober and the pod's IP."""
    await bench.start(sandbox, script)
    status = await bench.runtime.sandbox_status(sandbox)
    observer = PodObserver(bench.runtime)
    observer.note_sandbox(status)
    observed = observer.sandbox(sandbox)
    assert observed is not None
    info = bench.info
    addresses = PodAddresses(lambda uid: seen(sandboxes=(observed,)), lambda: info)
    return Prober(bench, addresses, spec), status.ips[0] if status.ips else "127.0.0.1"


def succeeds(prober: Prober, **action: Any) -> Callable[[], Any]:
    async def succeeded() -> bool:
        return (await prober.probe(**action)).verdict is ProbeVerdict.SUCCESS

    return succeeded


async def test_ports_of_a_pod_are_probed(engine_bench: Bench) -> None:
    prober, ip = await serving(engine_bench, await engine_bench.sandbox(), SERVE)
    get = HTTPGetAction(port=8080, path="/", scheme="HTTP")
    if not engine_bench.info.local:
        assert "give port 8080 a hostPort" in (await prober.probe(httpGet=get)).text
        return
    await until(succeeds(prober, tcpSocket=TCPSocketAction(port=8080)))
    await until(succeeds(prober, httpGet=get))
    redirected = replace_path(get, "/dir")
    assert (await prober.probe(httpGet=redirected)).verdict is ProbeVerdict.SUCCESS
    missing = await prober.probe(httpGet=replace_path(get, "/missing"))
    assert missing == ProbeOutcome(ProbeVerdict.FAILURE, "HTTP probe failed with statuscode: 404")
    refused = f"dial tcp {ip}:8082: connect: connection refused"
    found = await prober.probe(tcpSocket=TCPSocketAction(port=8082))
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, refused)
    found = await prober.probe(httpGet=HTTPGetAction(port=8082, path="/", scheme="HTTP"))
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, f'Get "http://{ip}:8082/": {refused}')
    await until(succeeds(prober, tcpSocket=TCPSocketAction(port=8081)))
    silent = HTTPGetAction(port=8081, path="/", scheme="HTTP")
    found = await prober.probe(timeout=1, httpGet=silent)
    assert found.verdict is ProbeVerdict.FAILURE
    assert found.text.startswith(f'Get "http://{ip}:8081/": ')
    found = await prober.probe(timeout=1, grpc=GRPCAction(port=8082))
    message = f'timeout: failed to connect service "{ip}:8082" within 1s: context deadline exceeded'
    assert found == ProbeOutcome(ProbeVerdict.FAILURE, message)
    assert await prober.post_start(replace_path(get, "/missing")) == ""
    assert refused in await prober.post_start(HTTPGetAction(port=8082, path="/", scheme="HTTP"))


def replace_path(action: HTTPGetAction, path: str) -> HTTPGetAction:
    return HTTPGetAction(port=action.port, path=path, scheme=action.scheme)


async def test_ports_of_a_pod_on_the_hosts_network_are_probed(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox(network=NamespaceMode.NODE, hostname="")
    prober, _ = await serving(
        engine_bench, sandbox, "httpd -p 127.0.0.1:28018 -h /etc; sleep 300", hostNetwork=True
    )
    get = HTTPGetAction(port=28018, path="/hostname", scheme="HTTP")
    if not engine_bench.info.local:
        found = await prober.probe(httpGet=get)
        assert "the engine's host network is not reachable from here" in found.text
        return
    await until(succeeds(prober, httpGet=get))
