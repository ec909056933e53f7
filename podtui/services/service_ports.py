"""Node ports and load balancers: the listeners of this machine follow the Services.

A controller: after each change of a Service or its endpoints, it opens and closes listeners, gives
them the backends, and writes the addresses into the object.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msgspec import structs

from podtui.api.discovery import EndpointSlice
from podtui.api.objects import T
from podtui.api.urls import PUBLISHED
from podtui.api.v1 import LoadBalancerStatus, Service
from podtui.client.cache import Key, Kind
from podtui.clock import Clock
from podtui.services.backends import PortBackends, service_key
from podtui.services.balancing import Balancer
from podtui.services.index import ServiceIndex
from podtui.services.protocol import EventSink, EventType
from podtui.services.proxies import (
    MAX_TOTAL,
    Dialer,
    Network,
    Slots,
    TcpProxy,
    UdpProxy,
    listening_socket,
)
from podtui.services.publishing import (
    Listener,
    balancer_addresses,
    balancer_listeners,
    balancer_status,
    node_listeners,
    published_text,
    service_ports,
    wants_balancer,
)

RETRY_SECONDS: Final = 5.0
"""Between attempts to listen on a port that is in use."""
_COMPONENT: Final = "service-controller"


class Writer(Protocol):
    """Raises `podtui.errors.PodtuiError`."""

    async def update(self, kind: type[T], item: T, *, subresource: str = "") -> T: ...

    async def patch(
        self, kind: type[T], item: T, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> T: ...


@dataclass(frozen=True, slots=True)
class _Opened:
    proxy: TcpProxy | UdpProxy
    task: asyncio.Task[None]


class ServicePorts:
    """``address`` is the address of node ports. ``machine`` distinguishes the agents of a machine:
    the addresses of their load balancers differ."""

    name = _COMPONENT

    def __init__(
        self,
        index: ServiceIndex,
        writer: Writer,
        events: EventSink,
        dialer: Dialer,
        clock: Clock,
        *,
        address: str,
        machine: str,
        max_connections: int = MAX_TOTAL,
    ) -> None:
        self._index = index
        self._writer = writer
        self._events = events
        self._dialer = dialer
        self._clock = clock
        self._address = address
        self._machine = machine
        self._slots = Slots(max_connections)
        self._opened: dict[Key, dict[Listener, _Opened]] = {}
        self._reported: dict[Key, str] = {}
        """The last problem of each Service."""
        self._balanced: set[Key] = set()
        """The Services with a load balancer."""
        self._group: asyncio.TaskGroup | None = None

    @property
    def kinds(self) -> Mapping[Kind, Callable[[Any], Iterable[Key]]]:
        return {Service: _own_key, EndpointSlice: _slice_key}

    async def run(self, follow: Callable[[], Awaitable[object]]) -> None:
        """Run with ``follow``, which calls `sync` after changes, until cancelled."""
        self._opened, self._reported = {}, {}
        async with asyncio.TaskGroup() as group:
            self._group = group
            await follow()

    async def sync(self, key: Key) -> float | None:
        service = self._index.service(key)
        if service is None:
            await self._close(key, [*self._opened.get(key, {})])
            self._opened.pop(key, None)
            self._reported.pop(key, None)
            self._balanced.discard(key)
            return None
        ports = service_ports(service, self._index.slices(key))
        problems: list[str] = []
        wanted = node_listeners(ports, self._address)
        for listener, port in wanted.items():
            if problem := self._ensure(key, listener, port, ()):
                problems.append(problem.text)
        node_problem = bool(problems)
        status, balanced, problem = self._ensure_balancer(key, service, ports)
        problems += filter(None, [problem])
        wanted |= balanced
        opened = self._opened.get(key, {})
        await self._close(key, [listener for listener in opened if listener not in wanted])
        self._report(key, service, problems, node_problem=node_problem)
        await self._write(key, service, status, published_text(opened))
        return RETRY_SECONDS if problems else None

    # --- listeners

    def _ensure(
        self, key: Key, listener: Listener, port: PortBackends, sources: Sequence[Network]
    ) -> _Problem | None:
        """Open a listener, or update the backends of an open one."""
        assert self._group is not None
        opened = self._opened.setdefault(key, {})
        if listener in opened:
            proxy = opened[listener].proxy
            proxy.balancer.port, proxy.sources = port, sources
            return None
        try:
            sock = listening_socket(listener.protocol, listener.address, listener.port)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            return _Problem(
                f"cannot listen on {listener.text}: {reason}",
                is_refused=error.errno in (errno.EACCES, errno.EPERM),
            )
        balancer = Balancer(port, self._clock.monotonic)
        kind = UdpProxy if listener.protocol == "UDP" else TcpProxy
        proxy = kind(sock, balancer, self._dialer, self._clock, self._slots)
        proxy.sources = sources
        task = self._group.create_task(proxy.run(self._group), name=f"listener {listener.text}")
        opened[listener] = _Opened(proxy, task)
        return None

    async def _close(self, key: Key, listeners: Iterable[Listener]) -> None:
        """Stop listening. Open TCP connections continue."""
        opened = self._opened.get(key, {})
        ended = [opened.pop(listener) for listener in listeners if listener in opened]
        for item in ended:
            item.task.cancel()
        if ended:
            await asyncio.wait([item.task for item in ended])
        for item in ended:
            # A task that is cancelled before it begins closes nothing.
            item.proxy.close()

    def _ensure_balancer(
        self, key: Key, service: Service, ports: Sequence[PortBackends]
    ) -> tuple[LoadBalancerStatus, dict[Listener, PortBackends], str]:
        """Open the listeners of a load balancer at the first address that has all its ports. Return
        its status, its listeners, and a problem."""
        if not wants_balancer(service):
            # Another implementation may write the status.
            foreign = service.spec.type == "LoadBalancer"
            status = service.status.loadBalancer if foreign else LoadBalancerStatus()
            return status, {}, ""
        sources = tuple(
            ipaddress.ip_network(text.strip(), strict=False)
            for text in service.spec.loadBalancerSourceRanges
        )
        problem = _Problem("no address of this machine is left", is_refused=False)
        for address in balancer_addresses(service, self._address, self._machine):
            listeners = balancer_listeners(ports, address)
            attempts = (self._ensure(key, *item, sources) for item in listeners.items())
            failure = next((item for item in attempts if item is not None), None)
            if failure is None:
                return balancer_status(ports, address, listeners), listeners, ""
            problem = failure
            if failure.is_refused:
                # A port below 1024 is refused at every address.
                break
        if any(port.node_port for port in ports):
            text = f"{problem.text}; the Service is reached at its node ports"
            return balancer_status(ports, self._address, ()), {}, text
        return LoadBalancerStatus(), {}, problem.text

    # --- the object

    def _report(
        self, key: Key, service: Service, problems: Sequence[str], *, node_problem: bool
    ) -> None:
        text = "; ".join(problems)
        if text and text != self._reported.get(key):
            if node_problem:
                message = f"{text}; podtui tries again every {RETRY_SECONDS:.0f} s"
                self._record(service, "Warning", "NodePortUnavailable", message)
            else:
                message = f"Error syncing load balancer: failed to ensure load balancer: {text}"
                self._record(service, "Warning", "SyncLoadBalancerFailed", message)
        self._reported[key] = text

    async def _write(
        self, key: Key, service: Service, status: LoadBalancerStatus, published: str
    ) -> None:
        if not wants_balancer(service) and key in self._balanced:
            self._balanced.discard(key)
            self._record(service, "Normal", "DeletingLoadBalancer", "Deleting load balancer")
            self._record(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
        if published != service.metadata.annotations.get(PUBLISHED, ""):
            patch = {"metadata": {"annotations": {PUBLISHED: published or None}}}
            service = await self._writer.patch(Service, service, patch)
        if wants_balancer(service) and status.ingress:
            self._balanced.add(key)
        if status != service.status.loadBalancer:
            ensures = wants_balancer(service) and not self._reported.get(key)
            if ensures:
                self._record(service, "Normal", "EnsuringLoadBalancer", "Ensuring load balancer")
            changed = structs.replace(service.status, loadBalancer=status)
            service = structs.replace(service, status=changed)
            await self._writer.update(Service, service, subresource="status")
            if ensures:
                self._record(service, "Normal", "EnsuredLoadBalancer", "Ensured load balancer")

    def _record(self, service: Service, event_type: EventType, reason: str, message: str) -> None:
        self._events.record(_COMPONENT, service, event_type, reason, message)


@dataclass(frozen=True, slots=True)
class _Problem:
    text: str
    is_refused: bool
    """The machine does not permit the port."""


def _own_key(item: Service) -> Iterable[Key]:
    yield (item.metadata.namespace, item.metadata.name)


def _slice_key(item: EndpointSlice) -> Sequence[Key]:
    key = service_key(item)
    return (key,) if key[1] else ()
