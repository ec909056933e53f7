"""The kubelet's ports to the records of this agent, which take the place of an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, cast

from msgspec import structs

from podtui.agent.kubelet_fields import MANAGER, as_created, with_status
from podtui.api.objects import Object, T
from podtui.api.pod_resources import is_static
from podtui.api.storage import CSIDriver, CSINode, VolumeAttachment
from podtui.api.times import rfc3339, rfc3339_micros
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
    RuntimeClass,
    Secret,
    Service,
)
from podtui.client.protocol import Changed, Delta, Removed, Synced
from podtui.clock import Clock
from podtui.errors import NotFound, PodtuiError, StoreGone
from podtui.kubelet.ports import (
    PodChanges,
    PodNetwork,
    Ports,
    ServiceAccountTokens,
    Token,
    TokenRequest,
)
from podtui.manifest.objects import DocumentKind, ObjectKey
from podtui.server.auth.service_accounts import BoundObject, TokenRegistry
from podtui.server.resources.field_managers import managed
from podtui.server.resources.kubernetes_service import API_SERVICE
from podtui.server.status import MODIFIED, StatusError
from podtui.store.protocol import Records, WatchType
from podtui.store.resources import RESOURCES, Resource

LEASES: Final = "kube-node-lease"
_RESOURCES_OF_TYPES: Final[Mapping[type[Object], Resource]] = {
    kept.type: resource for resource, kept in RESOURCES.items()
}
_RESOURCES: Final[Mapping[DocumentKind, Resource]] = {
    "ConfigMap": "configmaps",
    "Secret": "secrets",
}


def home_ports(
    records: Records,
    clock: Clock,
    node_name: str,
    tokens: ServiceAccountTokens | None = None,
    network: PodNetwork | None = None,
) -> Ports:
    """Return the ports of a kubelet whose API is the records of its own agent."""
    return Ports(
        pods=HomePods(records, clock, node_name),
        events=HomeEvents(records, clock),
        node=HomeNode(records, clock, node_name),
        documents=HomeDocuments(records),
        runtime_classes=HomeRuntimeClasses(records),
        tokens=tokens,
        claims=HomeClaims(records, clock),
        storage=HomeStorage(records, clock, node_name),
        network=network,
        services=HomeServices(records),
    )


class HomeObjects:
    """The objects of the records, as the scheduler and the controllers follow them. They share the
    objects with the records, so that none is encoded, decoded and kept a second time."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def follow(self, kind: type[T]) -> AsyncIterator[Delta]:
        resource = _RESOURCES_OF_TYPES[kind]
        while True:
            listing = await self._records.list(resource)
            yield Synced(listing.items)
            try:
                async for change in self._records.watch(resource, since=listing.resource_version):
                    if change.object is not None:
                        deleted = change.type is WatchType.DELETED
                        yield (Removed if deleted else Changed)((change.object,))
            except StoreGone:
                continue


class HomePods:
    def __init__(self, records: Records, clock: Clock, node_name: str) -> None:
        self._records = records
        self._clock = clock
        self._node_name = node_name

    async def changes(self) -> AsyncIterator[PodChanges]:
        while True:
            listing = await self._records.list("pods")
            mine = (pod for pod in _pods(listing.items) if self._is_mine(pod))
            yield PodChanges({pod.metadata.uid: pod for pod in mine}, complete=True)
            try:
                async for change in self._records.watch("pods", since=listing.resource_version):
                    pod = change.object
                    if isinstance(pod, Pod):
                        here = change.type is not WatchType.DELETED and self._is_mine(pod)
                        yield PodChanges({pod.metadata.uid: pod if here else None})
            except StoreGone:
                continue

    def _is_mine(self, pod: Pod) -> bool:
        return pod.spec.nodeName == self._node_name

    async def list(self) -> tuple[Pod, ...]:
        listing = await self._records.list("pods")
        return tuple(pod for pod in _pods(listing.items) if self._is_mine(pod))

    async def get(self, namespace: str, name: str) -> Pod | None:
        return cast("Pod | None", await self._records.get("pods", namespace, name))

    async def create(self, pod: Pod) -> Pod:
        return await self._records.create("pods", as_created(pod, rfc3339(self._clock.now())))

    async def update(self, pod: Pod, change: Callable[[Pod], Pod]) -> Pod:
        meta = pod.metadata

        def checked(stored: Pod) -> Pod:
            _require_uid(stored, meta.uid)
            return with_status(change(stored), stored, rfc3339(self._clock.now()))

        return await self._records.update("pods", meta.namespace, meta.name, checked)

    async def delete(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            if meta.finalizers:
                # The removal of the last finalizer removes the pod.
                await self.update(pod, _without_grace)
            else:
                await self._records.delete(
                    "pods", meta.namespace, meta.name, lambda stored: _require_uid(stored, meta.uid)
                )
        except NotFound:
            return


def _require_uid(stored: Object, uid: str) -> None:
    if stored.metadata.uid != uid:
        raise NotFound(f'pods "{stored.metadata.name}" not found')


def _without_grace(pod: Pod) -> Pod:
    meta = structs.replace(pod.metadata, deletionGracePeriodSeconds=0)
    return structs.replace(pod, metadata=meta)


def _pods(items: tuple[Object, ...]) -> list[Pod]:
    return [item for item in items if isinstance(item, Pod)]


class HomeEvents:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def put(self, event: Event) -> None:
        now = rfc3339(self._clock.now())
        await self._records.put("events", managed(event, None, manager=MANAGER, now=now))


class HomeNode:
    def __init__(self, records: Records, clock: Clock, name: str) -> None:
        self._records = records
        self._clock = clock
        self._name = name

    async def snapshots(self) -> AsyncIterator[Node | None]:
        while True:
            listing = await self._records.list("nodes")
            nodes = {item.metadata.name: item for item in listing.items if isinstance(item, Node)}
            yield nodes.get(self._name)
            try:
                async for change in self._records.watch("nodes", since=listing.resource_version):
                    node = change.object
                    if isinstance(node, Node) and node.metadata.name == self._name:
                        yield None if change.type is WatchType.DELETED else node
            except StoreGone:
                continue

    async def get(self) -> Node | None:
        return cast("Node | None", await self._records.get("nodes", "", self._name))

    async def create(self, node: Node) -> Node:
        return await self._records.create("nodes", as_created(node, rfc3339(self._clock.now())))

    async def update(self, change: Callable[[Node], Node]) -> Node:
        def changed(stored: Node) -> Node:
            return with_status(change(stored), stored, rfc3339(self._clock.now()))

        return await self._records.update("nodes", "", self._name, changed)

    async def renew_lease(self, seconds: int) -> None:
        now = self._clock.now()

        def renewed(lease: Lease) -> Lease:
            spec = structs.replace(
                lease.spec,
                holderIdentity=self._name,
                leaseDurationSeconds=seconds,
                renewTime=rfc3339_micros(now),
            )
            return structs.replace(lease, spec=spec)

        def changed(lease: Lease) -> Lease:
            return managed(renewed(lease), lease, manager=MANAGER, now=rfc3339(now))

        try:
            await self._records.update("leases", LEASES, self._name, changed)
        except NotFound:
            lease = renewed(await self._lease())
            lease = managed(lease, None, manager=MANAGER, now=rfc3339(now))
            await self._records.create("leases", lease)

    async def _lease(self) -> Lease:
        node = await self.get()
        owners: tuple[OwnerReference, ...] = ()
        if node is not None:
            uid = node.metadata.uid
            owners = (OwnerReference(apiVersion="v1", kind="Node", name=self._name, uid=uid),)
        meta = ObjectMeta(name=self._name, namespace=LEASES, ownerReferences=owners)
        return Lease(
            apiVersion="coordination.k8s.io/v1", kind="Lease", metadata=meta, spec=LeaseSpec()
        )


class HomeDocuments:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def get(self, key: ObjectKey) -> ConfigMap | Secret | None:
        kind, namespace, name = key
        document = await self._records.get(_RESOURCES[kind], namespace, name)
        return document if isinstance(document, ConfigMap | Secret) else None

    async def changes(self, kind: DocumentKind) -> AsyncIterator[ObjectKey]:
        while True:
            try:
                async for change in self._records.watch(_RESOURCES[kind]):
                    if change.object is not None:
                        meta = change.object.metadata
                        yield kind, meta.namespace, meta.name
            except StoreGone:
                continue


class HomeClaims:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        item = await self._records.get("persistentvolumeclaims", namespace, name)
        return item if isinstance(item, PersistentVolumeClaim) else None

    async def volume(self, name: str) -> PersistentVolume | None:
        item = await self._records.get("persistentvolumes", "", name)
        return item if isinstance(item, PersistentVolume) else None

    async def set_status(
        self, claim: PersistentVolumeClaim, status: PersistentVolumeClaimStatus
    ) -> PersistentVolumeClaim:
        meta, now = claim.metadata, rfc3339(self._clock.now())

        def changed(stored: PersistentVolumeClaim) -> PersistentVolumeClaim:
            if stored.metadata.resourceVersion != meta.resourceVersion:
                where = f'persistentvolumeclaims "{meta.name}"'
                raise PodtuiError(f"Operation cannot be fulfilled on {where}: {MODIFIED}")
            new = structs.replace(stored, status=status)
            return managed(new, stored, manager=MANAGER, now=now, subresource="status")

        return await self._records.update(
            "persistentvolumeclaims", meta.namespace, meta.name, changed
        )

    async def changes(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            try:
                async for change in self._records.watch("persistentvolumeclaims"):
                    if change.object is not None:
                        yield change.object.metadata.namespace, change.object.metadata.name
            except StoreGone:
                continue


class HomeStorage:
    def __init__(self, records: Records, clock: Clock, node_name: str) -> None:
        self._records = records
        self._clock = clock
        self._node_name = node_name

    async def driver(self, name: str) -> CSIDriver | None:
        return cast("CSIDriver | None", await self._records.get("csidrivers", "", name))

    async def attachment(self, name: str) -> VolumeAttachment | None:
        item = await self._records.get("volumeattachments", "", name)
        return cast("VolumeAttachment | None", item)

    async def node(self) -> CSINode | None:
        return cast("CSINode | None", await self._records.get("csinodes", "", self._node_name))

    async def set_node(self, change: Callable[[CSINode | None], CSINode]) -> None:
        now = rfc3339(self._clock.now())

        def changed(stored: CSINode) -> CSINode:
            return managed(change(stored), stored, manager=MANAGER, now=now)

        try:
            await self._records.update("csinodes", "", self._node_name, changed)
        except NotFound:
            new = managed(change(None), None, manager=MANAGER, now=now)
            await self._records.create("csinodes", new)


class HomeServices:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def of(self, pod: Pod) -> tuple[Service, ...]:
        namespace = pod.metadata.namespace
        listing = await self._records.list("services", namespace)
        services = [item for item in listing.items if isinstance(item, Service)]
        if namespace != API_SERVICE[0]:
            api = await self._records.get("services", *API_SERVICE)
            services += [api] if isinstance(api, Service) else []
        return tuple(services)


class HomeRuntimeClasses:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def get(self, name: str) -> RuntimeClass | None:
        return cast("RuntimeClass | None", await self._records.get("runtimeclasses", "", name))


class HomeTokens:
    """Tokens of the agent's own issuer, bound to the pod. Those of a static pod are bound to the
    account alone: a client may delete the mirror pod, which then gets another UID."""

    def __init__(self, records: Records, tokens: TokenRegistry) -> None:
        self._records = records
        self._tokens = tokens

    async def changes(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            try:
                async for change in self._records.watch("serviceaccounts"):
                    if change.object is not None:
                        yield change.object.metadata.namespace, change.object.metadata.name
            except StoreGone:
                continue

    async def token(self, request: TokenRequest) -> Token:
        meta = request.pod.metadata
        audiences = (request.audience,) if request.audience else ()
        bound = BoundObject("v1", "Pod", meta.name, meta.uid)
        if is_static(request.pod):
            bound = None
        try:
            text, claims, _ = await self._tokens.issue(
                meta.namespace, request.service_account, audiences, request.seconds, bound
            )
        except StatusError as error:
            raise PodtuiError(str(error)) from error
        return Token(text=text, expires=claims.expires)
