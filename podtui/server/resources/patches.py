"""Patches of objects, and the managers of their fields.

The patches themselves are functions on documents (`podtui.patching`); here are their media types,
the documents of objects, and the errors as the API server answers them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Generic, cast

import msgspec
from aiohttp import web

from podtui.api import fields as facts
from podtui.api.objects import T
from podtui.api.times import rfc3339
from podtui.api.v1 import ManagedFieldsEntry, StatusCause, StatusDetails
from podtui.clock import Clock
from podtui.manifest.strategies.strategy import with_meta, with_meta_of
from podtui.patching import json_patch, merge_patch, server_side_apply, strategic
from podtui.patching.errors import ApplyConflict, PatchError
from podtui.server.encoding.bodies import parse_yaml
from podtui.server.encoding.decoding import DecodeError, Tree, json_kind, parse_json
from podtui.server.resources.options import WriteOptions
from podtui.server.resources.resource import Resource
from podtui.server.status import StatusError, bad_request

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
PATCHES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_REJECTED: Final = "the server rejected our request due to an error in our request"
_EMPTY: Final[tuple[object, ...]] = (None, "", {})


class Patches(Generic[T]):
    """The patches of one resource's objects."""

    def __init__(self, resource: Resource[T], clock: Clock) -> None:
        self._resource = resource
        self._clock = clock
        self._schema = facts.name_of_kind(resource.api_version, resource.kind) or resource.kind
        self._last_item: object = None
        self._last_document: Tree = {}

    def document(self, item: T) -> Tree:
        """Return the JSON form of an object. It is shared with later calls: do not change it."""
        if item is not self._last_item:
            self._last_document = msgspec.json.decode(self._resource.encode(item))
            self._last_item = item
        return self._last_document

    def _changed_document(self, new: T, old: T | None) -> Tree:
        """Return the JSON form of an object that may differ from another one in its metadata
        only. Most updates do, and to encode a pod's spec and status takes longer than the rest."""
        if old is None or self._resource.to_wire is not None or with_meta_of(new, old) != old:
            return cast("Tree", msgspec.json.decode(self._resource.encode(new)))
        metadata = msgspec.json.decode(msgspec.json.encode(new.metadata))
        return {**self.document(old), "metadata": metadata}

    def patched(self, item: T, media: str, patch: Any) -> Tree:
        """Return the document of a patched object. Raises `StatusError`."""
        document = self.document(item)
        with _patch_errors():
            match media:
                case "application/json-patch+json":
                    return json_patch.apply(document, patch)
                case "application/merge-patch+json":
                    return merge_patch.apply(document, patch)
                case _:
                    return strategic.apply(self._schema, document, patch)

    def check_kind(self, applied: Tree) -> None:
        """Refuse a configuration of another kind. Raises `StatusError` 400."""
        kind = (str(applied.get("apiVersion") or ""), str(applied.get("kind") or ""))
        if kind != (self._resource.api_version, self._resource.kind):
            raise bad_request(f"invalid object type: {_shown_kind(*kind)}")

    def applied(
        self, live: T | None, configuration: Tree, options: WriteOptions, subresource: str
    ) -> Tree:
        """Return the document of an object with an applied configuration. Raises `StatusError`."""
        with _patch_errors():
            return server_side_apply.apply(
                self._schema,
                None if live is None else self.document(live),
                configuration,
                manager=options.manager,
                time=rfc3339(self._clock.now()),
                force=options.force,
                subresource=subresource,
            )

    def managed(self, new: T, old: T | None, options: WriteOptions, subresource: str) -> T:
        """Return the object with the managers of its fields."""
        after = self._changed_document(new, old)
        if old is None:
            # Fields that are always written are not set by the creator.
            after = {name: value for name, value in after.items() if value not in _EMPTY}
        try:
            entries = server_side_apply.update_managers(
                self._schema,
                None if old is None else self.document(old),
                after,
                manager=options.manager,
                time=rfc3339(self._clock.now()),
                subresource=subresource,
            )
        except PatchError:
            # A list without its keys, for instance. Kubernetes keeps no managers then.
            return with_meta(new, managedFields=())
        managers = msgspec.convert(entries, tuple[ManagedFieldsEntry, ...])
        return with_meta(new, managedFields=managers)


def patch_media(request: web.Request) -> str:
    """Return the media type of a patch. Raises `StatusError` 415."""
    if request.content_type not in PATCHES:
        raise StatusError(415, "415: Unsupported Media Type", details=StatusDetails())
    return request.content_type


def parse_patch(media: str, body: bytes) -> Any:
    """Parse the body of a patch. Raises `StatusError` 400."""
    try:
        patch: object = parse_yaml(body) if media == APPLY_PATCH else parse_json(body)
    except DecodeError as error:
        what = "YAML" if media == APPLY_PATCH else "patch"
        raise bad_request(f"error decoding {what}: {error}") from error
    if isinstance(patch, list if media == JSON_PATCH else dict):
        return cast("Any", patch)
    wanted = "[]handlers.jsonPatchOp" if media == JSON_PATCH else "map[string]interface {}"
    raise bad_request(
        "error decoding patch: json: cannot unmarshal"
        f" {json_kind(patch)} into Go value of type {wanted}"
    )


@contextmanager
def _patch_errors() -> Generator[None]:
    """Translate the errors of `podtui.patching` into `StatusError`."""
    try:
        yield
    except ApplyConflict as error:
        causes = tuple(
            StatusCause(
                reason="FieldManagerConflict",
                message=f"conflict with {clash.manager}",
                field=clash.field,
            )
            for clash in error.conflicts
        )
        raise StatusError(409, str(error), details=StatusDetails(causes=causes)) from error
    except PatchError as error:
        if error.code == 422:
            raise StatusError(422, _REJECTED, details=StatusDetails()) from error
        raise StatusError(error.code, str(error)) from error


def _shown_kind(api_version: str, kind: str) -> str:
    """Return a version and kind as Go prints them."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"
