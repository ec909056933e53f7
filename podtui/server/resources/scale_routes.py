"""The ``scale`` subresource: the number of an object's pods, as a Scale of the group autoscaling.

A write reads the object's Scale, changes that, and writes its number back to the object, which is
then prepared and checked as in any update.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import msgspec
from aiohttp import web
from msgspec import structs

from podtui.api.apps import Deployment, ReplicaSet, StatefulSet
from podtui.api.scale import Scale, ScaleSpec, ScaleStatus
from podtui.api.selectors import label_text, selector_text
from podtui.api.times import since
from podtui.api.v1 import ManagedFieldsEntry, ObjectMeta, ReplicationController
from podtui.clock import Clock
from podtui.manifest.strategies.strategy import Strategy, with_meta
from podtui.manifest.validation.errors import Errors
from podtui.manifest.validation.metadata import object_meta
from podtui.manifest.validation.workloads import not_negative
from podtui.patching.scale_managers import object_entries, scale_entries
from podtui.server.encoding.media_types import PARTIAL, TABLE, negotiate
from podtui.server.resources.options import write_options
from podtui.server.resources.patches import APPLY_PATCH, Patches, parse_patch, patch_media
from podtui.server.resources.query import include_object
from podtui.server.resources.read_routes import Rendering
from podtui.server.resources.resource import AnyResource, Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn
from podtui.server.resources.write import Answer, Write
from podtui.server.resources.write_routes import WriteRoutes

SCALE: Final = "scale"
AnyScalable = Deployment | ReplicaSet | StatefulSet | ReplicationController
Scalable = TypeVar("Scalable", bound=AnyScalable)


def _row(scale: Scale, now: datetime) -> list[Cell]:
    meta = scale.metadata
    wanted, existing = scale.spec.replicas or 0, scale.status.replicas
    return [meta.name, wanted, existing, since(meta.creationTimestamp, now)]


_STRATEGY: Final[Strategy[Any]] = Strategy(struct=Scale)
_RESOURCE: Final[AnyResource] = Resource(
    api_version="autoscaling/v1",
    plural="scales",
    singular="scale",
    kind="Scale",
    namespaced=True,
    columns=Columns(
        (
            TableColumn("Name", NAME.description),
            TableColumn("Desired", "Number of pods that the object asks for.", type="integer"),
            TableColumn("Available", "Number of pods that exist.", type="integer"),
            AGE,
        ),
        _row,
    ),
    strategy=_STRATEGY,
)


class ScaleRoutes(Generic[Scalable]):
    """The handlers of one resource's ``scale``; ``writes`` has those of the objects."""

    def __init__(
        self, resource: Resource[Scalable], writes: WriteRoutes[Scalable], clock: Clock
    ) -> None:
        self._resource = resource
        self._writes = writes
        self._rendering = Rendering(_RESOURCE, clock)
        self._patches: Patches[Any] = Patches(_RESOURCE, clock)

    def routes(self) -> list[web.RouteDef]:
        root, plural = self._resource.root, self._resource.plural
        path = f"{root}/namespaces/{{namespace}}/{plural}/{{name}}/{SCALE}"
        of_item = self._writes.of_item
        return [
            web.get(path, of_item(self.read)),
            web.put(path, of_item(self.update)),
            web.patch(path, of_item(self.patch)),
        ]

    # --- handlers; they raise NotFound

    async def read(self, request: web.Request) -> web.Response:
        answer = self._answer(request)
        return answer.response(scale_of(await self._writes.current(request)))

    async def update(self, request: web.Request) -> web.Response:
        write = self._write(request, "UpdateOptions")
        scale = write.addressed(write.decoded(await request.read()))
        return await self._scale(write, lambda old: write.managed(scale, old))

    async def patch(self, request: web.Request) -> web.Response:
        media = patch_media(request)
        write = self._write(request, "PatchOptions", apply=media == APPLY_PATCH)
        patch = parse_patch(media, await request.read())
        return await self._scale(write, write.patching(media, patch))

    async def _scale(self, write: Write[Any], change: Callable[[Scale], Scale]) -> web.Response:
        def scaled(item: Scalable) -> Scalable:
            version, entries = self._resource.api_version, _document(item.metadata.managedFields)
            new = change(scale_of(item, _entries(scale_entries(entries, version))))
            write.refuse(item.metadata.name, _errors(new))
            stated = _document(new.metadata.managedFields)
            spec = structs.replace(item.spec, replicas=new.spec.replicas or 0)
            return with_meta(
                structs.replace(item, spec=spec),
                uid=new.metadata.uid,
                resourceVersion=new.metadata.resourceVersion,
                managedFields=_entries(object_entries(entries, stated, version)),
            )

        return write.answer.response(scale_of(await self._writes.change(write, scaled)))

    def _write(self, request: web.Request, options: str, *, apply: bool = False) -> Write[Any]:
        return Write(
            request=request,
            resource=_RESOURCE,
            strategy=_STRATEGY,
            subresource=SCALE,
            patches=self._patches,
            options=write_options(request, options, apply=apply),
            answer=self._answer(request),
        )

    def _answer(self, request: web.Request) -> Answer:
        media = negotiate(request.headers.get("Accept", ""), TABLE, PARTIAL)
        return Answer(self._rendering, media, include_object(request))


def scale_of(item: AnyScalable, managers: tuple[ManagedFieldsEntry, ...] = ()) -> Scale:
    """Return an object's Scale, with the managers of its fields."""
    meta, spec = item.metadata, item.spec
    return Scale(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
            creationTimestamp=meta.creationTimestamp,
            managedFields=managers,
        ),
        # 0 is not written.
        spec=ScaleSpec(replicas=spec.replicas or None),
        status=ScaleStatus(replicas=item.status.replicas or 0, selector=_selector(item)),
    )


def _selector(item: AnyScalable) -> str:
    """Return the labels of the object's pods in the form of a query."""
    if isinstance(item, ReplicationController):
        return label_text(item.spec.selector)
    return selector_text(item.spec.selector)


def _errors(scale: Scale) -> Errors:
    yield from object_meta(scale.metadata, "metadata")
    yield from not_negative(scale.spec.replicas, "spec.replicas")


def _document(entries: tuple[ManagedFieldsEntry, ...]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(entries))


def _entries(document: Any) -> tuple[ManagedFieldsEntry, ...]:
    return msgspec.convert(document, tuple[ManagedFieldsEntry, ...])
