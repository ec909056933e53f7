"""The kubelet's ports to the API server of a cluster.

The agent's records hold a copy of what this node is about: the pods that are bound to it, the node,
and the events of its kubelet. The agent's own API serves the copy, so that the screen and ``podtui
status`` work while the API server is away. What the kubelet writes is in the copy at once, and then
goes to the API server. Its answer, and a watch, replace the copy.

Pods, the node, Services and RuntimeClasses are followed by one watch each. ConfigMaps and Secrets
are followed one by one, and only those of pods on this node: the node authorizer permits no more.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NoReturn, TypeVar, cast

from msgspec import structs

from podtui.agent.cluster_state import (
    ClusterState,
    is_refusal,
    mirror_problem,
    problem,
    well,
    without_state,
)
from podtui.agent.status_patch import status_patch
from podtui.api.cluster import NOT_REGISTERED
from podtui.api.names import (
    CLUSTER,
    CLUSTER_UNAVAILABLE,
    KILLS,
    LACKS,
    LEASE_NOT_RENEWED,
    MIRROR_PROBLEM,
    NODE_REFUSED,
    PULL_PROGRESS,
    STATIC_POD_PATH,
    WOULD_FIT,
)
from podtui.api.objects import Object
from podtui.api.pod_resources import is_static
from podtui.api.pods import is_mirror
from podtui.api.storage import CSIDriver, CSINode, VolumeAttachment
from podtui.api.times import parse_time, rfc3339_micros
from podtui.api.v1 import (
    ConfigMap,
    Event,
    Lease,
    LeaseSpec,
    Node,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    Pod,
    PodStatus,
    RuntimeClass,
    Secret,
    Service,
    ServiceAccount,
    Struct,
)
from podtui.client.api_client import ApiClient
from podtui.client.cache import Cache
from podtui.client.decoding import decode_response
from podtui.client.protocol import Changed, Delta, Lost, Synced
from podtui.clock import Clock
from podtui.errors import AlreadyExists, ApiError, NotFound, PodtuiError
from podtui.kubelet.ports import PodChanges, Ports, Token, TokenRequest
from podtui.manifest.objects import DocumentKind, ObjectKey, references
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
LEASES: Final = "kube-node-lease"
API_SERVICE: Final = ("default", "kubernetes")
LISTED_SECONDS: Final = 10.0
"""The time that a caller waits for the first list of a kind."""
EVENT_TRIES: Final = 12
EVENT_RETRY_SECONDS: Final = 10.0
EVENT_QUEUE: Final = 1000
"""client-go's recorder: after these tries, and beyond this number, events are dropped."""
_PASSING: Final = (429, 503, 504)
"""The status codes after which an event is tried again; a kubelet drops it."""
HEARTBEAT_SECONDS: Final = 10.0
"""The kubelet's timeout for writing the lease, which is valid for 40 seconds."""
CLAIM_SECONDS: Final = 5.0
"""Between two reads of a claim that is not bound: nodes may not watch claims."""
_LOCAL: Final = (KILLS, LACKS, PULL_PROGRESS, WOULD_FIT)
"""Annotations of mirror pods that exist only in the copy: a node may not write them."""
_UNANSWERED: Final = "the API server has not answered"
_UNREAD_SERVICES: Final = "services have not yet been read at least once, cannot construct envvars"
T = TypeVar("T", bound=Object)


class ClusterApi:
    """The parts that all ports share: the client, the followed objects and the copy. The client has
    credentials as soon as ``authenticated`` is set. Unless ``registers``, the node is created by
    others."""

    def __init__(
        self,
        client: ApiClient,
        copy: Records,
        clock: Clock,
        node_name: str,
        authenticated: asyncio.Event | None = None,
        *,
        registers: bool = True,
    ) -> None:
        self._authenticated = authenticated
        self.registers = registers
        self.client = client
        self.copy = copy
        self.clock = clock
        self.node_name = node_name
        self.cache = Cache()
        for kind in (Pod, Node, Service, RuntimeClass):
            self.cache.add_kind(kind)
        self.state = ClusterState(clock)
        self.answers: bool | None = None
        """True if the last request was answered; None before the first answer."""
        self.has_listed = False
        """True if the pods of this node were listed since the start."""

    async def restore(self) -> None:
        """Continue with the state in the copy of an earlier agent."""
        node = await self.copy.get("nodes", "", self.node_name)
        if isinstance(node, Node):
            self.state.restore(node)

    async def follow(self, kind: type[T]) -> AsyncGenerator[Delta]:
        """Follow the objects of a kind that belong to this node."""
        fields: dict[type[Object], str] = {
            Pod: f"spec.nodeName={self.node_name}",
            Node: f"metadata.name={self.node_name}",
        }
        async for delta in self.client.follow(kind, fields=fields.get(kind, "")):
            if kind is Pod:
                self._report_answer(delta)
            yield delta

    def _report_answer(self, delta: Delta) -> None:
        self.answers = not isinstance(delta, Lost)
        if not isinstance(delta, Lost):
            self.has_listed = True
            text = f"{self.client.target} answers"
            self.state.report(well(CLUSTER_UNAVAILABLE, "ClusterAnswers", text))
            return
        reason = "ClusterRefuses" if delta.refused else "ClusterLost"
        self.state.report(problem(CLUSTER_UNAVAILABLE, PodtuiError(delta.reason), reason))

    async def run(self) -> None:
        """Follow all kinds, as soon as there are credentials. Runs forever."""
        if self._authenticated is not None:
            await self._authenticated.wait()
        await self.cache.run(self)

    async def listed(self, kind: type[Object], error: str) -> None:
        """Wait for the first list of a kind. Raises `PodtuiError` with ``error`` after
        `LISTED_SECONDS`."""
        try:
            async with asyncio.timeout(LISTED_SECONDS):
                await self.cache.listed((kind,))
        except TimeoutError:
            raise PodtuiError(error) from None

    async def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Ask the API server for an object."""
        try:
            return await self.client.get(kind, namespace, name)
        except ApiError as error:
            if error.code == 404:
                return None
            raise


@contextmanager
def missing_as_not_found() -> Any:
    """Raise `NotFound` for an object that does not exist, or has another UID."""
    try:
        yield
    except ApiError as error:
        if error.code in (404, 409):
            raise NotFound(str(error)) from error
        raise


def cluster_ports(api: ClusterApi) -> ClusterPorts:
    documents = ClusterDocuments(api)
    pods, events, node = ClusterPods(api, documents), ClusterEvents(api), ClusterNode(api)
    return ClusterPorts(
        ports=Ports(
            pods=pods,
            events=events,
            node=node,
            documents=documents,
            runtime_classes=ClusterRuntimeClasses(api),
            tokens=ClusterTokens(api),
            claims=ClusterClaims(api),
            storage=ClusterStorage(api),
            services=ClusterServices(api),
        ),
        jobs={
            "objects of the cluster": api.run,
            "copy of the node": node.run,
            "copy of the pods": pods.run,
            "events for the cluster": events.run,
            "documents of the cluster": documents.run,
        },
    )


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """``jobs`` run as long as the kubelet does."""

    ports: Ports
    jobs: Mapping[str, Callable[[], Awaitable[object]]]


class ClusterPods:
    """``documents`` follows the ConfigMaps and Secrets of the pods."""

    def __init__(self, api: ClusterApi, documents: ClusterDocuments) -> None:
        self._api = api
        self._documents = documents
        self._unsent: dict[str, PodStatus] = {}
        """The statuses that are not yet written, by UID."""
        self._local: dict[str, dict[str, str]] = {}
        """The annotations of mirror pods that exist only in the copy, by UID."""
        self._unmirrored: dict[tuple[str, str], tuple[Pod, str]] = {}
        """The static pods that have no mirror pod in the cluster, and why. They are in the copy."""
        self._changed: dict[str, Pod | None] = {}
        self._wake = asyncio.Event()
        self._to_copy: dict[tuple[str, str], None] = {}
        self._copy_wake = asyncio.Event()
        api.cache.observe(Pod, self._on_change)

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        pod = cast("Pod | None", after)
        meta = cast("Pod", after or before).metadata
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            uid = before.metadata.uid
            self._changed[uid] = None
            self._unsent.pop(uid, None)
            self._local.pop(uid, None)
        if pod is not None:
            self._changed[pod.metadata.uid] = pod
            self._unmirrored.pop(_key(pod), None)
        self._wake.set()
        self._copy_soon((meta.namespace, meta.name))

    # --- the copy

    def _copy_soon(self, key: tuple[str, str]) -> None:
        self._to_copy[key] = None
        self._copy_wake.set()

    async def run(self) -> None:
        """Keep the copy up to date. Runs forever."""
        await self._api.cache.listed((Pod,))
        listed = {_key(pod) for pod in self._api.cache.list(Pod)}
        for item in (await self._api.copy.list("pods")).items:
            if _key(item) not in listed and _key(item) not in self._unmirrored:
                await self._api.copy.delete("pods", *_key(item))
        while True:
            await self._copy_wake.wait()
            self._copy_wake.clear()
            while self._to_copy:
                key = next(iter(self._to_copy))
                del self._to_copy[key]
                await self._copy(key)

    async def _copy(self, key: tuple[str, str]) -> None:
        pod = self._api.cache.get(Pod, *key)
        if pod is None and key in self._unmirrored:
            pod, why = self._unmirrored[key]
            annotations = {**pod.metadata.annotations, MIRROR_PROBLEM: why}
            meta = structs.replace(pod.metadata, annotations=annotations)
            await self._api.copy.put("pods", structs.replace(pod, metadata=meta))
            return
        if pod is None:
            await self._api.copy.delete("pods", *key)
            return
        meta = pod.metadata
        local = self._local.get(meta.uid)
        if local:
            meta = structs.replace(meta, annotations={**meta.annotations, **local})
        status = self._unsent.get(meta.uid, pod.status)
        await self._api.copy.put("pods", structs.replace(pod, metadata=meta, status=status))

    # --- reading

    async def changes(self) -> AsyncIterator[PodChanges]:
        await self._api.cache.listed((Pod,))
        self._changed.clear()
        pods = {pod.metadata.uid: pod for pod in self._api.cache.list(Pod)}
        self._documents.follow_those_of(self._api.cache.list(Pod))
        yield PodChanges(pods, complete=True)
        while True:
            await self._wake.wait()
            self._wake.clear()
            changed, self._changed = self._changed, {}
            if changed:
                self._documents.follow_those_of(self._api.cache.list(Pod))
                yield PodChanges(changed)

    async def list(self) -> tuple[Pod, ...]:
        """Return the copy, which is there before the API server answers."""
        items = (await self._api.copy.list("pods")).items
        return tuple(item for item in items if isinstance(item, Pod))

    async def get(self, namespace: str, name: str) -> Pod | None:
        """Return the pod; also a static pod that has no mirror pod yet."""
        if self._api.answers is not False:
            # Before the first list, an existing mirror pod would be created again.
            await self._api.listed(Pod, "the pods of the cluster are not known yet")
        pod = self._api.cache.get(Pod, namespace, name)
        return pod or self._unmirrored.get((namespace, name), (None, ""))[0]

    # --- writing

    async def create(self, pod: Pod) -> Pod:
        """Create a mirror pod. Until it is created, the copy has the static pod and the reason."""
        key = _key(pod)
        if key in self._unmirrored:
            why = self._unmirrored[key][1]
        else:
            why = self._mirror_problem(PodtuiError(_UNANSWERED))
        self._unmirrored[key] = pod, why
        await self._copy(key)
        try:
            created = await self._create(pod)
        except PodtuiError as error:
            self._unmirrored[key] = pod, self._mirror_problem(error)
            await self._copy(key)
            raise
        self._unmirrored.pop(key, None)
        self._api.cache.put(created)
        return await self.update(created, lambda stored: _with_state_of(stored, pod))

    def _mirror_problem(self, error: PodtuiError) -> str:
        return mirror_problem(error, is_known=self._api.has_listed)

    async def _create(self, pod: Pod) -> Pod:
        meta = pod.metadata
        owner = next((ref for ref in meta.ownerReferences if ref.kind == "Node"), None)
        if owner is not None and not owner.uid:
            raise PodtuiError(f'node "{self._api.node_name}" is not registered yet')
        annotations = {key: text for key, text in meta.annotations.items() if key not in _LOCAL}
        sent = ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            labels=meta.labels,
            annotations=annotations,
            ownerReferences=meta.ownerReferences,
        )
        try:
            new = structs.replace(pod, metadata=sent, status=PodStatus())
            return await self._api.client.create(Pod, new)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                raise AlreadyExists(str(error)) from error
            raise

    async def update(self, pod: Pod, change: Callable[[Pod], Pod]) -> Pod:
        meta = pod.metadata
        if self._is_unmirrored(pod):
            return await self.create(change(pod))
        stored = self._api.cache.get(Pod, meta.namespace, meta.name)
        if stored is None or stored.metadata.uid != meta.uid:
            raise NotFound(f'pods "{meta.name}" not found')
        new = change(stored)
        local = {key: new.metadata.annotations[key] for key in _LOCAL
                 if key in new.metadata.annotations} if is_mirror(stored) else {}  # fmt: skip
        patch = status_patch(stored.status, new.status)
        if local != self._local.get(meta.uid, {}) or patch:
            self._local[meta.uid], self._unsent[meta.uid] = local, new.status
            await self._copy(_key(stored))
        if patch:
            body = {"metadata": {"uid": meta.uid}, "status": patch}
            with missing_as_not_found():
                stored = await self._api.client.patch(
                    Pod, meta.namespace, meta.name, body, subresource="status"
                )
            self._api.cache.put(stored)
        self._unsent.pop(meta.uid, None)
        await self._copy(_key(stored))
        return stored

    def _is_unmirrored(self, pod: Pod) -> bool:
        stored = self._api.cache.get(Pod, *_key(pod))
        return stored is None and _key(pod) in self._unmirrored

    async def delete(self, pod: Pod) -> None:
        meta = pod.metadata
        if self._is_unmirrored(pod):
            del self._unmirrored[_key(pod)]
            await self._copy(_key(pod))
            return
        if not meta.finalizers:
            await self._api.copy.delete("pods", meta.namespace, meta.name)
        try:
            with missing_as_not_found():
                await self._api.client.delete(
                    Pod, meta.namespace, meta.name, uid=meta.uid, grace_seconds=0
                )
        except NotFound:
            # It is gone: the watch removes it.
            return
        if not meta.finalizers:
            self._api.cache.remove(pod)


def _with_state_of(stored: Pod, pod: Pod) -> Pod:
    annotations = {**stored.metadata.annotations, **pod.metadata.annotations}
    meta = structs.replace(stored.metadata, annotations=annotations)
    return structs.replace(stored, metadata=meta, status=pod.status)


def _key(item: Object) -> tuple[str, str]:
    return item.metadata.namespace, item.metadata.name


class ClusterEvents:
    """Events wait in a queue for the API server, as in client-go: a write that failed is tried
    `EVENT_TRIES` times, the second time after a random part of `EVENT_RETRY_SECONDS`, so that the
    nodes of a cluster do not return together. ``jitter`` returns that part, from 0 to 1."""

    def __init__(self, api: ClusterApi, jitter: Callable[[], float] = random.random) -> None:
        self._api = api
        self._jitter = jitter
        self._queue: deque[Event] = deque()
        self._sent: dict[tuple[str, str], None] = {}
        self._wake = asyncio.Event()

    async def put(self, event: Event) -> None:
        await self._api.copy.put("events", event)
        if len(self._queue) >= EVENT_QUEUE:
            _LOG.warning("the queue of events is full: %s is dropped", event.metadata.name)
            return
        self._queue.append(event)
        self._wake.set()

    async def run(self) -> None:
        """Write the events to the API server. Runs forever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._write(self._queue.popleft())

    async def _write(self, event: Event) -> None:
        for attempt in range(1, EVENT_TRIES + 1):
            try:
                await self._send(event)
            except PodtuiError as error:
                is_final = isinstance(error, ApiError) and error.code not in _PASSING
                if is_final or attempt == EVENT_TRIES:
                    _LOG.warning("cannot write event %s: %s", event.metadata.name, error)
                    return
                share = self._jitter() if attempt == 1 else 1.0
                await self._api.clock.sleep(EVENT_RETRY_SECONDS * share)
            else:
                return

    async def _send(self, event: Event) -> None:
        key = _key(event)
        if key in self._sent:
            body = {
                "count": event.count,
                "lastTimestamp": event.lastTimestamp,
                "message": event.message,
            }
            try:
                await self._api.client.patch(Event, *key, body)
                return
            except ApiError as error:
                # The API server has expired it.
                if error.code != 404:
                    raise
        await self._api.client.create(Event, event)
        self._sent[key] = None
        if len(self._sent) > EVENT_QUEUE:
            del self._sent[next(iter(self._sent))]


class ClusterNode:
    """The copy of the node also has the state of its membership (`ClusterState`)."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._lease: Lease | None = None
        self._unanswered = 0
        """The number of heartbeats in a row without an answer."""
        self._local: dict[str, str] = {}
        """The annotations that exist only in the copy."""
        self._copied: Node | None = None
        """The node as it was last copied, without the state."""
        self._changed = asyncio.Event()
        self._state_changed = asyncio.Event()
        api.cache.observe(Node, lambda _, __: self._changed.set())
        api.state.on_change = self._state_changed.set

    async def run(self) -> NoReturn:
        """Show each change of the state in the copy. Runs forever."""
        while True:
            await self._state_changed.wait()
            self._state_changed.clear()
            if self._copied is not None:
                await self._put_copy(self._copied)

    async def snapshots(self) -> AsyncIterator[Node | None]:
        await self._api.cache.listed((Node,))
        while True:
            self._changed.clear()
            node = self._stored()
            # The copy of a node that is gone stays: the kubelet registers the node again.
            yield None if node is None else await self._copy(node)
            await self._changed.wait()

    def _stored(self) -> Node | None:
        return self._api.cache.get(Node, "", self._api.node_name)

    async def _copy(self, node: Node) -> Node:
        """Copy the node, and return it as the kubelet sees it."""
        self._copied = _with_annotations(node, {**node.metadata.annotations, **self._local})
        await self._put_copy(self._copied)
        return self._copied

    async def _put_copy(self, node: Node) -> None:
        annotations = {**node.metadata.annotations, CLUSTER: self._api.client.target}
        shown = self._api.state.added_to(_with_annotations(node, annotations))
        await self._api.copy.put("nodes", shown)

    def _sent(self, node: Node) -> Node:
        """Return the node as the API server gets it."""
        annotations = node.metadata.annotations
        self._local = {key: text for key, text in annotations.items() if key == STATIC_POD_PATH}
        return _with_annotations(
            node, {key: text for key, text in annotations.items() if key not in self._local}
        )

    async def get(self) -> Node | None:
        """Return the node, or the copy of it while the API server is away or refuses to answer.
        Without a copy, the node counts as missing: its registration makes one, even in vain."""
        try:
            node = await self._api.get(Node, "", self._api.node_name)
        except PodtuiError:
            copy = await self._api.copy.get("nodes", "", self._api.node_name)
            if copy is None:
                return None
            return await self._copy(_as_registered(cast("Node", copy)))
        if node is None:
            return None
        self._api.cache.put(node)
        return await self._copy(node)

    async def create(self, node: Node) -> Node:
        await self._copy(node)
        new = self._sent(node)
        meta = structs.replace(new.metadata, uid="", resourceVersion="", creationTimestamp=None)
        with self._reported():
            created = await self._api.client.create(Node, structs.replace(new, metadata=meta))
        self._api.cache.put(created)
        return await self._copy(created)

    @contextmanager
    def _reported(self) -> Any:
        """Report whether the API server accepts a write of the node."""
        try:
            yield
        except ApiError as error:
            if is_refusal(error):
                self._api.state.report(problem(NODE_REFUSED, error))
            raise
        text = f'node "{self._api.node_name}" is registered'
        self._api.state.report(well(NODE_REFUSED, "NodeRegistered", text))

    async def update(self, change: Callable[[Node], Node]) -> Node:
        stored = self._stored() or await self.get()
        if stored is None:
            raise await self._missing(change)
        node = change(await self._copy(stored))
        new = self._sent(node)
        await self._copy(new)
        metadata = {
            key: _map_patch(getattr(stored.metadata, key), getattr(new.metadata, key))
            for key in ("labels", "annotations")
        }
        with missing_as_not_found():
            if any(metadata.values()):
                stored = await self._patch({"metadata": metadata})
            if patch := status_patch(stored.status, new.status):
                stored = await self._patch({"status": patch}, "status")
        return await self._copy(stored)

    async def _missing(self, change: Callable[[Node], Node]) -> NotFound:
        """Return the error for a node that does not exist. If the kubelet does not register it, the
        copy shows it nevertheless, with the reason."""
        name = self._api.node_name
        if self._api.registers:
            return NotFound(f'nodes "{name}" not found')
        error = NotFound(f'the cluster has no node "{name}", and registerNode is false')
        self._api.state.report(problem(NODE_REFUSED, error, NOT_REGISTERED))
        await self._copy(change(Node(apiVersion="v1", kind="Node", metadata=ObjectMeta(name=name))))
        return error

    async def _patch(self, patch: Mapping[str, Any], subresource: str = "") -> Node:
        with self._reported():
            node = await self._api.client.patch(
                Node, "", self._api.node_name, patch, subresource=subresource
            )
        self._api.cache.put(node)
        return node

    async def renew_lease(self, seconds: int) -> None:
        """Renew the lease within `HEARTBEAT_SECONDS`. If that fails twice in a row, close all
        connections, as a kubelet does: they may lead nowhere."""
        try:
            await self._renew_in_time(seconds)
        except PodtuiError as error:
            self._api.state.report(problem(LEASE_NOT_RENEWED, error))
            raise
        text = f"{LEASES}/{self._api.node_name} is valid for {seconds} s after each renewal"
        self._api.state.report(well(LEASE_NOT_RENEWED, "LeaseRenewed", text))

    async def _renew_in_time(self, seconds: int) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._renew_lease(seconds)
        except TimeoutError:
            self._unanswered += 1
            if self._unanswered > 1:
                await self._api.client.reset()
            text = f"the API server has not answered within {HEARTBEAT_SECONDS:g} s"
            raise PodtuiError(text) from None
        self._unanswered = 0

    async def _renew_lease(self, seconds: int) -> None:
        """Write the lease from the last answer; if another client changed it, read it first."""
        if self._lease is not None:
            try:
                self._lease = await self._api.client.update(
                    Lease, self._renewed(self._lease, seconds)
                )
                return
            except ApiError as error:
                _LOG.info("the node's lease is read again: %s", error)
        self._lease = await self._api.get(Lease, LEASES, self._api.node_name)
        if self._lease is None:
            new = self._renewed(self._new_lease(), seconds)
            self._lease = await self._api.client.create(Lease, new)
        else:
            new = self._renewed(self._lease, seconds)
            self._lease = await self._api.client.update(Lease, new)

    def _renewed(self, lease: Lease, seconds: int) -> Lease:
        spec = structs.replace(
            lease.spec,
            holderIdentity=self._api.node_name,
            leaseDurationSeconds=seconds,
            renewTime=rfc3339_micros(self._api.clock.now()),
        )
        return structs.replace(lease, spec=spec)

    def _new_lease(self) -> Lease:
        name, node = self._api.node_name, self._stored()
        owners: tuple[OwnerReference, ...] = ()
        if node is not None:
            uid = node.metadata.uid
            owners = (OwnerReference(apiVersion="v1", kind="Node", name=name, uid=uid),)
        meta = ObjectMeta(name=name, namespace=LEASES, ownerReferences=owners)
        return Lease(
            apiVersion="coordination.k8s.io/v1", kind="Lease", metadata=meta, spec=LeaseSpec()
        )


def _as_registered(copy: Node) -> Node:
    """Return the node of a copy, without what only the copy has: also the UID, if the cluster has
    never accepted the node."""
    annotations = copy.metadata.annotations.items()
    node = _with_annotations(copy, {key: text for key, text in annotations if key != CLUSTER})
    if not any(c.type == NODE_REFUSED and c.status == "False" for c in copy.status.conditions):
        node = structs.replace(node, metadata=structs.replace(node.metadata, uid=""))
    return without_state(node)


def _with_annotations(node: Node, annotations: Mapping[str, str]) -> Node:
    metadata = structs.replace(node.metadata, annotations=dict(annotations))
    return structs.replace(node, metadata=metadata)


def _map_patch(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    patch: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
    return patch | {key: text for key, text in after.items() if before.get(key) != text}


@dataclass(slots=True)
class _Watch:
    """The watch of one document. ``answered`` is set by its first answer."""

    task: asyncio.Task[None]
    answered: asyncio.Event
    document: ConfigMap | Secret | None = None
    problem: str = ""


_DOCUMENTS: Final[Mapping[DocumentKind, type[ConfigMap] | type[Secret]]] = {
    "ConfigMap": ConfigMap,
    "Secret": Secret,
}


class ClusterDocuments:
    """The ConfigMaps and Secrets that the API pods of this node name. Mirror pods name none."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._watches: dict[ObjectKey, _Watch] = {}
        self._wanted: frozenset[ObjectKey] = frozenset()
        self._wanted_changed = asyncio.Event()
        self._readers: dict[DocumentKind, asyncio.Queue[ObjectKey]] = {
            kind: asyncio.Queue() for kind in _DOCUMENTS
        }

    def follow_those_of(self, pods: Iterable[Pod]) -> None:
        """Follow the documents of these pods, and no others."""
        keys = (references(pod).keys for pod in pods if not is_mirror(pod))
        self._wanted = frozenset[ObjectKey]().union(*keys)
        self._wanted_changed.set()

    async def run(self) -> NoReturn:
        """Start and end watches. Runs forever."""
        # The watches of a run that failed have ended: what they read may be old.
        self._watches.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                self._wanted_changed.clear()
                for key in self._watches.keys() - self._wanted:
                    self._watches.pop(key).task.cancel()
                for key in self._wanted - self._watches.keys():
                    answered = asyncio.Event()
                    task = group.create_task(self._follow(key), name=f"follow {key}")
                    self._watches[key] = _Watch(task, answered)
                await self._wanted_changed.wait()
        raise AssertionError("unreachable")

    async def _follow(self, key: ObjectKey) -> None:
        kind, namespace, name = key
        # The node authorizer may learn of a pod after its node has, so a refusal passes at once.
        objects = self._api.client.follow(
            _DOCUMENTS[kind], namespace, fields=f"metadata.name={name}", refused_delay=0.0
        )
        async for delta in objects:
            watch = self._watches[key]
            if isinstance(delta, Lost):
                watch.problem = delta.reason
                watch.answered.set()
                continue
            items = cast("tuple[ConfigMap | Secret, ...]", delta.items)
            gone = not items or not isinstance(delta, Synced | Changed)
            watch.document, watch.problem = (None if gone else items[-1]), ""
            watch.answered.set()
            self._readers[kind].put_nowait(key)

    async def get(self, key: ObjectKey) -> ConfigMap | Secret | None:
        watch = self._watches.get(key)
        if watch is not None:
            try:
                async with asyncio.timeout(LISTED_SECONDS):
                    await watch.answered.wait()
            except TimeoutError:
                watch.problem = "the API server does not answer"
            # While the API server is away, pods can be started with what was read last.
            if not watch.problem or watch.document is not None:
                return watch.document
        kind, namespace, name = key
        return await self._api.get(_DOCUMENTS[kind], namespace, name)

    async def changes(self, kind: DocumentKind) -> AsyncIterator[ObjectKey]:
        while True:
            yield await self._readers[kind].get()


class ClusterRuntimeClasses:
    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def get(self, name: str) -> RuntimeClass | None:
        await self._api.listed(RuntimeClass, "the RuntimeClasses of the cluster are not known yet")
        return self._api.cache.get(RuntimeClass, "", name)


class ClusterServices:
    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def of(self, pod: Pod) -> tuple[Service, ...]:
        """Return the Services. A static pod has to start without the API server."""
        if not is_static(pod):
            await self._api.listed(Service, _UNREAD_SERVICES)
        namespace, cache = pod.metadata.namespace, self._api.cache
        services = cache.list(Service, namespace)
        api = None if namespace == API_SERVICE[0] else cache.get(Service, *API_SERVICE)
        return (*services, *([] if api is None else [api]))


class ClusterClaims:
    """A node may read a claim of its pods, but not watch it: one that is not bound is read again
    after `CLAIM_SECONDS`."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._unbound: dict[tuple[str, str], None] = {}

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        claim = await self._api.get(PersistentVolumeClaim, namespace, name)
        if claim is None or claim.status.phase != "Bound":
            self._unbound[namespace, name] = None
        return claim

    async def volume(self, name: str) -> PersistentVolume | None:
        return await self._api.get(PersistentVolume, "", name)

    async def set_status(
        self, claim: PersistentVolumeClaim, status: PersistentVolumeClaimStatus
    ) -> PersistentVolumeClaim:
        meta, patch = claim.metadata, status_patch(claim.status, status)
        if not patch:
            return claim
        body = {"metadata": {"resourceVersion": meta.resourceVersion}, "status": patch}
        return await self._api.client.patch(
            PersistentVolumeClaim, meta.namespace, meta.name, body, subresource="status"
        )

    async def changes(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            await self._api.clock.sleep(CLAIM_SECONDS)
            waiting, self._unbound = self._unbound, {}
            for key in waiting:
                yield key


class ClusterStorage:
    """Objects are read when a volume is mounted, not followed: mounts are rare."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def driver(self, name: str) -> CSIDriver | None:
        return await self._api.get(CSIDriver, "", name)

    async def attachment(self, name: str) -> VolumeAttachment | None:
        return await self._api.get(VolumeAttachment, "", name)

    async def node(self) -> CSINode | None:
        return await self._api.get(CSINode, "", self._api.node_name)

    async def set_node(self, change: Callable[[CSINode | None], CSINode]) -> None:
        """Raises `PodtuiError`, also if another client changes the object meanwhile."""
        stored = await self.node()
        new = change(stored)
        if stored is None:
            await self._api.client.create(CSINode, new)
        elif new != stored:
            await self._api.client.update(CSINode, new)


class _TokenStatus(Struct, frozen=True, kw_only=True):
    token: str = ""
    expirationTimestamp: str = ""


class _TokenSpec(Struct, frozen=True, kw_only=True):
    expirationSeconds: int = 0


class _TokenAnswer(Struct, frozen=True, kw_only=True):
    spec: _TokenSpec = _TokenSpec()
    status: _TokenStatus = _TokenStatus()


class ClusterTokens:
    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def changes(self) -> AsyncIterator[tuple[str, str]]:
        """Yield nothing: a node may not watch service accounts."""
        await asyncio.Event().wait()
        yield "", ""

    async def token(self, request: TokenRequest) -> Token:
        meta = request.pod.metadata
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [request.audience] if request.audience else [],
                "expirationSeconds": request.seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta.name,
                    "uid": meta.uid,
                },
            },
        }
        requested = self._api.clock.now()
        raw = await self._api.client.create_sub(
            ServiceAccount, meta.namespace, request.service_account, "token", body
        )
        answer = decode_response("token", raw, _TokenAnswer)
        status, seconds = answer.status, answer.spec.expirationSeconds
        # The clocks of both machines may differ: the granted life counts from here.
        expires = (
            requested + timedelta(seconds=seconds)
            if seconds
            else parse_time(status.expirationTimestamp)
        )
        if not status.token or expires is None:
            raise PodtuiError("the API server answered a TokenRequest without a token")
        return Token(text=status.token, expires=expires)
