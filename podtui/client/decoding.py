"""Decode responses: single answers, objects by type, lists, watch events and lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from podtui.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.discovery import EndpointSlice
from podtui.api.insight import Timeline
from podtui.api.lenient import lenient_decode
from podtui.api.local import Manifest
from podtui.api.names import GROUP_VERSION
from podtui.api.networking import Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR
from podtui.api.objects import Object, T
from podtui.api.policy import PodDisruptionBudget
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.api.scheduling import PriorityClass
from podtui.api.storage import CSIDriver, CSINode, StorageClass, VolumeAttachment
from podtui.api.v1 import (
    ConfigMap,
    Endpoints,
    Event,
    Lease,
    LimitRange,
    ListMeta,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    ResourceQuota,
    RuntimeClass,
    Secret,
    Service,
    ServiceAccount,
)
from podtui.errors import ApiError

Decoded = TypeVar("Decoded")


def decode_response(path: str, body: bytes | msgspec.Raw, kind: type[Decoded]) -> Decoded:
    """Decode the response of ``path``. Raises `ApiError` if it is no ``kind``: other versions of
    podtui, proxies and login pages also respond with 200."""
    decoder = msgspec.json.Decoder(kind)
    return decode_with(path, lambda: lenient_decode(body, decoder))


def decode_with(path: str, read: Callable[[], Decoded]) -> Decoded:
    """Call ``read`` to decode a response. Raises the same errors as `decode_response`."""
    try:
        return read()
    except msgspec.MsgspecError as error:
        raise ApiError(200, "InternalError", f"{path}: cannot be read: {error}") from error


class ObjectList(msgspec.Struct, frozen=True):
    """A list of objects of any kind."""

    items: tuple[msgspec.Raw, ...] | None
    metadata: ListMeta = ListMeta()


_LISTS: Final = msgspec.json.Decoder(ObjectList)


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch; the type of ``object`` depends on ``type``."""

    type: str
    object: msgspec.Raw


class Versioned(msgspec.Struct, frozen=True):
    """The part of a bookmark that is read."""

    metadata: ListMeta


@dataclass(frozen=True)
class ObjectKind:
    """The API version, the plural and the decoder of a type of objects."""

    struct: type[Object]
    api_version: str
    plural: str
    namespaced: bool
    accept: str = ""
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    watches: bool = True

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.struct)

    def decode(self, item: msgspec.Raw | bytes) -> Any:
        """Decode an object and drop its managedFields, which are unused here but often the larger
        part of the object. Raises `msgspec.MsgspecError`."""
        return without_managed_fields(lenient_decode(item, self.decoder))

    def decode_list(self, body: bytes) -> tuple[list[Any], ListMeta]:
        listing = _LISTS.decode(body)
        return [self.decode(item) for item in listing.items or ()], listing.metadata

    def collection(self, namespace: str) -> str:
        return collection_path(self.api_version, self.plural, namespace if self.namespaced else "")


def collection_path(api_version: str, plural: str, namespace: str) -> str:
    """Return the path of all objects of a kind, or of those in a namespace."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    if namespace:
        return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"
    return f"{root}/{plural}"


def without_managed_fields(item: T) -> T:
    meta = item.metadata
    if not meta.managedFields:
        return item
    meta = msgspec.structs.replace(meta, managedFields=())
    return msgspec.structs.replace(item, metadata=meta)


def kind_of(kind: type[T]) -> ObjectKind:
    return _KINDS[kind]


_KINDS: Final[Mapping[type[Object], ObjectKind]] = {
    struct: ObjectKind(struct, api_version, plural, namespaced)
    for struct, api_version, plural, namespaced in (
        (ConfigMap, "v1", "configmaps", True),
        (Endpoints, "v1", "endpoints", True),
        (Event, "v1", "events", True),
        (Lease, "coordination.k8s.io/v1", "leases", True),
        (LimitRange, "v1", "limitranges", True),
        (Namespace, "v1", "namespaces", False),
        (Node, "v1", "nodes", False),
        (PersistentVolume, "v1", "persistentvolumes", False),
        (PersistentVolumeClaim, "v1", "persistentvolumeclaims", True),
        (Pod, "v1", "pods", True),
        (ReplicationController, "v1", "replicationcontrollers", True),
        (ResourceQuota, "v1", "resourcequotas", True),
        (RuntimeClass, "node.k8s.io/v1", "runtimeclasses", False),
        (Secret, "v1", "secrets", True),
        (Service, "v1", "services", True),
        (ServiceAccount, "v1", "serviceaccounts", True),
        (ControllerRevision, "apps/v1", "controllerrevisions", True),
        (DaemonSet, "apps/v1", "daemonsets", True),
        (Deployment, "apps/v1", "deployments", True),
        (ReplicaSet, "apps/v1", "replicasets", True),
        (StatefulSet, "apps/v1", "statefulsets", True),
        (HorizontalPodAutoscaler, "autoscaling/v2", "horizontalpodautoscalers", True),
        (CronJob, "batch/v1", "cronjobs", True),
        (Job, "batch/v1", "jobs", True),
        (EndpointSlice, "discovery.k8s.io/v1", "endpointslices", True),
        (Ingress, "networking.k8s.io/v1", "ingresses", True),
        (IngressClass, "networking.k8s.io/v1", "ingressclasses", False),
        (IPAddress, "networking.k8s.io/v1", "ipaddresses", False),
        (NetworkPolicy, "networking.k8s.io/v1", "networkpolicies", True),
        (ServiceCIDR, "networking.k8s.io/v1", "servicecidrs", False),
        (PodDisruptionBudget, "policy/v1", "poddisruptionbudgets", True),
        (ClusterRole, "rbac.authorization.k8s.io/v1", "clusterroles", False),
        (ClusterRoleBinding, "rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
        (Role, "rbac.authorization.k8s.io/v1", "roles", True),
        (RoleBinding, "rbac.authorization.k8s.io/v1", "rolebindings", True),
        (PriorityClass, "scheduling.k8s.io/v1", "priorityclasses", False),
        (StorageClass, "storage.k8s.io/v1", "storageclasses", False),
        (CSIDriver, "storage.k8s.io/v1", "csidrivers", False),
        (CSINode, "storage.k8s.io/v1", "csinodes", False),
        (VolumeAttachment, "storage.k8s.io/v1", "volumeattachments", False),
        (Manifest, GROUP_VERSION, "manifests", False),
        (Timeline, GROUP_VERSION, "timelines", True),
    )
}


class LineSplitter:
    """Removes the line feeds. Splits a line longer than ``limit`` bytes into pieces."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now."""
        lines = chunk.split(b"\n")
        lines[0] = self._tail + lines[0]
        if max(map(len, lines)) > self._limit:
            lines = [piece for line in lines for piece in self._pieces(line)]
        self._tail = lines.pop()
        return lines

    def finish(self) -> list[bytes]:
        """Return the rest without a line feed."""
        rest, self._tail = self._tail, b""
        return [rest] if rest else []

    def _pieces(self, line: bytes) -> list[bytes]:
        starts = range(0, len(line), self._limit) or (0,)
        return [line[start : start + self._limit] for start in starts]
