"""The data path of Services: keeps the rules in the networks of all attached pods up to date.

Each pod has a worker, so that a pod whose network cannot be changed does not hold the others. A
change of Services becomes one table for all pods; each worker applies the difference to the table
that its pod has. Pods with the host's network share one table, in the host's network, which exists
only as long as such a pod does.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

from podtui.api.v1 import Node, ObjectMeta
from podtui.client.cache import Cache, Key
from podtui.clock import Clock
from podtui.errors import (
    EngineConflict,
    EngineNotFound,
    EngineUnavailable,
    NetworkUnavailable,
    PodtuiError,
)
from podtui.services.backends import Backend, PortBackends
from podtui.services.index import ServiceIndex
from podtui.services.protocol import (
    AttachedPod,
    ClusterPort,
    EventSink,
    PodListener,
    PodNetworks,
)
from podtui.services.rules import (
    EMPTY,
    TABLE,
    Table,
    creation,
    difference,
    key,
    listener_table,
    merged,
    removed_udp_backends,
    service_table,
    table_deletion,
)

_LOG = logging.getLogger(__name__)
COMPONENT: Final = "kube-proxy"
HOST: Final = ""
"""Stands for the sandbox of all pods with the host's network."""
CONCURRENCY: Final = 4
LISTED_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 60.0
_GATHER_SECONDS: Final = 0.01
_FIRST_RETRY: Final = 1.0
_LAST_RETRY: Final = 300.0
FAILED: Final = "FailedServiceRules"
RESTORED: Final = "RestoredServiceRules"
UNAVAILABLE: Final = "ServicesUnavailable"


@dataclass(slots=True)
class _Network:
    """The network of a pod, or of the host. ``rules`` and ``listeners`` are what was applied last;
    None before that, or if the table is gone."""

    pod: AttachedPod
    table: str
    rules: Table | None = None
    listeners: Table = EMPTY
    listening: dict[str, dict[ClusterPort, tuple[str, int]]] = field(
        default_factory=dict[str, dict[ClusterPort, tuple[str, int]]]
    )
    """IP and port by port of each listener, by the listener's name."""
    stale: set[Backend] = field(default_factory=set[Backend])
    """UDP backends that left since their flows were forgotten."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    worker: asyncio.Task[None] | None = None
    replace: bool = False
    """True to replace the table completely, because the last try failed."""
    unavailable: str = ""
    """Why the last try could not enter the network; empty if it could."""
    reported: str = ""
    """The failure that was reported last; empty after a success."""


class Proxy:
    """Implements `podtui.services.protocol.ServiceNetwork`."""

    def __init__(
        self,
        cache: Cache,
        index: ServiceIndex,
        networks: PodNetworks,
        listeners: Sequence[PodListener],
        events: EventSink,
        clock: Clock,
        *,
        node_name: str,
        host_table: str,
    ) -> None:
        self._cache = cache
        self._index = index
        self._networks = networks
        self._listeners = listeners
        self._events = events
        self._clock = clock
        self._node_name = node_name
        self._host_table = host_table
        self._attached: dict[str, _Network] = {}
        self._host_pods: dict[str, AttachedPod] = {}
        self._ports: dict[Key, tuple[PortBackends, ...]] = {}
        self._changed: set[Key] = set()
        self._wake = asyncio.Event()
        self._table: Table | None = None
        """None until all objects have been listed."""
        self._ready = asyncio.Event()
        self._difference: tuple[Table, Table, str] = (EMPTY, EMPTY, "")
        """The last two tables that were compared, and the transaction between them."""
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._group: asyncio.TaskGroup | None = None
        self._warned: set[str] = set()
        index.observe(self._service_changed)
        cache.observe(Node, self._node_changed)

    # --- pods

    async def attach(self, pod: AttachedPod) -> None:
        sandbox_id = HOST if pod.host_network else pod.sandbox_id
        is_new = pod.host_network and pod.sandbox_id not in self._host_pods
        if pod.host_network:
            self._host_pods[pod.sandbox_id] = pod
        network = self._attached.get(sandbox_id)
        if network is not None:
            network.pod = replace(pod, sandbox_id=sandbox_id)
            if is_new and network.unavailable:
                self._report(network, UNAVAILABLE, network.unavailable)
            return
        table = self._host_table if pod.host_network else TABLE
        network = _Network(replace(pod, sandbox_id=sandbox_id), table)
        self._attached[sandbox_id] = network
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LISTED_SECONDS):
                    await self._ready.wait()
            await self._try(network)
        finally:
            # Also if the pass of the pod is cancelled.
            if network.rules is None:
                network.wake.set()
            self._start(network)

    def reaches(self, sandbox_id: str) -> bool:
        """Also for a pod whose rules could not be applied yet: they will be."""
        network = self._attached.get(HOST if sandbox_id in self._host_pods else sandbox_id)
        return network is not None and not network.unavailable

    async def detach(self, sandbox_id: str) -> None:
        if self._host_pods.pop(sandbox_id, None) is not None:
            if self._host_pods:
                return
            sandbox_id = HOST
        network = self._attached.pop(sandbox_id, None)
        if network is None:
            return
        if network.worker is not None:
            network.worker.cancel()
        for listener in self._listeners:
            await listener.detach(sandbox_id)
        if sandbox_id == HOST:
            await self._remove_host_table()

    async def _remove_host_table(self) -> None:
        try:
            await self._networks.set_rules(HOST, table_deletion(self._host_table))
        except EngineUnavailable:
            raise
        except PodtuiError as error:
            # Usually, the table does not exist.
            _LOG.debug("the table of the host's network is not removed: %s", error)

    # --- following the objects

    async def run(self) -> None:
        """Apply the changes of Services and of their endpoints. Runs forever."""
        await self._index.listed()
        await self._cache.listed((Node,))
        for service in self._index.services():
            self._changed.add((service.metadata.namespace, service.metadata.name))
        self._update_table()
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._remove_leftovers(), name="former rules of the host")
            group.create_task(self._check_all(), name="checks of the rules")
            for network in self._attached.values():
                network.worker = None
                network.wake.set()
                self._start(network)
            try:
                while True:
                    await self._wake.wait()
                    # Many objects may change at once, as in a rollout.
                    await self._clock.sleep(_GATHER_SECONDS)
                    self._wake.clear()
                    self._update_table()
            finally:
                # A group that ends starts no tasks, but pods may still be attached.
                self._group = None

    async def _remove_leftovers(self) -> None:
        """Remove the table in the host's network of an agent that was killed. A host-network pod
        that still runs needs it: the connections of the pod depend on it until it is attached."""
        while HOST not in self._attached:
            try:
                await self._networks.check_table(HOST, self._host_table)
                if not await self._networks.has_host_pods():
                    await self._remove_host_table()
                    network = self._attached.get(HOST)
                    if network is not None:
                        # A pod was attached meanwhile: perhaps its rules were removed.
                        network.rules = None
                        network.wake.set()
                    return
            except EngineUnavailable as error:
                _LOG.debug("former rules of the host are not checked yet: %s", error)
            except PodtuiError:
                return  # There is no table.
            await self._clock.sleep(_FIRST_RETRY)

    def _service_changed(self, changed: Key) -> None:
        self._changed.add(changed)
        self._wake.set()

    def _node_changed(self, before: object | None, after: object | None) -> None:
        if _addresses(before) != _addresses(after):
            self._wake.set()

    def _update_table(self) -> None:
        """Compute the table, and wake the workers if it is another one."""
        changed, self._changed = self._changed, set()
        stale: set[Backend] = set()
        for name in changed:
            ports = self._index.backends(name)
            stale |= removed_udp_backends(self._ports.pop(name, ()), ports)
            if ports:
                self._ports[name] = ports
        served = [
            key(port.ip, port.protocol, port.port)
            for listener in self._listeners
            for port in listener.ports
        ]
        table = service_table(
            (port for name in sorted(self._ports) for port in self._ports[name]),
            _addresses(self._cache.get(Node, "", self._node_name)),
            served,
        )
        self._ready.set()
        if table == self._table and not stale:
            return
        self._table = table
        for network in self._attached.values():
            network.stale |= stale
            network.wake.set()

    # --- applying

    def _start(self, network: _Network) -> None:
        attached = self._attached.get(network.pod.sandbox_id) is network
        if attached and self._group is not None and network.worker is None:
            name = f"rules of {network.pod.pod.metadata.name}"
            network.worker = self._group.create_task(self._keep(network), name=name)

    async def _keep(self, network: _Network) -> None:
        """Apply each new table, and a table that is gone. Runs until the pod is detached."""
        while True:
            await network.wake.wait()
            network.wake.clear()
            delay = _FIRST_RETRY
            while not await self._try(network):
                await self._clock.sleep(delay)
                delay = min(delay * 2, _LAST_RETRY)

    async def _check_all(self) -> NoReturn:
        """Check the tables regularly, one after the other: that costs less than if the agent woke
        up for each of them. Runs forever."""
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            for network in list(self._attached.values()):
                await self._check(network)

    async def _check(self, network: _Network) -> None:
        """Find out whether somebody removed the table. Then, the worker creates it again."""
        async with network.lock:
            if network.rules is None:
                return
            try:
                await self._networks.check_table(network.pod.sandbox_id, network.table)
            except (EngineUnavailable, EngineConflict, EngineNotFound):
                return
            except PodtuiError as error:
                network.rules = None
                text = f"the rules of Services are gone, and are created again: {error}"
                self._report(network, RESTORED, text)
                network.wake.set()

    async def _try(self, network: _Network) -> bool:
        """Apply the current table; return whether that succeeded."""
        if self._table is None:
            # A table without the Services would break the connections of a running pod.
            return False
        try:
            async with network.lock, self._slots:
                await self._listen(network)
                await self._apply(network, self._table)
        except NetworkUnavailable as error:
            on_host = network.pod.host_network
            whose = "pods with the host's network" if on_host else "pods"
            text = f"{whose} cannot reach Services: {error}"
            if on_host and not network.unavailable:
                # Pods with networks of their own may reach them.
                self._report(network, UNAVAILABLE, text)
            network.unavailable = text
            self._warn(text)
            return False
        except (EngineUnavailable, EngineConflict, EngineNotFound) as error:
            # The engine is away, or the pod ends.
            _LOG.debug("the rules of %s are not applied: %s", network.pod.sandbox_id, error)
            return False
        except PodtuiError as error:
            if network.reported != str(error):
                network.reported = str(error)
                self._report(network, FAILED, f"failed to apply the rules of Services: {error}")
            network.rules, network.replace = None, True
            return False
        network.reported, network.unavailable, network.replace = "", "", False
        await self._forget_flows(network)
        return True

    async def _listen(self, network: _Network) -> None:
        """Attach the listeners that are not attached yet."""
        sandbox_id = network.pod.sandbox_id
        for listener in self._listeners:
            if listener.name in network.listening:
                continue
            addresses: dict[ClusterPort, tuple[str, int]] = {}
            sockets: list[socket.socket] = []
            try:
                for port in listener.ports:
                    sock = await self._networks.listen(sandbox_id, port.protocol, listener.address)
                    sockets.append(sock)
                    addresses[port] = (listener.address, sock.getsockname()[1])
            except BaseException:
                for sock in sockets:
                    sock.close()
                raise
            await listener.attach(network.pod, sockets)
            network.listening[listener.name] = addresses

    async def _apply(self, network: _Network, table: Table) -> None:
        ports = {p: a for addresses in network.listening.values() for p, a in addresses.items()}
        listeners = listener_table(ports)
        if network.rules is None:
            # A former agent may have left a table, with the clients of session affinity.
            keep = not network.replace
            rules = creation(merged(listeners, table), network.table, keep_clients=keep)
        else:
            rules = difference(network.listeners, listeners, network.table)
            rules += self._difference_of(network.rules, table, network.table)
        if rules:
            await self._networks.set_rules(network.pod.sandbox_id, rules)
        network.rules, network.listeners = table, listeners

    def _difference_of(self, old: Table, new: Table, name: str) -> str:
        """Return `difference`. Most pods have the same table, so that it is computed once."""
        if name != TABLE:
            return difference(old, new, name)
        if self._difference[0] is not old or self._difference[1] is not new:
            self._difference = (old, new, difference(old, new))
        return self._difference[2]

    async def _forget_flows(self, network: _Network) -> None:
        """The kernel leads the packets of a UDP socket to the same backend until they pause."""
        stale, network.stale = network.stale, set()
        for backend in sorted(stale):
            try:
                await self._networks.forget_flows(network.pod.sandbox_id, backend.ip, backend.port)
            except (EngineUnavailable, EngineConflict, EngineNotFound):
                return
            except PodtuiError as error:
                self._warn(f"UDP sockets may keep a backend that is gone: {error}")

    # --- events

    def _report(self, network: _Network, reason: str, message: str) -> None:
        self._events.record(COMPONENT, network.pod.pod, "Warning", reason, message)

    def _warn(self, message: str) -> None:
        """Record an event of the node, once for each message."""
        if message not in self._warned:
            self._warned.add(message)
            _LOG.warning("%s", message)
            node = self._cache.get(Node, "", self._node_name) or Node(
                metadata=ObjectMeta(name=self._node_name)
            )
            self._events.record(COMPONENT, node, "Warning", UNAVAILABLE, message)


def _addresses(node: object | None) -> tuple[str, ...]:
    """Return the addresses of a node at which pods reach node ports."""
    if not isinstance(node, Node):
        return ()
    return tuple(item.address for item in node.status.addresses if item.type == "InternalIP")
