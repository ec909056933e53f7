"""The state of one file of the folder, its claims, and its record for the API."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from podtui.api import v1
from podtui.api.local import (
    Diagnostic,
    DocumentOutcome,
    Manifest,
    ManifestObject,
    ManifestSpec,
    ManifestState,
    ManifestStatus,
    Severity,
    summary_text,
)
from podtui.manifest.document import NOT_ENFORCED
from podtui.manifest.listing import Stamp, shown_path
from podtui.manifest.objects import Claim, FolderDocument, Tree
from podtui.manifest.result import MISSING_OBJECT, ReadResult


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
    raw: tuple[v1.Pod, ...] = ()
    """The accepted pods as read; ``good`` are the same pods with ``config.seen``."""
    good: tuple[v1.Pod, ...] = ()
    documents: tuple[FolderDocument, ...] = ()
    """The other objects of the file's last good version."""
    before: tuple[tuple[v1.Pod, ...], tuple[FolderDocument, ...]] = ((), ())
    """The pods and the other objects of the last good version before this one."""
    refusals: tuple[Diagnostic, ...] = ()
    """The API server's errors about the content of this version."""
    drawn: tuple[tuple[object, ...], Manifest] | None = None
    """The cached record, and the values it was made from."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The evaluated state of a file. ``pods`` are the pods to run, ``documents`` the objects to
    apply; for an invalid file, those of its last good version. For a duplicate, ``conflict`` is
    the reason why another file has precedence. Unless the agent ``applies`` the documents, they are
    not stored in the API."""

    file: File
    state: ManifestState
    result: ReadResult
    pods: tuple[v1.Pod, ...] = ()
    documents: tuple[FolderDocument, ...] = ()
    conflict: str = ""
    applies: bool = True


def first_error(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Return the first error in one line, with the number of further errors."""
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    if not errors:
        return ""
    first = errors[0]
    position = f"line {first.line}: " if first.line is not None else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{position}{first.text}{more}"


def claims_of(entry: FileState) -> Iterator[tuple[Claim, Tree | None]]:
    """Yield what this file provides and no other file may provide as well, unless with the same
    configuration."""
    for pod in entry.pods:
        meta = pod.metadata
        yield ("Pod", meta.namespace, meta.name), None
        yield ("UID", "", meta.uid), None
    for document in entry.documents:
        yield document.key, document.configuration


def _claim_text(claim: Claim) -> str:
    kind, namespace, name = claim
    if kind == "UID":
        return f'the UID "{name}"'
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def as_duplicate(entry: FileState, claim: Claim, other_file: str, *, strict: bool) -> FileState:
    """Mark a file as a duplicate, because ``other_file`` already has its claim."""
    result = entry.result
    this_file, other_file = shown_path(entry.file.name), shown_path(other_file)
    line, column = result.positions.get(claim) or (None, None)
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
            return entry.file.ignored or summary_text(_summary(entry))
        case ManifestState.DUPLICATE:
            return entry.conflict
        case ManifestState.LAST_GOOD:
            verb = "keeps running" if entry.pods else "is still used"
            return f"the previous version {verb}; {first_error(result.diagnostics)}"
        case ManifestState.INVALID:
            return first_error(result.diagnostics)
        case ManifestState.ACCEPTED:
            items = _summary(entry)
            pod_alone = len(items) == 1 and bool(items[0].uid)
            return "" if pod_alone else summary_text(items)


def is_used(item: ManifestObject) -> bool:
    """Return whether a document is of a kind that podtui serves."""
    return item.outcome is not DocumentOutcome.IGNORED


def _summary(entry: FileState) -> tuple[ManifestObject, ...]:
    """Return the documents of a file with what becomes of each."""
    findings = entry.result.diagnostics
    starts = sorted(item.line for item in entry.result.items)
    items: list[ManifestObject] = []
    for item in entry.result.items:
        position = bisect_right(starts, item.line)
        end = starts[position] if position < len(starts) else None
        own = [
            d
            for d in findings
            if d.line is not None and item.line <= d.line and (end is None or d.line < end)
        ]
        outcome, message = _outcome(item, own, entry)
        items.append(msgspec.structs.replace(item, outcome=outcome, message=message))
    return tuple(items)


def _outcome(
    item: ManifestObject, findings: list[Diagnostic], entry: FileState
) -> tuple[DocumentOutcome, str]:
    errors = [d for d in findings if d.severity is Severity.ERROR]
    if errors:
        return DocumentOutcome.REFUSED, errors[0].text
    if item.outcome is DocumentOutcome.IGNORED:
        return DocumentOutcome.IGNORED, next((d.text for d in findings), "")
    if entry.state is ManifestState.DUPLICATE:
        return DocumentOutcome.WAITS, entry.conflict
    if entry.state is not ManifestState.ACCEPTED:
        return DocumentOutcome.WAITS, "another document of the file has errors"
    if item.uid:
        missing = next((d.text for d in findings if d.code == MISSING_OBJECT), "")
        return DocumentOutcome.RUNS, missing
    if not entry.applies:
        return DocumentOutcome.WAITS, "this node belongs to a cluster, and the object would be its"
    idle = next((d.text for d in findings if d.code == NOT_ENFORCED), "")
    return (DocumentOutcome.NO_EFFECT if idle else DocumentOutcome.APPLIED), idle


def record_of(entry: FileState) -> Manifest:
    """Return the file's record; the identical object as last time if it is equal."""
    file = entry.file
    basis = (
        entry.state,
        file.result,
        file.ignored,
        entry.result.diagnostics,
        entry.pods,
        entry.conflict,
    )
    if file.drawn is not None and _same(file.drawn[0], basis):
        return file.drawn[1]
    meta = entry.pods[0].metadata if entry.pods else v1.ObjectMeta()
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
            objects=_summary(entry),
        ),
    )
    file.drawn = (basis, manifest)
    return manifest


def _same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    """Return whether the basis of a record is unchanged; fast if the parts are identical
    objects."""
    return all(a is b or a == b for a, b in zip(old, new, strict=True))
