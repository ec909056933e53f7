"""The admission plugin DefaultIngressClass: the class of a new Ingress that names none. And the
class that podtui publishes."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from uuid import uuid4

from msgspec import structs

from podtui.api.names import INGRESS_CLASS, INGRESS_CONTROLLER
from podtui.api.networking import Ingress, IngressClass, IngressClassSpec
from podtui.api.times import rfc3339
from podtui.api.v1 import Namespace, ObjectMeta
from podtui.clock import Clock
from podtui.errors import AlreadyExists
from podtui.manifest.strategies.strategy import with_meta
from podtui.manifest.validation.ingresses import CLASS_ANNOTATION, DEFAULT_CLASS
from podtui.server.resources.field_managers import API_SERVER, managed
from podtui.store.protocol import Records

_PUBLISHED: Final = "podtui.dev/ingress-class-published"
"""An annotation of the namespace kube-system: whoever deletes the class does not get it back."""


async def with_default_class(item: Ingress, records: Records) -> Ingress:
    """Return a new Ingress with the default class, if there is one and the Ingress has no class. Of
    several default classes, the newest counts."""
    if item.spec.ingressClassName or CLASS_ANNOTATION in item.metadata.annotations:
        return item
    listing = await records.list("ingressclasses")
    defaults = [
        (other.metadata.creationTimestamp or "", other.metadata.name)
        for other in listing.items
        if isinstance(other, IngressClass)
        and other.metadata.annotations.get(DEFAULT_CLASS) == "true"
    ]
    if not defaults:
        return item
    newest = max(created for created, _ in defaults)
    name = min(name for created, name in defaults if created == newest)
    return structs.replace(item, spec=structs.replace(item.spec, ingressClassName=name))


async def publish_ingress_class(records: Records, clock: Clock) -> None:
    """Create the default class at the first start. It can be changed and deleted."""
    namespace = await records.get("namespaces", "", "kube-system")
    if not isinstance(namespace, Namespace) or _PUBLISHED in namespace.metadata.annotations:
        return
    now = rfc3339(clock.now())
    item = IngressClass(
        metadata=ObjectMeta(
            name=INGRESS_CLASS,
            uid=str(uuid4()),
            creationTimestamp=now,
            generation=1,
            annotations={DEFAULT_CLASS: "true"},
        ),
        spec=IngressClassSpec(controller=INGRESS_CONTROLLER),
    )
    with suppress(AlreadyExists):
        await records.create("ingressclasses", managed(item, None, manager=API_SERVER, now=now))

    def marked(item: Namespace) -> Namespace:
        return with_meta(item, annotations={**item.metadata.annotations, _PUBLISHED: "true"})

    await records.update("namespaces", "", "kube-system", marked)
