"""What is known of every file, and the folder that follows from it. No I/O, no clock.

Here the departures live: a broken file's last good version stays (1), of two files with one pod
the older one has it (3), and a pod may use the ConfigMaps and Secrets beside it (7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from podtui.api import names, v1
from podtui.api.local import (
    Diagnostic,
    Manifest,
    ManifestSpec,
    ManifestState,
    ManifestStatus,
    Severity,
)
from podtui.manifest.diagnose import ReadResult, settle
from podtui.manifest.identity import with_seen
from podtui.manifest.listing import Stamp
from podtui.manifest.objects import ObjectKey, object_key
from podtui.manifest.types import Folder

Claim = tuple[str, str, str]
"""What only one file may give: a kind with namespace and name, or a UID."""


@dataclass(slots=True, kw_only=True)
class _File:
    name: str
    path: str
    sight: int
    first_mtime: int
    stamp: Stamp | None = None
    digest: bytes = b""
    result: ReadResult | None = None
    ignored: str = ""
    raw: v1.Pod | None = None
    """The accepted pod as it was read; ``good`` is the same with ``config.seen``."""
    good: v1.Pod | None = None
    drawn: tuple[tuple[object, ...], Manifest] | None = None
    """The record, and what it was made of."""


@dataclass(frozen=True, slots=True)
class _Stand:
    """What a file offers right now, before it is compared with the others."""

    file: _File
    state: ManifestState
    result: ReadResult
    pod: v1.Pod | None = None
    rival: str = ""


def first_error(diagnostics: tuple[Diagnostic, ...]) -> str:
    """The first error in one line, and how many more there are."""
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    if not errors:
        return ""
    first = errors[0]
    place = f"line {first.line}: " if first.line is not None else ""
    name = f"{first.field}: " if first.field else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place}{name}{first.message}{more}"


def _claims(stand: _Stand) -> Iterator[Claim]:
    if stand.pod is not None:
        meta = stand.pod.metadata
        yield "Pod", meta.namespace, meta.name
        yield "UID", "", meta.uid
    for item in stand.result.objects:
        yield object_key(item)


def _claim_text(claim: Claim) -> str:
    kind, namespace, name = claim
    return f'the UID "{name}"' if kind == "UID" else f"{kind} {namespace}/{name}"


class Ledger:
    """The files by name. ``previous`` are pods of an earlier run, by their manifest's path."""

    def __init__(self, *, strict: bool, previous: Mapping[str, v1.Pod]) -> None:
        self._strict = strict
        self._previous = dict(previous)
        self._files: dict[str, _File] = {}
        self._seen: dict[str, str] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def stamp(self, name: str) -> Stamp | None:
        """The stamp that a file was last read with."""
        file = self._files.get(name)
        return file.stamp if file is not None else None

    def digest(self, name: str) -> bytes:
        """The digest of the content that a file was last read with."""
        file = self._files.get(name)
        return file.digest if file is not None else b""

    def read(
        self, name: str, path: str, sight: int, stamp: Stamp, digest: bytes, result: ReadResult
    ) -> None:
        """Take in what a file holds; ``sight`` counts the looks at the folder."""
        file = self._file(name, path, sight, stamp.mtime_ns)
        file.stamp, file.digest, file.result, file.ignored = stamp, digest, result, ""

    def touched(self, name: str, stamp: Stamp) -> None:
        """Take in that a file has a new stamp and the same content."""
        self._files[name].stamp = stamp

    def ignore(self, name: str, path: str, sight: int, reason: str) -> None:
        """Take in a name that is not read."""
        file = self._files.get(name)
        if file is None or file.ignored != reason:
            self._files[name] = _File(
                name=name, path=path, sight=sight, first_mtime=0, ignored=reason
            )

    def forget(self, name: str) -> None:
        """Take in that a file is gone."""
        self._files.pop(name, None)

    def drop_broken(self) -> None:
        """Let go of the last good versions of broken files, as a kubelet's full list does."""
        for file in self._files.values():
            if file.result is not None and file.result.broken:
                file.good = file.raw = None

    def _file(self, name: str, path: str, sight: int, mtime_ns: int) -> _File:
        file = self._files.get(name)
        if file is None or file.ignored:
            before = self._previous.pop(path, None)
            # What ran before this agent started was there first.
            sight = -1 if before is not None else sight
            file = _File(name=name, path=path, sight=sight, first_mtime=mtime_ns, good=before)
            seen = before.metadata.annotations.get(names.CONFIG_SEEN) if before else None
            if before is not None and seen is not None:
                self._seen.setdefault(before.metadata.uid, seen)
            self._files[name] = file
        return file

    def folder(self, moment: str, error: str = "") -> Folder:
        """The folder as it stands. ``moment`` is ``config.seen`` of pods that are new."""
        available = frozenset(
            object_key(item)
            for file in self._files.values()
            if file.result is not None
            for item in file.result.objects
        )
        stands = self._winners([self._stand(f, available, moment) for f in self._files.values()])
        manifests = {stand.file.name: _record(stand) for stand in stands}
        kept = [stand for stand in stands if stand.state is not ManifestState.DUPLICATE]
        pods = {s.pod.metadata.uid: s.pod for s in kept if s.pod is not None}
        objects = [item for stand in kept for item in stand.result.objects]
        alive = {f.good.metadata.uid for f in self._files.values() if f.good is not None}
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in alive}
        return Folder(
            pods=pods,
            manifests=dict(sorted(manifests.items())),
            error=error,
            config_maps={
                (o.metadata.namespace, o.metadata.name): o
                for o in objects
                if isinstance(o, v1.ConfigMap)
            },
            secrets={
                (o.metadata.namespace, o.metadata.name): o
                for o in objects
                if isinstance(o, v1.Secret)
            },
        )

    def _stand(self, file: _File, available: frozenset[ObjectKey], moment: str) -> _Stand:
        if file.result is None:
            return _Stand(file, ManifestState.IGNORED, ReadResult())
        result = settle(file.result, available)
        if result.pods:
            pod = result.pods[0]
            if file.good is None or pod != file.raw:
                seen = self._seen.setdefault(pod.metadata.uid, moment)
                file.raw, file.good = pod, with_seen(pod, seen)
            return _Stand(file, ManifestState.ACCEPTED, result, file.good)
        if not result.broken:
            file.good = file.raw = None
            return _Stand(file, ManifestState.ACCEPTED, result)
        if file.good is not None:
            return _Stand(file, ManifestState.LAST_GOOD, result, file.good)
        return _Stand(file, ManifestState.INVALID, result)

    def _winners(self, stands: list[_Stand]) -> list[_Stand]:
        """The stands, those whose claims another file has first marked as duplicates."""
        if self._strict:
            stands = sorted(stands, key=lambda s: s.file.name, reverse=True)
        else:
            stands = sorted(stands, key=lambda s: (s.file.sight, s.file.first_mtime, s.file.name))
        held: dict[Claim, str] = {}
        settled: list[_Stand] = []
        for stand in stands:
            claims = tuple(_claims(stand))
            taken = next((claim for claim in claims if claim in held), None)
            if taken is None:
                held.update(dict.fromkeys(claims, stand.file.name))
            else:
                rival = held[taken]
                stand = replace(
                    stand,
                    state=ManifestState.DUPLICATE,
                    result=self._duplicate(stand, taken, rival),
                    rival=f"{_claim_text(taken)} is given by {rival} too",
                )
            settled.append(stand)
        return settled

    def _duplicate(self, stand: _Stand, claim: Claim, rival: str) -> ReadResult:
        result = stand.result
        line, column = result.name_place or (None, None)
        why = "the later of the two by name is used" if self._strict else "it was there first"
        diagnostic = Diagnostic(
            severity=Severity.ERROR,
            path=stand.file.path,
            code="DuplicatePod" if claim[0] in {"Pod", "UID"} else "DuplicateObject",
            message=f"{_claim_text(claim)} is given by {stand.file.name} and by {rival};"
            f" {rival} has it, since {why}",
            line=line,
            column=column,
            field="metadata.uid" if claim[0] == "UID" else "metadata.name",
            fix="give it another name here, or remove one of the two files",
        )
        return replace(result, diagnostics=(*result.diagnostics, diagnostic))


def _message(stand: _Stand) -> str:
    result = stand.result
    match stand.state:
        case ManifestState.IGNORED:
            return stand.file.ignored
        case ManifestState.DUPLICATE:
            return stand.rival
        case ManifestState.LAST_GOOD:
            return f"the version before this one keeps running; {first_error(result.diagnostics)}"
        case ManifestState.INVALID:
            return first_error(result.diagnostics)
        case ManifestState.ACCEPTED:
            return ", ".join(_claim_text(object_key(item)) for item in result.objects)


def _record(stand: _Stand) -> Manifest:
    file, pod = stand.file, stand.pod
    basis = (stand.state, file.result, file.ignored, stand.result.diagnostics, pod, stand.rival)
    if file.drawn is not None and _same(file.drawn[0], basis):
        return file.drawn[1]
    meta = pod.metadata if pod is not None else v1.ObjectMeta()
    manifest = Manifest(
        metadata=v1.ObjectMeta(name=file.name),
        spec=ManifestSpec(path=file.path, text=stand.result.text),
        status=ManifestStatus(
            state=stand.state,
            message=_message(stand),
            podNamespace=meta.namespace,
            podName=meta.name,
            podUID=meta.uid,
            diagnostics=stand.result.diagnostics,
        ),
    )
    file.drawn = (basis, manifest)
    return manifest


def _same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    """Whether nothing a record is made of has changed; cheap where the parts are the same."""
    return all(a is b or a == b for a, b in zip(old, new, strict=True))
