"""The create, update, patch and delete handlers, common to all resources.

A write is decoded, defaulted, admitted, prepared by the strategy of its resource, validated and
stored, in the API server's order. `podtui.server.resources.write` has the steps that need no
records. An update is computed inside `Records.update`, so that no other write can come between.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, Generic, cast

from aiohttp import web

from podtui.api.local import Manifest
from podtui.api.names import FOLDER_MANAGER, MANIFEST_PATH
from podtui.api.objects import Object, T
from podtui.api.pods import is_mirror
from podtui.api.v1 import (
    DeleteOptions,
    ListMeta,
    ObjectMeta,
    Pod,
    Status,
    StatusCause,
    StatusDetails,
)
from podtui.clock import Clock
from podtui.errors import AlreadyExists, InvalidUpdate, NotFound
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.auth.access import check_creation
from podtui.server.encoding.media_types import PARTIAL, TABLE, negotiate
from podtui.server.protocol import KubeletEndpoints
from podtui.server.resources.admission import (
    admission,
    check_deletion,
    check_limits,
    update_admission,
    update_completion,
)
from podtui.server.resources.deletion import delete_record, propagation, update_record
from podtui.server.resources.escalation import escalation_check
from podtui.server.resources.objects import RecordedObjects
from podtui.server.resources.options import delete_options, precondition_failure, write_options
from podtui.server.resources.patches import (
    APPLY_PATCH,
    Patches,
    parse_patch,
    patch_media,
)
from podtui.server.resources.query import check_version, include_object, parse_query
from podtui.server.resources.quotas import Charge, QuotaAdmission
from podtui.server.resources.read_routes import Rendering
from podtui.server.resources.resource import Resource
from podtui.server.resources.write import Answer, Write
from podtui.server.status import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    encode_status,
    json_response,
    not_found,
)
from podtui.store.protocol import Records
from podtui.store.resources import RESOURCES
from podtui.store.resources import Resource as RecordName

_MAX_NAME_ATTEMPTS: Final = 8
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX_CHARACTERS: Final = 58
_ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to"
    " remove them or set propagationPolicy=Orphan to suppress this warning"
)
Handler = Callable[[web.Request], Awaitable[web.Response]]


class WriteRoutes(Generic[T]):
    """The handlers of one resource. The kubelet keeps the ephemeral containers of static pods."""

    def __init__(
        self,
        resource: Resource[T],
        records: Records,
        kubelet: KubeletEndpoints,
        clock: Clock,
        quotas: QuotaAdmission,
    ) -> None:
        assert resource.record is not None
        assert resource.strategy is not None
        self._resource = resource
        self._record: RecordName = resource.record
        self._strategy = resource.strategy
        self._records = records
        self._clock = clock
        self._kubelet = kubelet
        self._quotas = quotas
        self._admit = admission(resource, records, clock)
        self._rendering = Rendering(resource, clock)
        self._patches = Patches(resource, clock)
        self._turn = asyncio.Lock()

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
            web.put(item, self.of_item(self.update)),
            web.patch(item, self.of_item(self.patch)),
            web.delete(item, self.of_item(self.delete)),
        )
        for subresource in self._resource.updates:
            routes += self._subresource(f"{item}/{subresource}", subresource)
        return routes

    def _subresource(self, path: str, name: str) -> list[web.RouteDef]:
        update = self.of_item(partial(self.update, subresource=name))
        patch = self.of_item(partial(self.patch, subresource=name))
        handlers = {
            "get": web.get(path, self.of_item(self.read)),
            "update": web.put(path, update),
            "patch": web.patch(path, patch),
        }
        return [handlers[verb] for verb in self._resource.subresources[name]]

    def of_item(self, handle: Handler) -> Handler:
        """Return the handler of requests that name an object: 404 if it does not exist."""

        async def handler(request: web.Request) -> web.Response:
            try:
                return await handle(request)
            except NotFound:
                resource, name = self._resource, request.match_info["name"]
                raise not_found(resource.plural, name, resource.group) from None

        return handler

    # --- handlers; those of an item raise NotFound

    async def create(self, request: web.Request) -> web.Response:
        write = self._write(request, "CreateOptions")
        item = with_meta(write.decoded(await request.read()), managedFields=())
        return write.answer.response(await self._create(write, item), 201)

    async def read(self, request: web.Request) -> web.Response:
        """Get a subresource: the object itself."""
        answer = self._answer(request)
        return answer.response(await self.current(request))

    async def update(self, request: web.Request, subresource: str = "") -> web.Response:
        write = self._write(request, "UpdateOptions", subresource)
        item = write.addressed(write.decoded(await request.read()))

        def change(old: T) -> T:
            write.check_identity(item, old)
            return write.managed(item, old)

        def new() -> T:
            return with_meta(item, managedFields=())

        creates = not subresource and write.strategy.create_on_update
        return await self._change_or_create(write, change, new if creates else None)

    async def patch(self, request: web.Request, subresource: str = "") -> web.Response:
        media = patch_media(request)
        applies = media == APPLY_PATCH
        write = self._write(request, "PatchOptions", subresource, apply=applies)
        change = write.patching(media, parse_patch(media, await request.read()))
        creates = applies and not subresource
        return await self._change_or_create(
            write, change, partial(change, None) if creates else None
        )

    async def delete(self, request: web.Request) -> web.Response:
        answer = self._answer(request)
        options = delete_options(request, await request.read())
        check_deletion(self._resource, request.match_info["name"])
        item, gone = await self._remove(await self._stored(*_key(request)), options)
        answer.warnings.extend(_mirror_warnings(item))
        answer.warnings.extend(await self._folder_warnings(item))
        if self._resource.kind == "Job" and not propagation(options):
            answer.warnings.append(_ORPHANS)
        accepted = not gone and options.orphanDependents is False
        if gone and not self._strategy.returns_deleted:
            return self._deleted(answer, item)
        return answer.response(item, 202 if accepted else 200)

    async def delete_collection(self, request: web.Request) -> web.Response:
        answer = self._answer(request)
        query = parse_query(request, self._resource)
        options = delete_options(request, await request.read())
        listing = await self._records.list(self._record, query.namespace)
        deleted: list[T] = []
        for item in cast("tuple[T, ...]", listing.items):
            if query.selects(item):
                try:
                    await self._remove(item, options)
                    deleted.append(item)
                except NotFound:
                    continue
        if self._resource.kind == "Job" and not propagation(options):
            answer.warnings.append(_ORPHANS)
        response = self._rendering.listed(
            answer.media, answer.include, deleted, str(listing.resource_version)
        )
        response.headers.extend(answer.headers)
        return response

    def _write(
        self, request: web.Request, options: str, subresource: str = "", *, apply: bool = False
    ) -> Write[T]:
        """Read the options of a write, which are of the kind ``options``."""
        return Write(
            request=request,
            resource=self._resource,
            strategy=self._resource.updates[subresource] if subresource else self._strategy,
            subresource=subresource,
            patches=self._patches,
            options=write_options(request, options, apply=apply),
            answer=self._answer(request),
        )

    def _answer(self, request: web.Request) -> Answer:
        media = negotiate(request.headers.get("Accept", ""), TABLE, PARTIAL)
        return Answer(self._rendering, media, include_object(request))

    # --- for the routes of a subresource of another kind

    async def current(self, request: web.Request) -> T:
        """Return the object that a request names. Raises `NotFound` and `StatusError`."""
        await check_version(request, RecordedObjects(self._records, self._record))
        return await self._stored(*_key(request))

    async def change(self, other: Write[Any], change: Callable[[T], T]) -> T:
        """Change the object that a write of one of its subresources names. Raises `NotFound` and
        `StatusError`."""
        write = Write(
            request=other.request,
            resource=self._resource,
            strategy=self._strategy,
            subresource=other.subresource,
            patches=self._patches,
            options=other.options,
            answer=other.answer,
        )

        def checked(old: T) -> T:
            new = change(old)
            write.check_identity(new, old)
            return new

        return await self._change(write, checked)

    # --- create

    async def _create(self, write: Write[T], item: T) -> T:
        """Store a new object. Only an applied configuration has managedFields already."""
        item = write.created(item, self._clock.now())
        check_escalation = await escalation_check(write.request)
        check_escalation(item, None)
        name = item.metadata.name
        prefix = "" if name else item.metadata.generateName
        for _ in range(_MAX_NAME_ATTEMPTS if prefix else 1):
            named = with_meta(item, name=_generated(prefix)) if prefix else item
            try:
                return await self._store_new(write, named)
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
        raise already_exists(resource.plural, name, resource.group)

    async def _store_new(self, write: Write[T], item: T) -> T:
        """Admit, check and store a new object. Raises `AlreadyExists`."""
        async with self._turn if write.strategy.serial else nullcontext():
            return await self._admit_new(write, item)

    async def _admit_new(self, write: Write[T], item: T) -> T:
        if not item.metadata.managedFields:
            item = write.managed(item, None)
        item = write.prepared_create(await self._admit(item))
        await check_limits(item, self._records)
        meta = item.metadata
        async with self._quotas.charge(self._resource, meta.namespace) as charge:
            charge.add(item)
            if not write.options.dry_run:
                stored = await self._records.create(self._record, item)
                await self._quotas.save(meta.namespace, charge)
                await self._written(stored.metadata)
                return stored
        if await self._records.get(self._record, meta.namespace, meta.name) is not None:
            raise AlreadyExists(meta.name)
        return item

    # --- update and patch

    async def _change_or_create(
        self, write: Write[T], change: Callable[[T], T], new: Callable[[], T] | None = None
    ) -> web.Response:
        """Change the object that the request names, or create ``new`` if there is none. Raises
        `NotFound` and `StatusError`."""
        try:
            return write.answer.response(await self._change(write, change))
        except NotFound:
            if new is None:
                raise
            await check_creation(write.request)
            return write.answer.response(await self._create(write, new()), 201)

    async def _change(self, write: Write[T], change: Callable[[T], T]) -> T:
        """Raises `NotFound` and `StatusError`."""
        async with (
            self._turn if write.strategy.serial else nullcontext(),
            self._quotas.charge(self._resource, write.namespace, write.subresource) as charge,
        ):
            return await self._update(write, change, charge)

    async def _update(self, write: Write[T], change: Callable[[T], T], charge: Charge) -> T:
        def updated(old: T) -> T:
            new = change(old)
            check_escalation(new, old)
            new = write.prepared_update(new, old, complete)
            admit(new, old)
            charge.add(new, old)
            write.answer.warnings.extend(write.strategy.warnings(new, old))
            return new

        old = await self._stored(write.namespace, write.name)
        check_escalation = await escalation_check(write.request)
        admit = await update_admission(write.subresource, old, self._records)
        complete = await update_completion(write.subresource, old, self._records, self._clock)
        if write.subresource == "ephemeralcontainers" and isinstance(old, Pod) and is_mirror(old):
            return await self._debug_static(write, old, change(old))
        if write.options.dry_run:
            return updated(old)
        stored = await update_record(
            self._records, self._record, write.strategy, write.namespace, write.name, updated
        )
        await self._quotas.save(write.namespace, charge)
        await self._written(stored.metadata)
        return stored

    async def _debug_static(self, write: Write[T], old: T, new: T) -> T:
        """Let the kubelet add ephemeral containers to a static pod; an API server refuses that
        (departure 27)."""
        if write.options.dry_run:
            raise bad_request("dryRun is not supported for static pods")
        write.check_resource_version(new, old)
        assert isinstance(new, Pod)
        meta = old.metadata
        try:
            changed = await self._kubelet.set_ephemeral_containers(
                meta.namespace, meta.name, new.spec.ephemeralContainers
            )
        except LookupError:
            raise NotFound(meta.name) from None
        except InvalidUpdate as error:
            raise _invalid_update(meta.name, error) from error
        return cast("T", with_meta(changed, resourceVersion=meta.resourceVersion))

    # --- delete

    async def _remove(self, item: T, options: DeleteOptions) -> tuple[T, bool]:
        """Delete an object, or mark it as deleted. Return it, and whether it is gone. Raises
        `NotFound` and `StatusError`."""

        def check(current: T) -> None:
            meta = current.metadata
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

    def _deleted(self, answer: Answer, item: T) -> web.Response:
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
        return json_response(encode_status(status), headers=answer.headers)

    async def _folder_warnings(self, item: T) -> Iterable[str]:
        """Warn that the folder creates an object again while a file states it."""
        meta = item.metadata
        path = meta.annotations.get(MANIFEST_PATH)
        if path is None or all(entry.manager != FOLDER_MANAGER for entry in meta.managedFields):
            return ()
        named = (self._resource.kind, meta.namespace, meta.name)
        for manifest in (await self._records.list("manifests")).items:
            if isinstance(manifest, Manifest) and manifest.spec.path == path:
                stated = manifest.status.objects
                if named in {(other.kind, other.namespace, other.name) for other in stated}:
                    warning = f"the object comes from {path} and is created again;"
                    return (f"{warning} delete the file, or its document, to remove the object",)
        return ()

    # --- records

    async def _stored(self, namespace: str, name: str) -> T:
        """Return the stored object. Raises `NotFound`."""
        item = await self._records.get(self._record, namespace, name)
        if item is None:
            raise NotFound(name)
        return cast("T", item)

    async def _written(self, meta: ObjectMeta) -> None:
        """Wait until a change is on disk, as clients expect of an answered write."""
        if RESOURCES[self._record].durable:
            await self._records.flush((self._record, meta.namespace, meta.name))


def _key(request: web.Request) -> tuple[str, str]:
    return request.match_info.get("namespace", ""), request.match_info["name"]


def _generated(prefix: str) -> str:
    suffix = "".join(secrets.choice(_NAME_ALPHABET) for _ in range(5))
    return prefix[:_MAX_PREFIX_CHARACTERS] + suffix


def _invalid_update(name: str, error: InvalidUpdate) -> StatusError:
    causes = tuple(
        StatusCause(reason=reason, message=message, field=field)
        for reason, field, message in error.causes
    )
    details = StatusDetails(name=name, kind="Pod", causes=causes)
    return StatusError(422, f'Pod "{name}" is invalid: {error}', details=details)


def _mirror_warnings(item: Object) -> Iterable[str]:
    """Warn that only its manifest ends a static pod, because the record is created again."""
    if isinstance(item, Pod) and is_mirror(item):
        path = item.metadata.annotations.get(MANIFEST_PATH, "its manifest")
        yield (
            "the static pod keeps running and its mirror pod is recreated;"
            f" delete {path} to stop it"
        )
