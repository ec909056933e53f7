"""The pods of a controller: made from its template, adopted, released, created and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic

from msgspec import structs

from podtui.api.objects import Object
from podtui.api.pods import is_true
from podtui.api.selectors import labels_match
from podtui.api.times import parse_time
from podtui.api.v1 import LabelSelector, ObjectMeta, OwnerReference, Pod, PodTemplateSpec
from podtui.client.cache import T, controller_of
from podtui.client.decoding import kind_of
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents, EventType
from podtui.errors import ApiError

_ENDED: Final = ("Succeeded", "Failed")
_MAX_PREFIX: Final = 58
"""The longest prefix of a generated name."""


def owner_reference(owner: Object) -> OwnerReference:
    """Return the reference of an object that ``owner`` controls."""
    return OwnerReference(
        apiVersion=kind_of(type(owner)).api_version,
        kind=type(owner).__name__,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def pod_of_template(template: PodTemplateSpec, owner: Object) -> Pod:
    """Return a new pod of ``owner``, whose name the API server generates."""
    meta = template.metadata
    prefix = f"{owner.metadata.name}-"
    return Pod(
        metadata=ObjectMeta(
            generateName=prefix if len(prefix) <= _MAX_PREFIX else owner.metadata.name,
            namespace=owner.metadata.namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            finalizers=meta.finalizers,
            ownerReferences=(owner_reference(owner),),
        ),
        spec=template.spec,
    )


def is_active(pod: Pod) -> bool:
    return pod.status.phase not in _ENDED and pod.metadata.deletionTimestamp is None


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod is being deleted and has not ended yet."""
    return pod.status.phase not in _ENDED and pod.metadata.deletionTimestamp is not None


def is_ready(pod: Pod) -> bool:
    return is_true(pod, "Ready")


def seconds_to_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Return the seconds until a ready pod counts as available, 0 if it does; None if it is not
    ready."""
    if not is_ready(pod):
        return None
    if min_ready_seconds == 0:
        return 0.0
    condition = next(c for c in pod.status.conditions if c.type == "Ready")
    since = parse_time(condition.lastTransitionTime)
    if since is None:
        return float(min_ready_seconds)
    return max(0.0, (since + timedelta(seconds=min_ready_seconds) - now).total_seconds())


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Return whether the pod has been ready for ``min_ready_seconds``."""
    return seconds_to_available(pod, min_ready_seconds, now) == 0


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """What an owner does with the objects in its namespace: those that it controls, the orphans
    among them that it adopts, and those that it gives up."""

    mine: tuple[T, ...]
    adopted: tuple[T, ...] = ()
    released: tuple[T, ...] = ()


def claim(
    owner: Object,
    selector: LabelSelector | None,
    items: Iterable[T],
    is_member: Callable[[T], bool] = lambda _: True,
) -> Claim[T]:
    """Divide objects by owner and labels, and by ``is_member`` if the owner selects by more than
    labels. An owner that is being deleted adopts and releases nothing."""
    mine: list[T] = []
    adopted: list[T] = []
    released: list[T] = []
    deleting = owner.metadata.deletionTimestamp is not None
    for item in items:
        meta, controller = item.metadata, controller_of(item)
        selected = labels_match(selector, meta.labels) and is_member(item)
        if controller is not None:
            if controller.uid != owner.metadata.uid:
                continue
            if selected or deleting:
                mine.append(item)
            else:
                released.append(item)
        elif selected and not deleting and meta.deletionTimestamp is None:
            mine.append(item)
            adopted.append(item)
    return Claim(tuple(mine), tuple(adopted), tuple(released))


async def apply_claim(writer: Writer, kind: type[T], owner: Object, claimed: Claim[T]) -> list[T]:
    """Write the owners of adopted and released objects. Return the objects that ``owner`` controls
    now. An object that has disappeared meanwhile is left out.

    Before it adopts objects, it reads the owner again: an owner that is deleted with
    ``--cascade=orphan`` must not take back the objects that it was parted from."""
    adopted: dict[str, T] = {}
    may_adopt = bool(claimed.adopted) and await is_alive(writer, owner)
    for item in claimed.adopted if may_adopt else ():
        patch = {"metadata": {"ownerReferences": [owner_reference(owner)]}}
        try:
            adopted[item.metadata.uid] = await writer.patch(kind, item, patch)
        except ApiError as error:
            if error.code not in (404, 409, 422):
                raise
    for item in claimed.released:
        reference = {"$patch": "delete", "uid": owner.metadata.uid}
        try:
            await writer.patch(kind, item, {"metadata": {"ownerReferences": [reference]}})
        except ApiError as error:
            if error.code not in (404, 409, 422):
                raise
    new = {item.metadata.uid for item in claimed.adopted}
    kept = [item for item in claimed.mine if item.metadata.uid not in new]
    return [*kept, *adopted.values()]


async def is_alive(writer: Writer, owner: Object) -> bool:
    """Ask the API whether an owner still exists and is not being deleted.

    The watches of two kinds are not in step: a controller may see that the objects of a deleted
    owner are deleted before it sees that the owner is."""
    return await _stored(writer, owner) is not None


async def is_current(writer: Writer, owner: Object) -> bool:
    """Ask the API whether an owner is alive, and its spec is still this one. If it has changed, the
    next sync decides with the new spec: a ReplicaSet that was scaled down in the meantime must not
    get the pods of its old size."""
    stored = await _stored(writer, owner)
    return stored is not None and stored.generation == owner.metadata.generation


async def _stored(writer: Writer, owner: Object) -> ObjectMeta | None:
    meta = owner.metadata
    try:
        stored = (await writer.get(type(owner), meta.namespace, meta.name)).metadata
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    return stored if stored.uid == meta.uid and stored.deletionTimestamp is None else None


class PodControl:
    """Creates and deletes pods, and records the events of their owner."""

    def __init__(self, writer: Writer, events: ControllerEvents, component: str) -> None:
        self._writer = writer
        self._events = events
        self._component = component

    async def create(self, pod: Pod, owner: Object) -> Pod:
        """Raises `PodtuiError`, after an event FailedCreate."""
        try:
            created = await self._writer.create(Pod, pod)
        except ApiError as error:
            # Nothing can be created in a namespace that is being deleted; no event either.
            if not is_namespace_terminating(error):
                self._record(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        name = created.metadata.name
        self._record(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return created

    async def delete(self, pod: Pod, owner: Object) -> None:
        """Raises `PodtuiError`, after an event FailedDelete."""
        try:
            await self._writer.delete(Pod, pod)
        except ApiError as error:
            self._record(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._record(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    def _record(self, owner: Object, event_type: EventType, reason: str, message: str) -> None:
        self._events.record(self._component, owner, event_type, reason, message)


def is_namespace_terminating(error: ApiError) -> bool:
    """Return whether an object was refused because its namespace is being deleted."""
    return error.code == 403 and "because it is being terminated" in str(error)


def with_labels(template: PodTemplateSpec, labels: dict[str, str]) -> PodTemplateSpec:
    """Return the template with more labels."""
    meta = template.metadata
    return structs.replace(
        template, metadata=structs.replace(meta, labels={**meta.labels, **labels})
    )
