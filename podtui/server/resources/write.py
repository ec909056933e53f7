"""One request that creates, updates or patches an object: what all steps of it need, and the steps
that need nothing else.

The body or the patched document becomes an object, which is checked against the address, the
options and the strategy. `podtui.server.resources.write_routes` reads and writes the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic
from uuid import uuid4

import msgspec
from aiohttp import web
from msgspec import structs
from multidict import CIMultiDict

from podtui.api.objects import T
from podtui.api.times import rfc3339
from podtui.api.v1 import ObjectMeta
from podtui.manifest.strategies.strategy import (
    Strategy,
    keep_system_fields,
    unchanged,
    with_meta,
)
from podtui.manifest.validation.errors import Errors, FieldError
from podtui.manifest.validation.formats import path_segment
from podtui.manifest.validation.metadata import object_meta, object_meta_update
from podtui.patching.errors import go_text
from podtui.server.encoding.bodies import decode_body, parse_body, to_struct
from podtui.server.encoding.decoding import DecodeError, Tree, decode_object
from podtui.server.encoding.media_types import MediaType
from podtui.server.resources.objects import ApiObject
from podtui.server.resources.options import WriteOptions
from podtui.server.resources.patches import APPLY_PATCH, STRATEGIC_PATCH, Patches
from podtui.server.resources.read_routes import Rendering
from podtui.server.resources.resource import Resource
from podtui.server.status import (
    bad_request,
    conflict,
    invalid_fields,
    json_response,
    warning_headers,
)

_STORED: Final = {"nodes": "minions", "replicationcontrollers": "controllers"}
"""The names of resources in the API server's storage, where they differ."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a write: how it is encoded, and its warnings."""

    rendering: Rendering
    media: MediaType
    include: str
    warnings: list[str] = field(default_factory=list[str])

    @property
    def headers(self) -> CIMultiDict[str]:
        return warning_headers(self.warnings)

    def response(self, item: ApiObject, code: int = 200) -> web.Response:
        body = self.rendering.encode_one(self.media, self.include, item)
        return json_response(body, code=code, headers=self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Generic[T]):
    """One create, update or patch. ``strategy`` is that of the subresource, if the request names
    one. The warnings of all steps go to ``answer``; every step may raise `StatusError`."""

    request: web.Request
    resource: Resource[T]
    strategy: Strategy[T]
    subresource: str
    patches: Patches[T]
    options: WriteOptions
    answer: Answer

    @property
    def namespace(self) -> str:
        return self.request.match_info.get("namespace", "")

    @property
    def name(self) -> str:
        """The name in the URL; empty when an object is created."""
        return self.request.match_info.get("name", "")

    # --- from the request to an object

    def decoded(self, body: bytes) -> T:
        """Decode the object in the body of a create or an update."""
        resource, strategy = self.resource, self.strategy
        document = parse_body(self.request, body, resource.kind)
        tree, remarks = decode_body(document, self._typed, resource.api_version, resource.kind)
        if remarks and self.options.validation == "Strict":
            version = resource.api_version.rpartition("/")[2]
            raise bad_request(
                f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}:'
                f" strict decoding error: {', '.join(remarks)}"
            )
        self._warn_of_fields(remarks)
        strategy.defaults(tree)
        if self.request.method == "POST":
            name = str(tree.get("metadata", {}).get("name", ""))
            self.refuse(name, strategy.tree_errors(tree))
        return to_struct(tree, strategy.struct)

    def patched(self, old: T | None, document: Tree, patch_text: str = "") -> T:
        """Decode a patched document. ``patch_text`` is the strategic merge patch, which stands for
        the document in error messages."""
        resource = self.resource
        expected = {"apiVersion": resource.api_version, "kind": resource.kind}
        try:
            for name, wanted in expected.items():
                if document.get(name) != wanted:
                    raise DecodeError(f"{name} {document.get(name)} does not match {wanted}")
            changed, same = self._changed_parts(document, old)
            tree, remarks = self._typed(changed)
            if patch_text:  # Go sorts the unknown fields of a document that is not read as JSON.
                remarks = sorted(remarks)
            if remarks and self.options.validation == "Strict":
                raise DecodeError(f"strict decoding error: {', '.join(remarks)}")
        except DecodeError as error:
            text = patch_text or msgspec.json.encode(document, order="sorted").decode()
            why = FieldError("patch", "FieldValueInvalid", str(error), text)
            raise invalid_fields("", "", [why]) from error
        self._warn_of_fields(remarks)
        if old is not None and same.keys() == document.keys() - {"metadata"}:
            # The other parts have their defaults already. That they are the same objects makes it
            # quick to compare them.
            metadata = to_struct(tree["metadata"], ObjectMeta)
            return self.addressed(structs.replace(old, metadata=metadata))
        # A copy: the defaults are filled in place, and these parts may belong to the
        # document of ``old``.
        kept = {name: part for name, part in same.items() if name not in expected}
        tree |= msgspec.json.decode(msgspec.json.encode(kept))
        self.strategy.defaults(tree)
        return self.addressed(to_struct(tree, self.strategy.struct))

    def patching(self, media: str, patch: Any) -> Callable[[T | None], T]:
        """Return the change of an object by a parsed patch. A configuration that is applied changes
        None into a new object. Raises `StatusError`."""
        if media == APPLY_PATCH:
            self.patches.check_kind(patch)

        def change(live: T | None) -> T:
            if media == APPLY_PATCH:
                document = self.patches.applied(live, patch, self.options, self.subresource)
                return self.patched(live, document)
            assert live is not None
            document = self.patches.patched(live, media, patch)
            patch_text = go_text(patch) if media == STRATEGIC_PATCH else ""
            return self.managed(self.patched(live, document, patch_text), live)

        return change

    def _typed(self, document: Tree) -> tuple[Tree, list[str]]:
        from_wire = self.resource.from_wire
        tree = document if from_wire is None else from_wire(document)
        clean, remarks = decode_object(tree, self.strategy.struct)
        # Records omit what follows from their resource.
        clean.pop("apiVersion", None)
        clean.pop("kind", None)
        return clean, remarks

    def _changed_parts(self, document: Tree, old: T | None) -> tuple[Tree, Tree]:
        """Return the parts of a patched document that changed, and those that did not. The latter
        are valid already: to decode a pod's spec and status takes longer than most patches."""
        before = {} if old is None else self.patches.document(old)
        if self.resource.to_wire is not None or before.keys() - document.keys():
            return document, {}
        changed: Tree = {}
        same: Tree = {}
        for name, part in document.items():
            is_same = name in before and _same(part, before[name])
            (same if is_same else changed)[name] = part
        return changed, same

    def _warn_of_fields(self, remarks: list[str]) -> None:
        if self.options.validation == "Warn":
            self.answer.warnings.extend(remarks)

    def addressed(self, item: T) -> T:
        """Return the object with the namespace of the request. Its name and namespace must be those
        of the URL."""
        meta = item.metadata
        if not meta.name:
            raise bad_request(
                f"the name of the object ({self.name} based on URL) was undeterminable: name must"
                " be provided"
            )
        if meta.name != self.name:
            raise bad_request(
                f"the name of the object ({meta.name}) does not match the name on the URL"
                f" ({self.name})"
            )
        self._check_namespace(meta)
        return with_meta(item, namespace=self.namespace)

    def managed(self, item: T, old: T | None) -> T:
        """Return the object with the managers of its fields."""
        return self.patches.managed(item, old, self.options, self.subresource)

    # --- what the server sets and checks

    def created(self, item: T, now: datetime) -> T:
        """Return a new object with the metadata that the server sets."""
        meta = item.metadata
        self._check_namespace(meta)
        if meta.resourceVersion not in ("", "0"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        return with_meta(
            item,
            namespace=self.namespace,
            uid=str(uuid4()),
            creationTimestamp=rfc3339(now),
            deletionTimestamp=None,
            deletionGracePeriodSeconds=None,
            selfLink="",
            resourceVersion="",
        )

    def prepared_create(self, item: T) -> T:
        """Prepare an admitted new object, and validate it."""
        new = self.strategy.prepare_create(item)
        self.refuse(new.metadata.name, self.strategy.validate_create(new))
        self.refuse(new.metadata.name, self._meta_errors(new))
        # Annotations that are copied to fields are reported, the fields are not.
        self.answer.warnings.extend(self.strategy.warnings(item, None))
        return new

    def prepared_update(self, new: T, old: T, complete: Callable[[T, T], T] = unchanged) -> T:
        """Prepare a changed object, and validate it. ``complete`` (new, old) sets the fields that
        depend on other objects."""
        self.check_resource_version(new, old)
        new = complete(new, old)
        # Clients send back what they have read, and fields of the system with it: instead of
        # refusing them, the stored values are kept.
        new = with_meta(new, generation=old.metadata.generation, selfLink="")
        new = keep_system_fields(self.strategy.prepare_update(new, old), old)
        new = _without_idle_times(with_meta(new, resourceVersion=old.metadata.resourceVersion), old)
        self.refuse(old.metadata.name, self._update_errors(new, old))
        return new

    def _meta_errors(self, item: T) -> Errors:
        """Check the metadata as for every resource."""
        namespaced = self.resource.namespaced
        rule = path_segment
        yield from object_meta(item.metadata, "metadata", namespaced=namespaced, name_rule=rule)

    def _update_errors(self, new: T, old: T) -> Errors:
        yield from self._meta_errors(new)
        yield from object_meta_update(new.metadata, old.metadata, "metadata")
        yield from self.strategy.validate_update(new, old)

    def _check_namespace(self, meta: ObjectMeta) -> None:
        if self.resource.namespaced and meta.namespace not in ("", self.namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )

    def check_identity(self, new: T, old: T) -> None:
        """Refuse an update for another UID."""
        uid = new.metadata.uid
        if uid and uid != old.metadata.uid:
            resource = self.resource
            why = uid_mismatch(resource.plural, uid, old.metadata)
            raise conflict(resource.plural, old.metadata.name, why, group=resource.group)

    def check_resource_version(self, new: T, old: T) -> None:
        """Refuse an update of another version than the stored one."""
        version, resource = new.metadata.resourceVersion, self.resource
        if version and not (version.isascii() and version.isdigit()):
            raise bad_request(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version in ("", "0"):
            if self.strategy.unconditional_update:
                return
            why = FieldError(
                "metadata.resourceVersion",
                "FieldValueInvalid",
                "must be specified for an update",
                0,
            )
            raise invalid_fields(resource.plural, old.metadata.name, [why], resource.group)
        if version != old.metadata.resourceVersion:
            raise conflict(resource.plural, old.metadata.name, group=resource.group)

    def refuse(self, name: str, errors: Iterable[FieldError]) -> None:
        """Raise `StatusError` 422 if there is an error."""
        broken = list(errors)
        if broken:
            error = invalid_fields(self.resource.kind, name, broken, self.resource.kind_group)
            error.warnings = tuple(self.answer.warnings)
            raise error


def uid_mismatch(plural: str, uid: str, meta: ObjectMeta) -> str:
    """Return why an update for another UID is refused, in the words of the API server's storage."""
    stored = _STORED.get(plural, plural)
    key = f"{stored}/{meta.namespace}/{meta.name}" if meta.namespace else f"{stored}/{meta.name}"
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{key},"
        f" ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid},"
        f" UID in object meta: {meta.uid}"
    )


def _without_idle_times(new: T, old: T) -> T:
    """Return the old object if nothing but times in its managedFields would change."""
    # A write that changes nothing makes no new version, and wakes no watch.
    if with_meta(new, managedFields=()) != with_meta(old, managedFields=()):
        return new
    after, before = new.metadata.managedFields, old.metadata.managedFields
    times = [structs.replace(entry, time=None) for entry in after]
    if times == [structs.replace(entry, time=None) for entry in before]:
        return old
    return new


def _same(value: object, other: object) -> bool:
    """Compare values in their JSON form: True is not 1 there."""
    return value is other or msgspec.json.encode(value) == msgspec.json.encode(other)
