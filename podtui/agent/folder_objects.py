"""Applies the objects of the folder to the agent's own API, as GitOps tools do.

The folder is a client with a field manager of its own: it wins for the fields that its documents
state, creates deleted objects again, and deletes what it applied when a document or a file goes. An
object names its file by an annotation. The records are only read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final, Protocol

from podtui.agent.folder_plan import (
    Applied,
    Apply,
    Desired,
    Live,
    Prune,
    live_of,
    plan_applies,
    plan_prunes,
)
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.local import Diagnostic, ManifestState, Severity
from podtui.api.names import FOLDER_MANAGER
from podtui.api.objects import Object
from podtui.api.places import Path, field_path, read_places
from podtui.api.v1 import Namespace, ObjectMeta
from podtui.client.api_client import ApiClient
from podtui.clock import Clock
from podtui.controllers.events import ControllerEvents
from podtui.errors import ApiError, PodtuiError, StoreGone
from podtui.manifest.folder_state import Folder
from podtui.manifest.kinds import KINDS
from podtui.manifest.objects import Claim, FolderDocument
from podtui.store.protocol import Records, WatchType
from podtui.store.resources import RESOURCES, Resource

_LOG = logging.getLogger(__name__)
GATE_SECONDS: Final = 2.0
"""The pods of a snapshot wait so long at most for the objects of the folder."""
RETRY_SECONDS: Final = (1.0, 60.0)
"""The first and the longest delay after a failed pass."""
RECHECK_SECONDS: Final = 30.0
"""A file that the API refused is tried again after this long: a quota may have changed."""
_CALM_SECONDS: Final = 600.0
"""An object that was left alone for this long is restored at once."""
_LONGEST_REVERT: Final = 300.0
_UNDECIDED: Final = frozenset({ManifestState.INVALID, ManifestState.LAST_GOOD})
_KIND_OF: Final = {kind.struct: name for name, kind in KINDS.items()}
_RESOURCES: Final[Mapping[str, Resource]] = {
    _KIND_OF[retention.type]: resource
    for resource, retention in RESOURCES.items()
    if retention.type in _KIND_OF
}
"""The resource of each kind that the folder may hold."""
_AUTOSCALERS: Final = _RESOURCES["HorizontalPodAutoscaler"]


class FolderSource(Protocol):
    def snapshots(self) -> AsyncGenerator[Folder]: ...

    def refuse(
        self, name: str, documents: tuple[FolderDocument, ...], errors: tuple[Diagnostic, ...]
    ) -> None:
        """Record the API's errors about the documents of a file; none if it accepts them now."""
        ...


class FolderObjects:
    """Applies each snapshot of ``folder``, and passes it on to the kubelet (`snapshots`)."""

    def __init__(
        self, folder: FolderSource, records: Records, client: ApiClient, clock: Clock
    ) -> None:
        self._source = folder
        self._records = records
        self._client = client
        self._clock = clock
        self._events = ControllerEvents(client, clock)
        self._folder: Folder | None = None
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        """Set while the newest snapshot is applied."""
        self._refused_now = False
        self._managed: dict[Claim, Live] = {}
        """The objects that the folder manages, as the records have them."""
        self._applied: dict[Claim, Applied] = {}
        self._refused: dict[str, tuple[tuple[FolderDocument, ...], float]] = {}
        """The documents of each file that the API refused, and when they are tried again."""
        self._reverts: dict[Claim, tuple[int, float]] = {}
        """The number of times each object was restored in a row, and the time of the last one."""

    async def snapshots(self) -> AsyncGenerator[Folder]:
        """Yield each snapshot of the folder as soon as its objects are applied. A snapshot with a
        file that the API refuses is skipped: another one follows, with that file's version
        before."""
        async with aclosing(self._source.snapshots()) as folders:
            async for folder in folders:
                self._folder = folder
                self._settled.clear()
                self._refused_now = False
                self._wake.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(GATE_SECONDS):
                        await self._settled.wait()
                if not self._refused_now:
                    yield folder

    async def run(self) -> None:
        """Apply the newest snapshot, and again after each change of its objects. Runs forever."""
        self._managed.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="events of the folder")
            for kind, resource in _RESOURCES.items():
                group.create_task(self._watch(kind, resource), name=f"folder: {kind}")
            delay = 0.0
            while True:
                self._wake.clear()
                try:
                    seconds = await self._pass()
                    delay = 0.0
                except PodtuiError as error:
                    delay = min(max(2 * delay, RETRY_SECONDS[0]), RETRY_SECONDS[1])
                    seconds = delay
                    _LOG.warning("the folder: %s; again in %.3g s", error, delay)
                    self._settled.set()
                if delay:
                    await self._clock.sleep(delay)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._wake.wait()

    async def _watch(self, kind: str, resource: Resource) -> None:
        """Follow the objects of a kind that the folder manages or states."""
        while True:
            with suppress(StoreGone):
                listing = await self._records.list(resource)
                for key in [key for key in self._managed if key[0] == kind]:
                    del self._managed[key]
                for item in listing.items:
                    self._note(kind, item)
                self._wake.set()
                async for change in self._records.watch(resource, since=listing.resource_version):
                    if change.object is not None:
                        gone = change.type is WatchType.DELETED
                        self._note(kind, change.object, gone=gone)

    def _note(self, kind: str, item: Object, *, gone: bool = False) -> None:
        meta = item.metadata
        key = (kind, meta.namespace, meta.name)
        live = live_of(item)
        before = self._managed.get(key)
        if gone or live.fields is None:
            self._managed.pop(key, None)
            if before is not None or key in self._applied:
                self._wake.set()
        elif before != live:
            self._managed[key] = live
            self._wake.set()

    # --- one pass

    async def _pass(self) -> float | None:
        """Return the seconds until something is due, if anything is."""
        folder = self._folder
        if folder is None or folder.error:
            self._settled.set()
            return None
        desired = _desired(folder)
        live = await self._live(desired)
        scaled = await self._scaled(desired)
        applies = plan_applies(desired, live, self._applied, scaled)
        await self._create_namespaces(folder, desired)
        skipped = await self._check(folder, applies)
        due: list[float] = []
        for step in applies:
            if step.desired.file in skipped:
                continue
            wait = self._wait_for(step)
            if wait > 0:
                due.append(wait)
            else:
                await self._apply(step)
        undecided = {
            manifest.spec.path
            for manifest in folder.manifests.values()
            if manifest.status.state in _UNDECIDED
        }
        for prune in plan_prunes(desired, self._managed, undecided | skipped):
            await self._prune(prune)
        for key in self._applied.keys() - desired.keys():
            del self._applied[key]
        if folder is self._folder:
            self._settled.set()
        due += await self._recheck()
        return min(due, default=None)

    async def _live(self, desired: Iterable[Claim]) -> dict[Claim, Live]:
        live: dict[Claim, Live] = {}
        for key in desired:
            item = await self._get(key)
            if item is not None:
                live[key] = live_of(item)
        return live

    async def _get(self, key: Claim) -> Object | None:
        kind, namespace, name = key
        return await self._records.get(_RESOURCES[kind], namespace, name)

    async def _scaled(self, desired: Iterable[Claim]) -> set[Claim]:
        """Return the objects that an autoscaler scales."""
        namespaces = {namespace for _, namespace, _ in desired if namespace}
        scaled: set[Claim] = set()
        for item in (await self._records.list(_AUTOSCALERS)).items:
            if isinstance(item, HorizontalPodAutoscaler) and item.metadata.namespace in namespaces:
                target = item.spec.scaleTargetRef
                scaled.add((target.kind, item.metadata.namespace, target.name))
        return scaled

    async def _create_namespaces(self, folder: Folder, desired: Mapping[Claim, Desired]) -> None:
        """Create the namespaces that documents name and no document states."""
        named = {namespace for _, namespace, _ in desired}
        named |= {pod.metadata.namespace for pod in folder.pods.values()}
        for name in sorted(named - {""}):
            stated = ("Namespace", "", name) in desired
            if not stated and await self._records.get("namespaces", "", name) is None:
                try:
                    await self._client.create(Namespace, Namespace(metadata=ObjectMeta(name=name)))
                except ApiError as error:
                    if error.code != 409:
                        raise

    async def _check(self, folder: Folder, applies: Iterable[Apply]) -> set[str]:
        """Try the changed files without storing anything: a file is applied as a whole or not at
        all. Return the paths of the files that the API refuses."""
        changed: dict[str, list[Apply]] = {}
        for step in applies:
            if step.is_new:
                changed.setdefault(step.desired.file, []).append(step)
        skipped: set[str] = set()
        for name, documents in folder.documents.items():
            path = folder.manifests[name].spec.path
            errors = [e for step in changed.get(path, ()) for e in await self._errors(step)]
            if errors:
                skipped.add(path)
                self._refuse(name, documents, tuple(errors))
        return skipped

    def _refuse(
        self, name: str, documents: tuple[FolderDocument, ...], errors: tuple[Diagnostic, ...]
    ) -> None:
        self._refused[name] = (documents, self._clock.monotonic() + RECHECK_SECONDS)
        self._source.refuse(name, documents, errors)
        self._refused_now = True

    async def _errors(self, step: Apply) -> tuple[Diagnostic, ...]:
        try:
            await self._write(step, dry_run=True)
        except ApiError as error:
            if _is_early(step, error):
                return ()
            if _is_answer(error):
                return diagnostics_of(error, step.desired)
            raise
        return ()

    async def _recheck(self) -> list[float]:
        """Try the refused files again that are due; return the seconds until the others are."""
        folder = self._folder
        waits: list[float] = []
        for name, (documents, due) in list(self._refused.items()):
            if folder is None or name not in folder.manifests:
                del self._refused[name]
                continue
            left = due - self._clock.monotonic()
            if left > 0:
                waits.append(left)
                continue
            path = folder.manifests[name].spec.path
            errors: list[Diagnostic] = []
            for document in documents:
                here = Desired(document, path)
                [step] = plan_applies({document.key: here}, {}, {})
                errors += await self._errors(step)
            if errors:
                self._refuse(name, documents, tuple(errors))
                waits.append(RECHECK_SECONDS)
            else:
                del self._refused[name]
                self._source.refuse(name, documents, ())
        return waits

    # --- writes

    def _wait_for(self, step: Apply) -> float:
        """Return the seconds to wait before an object is restored once more: others may change it
        again and again."""
        if not (step.changed or step.recreates) or step.key not in self._reverts:
            return 0.0
        count, last = self._reverts[step.key]
        since = self._clock.monotonic() - last
        if since >= _CALM_SECONDS:
            del self._reverts[step.key]
            return 0.0
        return min(2.0 ** (count - 1), _LONGEST_REVERT) - since

    async def _apply(self, step: Apply) -> None:
        try:
            await self._write(step)
        except ApiError as error:
            if not _is_answer(error):
                raise
            # The file was checked: something changed since. The next pass tries again.
            raise PodtuiError(f"{_shown(step.key)} of {step.desired.file}: {error}") from error
        item = await self._get(step.key)
        if item is None:
            return
        live = live_of(item)
        self._applied[step.key] = Applied(step.configuration, live.uid, live.fields)
        if step.changed or step.recreates:
            count, _ = self._reverts.get(step.key, (0, 0.0))
            self._reverts[step.key] = (count + 1, self._clock.monotonic())
            reason, message = "FolderReverted", f"Restored {_list(step.changed)}"
            if step.recreates:
                reason, message = "FolderRecreated", "Created the object again"
            text = f"{message}: {step.desired.file} states it"
            self._events.record(FOLDER_MANAGER, item, "Normal", reason, text)

    async def _write(self, step: Apply, *, dry_run: bool = False) -> None:
        kind, namespace, name = step.key
        await self._client.apply(
            KINDS[kind].struct,
            namespace,
            name,
            step.configuration,
            manager=FOLDER_MANAGER,
            force=True,
            dry_run=dry_run,
        )

    async def _prune(self, step: Prune) -> None:
        kind, namespace, name = step.key
        struct: Any = KINDS[kind].struct
        try:
            await self._client.delete(struct, namespace, name, uid=step.uid, policy="Background")
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            # It is gone, or another object has its name.
        _LOG.info("deleted %s: %s does not state it any more", _shown(step.key), step.file)


def _desired(folder: Folder) -> dict[Claim, Desired]:
    desired: dict[Claim, Desired] = {}
    for name, documents in folder.documents.items():
        path = folder.manifests[name].spec.path
        for document in documents:
            desired.setdefault(document.key, Desired(document, path))
    return desired


def _is_early(step: Apply, error: ApiError) -> bool:
    """Return whether the namespace did not exist when the API was asked: the folder states or
    creates it, so that it may exist by now."""
    return error.code == 404 and bool(step.key[1])


def _is_answer(error: ApiError) -> bool:
    """Return whether the API refused the content; otherwise it may accept it later."""
    return 400 <= error.code < 500 and error.code not in (408, 409, 429)


def diagnostics_of(error: ApiError, desired: Desired) -> tuple[Diagnostic, ...]:
    """Return the API's errors about a document, each at the line of its field."""
    document = desired.document
    places = read_places(document.places)
    named = f"{_shown(document.key)}: "

    def diagnostic(field: str, message: str) -> Diagnostic:
        path: Path = field_path(field)
        while path and path not in places:
            path = path[:-1]
        line, column = places[path].value if path else document.position
        return Diagnostic(
            severity=Severity.ERROR,
            path=desired.file,
            code="Refused",
            message=named + message,
            line=line,
            column=column,
            field=field,
        )

    if not error.causes:
        return (diagnostic("", str(error)),)
    return tuple(diagnostic(field, message) for field, message in error.causes)


def _shown(key: Claim) -> str:
    kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _list(fields: tuple[str, ...]) -> str:
    shown = ", ".join(fields[:3])
    more = len(fields) - 3
    return f"{shown} and {more} more" if more > 0 else shown or "its fields"
