"""The admission plugin DefaultIngressClass: the class of a new Ingress that names none. And the
class that podtui publishes."""

from __future__ import annotations

from msgspec import structs

from podtui.api.names import INGRESS_CLASS, INGRESS_CONTROLLER
from podtui.api.networking import Ingress, IngressClass, IngressClassSpec
from podtui.api.v1 import ObjectMeta
from podtui.clock import Clock
from podtui.manifest.validation.ingresses import CLASS_ANNOTATION, DEFAULT_CLASS
from podtui.server.resources.default_classes import newest_name, publish_class
from podtui.store.protocol import Records


async def with_default_class(item: Ingress, records: Records) -> Ingress:
    """Return a new Ingress with the default class, if there is one and the Ingress has no class. Of
    several default classes, the newest counts."""
    if item.spec.ingressClassName or CLASS_ANNOTATION in item.metadata.annotations:
        return item
    listing = await records.list("ingressclasses")
    name = newest_name(
        each
        for each in listing.items
        if isinstance(each, IngressClass) and each.metadata.annotations.get(DEFAULT_CLASS) == "true"
    )
    if not name:
        return item
    return structs.replace(item, spec=structs.replace(item.spec, ingressClassName=name))


async def publish_ingress_class(records: Records, clock: Clock) -> None:
    """Create the default class at the first start."""
    item = IngressClass(
        metadata=ObjectMeta(name=INGRESS_CLASS, generation=1, annotations={DEFAULT_CLASS: "true"}),
        spec=IngressClassSpec(controller=INGRESS_CONTROLLER),
    )
    await publish_class(
        records, "ingressclasses", item, "podtui.dev/ingress-class-published", clock
    )
