"""The create, update, patch and delete handlers, common to all resources.

A write is decoded, defaulted, admitted, prepared by the strategy of its resource, validated and
stored, in the API server's order. An update is computed inside `Records.update`, so that no other
write can come between.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from podtui.api.names import MANIFEST_PATH
from podtui.api.pods import is_mirror
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    DeleteOptions,
    ListMeta,
    ManagedFieldsEntry,
    ObjectMeta,
    Pod,
    Status,
    StatusCause,
    StatusDetails,
)
from podtui.clock import Clock
from podtui.errors import AlreadyExists, InvalidUpdate, NotFound
from podtui.manifest.validation.errors import Errors, FieldError, printed
from podtui.manifest.validation.formats import path_segment
from podtui.manifest.validation.metadata import object_meta, object_meta_update
from podtui.patching.errors import go_text
from podtui.server.encoding.bodies import decode_body, parse_body, to_struct
from podtui.server.encoding.decoding import DecodeError, Tree, decode_object
from podtui.server.encoding.media_types import PARTIAL, TABLE, MediaType, negotiate
from podtui.server.protocol import KubeletEndpoints
from podtui.server.resources.admission import admission, check_deletion, update_admission
from podtui.server.resources.definitions import AnyResource
from podtui.server.resources.deletion import delete_record, propagation, update_record
from podtui.server.resources.objects import RecordedObjects
from podtui.server.resources.options import (
    WriteOptions,
    delete_options,
    precondition_failure,
    write_options,
)
from podtui.server.resources.patches import (
    APPLY_PATCH,
    PATCHES,
    STRATEGIC_PATCH,
    Patches,
    parse_patch,
)
from podtui.server.resources.query import check_version, include_object, parse_query
from podtui.server.resources.read_routes import Rendering
from podtui.server.resources.strategies.strategy import Strategy, keep_system_fields, with_meta
from podtui.server.status import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid_fields,
    json_response,
    not_found,
)
from podtui.store.protocol import Records
from podtui.store.resources import RESOURCES, Object
from podtui.store.resources import Resource as RecordName

_STORED: Final = {"nodes": "minions"}
"""The names of resources in the API server's storage, where they differ."""
_NAME_ATTEMPTS: Final = 8
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX: Final = 58


@dataclass(slots=True)
class Answer:
    """The media type and the warnings of the response to a write."""

    media: MediaType
    include: str
    warnings: list[str] = field(default_factory=list[str])


class WriteRoutes:
    """The handlers of one resource. The kubelet keeps the ephemeral containers of static pods."""

    def __init__(
        self, resource: AnyResource, records: Records, kubelet: KubeletEndpoints, clock: Clock
    ) -> None:
        assert resource.record is not None
        assert resource.strategy is not None
        self._resource = resource
        self._record: RecordName = resource.record
        self._strategy = resource.strategy
        self._records = records
        self._clock = clock
        self._kubelet = kubelet
        self._admit = admission(resource, records, clock)
        self._rendering = Rendering(resource, clock)
        self._patches = Patches(resource, clock)

    def routes(self) -> list[web.RouteDef]:
        root, plural = self._resource.root, self._resource.plural
        collection = f"{root}/{plural}"
        if self._resource.namespaced:
            collection = f"{root}/namespaces/{{namespace}}/{plural}"
        item = f"{collection}/{{name}}"
        # The methods of one path follow each other: the router has one entry for them.
        routes = [web.post(collection, self.create)]
        if self._resource.deletes_collections:
            routes.append(web.delete(collection, self.delete_collection))
        routes += (
            web.put(item, self.replace),
            web.patch(item, self.patch),
            web.delete(item, self.delete),
        )
        for subresource, strategy in self._resource.updates.items():
            routes += self._subresource(f"{item}/{subresource}", subresource, strategy)
        return routes

    def _subresource(self, path: str, name: str, strategy: Strategy[Any]) -> list[web.RouteDef]:
        async def read(request: web.Request) -> web.Response:
            answer = self._answer(request)
            await check_version(request, RecordedObjects(self._records, self._record))
            return self._respond(answer, await self._stored(request))

        async def update(request: web.Request) -> web.Response:
            return await self._update(request, strategy, name)

        async def patch(request: web.Request) -> web.Response:
            return await self._patch(request, strategy, name)

        handlers = {
            "get": web.get(path, read),
            "update": web.put(path, update),
            "patch": web.patch(path, patch),
        }
        return [handlers[verb] for verb in self._resource.subresources[name]]

    # --- handlers

    async def create(self, request: web.Request) -> web.Response:
        options = write_options(request, "CreateOptions")
        answer = self._answer(request)
        item = self._decode(request, await request.read(), options, answer)
        return self._respond(answer, await self._create(request, item, options, answer), 201)

    async def replace(self, request: web.Request) -> web.Response:
        return await self._update(request, self._strategy, "")

    async def patch(self, request: web.Request) -> web.Response:
        return await self._patch(request, self._strategy, "")

    async def delete(self, request: web.Request) -> web.Response:
        answer = self._answer(request)
        options = delete_options(request, await request.read())
        item, gone = await self._delete(request, options)
        answer.warnings += _mirror_warnings(item)
        accepted = not gone and options.orphanDependents is False
        if gone and not self._strategy.returns_deleted:
            return self._deleted(answer, item)
        return self._respond(answer, item, 202 if accepted else 200)

    async def delete_collection(self, request: web.Request) -> web.Response:
        answer = self._answer(request)
        query = parse_query(request, self._resource)
        options = delete_options(request, await request.read())
        listing = await self._records.list(self._record, query.namespace)
        deleted: list[Any] = []
        for item in listing.items:
            if query.selects(item):
                try:
                    await self._remove(item, options)
                    deleted.append(item)
                except NotFound:
                    continue
        return self._rendering.listed(
            answer.media, answer.include, deleted, str(listing.resource_version)
        )

    # --- create

    async def _create(
        self,
        request: web.Request,
        item: Any,
        options: WriteOptions,
        answer: Answer,
        managers: tuple[ManagedFieldsEntry, ...] = (),
    ) -> Object:
        """Store a new object. ``managers`` are those of an applied configuration."""
        meta: ObjectMeta = item.metadata
        namespace = request.match_info.get("namespace", "")
        if meta.namespace not in ("", namespace):
            raise _wrong_namespace()
        if meta.resourceVersion not in ("", "0"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        item = with_meta(
            item,
            namespace=namespace,
            uid=str(uuid4()),
            creationTimestamp=rfc3339(self._clock.now()),
            deletionTimestamp=None,
            deletionGracePeriodSeconds=None,
            selfLink="",
            resourceVersion="",
            managedFields=managers,
        )
        prefix = "" if meta.name else meta.generateName
        for _ in range(_NAME_ATTEMPTS if prefix else 1):
            named = with_meta(item, name=_generated(prefix)) if prefix else item
            try:
                return await self._created(named, options, answer)
            except AlreadyExists:
                continue
        resource = self._resource
        if prefix:
            raise StatusError(
                409,
                f'{resource.qualified_name} "{prefix}" already exists, the server was not able to'
                " generate a unique name for the object",
                reason="AlreadyExists",
                details=StatusDetails(
                    name=prefix, kind=resource.plural, group=resource.group, retryAfterSeconds=1
                ),
            )
        raise already_exists(resource.plural, meta.name, resource.group)

    async def _created(self, item: Any, options: WriteOptions, answer: Answer) -> Object:
        """Admit, check and store a new object. Raises `AlreadyExists`."""
        if not item.metadata.managedFields:
            item = self._patches.managed(item, None, options, "")
        admitted = await self._admit(item)
        item = self._strategy.prepare_create(admitted)
        self._refuse(item.metadata.name, self._strategy.validate_create(item))
        self._refuse(item.metadata.name, self._meta_errors(item))
        # Annotations that are copied to fields are reported, the fields are not.
        answer.warnings += self._strategy.warnings(admitted, None)
        if not options.dry_run:
            stored = await self._records.create(self._record, item)
            await self._written(stored.metadata)
            return stored
        meta = item.metadata
        if await self._records.get(self._record, meta.namespace, meta.name) is not None:
            raise AlreadyExists(meta.name)
        return item

    # --- update and patch

    async def _update(
        self, request: web.Request, strategy: Strategy[Any], subresource: str
    ) -> web.Response:
        options = write_options(request, "UpdateOptions")
        answer = self._answer(request)
        item = self._decode(request, await request.read(), options, answer)
        item = self._addressed(request, item)

        def change(old: Any) -> Any:
            self._check_identity(item, old)
            return self._patches.managed(item, old, options, subresource)

        try:
            stored = await self._change(request, strategy, subresource, change, options, answer)
        except NotFound:
            if subresource or not strategy.create_on_update:
                raise self._missing(request) from None
            stored = await self._create(request, item, options, answer)
            return self._respond(answer, stored, 201)
        return self._respond(answer, stored)

    async def _patch(
        self, request: web.Request, strategy: Strategy[Any], subresource: str
    ) -> web.Response:
        media = request.content_type
        if media not in PATCHES:
            raise StatusError(415, "415: Unsupported Media Type", details=StatusDetails())
        options = write_options(request, "PatchOptions", apply=media == APPLY_PATCH)
        answer = self._answer(request)
        patch = parse_patch(media, await request.read())
        if media == APPLY_PATCH:
            return await self._apply(request, strategy, subresource, patch, options, answer)

        def change(old: Any) -> Any:
            document = self._patches.patched(old, media, patch)
            shown = go_text(patch) if media == STRATEGIC_PATCH else ""
            new = self._patched(request, old, document, options, answer, shown)
            return self._patches.managed(new, old, options, subresource)

        try:
            stored = await self._change(request, strategy, subresource, change, options, answer)
        except NotFound:
            raise self._missing(request) from None
        return self._respond(answer, stored)

    async def _apply(
        self,
        request: web.Request,
        strategy: Strategy[Any],
        subresource: str,
        applied: Tree,
        options: WriteOptions,
        answer: Answer,
    ) -> web.Response:
        """Apply a configuration, or create the object from it."""
        self._patches.check_kind(applied)

        def change(live: Any) -> Any:
            document = self._patches.applied(live, applied, options, subresource)
            return self._patched(request, live, document, options, answer)

        try:
            stored = await self._change(request, strategy, subresource, change, options, answer)
        except NotFound:
            if subresource:
                raise self._missing(request) from None
            item = change(None)
            managers = item.metadata.managedFields
            stored = await self._create(request, item, options, answer, managers)
            return self._respond(answer, stored, 201)
        return self._respond(answer, stored)

    def _patched(
        self,
        request: web.Request,
        old: Any | None,
        document: Tree,
        options: WriteOptions,
        answer: Answer,
        shown: str = "",
    ) -> Any:
        """Decode a patched document. ``shown`` is the strategic merge patch, which stands for the
        document in error messages."""
        resource = self._resource
        expected = {"apiVersion": resource.api_version, "kind": resource.kind}
        try:
            for name, wanted in expected.items():
                if document.get(name) != wanted:
                    raise DecodeError(f"{name} {document.get(name)} does not match {wanted}")
            changed, same = self._changed_parts(document, old)
            tree, remarks = self._typed(changed)
            if shown:  # Go sorts the unknown fields of a document that it does not read as JSON.
                remarks = sorted(remarks)
            if remarks and options.validation == "Strict":
                raise DecodeError(f"strict decoding error: {', '.join(remarks)}")
        except DecodeError as error:
            shown = shown or msgspec.json.encode(document, order="sorted").decode()
            why = FieldError("patch", "FieldValueInvalid", str(error), shown)
            raise invalid_fields("", "", [why]) from error
        if options.validation == "Warn":
            answer.warnings += remarks
        if old is not None and same.keys() == document.keys() - {"metadata"}:
            # The other parts have their defaults already. That they are the same objects makes it
            # quick to compare them.
            metadata = to_struct(tree["metadata"], ObjectMeta)
            return self._addressed(request, msgspec.structs.replace(old, metadata=metadata))
        kept = {name: part for name, part in same.items() if name not in expected}
        tree |= msgspec.json.decode(msgspec.json.encode(kept))
        self._strategy.defaults(tree)
        return self._addressed(request, to_struct(tree, self._strategy.struct))

    async def _change(
        self,
        request: web.Request,
        strategy: Strategy[Any],
        subresource: str,
        change: Callable[[Any], Any],
        options: WriteOptions,
        answer: Answer,
    ) -> Object:
        """Update the object that the request names. Raises `NotFound` and `StatusError`."""
        namespace, name = _key(request)

        def updated(old: Any) -> Any:
            new = change(old)
            self._check_version(new, old, strategy)
            new = self._prepared(strategy, new, old)
            self._refuse(old.metadata.name, self._update_errors(strategy, new, old))
            admit(new, old)
            answer.warnings.extend(strategy.warnings(new, old))
            return new

        old = await self._records.get(self._record, namespace, name)
        if old is None:
            raise NotFound(name)
        admit = await update_admission(subresource, old, self._records)
        if subresource == "ephemeralcontainers" and isinstance(old, Pod) and is_mirror(old):
            return await self._debug_static(old, change(old), options)
        if options.dry_run:
            return updated(old)
        stored: Object = await update_record(
            self._records, self._record, strategy, namespace, name, updated
        )
        await self._written(stored.metadata)
        return stored

    async def _debug_static(self, old: Pod, new: Pod, options: WriteOptions) -> Pod:
        """Let the kubelet add ephemeral containers to a static pod; an API server refuses that
        (departure 27)."""
        if options.dry_run:
            raise bad_request("dryRun is not supported for static pods")
        self._check_version(new, old, self._strategy)
        meta = old.metadata
        try:
            changed = await self._kubelet.set_ephemeral_containers(
                meta.namespace, meta.name, new.spec.ephemeralContainers
            )
        except LookupError:
            raise NotFound(meta.name) from None
        except InvalidUpdate as error:
            raise _invalid_update(meta.name, error) from error
        return with_meta(changed, resourceVersion=meta.resourceVersion)

    def _prepared(self, strategy: Strategy[Any], new: Any, old: Any) -> Any:
        new = with_meta(new, generation=old.metadata.generation, selfLink="")
        new = keep_system_fields(strategy.prepare_update(new, old), old)
        return _without_idle_times(
            with_meta(new, resourceVersion=old.metadata.resourceVersion), old
        )

    def _meta_errors(self, item: Any) -> Errors:
        """Check the metadata as for every resource."""
        namespaced = self._resource.namespaced
        rule = path_segment
        yield from object_meta(item.metadata, "metadata", namespaced=namespaced, name_rule=rule)

    def _update_errors(self, strategy: Strategy[Any], new: Any, old: Any) -> Errors:
        yield from self._meta_errors(new)
        yield from object_meta_update(new.metadata, old.metadata, "metadata")
        yield from strategy.validate_update(new, old)

    def _check_identity(self, new: Any, old: Any) -> None:
        uid = new.metadata.uid
        if uid and uid != old.metadata.uid:
            resource = self._resource
            why = uid_mismatch(resource.plural, uid, old.metadata)
            raise conflict(resource.plural, old.metadata.name, why, group=resource.group)

    def _check_version(self, new: Any, old: Any, strategy: Strategy[Any]) -> None:
        version, resource = new.metadata.resourceVersion, self._resource
        if version and not (version.isascii() and version.isdigit()):
            raise bad_request(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version in ("", "0"):
            if strategy.unconditional_update:
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

    # --- delete

    async def _delete(self, request: web.Request, options: DeleteOptions) -> tuple[Any, bool]:
        check_deletion(self._resource, request.match_info["name"])
        item = await self._stored(request)
        try:
            return await self._remove(item, options)
        except NotFound:
            raise self._missing(request) from None

    async def _remove(self, item: Any, options: DeleteOptions) -> tuple[Any, bool]:
        """Delete an object, or mark it as deleted. Return it, and whether it is gone. Raises
        `NotFound` and `StatusError`."""

        def check(current: Any) -> None:
            meta: ObjectMeta = current.metadata
            why = precondition_failure(options.preconditions, meta.uid, meta.resourceVersion)
            if why:
                raise conflict(self._resource.kind, meta.name, why, group=self._resource.kind_group)

        result = await delete_record(
            self._records,
            self._record,
            self._strategy,
            item,
            seconds=options.gracePeriodSeconds,
            now=self._clock.now(),
            policy=propagation(options),
            check=check,
            dry_run=bool(options.dryRun),
        )
        await self._written(item.metadata)
        return result

    async def _written(self, meta: ObjectMeta) -> None:
        """Wait until a change is on disk, as clients expect of an answered write."""
        if RESOURCES[self._record].durable:
            await self._records.flush((self._record, meta.namespace, meta.name))

    def _deleted(self, answer: Answer, item: Any) -> web.Response:
        details = StatusDetails(
            name=item.metadata.name,
            group=self._resource.group,
            kind=self._resource.plural,
            uid=item.metadata.uid,
        )
        status = Status(
            kind="Status",
            apiVersion="v1",
            metadata=ListMeta(),
            status="Success",
            details=details,
        )
        return json_response(msgspec.json.encode(status), headers=_headers(answer))

    # --- common

    def _answer(self, request: web.Request) -> Answer:
        media = negotiate(request.headers.get("Accept", ""), TABLE, PARTIAL)
        return Answer(media, include_object(request))

    def _respond(self, answer: Answer, item: Any, code: int = 200) -> web.Response:
        body = self._rendering.encode_one(answer.media, answer.include, item)
        return json_response(body, code=code, headers=_headers(answer))

    async def _stored(self, request: web.Request) -> Any:
        item = await self._records.get(self._record, *_key(request))
        if item is None:
            raise self._missing(request)
        return item

    def _missing(self, request: web.Request) -> StatusError:
        resource = self._resource
        return not_found(resource.plural, request.match_info["name"], resource.group)

    def _typed(self, document: Tree) -> tuple[Tree, list[str]]:
        from_wire = self._resource.from_wire
        tree = document if from_wire is None else from_wire(document)
        clean, remarks = decode_object(tree, self._strategy.struct)
        # Records omit what follows from their resource.
        clean.pop("apiVersion", None)
        clean.pop("kind", None)
        return clean, remarks

    def _changed_parts(self, document: Tree, old: Any | None) -> tuple[Tree, Tree]:
        """Return the parts of a patched document that changed, and those that did not. The latter
        are valid already: to decode a pod's spec and status takes longer than most patches."""
        before = {} if old is None else self._patches.document(old)
        if self._resource.from_wire is not None or before.keys() - document.keys():
            return document, {}
        changed: Tree = {}
        same: Tree = {}
        for name, part in document.items():
            is_same = name in before and _same(part, before[name])
            (same if is_same else changed)[name] = part
        return changed, same

    def _decode(
        self, request: web.Request, body: bytes, options: WriteOptions, answer: Answer
    ) -> Any:
        resource, strategy = self._resource, self._strategy
        document = parse_body(request, body, resource.kind)
        tree, remarks = decode_body(document, self._typed, resource.api_version, resource.kind)
        if remarks and options.validation == "Strict":
            version = resource.api_version.rpartition("/")[2]
            raise bad_request(
                f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}:'
                f" strict decoding error: {', '.join(remarks)}"
            )
        if options.validation == "Warn":
            answer.warnings += remarks
        strategy.defaults(tree)
        if request.method == "POST":
            name = str(tree.get("metadata", {}).get("name", ""))
            self._refuse(name, strategy.tree_errors(tree))
        return to_struct(tree, strategy.struct)

    def _addressed(self, request: web.Request, item: Any) -> Any:
        """Return the object with the namespace of the request. Raises `StatusError` if its name or
        namespace are others."""
        namespace, name = _key(request)
        meta: ObjectMeta = item.metadata
        if not meta.name:
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be"
                " provided"
            )
        if meta.name != name:
            raise bad_request(
                f"the name of the object ({meta.name}) does not match the name on the URL ({name})"
            )
        if meta.namespace not in ("", namespace):
            raise _wrong_namespace()
        return with_meta(item, namespace=namespace)

    def _refuse(self, name: str, errors: Iterable[FieldError]) -> None:
        broken = list(errors)
        if broken:
            raise invalid_fields(self._resource.kind, name, broken, self._resource.kind_group)


def uid_mismatch(plural: str, uid: str, meta: ObjectMeta) -> str:
    """Return why an update for another UID is refused, in the words of the API server's storage."""
    stored = _STORED.get(plural, plural)
    place = f"{stored}/{meta.namespace}/{meta.name}" if meta.namespace else f"{stored}/{meta.name}"
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place},"
        f" ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid},"
        f" UID in object meta: {meta.uid}"
    )


def _key(request: web.Request) -> tuple[str, str]:
    return request.match_info.get("namespace", ""), request.match_info["name"]


def _generated(prefix: str) -> str:
    suffix = "".join(secrets.choice(_NAME_ALPHABET) for _ in range(5))
    return prefix[:_LONGEST_PREFIX] + suffix


def _wrong_namespace() -> StatusError:
    return bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def _without_idle_times(new: Any, old: Any) -> Any:
    """Return the old object if nothing but times in its managedFields would change."""
    if with_meta(new, managedFields=()) != with_meta(old, managedFields=()):
        return new
    after, before = new.metadata.managedFields, old.metadata.managedFields
    times = [msgspec.structs.replace(entry, time=None) for entry in after]
    if times == [msgspec.structs.replace(entry, time=None) for entry in before]:
        return old
    return new


def _invalid_update(name: str, error: InvalidUpdate) -> StatusError:
    causes = tuple(
        StatusCause(reason=reason, message=message, field=field)
        for reason, field, message in error.causes
    )
    details = StatusDetails(name=name, kind="Pod", causes=causes)
    return StatusError(422, f'Pod "{name}" is invalid: {error}', details=details)


def _mirror_warnings(item: Any) -> Iterable[str]:
    """Warn that only its manifest ends a static pod, because the record is created again."""
    if isinstance(item, Pod) and is_mirror(item):
        path = item.metadata.annotations.get(MANIFEST_PATH, "its manifest")
        yield f"the static pod runs on, and its record comes back: remove {path} to end it"


def _same(value: Any, other: Any) -> bool:
    """Compare values in their JSON form: True is not 1 there."""
    return value is other or msgspec.json.encode(value) == msgspec.json.encode(other)


def _headers(answer: Answer) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    for text in dict.fromkeys(answer.warnings):
        headers.add("Warning", f"299 - {printed(text)}")
    return headers
