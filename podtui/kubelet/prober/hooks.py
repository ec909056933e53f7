"""postStart and preStop handlers (kubelet.md §9)."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from podtui.api.pods import pod_ref
from podtui.api.v1 import Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.events.recorder import WARNING, EventRecorder, field_path
from podtui.kubelet.prober.dialing import PodAddresses, Unreachable, hook_port, pod_sockets
from podtui.kubelet.prober.http_get import (
    HOOK_AGENT,
    HttpProblem,
    HttpRequest,
    get,
    request_for,
)
from podtui.runtime.protocol import Runtime
from podtui.text.go_format import quoted

_LOG = logging.getLogger(__name__)
UNLIMITED: Final = 365 * 86400.0
"""Seconds: a hook has no timeout of its own."""


class HookRunner:
    """Implements `podtui.kubelet.containers.killer.Hooks`.

    The starter reports a failed postStart handler; a failed preStop handler is reported here.
    ``simulated``: no process listens in the pods, so HTTP requests count as sent.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        addresses: PodAddresses,
        events: EventRecorder,
        clock: Clock,
        simulated: bool = False,
    ) -> None:
        self._runtime = runtime
        self._addresses = addresses
        self._events = events
        self._clock = clock
        self._simulated = simulated
        self._open_socket = pod_sockets(runtime)

    async def post_start(self, pod: Pod, container: Container, container_id: str) -> str:
        """Return the error message, empty on success. Raises `EngineUnavailable`."""
        if container.lifecycle is None or container.lifecycle.postStart is None:
            return ""
        return await self._run(pod, container, container_id, container.lifecycle.postStart)

    async def pre_stop(
        self, pod: Pod, container: Container, container_id: str, grace: float
    ) -> None:
        """Run the preStop handler for at most ``grace`` seconds. Raises `EngineUnavailable`."""
        if container.lifecycle is None or container.lifecycle.preStop is None:
            return
        problem = ""
        try:
            async with asyncio.timeout(grace):
                problem = await self._run(pod, container, container_id, container.lifecycle.preStop)
        except TimeoutError:
            _LOG.info("preStop of %s in %s: the grace is over", container.name, pod_ref(pod))
        if problem:
            # The handler's output may contain secrets: keep it out of the log and the event.
            _LOG.warning("preStop of %s in %s failed", container.name, pod_ref(pod))
            path = field_path(pod, container.name)
            self._events.pod(pod, WARNING, "FailedPreStopHook", "PreStopHook failed", path)

    async def _run(
        self, pod: Pod, container: Container, container_id: str, handler: LifecycleHandler
    ) -> str:
        """Return the error message, empty on success."""
        about = f'for Container "{container.name}" in Pod "{pod_ref(pod)}" failed - error:'
        if handler.exec is not None:
            problem = await self._exec(container_id, handler.exec)
            shown = f"[{' '.join(handler.exec.command)}]"
            return f"Exec lifecycle hook ({shown}) {about} {problem}" if problem else ""
        if handler.httpGet is not None:
            problem = await self._http_get(pod, container, handler.httpGet)
            shown = handler.httpGet.path
            return f"HTTP lifecycle hook ({shown}) {about} {problem}" if problem else ""
        if handler.sleep is not None:
            await self._clock.sleep(float(handler.sleep.seconds))
            return ""
        kind = "tcpSocket" if handler.tcpSocket is not None else "none"
        return f"Cannot run handler: invalid handler: {kind}"

    async def _exec(self, container_id: str, action: ExecAction) -> str:
        try:
            result = await self._runtime.exec(container_id, action.command, timeout=UNLIMITED)
        except EngineUnavailable:
            raise
        except EngineError as error:
            return f'{error}, message: ""'
        if result.exit_code == 0:
            return ""
        command = " ".join(action.command)
        complaint = result.stderr.decode(errors="replace")
        output = quoted(result.output.decode(errors="replace"))
        return f"command '{command}' exited with {result.exit_code}: {complaint}, message: {output}"

    async def _http_get(self, pod: Pod, container: Container, action: HTTPGetAction) -> str:
        """Return the error message. Any HTTP status counts as success."""
        if self._simulated:
            return ""
        if not action.host and not self._addresses.pod_ip(pod):
            return f"failed to find networking container: no address is known of {pod_ref(pod)}"
        port = hook_port(action.port, container)
        if isinstance(port, Unreachable):
            return port.text
        address = self._addresses.find(pod, port, action.host)
        if isinstance(address, Unreachable):
            return self._not_run(pod, container, address.text)
        try:
            return await self._request(pod, request_for(action, address, HOOK_AGENT))
        except EngineUnavailable:
            raise
        except EngineError as error:
            return self._not_run(pod, container, str(error))

    def _not_run(self, pod: Pod, container: Container, reason: str) -> str:
        """Record that the hook was skipped. Return no error: a limitation of the engine must not
        cause a crash loop."""
        text = f"life-cycle hook of container {container.name} is not run: {reason}"
        self._events.pod(pod, WARNING, "Degraded", text, field_path(pod, container.name))
        return ""

    async def _request(self, pod: Pod, request: HttpRequest) -> str:
        """Send the request and return the error message, empty on success. Raises `EngineError`."""
        answer = await get(request, UNLIMITED, self._open_socket)
        if isinstance(answer, HttpProblem) and answer.plain_answer:
            second = await get(request.over_http(), UNLIMITED, self._open_socket)
            if not isinstance(second, HttpProblem):
                text = f"request to HTTPS lifecycle hook {request.address} got HTTP response"
                text += ", retry with HTTP succeeded"
                self._events.pod(pod, WARNING, "LifecycleHTTPFallback", text)
                return ""
        if isinstance(answer, HttpProblem) and not answer.broken_body:
            return answer.text
        return ""
