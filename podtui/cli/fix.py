"""``podtui check --fix``: applies the mechanical fixes of the diagnostics.

A fix is kept only if the finding is gone when the file is read again, and if nothing is lost except
what the fix removes. All other text stays unchanged, including comments.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from podtui.api.local import Diagnostic, ManifestState, Severity
from podtui.api.places import FieldPlace, field_path
from podtui.errors import PodtuiError, UsageError
from podtui.manifest.check import check_paths
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.document import MAX_BYTES, Document, UnreadableText, source_lines
from podtui.manifest.reader import expand_lists, read_document, read_documents
from podtui.manifest.result import ReadResult
from podtui.settings import Settings
from podtui.terminal_text import lines, plural
from podtui.tui.commands.manifest_file import read_manifest_file, write_manifest_file
from podtui.why.edits import Edit, EditError, apply_edits
from podtui.why.folder import mechanical_edits
from podtui.why.source import Source

STDIN: Final = "-"
_MOST_ROUNDS: Final = 20
_CONTEXT: Final = 3
_TONES: Final = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m"}
_RESET: Final = "\x1b[0m"
_Fixes = dict[Diagnostic, tuple[Edit, ...]]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A manifest before and after its mechanical fixes; ``findings`` are the resolved ones.
    ``secret``: the file may contain a Secret, so that its text is not shown."""

    before: bytes
    after: bytes
    findings: tuple[Diagnostic, ...] = ()
    secret: bool = False


# --- the fixes of one text


def fix_text(path: str, data: bytes, *, node_name: str, strict: bool) -> Fixed:
    """Apply all mechanical fixes, and further ones that they reveal. Never raises, whatever
    ``data`` contains."""

    def read(text: bytes) -> ReadResult:
        return read_manifest(path, text, node_name=node_name, strict=strict)

    result = read(data)
    after, findings = data, list[Diagnostic]()
    for _ in range(_MOST_ROUNDS):
        step = _step(after, result, read, strict=strict)
        if step is None:
            break
        after, result, done = step
        findings += done
    return Fixed(data, after, tuple(findings), secret=bool(data) and not result.text)


def _step(
    data: bytes, result: ReadResult, read: Callable[[bytes], ReadResult], *, strict: bool
) -> tuple[bytes, ReadResult, list[Diagnostic]] | None:
    """Apply all fixes of one reading together or, if that fails, the first one that works alone."""
    fixes = _fixes(data, result, strict=strict)
    if not fixes:
        return None
    whole = _try(data, result, fixes, read, strict=strict)
    if whole is not None:
        return *whole, list(fixes)
    for finding, edits in fixes.items():
        one = _try(data, result, {finding: edits}, read, strict=strict)
        if one is not None:
            return *one, [finding]
    return None


def _try(
    data: bytes,
    result: ReadResult,
    fixes: _Fixes,
    read: Callable[[bytes], ReadResult],
    *,
    strict: bool,
) -> tuple[bytes, ReadResult] | None:
    """Return the text with the fixes and its reading; None if it is not better than before."""
    edits = dict.fromkeys(edit for found in fixes.values() for edit in found)
    try:
        after = apply_edits(data.decode(), edits).encode()
    except EditError:
        return None
    new = read(after)
    kept = _is_kept(_documents(data, strict=strict), _documents(after, strict=strict), fixes)
    if not kept or (result.pods and not new.pods):
        return None
    still = {(d.code, d.field, d.message) for d in new.diagnostics}
    if any((d.code, d.field, d.message) in still for d in fixes):
        return None
    return after, new


def _fixes(data: bytes, result: ReadResult, *, strict: bool) -> _Fixes:
    """Return the mechanical fixes for the findings of each document."""
    documents = _documents(data, strict=strict)
    if not documents:
        return {}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {}
    starts = [document.values.get((), (1, 1)) for document in documents]
    found: _Fixes = {}
    for index, document in enumerate(documents):
        end = starts[index + 1] if index + 1 < len(starts) else (len(text) + 2, 1)
        # A finding without a position is about the first document or the whole file.
        diagnostics = [
            d
            for d in result.diagnostics
            if (starts[index] if index else (1, 1)) <= (d.line or 1, d.column or 1) < end
        ]
        found |= mechanical_edits(diagnostics, Source(text, _places(document)))
    return found


def _documents(data: bytes, *, strict: bool) -> tuple[Document, ...]:
    """Return the documents of a text in order, including the items of Lists; none if it is
    unreadable."""
    try:
        return (read_document(data),) if strict else tuple(expand_lists(read_documents(data), []))
    except UnreadableText:
        return ()


def _places(document: Document) -> dict[tuple[str | int, ...], FieldPlace]:
    return {
        path: FieldPlace(key, value)
        for path, value in document.values.items()
        if path and ((key := document.keys.get(path)) is not None or isinstance(path[-1], int))
    }


def _is_kept(
    before: Sequence[Document], after: Sequence[Document], fixes: Iterable[Diagnostic]
) -> bool:
    """Return whether nothing is lost except what the fixes remove or replace."""
    if len(before) != len(after) or not after:
        return False
    removed = [field_path(field) for fix in fixes for field in fix.remove]
    replaced = sum(not fix.remove for fix in fixes)
    lost = Counter[str]()
    for old, new in zip(before, after, strict=True):
        # A fix removes fields from one document only; the other documents keep them.
        gone = removed if old.value != new.value else []
        lost += _scalars(old.value, gone) - _scalars(new.value, [])
    return lost.total() <= replaced


def _scalars(value: object, gone: Sequence[tuple[str | int, ...]]) -> Counter[str]:
    """Count each scalar of a tree, except those at or below the paths ``gone``."""
    found: Counter[str] = Counter()
    pending: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    removed = set(gone)
    while pending:
        path, item = pending.pop()
        if path in removed:
            continue
        if isinstance(item, dict):
            pairs = cast("dict[str, Any]", item)
            pending += [((*path, key), child) for key, child in pairs.items()]
        elif isinstance(item, list):
            pending += [((*path, i), child) for i, child in enumerate(cast("list[Any]", item))]
        elif item is not None:
            found[str(item)] += 1
    return found


# --- the command


def fix(
    paths: Sequence[Path],
    settings: Settings,
    *,
    yes: bool,
    color: bool,
    confirm: Callable[[str], bool],
    out: Callable[[str], None],
) -> bool:
    """Show the fixes of all files and write them, after a question or with ``yes``; return whether
    nothing remains to be written.

    Without a terminal for the question, nothing is written. ``out`` prints a text.
    """
    changed = {path: fixed for path, fixed in _fixed_files(paths, settings) if fixed.findings}
    for path, fixed in changed.items():
        out("\n".join(diff(str(path), fixed, color=color)))
    if not changed:
        out("There is nothing to fix mechanically.")
        return True
    count = sum(len(fixed.findings) for fixed in changed.values())
    what = f"{plural(count, 'finding')} in {plural(len(changed), 'file')}"
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            out(f"Nothing was written: --yes fixes {what}.")
            return False
        if not confirm(f"Fix {what}?"):
            out("Nothing was changed.")
            return False
    written = 0
    for path, fixed in changed.items():
        try:
            write_manifest_file(path, fixed.after, expected=fixed.before)
        except PodtuiError as error:
            out(f"{path}: {error}")
        else:
            written += 1
    out(f"Fixed {what}." if written == len(changed) else f"{len(changed) - written} not written.")
    return written == len(changed)


def _fixed_files(paths: Sequence[Path], settings: Settings) -> Iterator[tuple[Path, Fixed]]:
    for check in check_paths(paths, node_name=settings.nodeName, strict=settings.kubeletStrict):
        if check.state is ManifestState.IGNORED or not check.diagnostics:
            continue
        path = Path(os.path.abspath(check.path))
        try:
            data = read_manifest_file(path)
        except PodtuiError:
            # The check that follows reports the error.
            continue
        yield (
            Path(check.path),
            fix_text(str(path), data, node_name=settings.nodeName, strict=settings.kubeletStrict),
        )


def fix_stdin(settings: Settings, *, err: Callable[[str], None]) -> bool:
    """Copy a manifest from standard input to standard output with its fixes; return whether no
    error remains. ``err`` prints a remaining finding."""
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"standard input is larger than {MAX_BYTES} bytes")
    node, strict = settings.nodeName, settings.kubeletStrict
    fixed = fix_text("/dev/stdin", data, node_name=node, strict=strict)
    sys.stdout.buffer.write(fixed.after)
    sys.stdout.buffer.flush()
    left = read_manifest("/dev/stdin", fixed.after, node_name=node, strict=strict).diagnostics
    for finding in left:
        place = f"{finding.line}:{finding.column}: " if finding.line is not None else ""
        err(lines(f"{STDIN}:{place}{finding.severity.lower()}: {finding.text}"))
    return not any(d.severity is Severity.ERROR for d in left)


def diff(name: str, fixed: Fixed, *, color: bool) -> Iterator[str]:
    """Yield the fixes as a unified diff."""
    if fixed.secret:
        count = plural(len(fixed.findings), "fix", "fixes")
        yield lines(f"{name}: {count}, not shown: the file may contain a Secret")
        return
    before, after = (
        source_lines(text.decode().removesuffix("\n")) for text in (fixed.before, fixed.after)
    )
    for line in difflib.unified_diff(before, after, name, name, lineterm="", n=_CONTEXT):
        tone = _TONES.get(line[:1], "") if color else ""
        yield f"{tone}{lines(line)}{_RESET if tone else ''}"
