"""Namespaces, derived from the pods' namespaces: static pods have no Namespace objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from podtui.api.v1 import ObjectMeta, Struct
from podtui.server.objects import ApiObject, ObjectChange, Objects
from podtui.store.protocol import Records, WatchType

ALWAYS = "default"


class NamespaceStatus(Struct, frozen=True, kw_only=True):
    phase: str


class Namespace(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    status: NamespaceStatus
    apiVersion: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceChange:
    type: WatchType
    object: Namespace
    resource_version: int
    previous: Namespace | None = None


class NamespacesOfPods:
    """A source of namespaces, computed from the pod records."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def get(self, namespace: str, name: str) -> ApiObject | None:
        found = [item for item in (await self.list("")).items if item.metadata.name == name]
        return found[0] if found else None

    async def list(self, namespace: str) -> Objects:
        listing = await self._records.list("pods")
        oldest: dict[str, str] = {ALWAYS: ""}
        for pod in listing.items:
            name, born = pod.metadata.namespace, pod.metadata.creationTimestamp or ""
            oldest[name] = min(filter(None, (oldest.get(name, ""), born)), default="")
        items = [_namespace(name, oldest[name], listing.resource_version) for name in oldest]
        return Objects(sorted(items, key=lambda o: o.metadata.name), listing.resource_version)

    def watch(self, since: int) -> AsyncIterator[ObjectChange]:
        return self._changes(self._records.watch("pods", since=since))

    async def _changes(self, changes: AsyncIterator[ObjectChange]) -> AsyncIterator[ObjectChange]:
        """Yield namespace changes. Events from before this call may repeat, but none is missed: the
        pod counts are current, so a namespace that appeared or disappeared since is reported with a
        change of its pods."""
        listing = await self._records.list("pods")
        pods = Counter(pod.metadata.namespace for pod in listing.items)
        async for change in changes:
            if change.object is None or change.type is WatchType.MODIFIED:
                continue
            name, version = change.object.metadata.namespace, change.resource_version
            added = change.type is WatchType.ADDED
            if version > listing.resource_version:
                pods[name] += 1 if added else -1
                turned = pods[name] == added
            else:
                turned = bool(pods[name]) == added
            if name == ALWAYS or not turned:
                continue
            item = _namespace(name, change.object.metadata.creationTimestamp or "", version)
            yield NamespaceChange(change.type, item, version, None if added else item)


def _namespace(name: str, born: str, version: int) -> Namespace:
    return Namespace(
        metadata=ObjectMeta(
            name=name,
            uid=f"namespace-{name}",
            creationTimestamp=born or None,
            resourceVersion=str(version),
            labels={"kubernetes.io/metadata.name": name},
        ),
        status=NamespaceStatus(phase="Active"),
    )
