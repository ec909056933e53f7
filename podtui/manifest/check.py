"""Check of manifests without running them, with a report as text or JSON (``podtui check``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import msgspec

from podtui.api.local import (
    Diagnostic,
    Manifest,
    ManifestObject,
    ManifestState,
    Severity,
    summary_text,
)
from podtui.api.v1 import Pod
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.document import FURTHER_DOCUMENT, MAX_BYTES, as_utf8, printable, source_lines
from podtui.manifest.folder_state import FolderState
from podtui.manifest.kustomize import read_kustomization, used_names, without_used
from podtui.manifest.listing import Listed, Stamp, list_path, read_file, shown_path
from podtui.manifest.result import MISSING_OBJECT, ReadResult
from podtui.text.terminal_text import cells, plural

STDIN: Final = "-"
_WIDTH: Final = 100
_RESET: Final = "\x1b[0m"
_BOLD: Final = "\x1b[1m"
_RED: Final = "\x1b[31m"
_YELLOW: Final = "\x1b[33m"
_GREEN: Final = "\x1b[32m"
_DIM: Final = "\x1b[2m"

Paint = Callable[[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """The result for one file: ``path`` as it was given, its pods, its documents, and its source
    lines."""

    path: str
    state: ManifestState
    message: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    pods: tuple[Pod, ...] = ()
    objects: tuple[ManifestObject, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def errors(self) -> int:
        return sum(d.severity is Severity.ERROR for d in self.diagnostics)

    @property
    def unread(self) -> int:
        """The number of findings about pods, or text that may have pods, that do not run."""
        return sum(d.code in (FURTHER_DOCUMENT, MISSING_OBJECT) for d in self.diagnostics)

    @property
    def warnings(self) -> int:
        return sum(d.severity is Severity.WARNING for d in self.diagnostics)


class _FileJson(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    state: ManifestState
    message: str
    namespace: str
    name: str
    uid: str
    objects: tuple[ManifestObject, ...]
    diagnostics: tuple[Diagnostic, ...]


def _failed(path: str, message: str, code: str) -> ReadResult:
    diagnostic = Diagnostic(severity=Severity.ERROR, path=path, code=code, message=message)
    return ReadResult(diagnostics=(diagnostic,))


def _read(
    path: str, data: bytes | None, *, node_name: str, strict: bool
) -> tuple[ReadResult, tuple[str, ...]]:
    shown = shown_path(path)
    if data is None:
        try:
            data = read_file(path).data
        except OSError as error:
            message = f"the file cannot be read: {error.strerror or error}"
            return _failed(shown, message, "Unreadable"), ()
    return _read_data(shown, data, node_name=node_name, strict=strict)


def _read_data(
    shown: str, data: bytes, *, node_name: str, strict: bool
) -> tuple[ReadResult, tuple[str, ...]]:
    result = read_manifest(shown, data, node_name=node_name, strict=strict)
    # The content of a Secret is never printed on a terminal.
    text = as_utf8(data, "replace").decode("utf-8-sig", "replace") if result.text else ""
    return result, tuple(source_lines(text))


@dataclass(slots=True)
class _Group:
    """The files of one folder, checked together because pod names, ConfigMaps and Secrets are
    shared."""

    folder_state: FolderState
    lines: dict[str, tuple[str, ...]]
    requested: dict[str, tuple[int, str]]
    """By file name: its position among all checked files, and the path as it was given."""


def check_paths(
    paths: Iterable[str | os.PathLike[str]],
    *,
    node_name: str,
    strict: bool = False,
    stdin: BinaryIO | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> list[FileCheck]:
    """Check files, and all files of folders (without subfolders), in the order given.

    The path ``-`` reads ``stdin``, if that is given. Files of one folder are checked together. A
    missing path yields a result with an error. ``contents``, by path as it was given, replace what
    the files have.
    """
    given_data = contents or {}
    groups: dict[str, _Group] = {}
    checks: list[tuple[int, FileCheck]] = []
    count = 0
    for given in paths:
        requested = os.fspath(given)
        if requested == STDIN and stdin is not None:
            group = groups.setdefault(
                STDIN, _Group(FolderState(strict=strict, previous={}), {}, {})
            )
            if STDIN not in group.requested:
                group.requested[STDIN] = (count, STDIN)
                data = stdin.read(MAX_BYTES + 1)
                result, lines = _read_data(STDIN, data, node_name=node_name, strict=strict)
                group.lines[STDIN] = lines
                group.folder_state.read(STDIN, STDIN, 1, Stamp(0, 0, len(data), 0), b"", result)
                count += 1
            continue
        absolute = os.path.abspath(requested)
        listing = list_path(absolute, strict=strict)
        if listing.error:
            shown_text = listing.error.removeprefix(f"{shown_path(absolute)}: ")
            failed = _failed(shown_path(absolute), shown_text, "NotFound").diagnostics
            checks.append(
                (
                    count,
                    FileCheck(
                        path=shown_path(requested),
                        state=ManifestState.INVALID,
                        message=shown_text,
                        diagnostics=failed,
                    ),
                )
            )
            count += 1
            continue
        folder = os.path.dirname(absolute) if listing.single else absolute
        if not listing.single and not strict:
            listing = without_used(listing, used_names(folder))
        group = groups.setdefault(folder, _Group(FolderState(strict=strict, previous={}), {}, {}))
        for name, listed in listing.files.items():
            if name not in group.requested:
                shown = requested if listing.single else os.path.join(requested, name)
                group.requested[name] = (count, shown)
                data = given_data.get(shown)
                _enter(group, folder, listed, data, node_name=node_name, strict=strict)
                count += 1
    for group in groups.values():
        checks += _group_checks(group)
    return [check for _, check in sorted(checks, key=lambda pair: pair[0])]


def _enter(
    group: _Group,
    folder: str,
    listed: Listed,
    data: bytes | None,
    *,
    node_name: str,
    strict: bool,
) -> None:
    path = os.path.join(folder, listed.name)
    if listed.stamp is None:
        group.folder_state.ignore(listed.name, shown_path(path), 1, listed.ignored)
        return
    if listed.rendered:
        result, lines = read_kustomization(path, node_name=node_name), ()
    else:
        result, lines = _read(path, data, node_name=node_name, strict=strict)
    group.lines[listed.name] = lines
    group.folder_state.read(listed.name, shown_path(path), 1, listed.stamp, b"", result)


def _group_checks(group: _Group) -> Iterator[tuple[int, FileCheck]]:
    folder = group.folder_state.folder("")
    for name, manifest in folder.manifests.items():
        number, requested = group.requested[name]
        yield (
            number,
            FileCheck(
                path=shown_path(requested),
                state=manifest.status.state,
                message=manifest.status.message,
                diagnostics=manifest.status.diagnostics,
                pods=_pods(manifest, folder.pods),
                objects=manifest.status.objects,
                lines=group.lines.get(name, ()),
            ),
        )


def _pods(manifest: Manifest, pods: Mapping[str, Pod]) -> tuple[Pod, ...]:
    status = manifest.status
    if status.state is not ManifestState.ACCEPTED:
        return ()
    uids = dict.fromkeys((status.podUID, *(item.uid for item in status.objects)))
    return tuple(pods[uid] for uid in uids if uid in pods)


def render_json(results: Sequence[FileCheck]) -> bytes:
    """Format as a JSON list with one object per file: path, state, its pod, its diagnostics."""
    files = [
        _FileJson(
            path=check.path,
            state=check.state,
            message=check.message,
            namespace=check.pods[0].metadata.namespace if check.pods else "",
            name=check.pods[0].metadata.name if check.pods else "",
            uid=check.pods[0].metadata.uid if check.pods else "",
            objects=tuple(msgspec.structs.replace(item, places="") for item in check.objects),
            diagnostics=check.diagnostics,
        )
        for check in results
    ]
    return msgspec.json.format(msgspec.json.encode(files), indent=2) + b"\n"


def render_text(results: Sequence[FileCheck], color: bool = False, *, strict: bool = False) -> str:
    """Format one line per finding, ``file:line:column: severity: message (field)``, followed by the
    source line, a caret and the fix; one line for each file without findings; and a summary. With
    ``strict`` the field precedes the message, as in the kubelet's output."""

    def paint(text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if color and text else text

    out: list[str] = []
    for check in results:
        path = printable(check.path, 1000)
        if not check.diagnostics:
            if check.state is ManifestState.IGNORED:
                out.append(f"{path}: {paint('ignored', _DIM)}: {printable(check.message, 1000)}")
            else:
                pods = ", ".join(
                    f"pod {pod.metadata.namespace}/{pod.metadata.name}" for pod in check.pods
                )
                shown = printable(check.message or pods, 1000)
                out.append(f"{path}: {paint('ok', _GREEN)}: {shown}")
        for diagnostic in check.diagnostics:
            out += _finding(diagnostic, check, path, paint, strict=strict)
        if check.diagnostics and len(check.objects) > 1:
            out.append(f"{path}: {printable(summary_text(check.objects), 1000)}")
    errors = sum(check.errors for check in results)
    warnings = sum(check.warnings for check in results)
    unread = sum(check.unread for check in results)
    more = f", {unread} of them about what does not run" if unread else ""
    out.append(
        f"{plural(len(results), 'file')}, {plural(errors, 'error')},"
        f" {plural(warnings, 'warning')}{more}"
    )
    return "\n".join(out) + "\n"


def _finding(
    diagnostic: Diagnostic, check: FileCheck, path: str, paint: Paint, *, strict: bool
) -> list[str]:
    error = diagnostic.severity is Severity.ERROR
    word = paint("error", _BOLD + _RED) if error else paint("warning", _BOLD + _YELLOW)
    line, column = diagnostic.line, diagnostic.column
    location = f"{path}:{line}:{column}" if line is not None else path
    shown_text = diagnostic.text
    if strict and diagnostic.field:
        shown_text = f"{diagnostic.field}: {diagnostic.message}"
    out = [f"{paint(location, _BOLD)}: {word}: {printable(shown_text, 1300)}"]
    if line is not None and column is not None and 0 < line <= len(check.lines):
        text, caret = _window(check.lines[line - 1], column)
        number = str(line)
        out.append(f"  {paint(number + ' |', _DIM)} {text}")
        below = " " * cells(text[:caret])
        out.append(f"  {paint(' ' * len(number) + ' |', _DIM)} {below}{paint('^', _RED)}")
    if diagnostic.fix:
        out.append(f"  {paint('fix', _GREEN)}: {printable(diagnostic.fix, 1000)}")
    return out


def _window(line: str, column: int) -> tuple[str, int]:
    """Return the part of a source line around a column, and the column's index in it (from 0).

    Every character takes one cell: a tab becomes a space, other non-printable characters are
    replaced.
    """
    clean = "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in line)
    caret = min(max(column - 1, 0), len(clean))
    start = max(0, caret - _WIDTH * 3 // 4)
    cut = clean[start : start + _WIDTH]
    text = ("…" if start else "") + cut + ("…" if len(clean) > start + _WIDTH else "")
    return text, caret - start + (1 if start else 0)
