"""The four probe handlers: exec, httpGet, tcpSocket, grpc (kubelet.md §8)."""

from __future__ import annotations

from typing import Final, Protocol

from podtui.api.pods import pod_ref
from podtui.api.v1 import (
    Container,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    Pod,
    Probe,
    TCPSocketAction,
)
from podtui.errors import EngineError, EngineUnavailable, ExecTimeout
from podtui.kubelet.prober.dialing import (
    Address,
    PodAddresses,
    Unreachable,
    connect,
    pod_sockets,
    probe_port,
)
from podtui.kubelet.prober.http_get import PROBE_AGENT, HttpProblem, get, request_for
from podtui.kubelet.prober.state import (
    SUCCESS,
    ProbeOutcome,
    ProbeVerdict,
    error,
    failure,
    rules_of,
)
from podtui.runtime.protocol import Runtime
from podtui.text.expansion import expand
from podtui.text.go_format import go_duration, quoted

OUTPUT_LIMIT: Final = 10 * 1024


class ProbeHandlers(Protocol):
    """Runs a probe's handler once."""

    async def run(
        self, pod: Pod, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        """Run the handler within the probe's timeout; never raises."""
        ...


class Handlers:
    """Runs exec probes through the engine, and the others over the network.

    ``simulated``: no process listens in the pods, so network probes always succeed; commands still
    run.
    """

    def __init__(
        self, runtime: Runtime, addresses: PodAddresses, *, simulated: bool = False
    ) -> None:
        self._runtime = runtime
        self._addresses = addresses
        self._simulated = simulated
        self._open_socket = pod_sockets(runtime)

    async def run(
        self, pod: Pod, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        timeout = rules_of(probe).timeout
        if probe.exec is not None:
            return await self._exec(container, container_id, probe.exec, timeout)
        if self._simulated:
            return SUCCESS
        try:
            if probe.httpGet is not None:
                return await self._http_get(pod, container, probe.httpGet, timeout)
            if probe.tcpSocket is not None:
                return await self._tcp_socket(pod, container, probe.tcpSocket, timeout)
            if probe.grpc is not None:
                return await self._grpc(pod, probe.grpc, timeout)
        except EngineUnavailable as lost:
            return ProbeOutcome(ProbeVerdict.NO_ENGINE, str(lost))
        except EngineError as problem:
            return error(str(problem))
        return error(f"missing probe handler for {pod_ref(pod)}:{container.name}")

    async def _exec(
        self, container: Container, container_id: str, action: ExecAction, timeout: float
    ) -> ProbeOutcome:
        literal = {
            variable.name: variable.value
            for variable in container.env
            if variable.valueFrom is None
        }
        command = [expand(word, literal) for word in action.command]
        try:
            result = await self._runtime.exec(
                container_id, command, timeout=timeout, limit=OUTPUT_LIMIT
            )
        except ExecTimeout:
            command_line = quoted(" ".join(command))
            return failure(
                f"command timed out: {command_line} timed out after {go_duration(timeout)}"
            )
        except EngineUnavailable as lost:
            return ProbeOutcome(ProbeVerdict.NO_ENGINE, str(lost))
        except EngineError as problem:
            return error(str(problem))
        text = result.output.decode(errors="replace")
        return SUCCESS if result.exit_code == 0 else failure(text)

    async def _http_get(
        self, pod: Pod, container: Container, action: HTTPGetAction, timeout: float
    ) -> ProbeOutcome:
        address = self._find(pod, container, action)
        if isinstance(address, Unreachable):
            return error(address.text)
        answer = await get(request_for(action, address, PROBE_AGENT), timeout, self._open_socket)
        if isinstance(answer, HttpProblem):
            return error(answer.text) if answer.broken_body else failure(answer.text)
        if not 200 <= answer.status < 400:
            return failure(f"HTTP probe failed with statuscode: {answer.status}")
        if answer.status < 300:
            return SUCCESS
        body = answer.body.decode(errors="replace")
        return ProbeOutcome(
            ProbeVerdict.WARNING, f"Probe terminated redirects, Response body: {body}"
        )

    async def _tcp_socket(
        self, pod: Pod, container: Container, action: TCPSocketAction, timeout: float
    ) -> ProbeOutcome:
        address = self._find(pod, container, action)
        if isinstance(address, Unreachable):
            return error(address.text)
        return await connect(address, timeout, self._open_socket)

    def _find(
        self, pod: Pod, container: Container, action: HTTPGetAction | TCPSocketAction
    ) -> Address | Unreachable:
        port = probe_port(action.port, container)
        if isinstance(port, Unreachable):
            return port
        return self._addresses.find(pod, port, action.host)

    async def _grpc(self, pod: Pod, action: GRPCAction, timeout: float) -> ProbeOutcome:
        from podtui.kubelet.prober.grpc_health import check

        address = self._addresses.find(pod, action.port)
        if isinstance(address, Unreachable):
            return error(address.text)
        return await check(address, action.service, timeout, self._open_socket)
