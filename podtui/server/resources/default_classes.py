"""Classes of which one is the default: the classes of storage and of Ingresses."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import uuid4

from podtui.api.networking import IngressClass
from podtui.api.objects import Object
from podtui.api.storage import StorageClass
from podtui.api.times import rfc3339
from podtui.api.v1 import Namespace
from podtui.clock import Clock
from podtui.errors import AlreadyExists
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.resources.field_managers import API_SERVER, managed
from podtui.store.protocol import Records
from podtui.store.resources import Resource

_NAMESPACE: Final = ("namespaces", "", "kube-system")


def newest_name(classes: Iterable[StorageClass | IngressClass]) -> str:
    """Return the name of the newest class, and of several the first by name; empty if there are
    none."""
    defaults = [(item.metadata.creationTimestamp or "", item.metadata.name) for item in classes]
    if not defaults:
        return ""
    newest = max(created for created, _ in defaults)
    return min(name for created, name in defaults if created == newest)


async def publish_class(
    records: Records, resource: Resource, item: Object, mark: str, clock: Clock
) -> None:
    """Create a class at the first start. It can be changed and deleted: whoever deletes it does not
    get it back. ``mark`` is the annotation of the namespace kube-system that remembers this."""
    namespace = await records.get(*_NAMESPACE)
    if not isinstance(namespace, Namespace) or mark in namespace.metadata.annotations:
        return
    now = rfc3339(clock.now())
    item = with_meta(item, uid=str(uuid4()), creationTimestamp=now)
    with suppress(AlreadyExists):
        await records.create(resource, managed(item, None, manager=API_SERVER, now=now))

    def marked(item: Namespace) -> Namespace:
        return with_meta(item, annotations={**item.metadata.annotations, mark: "true"})

    await records.update(*_NAMESPACE, marked)
