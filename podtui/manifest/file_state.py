"""The state of one file of the folder, its claims, and its record for the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from podtui.api import v1
from podtui.api.local import (
    Diagnostic,
    Manifest,
    ManifestSpec,
    ManifestState,
    ManifestStatus,
    Severity,
)
from podtui.manifest.document import Position
from podtui.manifest.listing import Stamp, shown_path
from podtui.manifest.objects import FolderObject, object_key
from podtui.manifest.result import ReadResult

Claim = tuple[str, str, str]
"""Something that only one file may provide: a kind with namespace and name, or a UID."""


@dataclass(slots=True, kw_only=True)
class File:
    """The state of one file. ``first_scan`` is the number of the scan that first found it, negative
    if its pod ran before the agent started; with ``first_mtime`` it decides which of two files is
    older."""

    name: str
    path: str
    first_scan: int
    first_mtime: int
    stamp: Stamp | None = None
    digest: bytes = b""
    result: ReadResult | None = None
    ignored: str = ""
    raw: v1.Pod | None = None
    """The accepted pod as read; ``good`` is the same pod with ``config.seen``."""
    good: v1.Pod | None = None
    objects: tuple[FolderObject, ...] = ()
    """The ConfigMaps and Secrets of the file's last good version."""
    drawn: tuple[tuple[object, ...], Manifest] | None = None
    """The cached record, and the values it was made from."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The evaluated state of a file. ``pod`` is the pod to run; for an invalid file, that of its
    last good version. For a duplicate, ``conflict`` is the reason why another file has
    precedence."""

    file: File
    state: ManifestState
    result: ReadResult
    pod: v1.Pod | None = None
    objects: tuple[FolderObject, ...] = ()
    conflict: str = ""


def first_error(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Return the first error in one line, with the number of further errors."""
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    if not errors:
        return ""
    first = errors[0]
    position = f"line {first.line}: " if first.line is not None else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{position}{first.text}{more}"


def claims_of(entry: FileState) -> Iterator[Claim]:
    """Yield what this file provides and no other file may provide as well."""
    if entry.pod is not None:
        meta = entry.pod.metadata
        yield "Pod", meta.namespace, meta.name
        yield "UID", "", meta.uid
    for item in entry.objects:
        yield object_key(item)


def _claim_text(claim: Claim) -> str:
    kind, namespace, name = claim
    return f'the UID "{name}"' if kind == "UID" else f"{kind} {namespace}/{name}"


def as_duplicate(entry: FileState, claim: Claim, other_file: str, *, strict: bool) -> FileState:
    """Mark a file as a duplicate, because ``other_file`` already has its claim."""
    result = entry.result
    this_file, other_file = shown_path(entry.file.name), shown_path(other_file)
    places: Mapping[Claim, Position] = {**result.object_places}
    line, column = places.get(claim, result.name_place) or (None, None)
    why = "its name sorts last" if strict else "it is older"
    diagnostic = Diagnostic(
        severity=Severity.ERROR,
        path=entry.file.path,
        code="DuplicatePod" if claim[0] in {"Pod", "UID"} else "DuplicateObject",
        message=f"{_claim_text(claim)} is defined in {this_file} and in {other_file};"
        f" {other_file} is used, because {why}",
        line=line,
        column=column,
        field="metadata.uid" if claim[0] == "UID" else "metadata.name",
        fix="give it another name here, or remove one of the two files",
    )
    return replace(
        entry,
        state=ManifestState.DUPLICATE,
        result=replace(result, diagnostics=(*result.diagnostics, diagnostic)),
        conflict=f"{_claim_text(claim)} is already defined in {other_file}",
    )


def _message(entry: FileState) -> str:
    result = entry.result
    match entry.state:
        case ManifestState.IGNORED:
            return entry.file.ignored
        case ManifestState.DUPLICATE:
            return entry.conflict
        case ManifestState.LAST_GOOD:
            verb = "keeps running" if entry.pod is not None else "is still used"
            return f"the previous version {verb}; {first_error(result.diagnostics)}"
        case ManifestState.INVALID:
            return first_error(result.diagnostics)
        case ManifestState.ACCEPTED:
            return ", ".join(_claim_text(object_key(item)) for item in entry.objects)


def record_of(entry: FileState) -> Manifest:
    """Return the file's record; the identical object as last time if it is equal."""
    file, pod = entry.file, entry.pod
    basis = (entry.state, file.result, file.ignored, entry.result.diagnostics, pod, entry.conflict)
    if file.drawn is not None and _same(file.drawn[0], basis):
        return file.drawn[1]
    meta = pod.metadata if pod is not None else v1.ObjectMeta()
    manifest = Manifest(
        metadata=v1.ObjectMeta(name=shown_path(file.name)),
        spec=ManifestSpec(path=file.path, text=entry.result.text),
        status=ManifestStatus(
            state=entry.state,
            message=_message(entry),
            podNamespace=meta.namespace,
            podName=meta.name,
            podUID=meta.uid,
            places=entry.result.places,
            diagnostics=entry.result.diagnostics,
            fix=entry.result.fix,
        ),
    )
    file.drawn = (basis, manifest)
    return manifest


def _same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    """Return whether the basis of a record is unchanged; fast if the parts are identical
    objects."""
    return all(a is b or a == b for a, b in zip(old, new, strict=True))
