"""The admission plugin DefaultIngressClass: the class of a new Ingress that names none."""

from __future__ import annotations

from msgspec import structs

from podtui.api.networking import Ingress, IngressClass
from podtui.manifest.validation.ingresses import CLASS_ANNOTATION, DEFAULT_CLASS
from podtui.store.protocol import Records


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
