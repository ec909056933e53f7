"""Mechanical fixes of a manifest's findings.

A fix is an edit of the text. It is accepted only if the text, read again, has fewer findings and no
new one, and if nothing is lost except what the fix removes. All other text stays unchanged,
including comments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from podtui.api.local import Diagnostic, Edit, ManifestFix, Severity
from podtui.api.places import FieldPlace, field_path
from podtui.editing.edits import EditError, apply_edits, edits_between
from podtui.editing.findings import is_better, kind_of
from podtui.editing.source import MAX_TEXT, Source
from podtui.manifest.conversions import conversion
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.document import Document, Path, UnreadableText
from podtui.manifest.reader import FORMER_VERSION, expand_lists, read_document, read_documents
from podtui.manifest.result import ReadResult


@dataclass(frozen=True, slots=True)
class Effort:
    """The maximum number of texts that are read while one file is fixed, and of their bytes."""

    texts: int
    size: int


COMMAND: Final = Effort(1_000, 32 * 1024 * 1024)
AGENT: Final = Effort(12, 256 * 1024)
"""In an agent, other files wait meanwhile."""
_MAX_ROUNDS: Final = 20
_DID_YOU_MEAN: Final = re.compile(r'did you mean "([^"]+)"\?')
_NAME: Final = re.compile(r'a valid name: "([^"]+)"')
_ADD: Final = re.compile(r"add (kind|apiVersion): (\S+)")
_RENAME: Final = re.compile(r'"([^"]+)" should be "(kind|apiVersion)"')
_KIND: Final = re.compile(r"write (kind|apiVersion): (\S+)")
_QUOTE: Final = "write it in quotes"
_BARE: Final = re.compile(r"write it without quotes: (\S+)")
_MOVE: Final = re.compile(r"move it to (\S+)")
_Fixes = dict[Diagnostic, tuple[Edit, ...]]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A manifest before and after its mechanical fixes; ``findings`` are the resolved ones.
    ``secret``: the file may contain a Secret, so that its text is not shown."""

    before: bytes
    after: bytes
    findings: tuple[Diagnostic, ...] = ()
    secret: bool = False


@dataclass(slots=True)
class _Reader:
    """Reads texts as the content of one file."""

    path: str
    node_name: str
    strict: bool
    left: Effort

    def read(self, data: bytes) -> _State:
        """Raises `_TooMuch`."""
        self.left = Effort(self.left.texts - 1, self.left.size - len(data))
        if self.left.texts < 0 or self.left.size < 0:
            raise _TooMuch
        result = read_manifest(
            self.path, data, node_name=self.node_name, strict=self.strict, most=None
        )
        return _State(data, result, self._documents(data))

    def _documents(self, data: bytes) -> tuple[Document, ...]:
        """Return the documents of a text in order, including the items of Lists; none if it is
        unreadable."""
        try:
            if self.strict:
                return (read_document(data),)
            return tuple(expand_lists(read_documents(data), []))
        except UnreadableText:
            return ()


class _TooMuch(Exception):
    """Raised if the effort is exhausted."""


@dataclass(frozen=True, slots=True)
class _State:
    """A text, its findings and documents, and the findings that were resolved to get it."""

    data: bytes
    result: ReadResult
    documents: tuple[Document, ...]
    resolved: tuple[Diagnostic, ...] = field(default_factory=tuple[Diagnostic, ...])


def fix_text(
    path: str, data: bytes, *, node_name: str, strict: bool, effort: Effort = COMMAND
) -> Fixed:
    """Apply all mechanical fixes, and further ones that they reveal. Never raises, whatever
    ``data`` contains."""
    reader = _Reader(path, node_name, strict, effort)
    try:
        state = reader.read(data)
    except _TooMuch:
        return Fixed(data, data)
    rejected: set[tuple[str, str, str]] = set()
    try:
        while True:
            fixes = {
                finding: edits
                for finding, edits in _fixes(state).items()
                if _identity(finding) not in rejected
            }
            if not fixes:
                break
            group = list(fixes)
            while (better := _resolved(state, group, fixes, reader)) is None and len(group) > 1:
                group = group[: len(group) // 2]
            if better is None:
                rejected.add(_identity(group[0]))
            else:
                # Each change may make way for fixes that were rejected before.
                state = better
                rejected.clear()
    except _TooMuch:
        # What was accepted so far is as good as any other fix.
        pass
    secret = bool(data) and not state.result.text
    return Fixed(data, state.data, state.resolved, secret=secret)


def read_with_fix(path: str, data: bytes, *, node_name: str, strict: bool = False) -> ReadResult:
    """Read a manifest as `read_manifest` does, and find its fix, unless its text is not shown."""
    result = read_manifest(path, data, node_name=node_name, strict=strict)
    if not result.text or not any(d.fix for d in result.diagnostics) or len(data) > MAX_TEXT:
        return result
    fixed = fix_text(path, data, node_name=node_name, strict=strict, effort=AGENT)
    if not fixed.findings:
        return result
    after = read_manifest(path, fixed.after, node_name=node_name, strict=strict)
    # A fix may resolve findings that another one reveals; the reader knows only those of the file.
    listed = set(map(_identity, result.diagnostics))
    resolved = [finding for finding in fixed.findings if _identity(finding) in listed]
    fix = ManifestFix(
        title=_title(resolved or fixed.findings),
        edits=edits_between(data.decode(), fixed.after.decode()),
        errors=sum(d.severity is Severity.ERROR for d in after.diagnostics),
    )
    return replace(result, fix=fix)


def _title(findings: Sequence[Diagnostic]) -> str:
    if len(findings) > 1:
        errors = any(d.severity is Severity.ERROR for d in findings)
        return f"Fix {len(findings)} {'errors' if errors else 'warnings'}"
    fix = findings[0].fix
    match = _DID_YOU_MEAN.fullmatch(fix)
    title = f'write "{match[1]}"' if match else fix
    return f"{title[:1].upper()}{title[1:]}"


def _identity(finding: Diagnostic) -> tuple[str, str, str]:
    return finding.code, finding.field, finding.message


# --- one group of fixes


def _resolved(
    state: _State, group: Sequence[Diagnostic], fixes: _Fixes, reader: _Reader
) -> _State | None:
    """Return the state after the fixes of a group and of the findings that they reveal; None if it
    is not better."""
    before = Counter(map(kind_of, state.result.diagnostics))
    new, resolved = _applied(state, {finding: fixes[finding] for finding in group}, reader), ()
    for _ in range(_MAX_ROUNDS):
        if new is None:
            return None
        if is_better(state.result.diagnostics, new.result.diagnostics, group):
            return replace(new, resolved=(*state.resolved, *group, *resolved))
        revealed = {
            finding: edits
            for finding, edits in _fixes(new).items()
            if before[kind_of(finding)] == 0
        }
        if not revealed:
            return None
        new, resolved = _applied(new, revealed, reader), (*resolved, *revealed)
    return None


def _applied(state: _State, fixes: _Fixes, reader: _Reader) -> _State | None:
    """Return the text with the fixes; None if something else is lost."""
    edits = dict.fromkeys(edit for group in fixes.values() for edit in group)
    try:
        after = apply_edits(state.data.decode(), edits).encode()
    except EditError:
        return None
    new = reader.read(after)
    kept = _is_kept(state.documents, new.documents, fixes)
    return new if kept and not (state.result.pods and not new.result.pods) else None


def _fixes(state: _State) -> _Fixes:
    """Return the mechanical fixes for the findings of each document."""
    documents = state.documents
    if not documents:
        return {}
    try:
        text = state.data.decode()
    except UnicodeDecodeError:
        return {}
    starts = [document.values.get((), (1, 1)) for document in documents]
    fixes: _Fixes = {}
    for index, document in enumerate(documents):
        end = starts[index + 1] if index + 1 < len(starts) else (len(text) + 2, 1)
        # A finding without a position is about the first document or the whole file.
        diagnostics = [
            d
            for d in state.result.diagnostics
            if (starts[index] if index else (1, 1)) <= (d.line or 1, d.column or 1) < end
        ]
        fixes |= mechanical_edits(diagnostics, Source(text, _places(document)), document.value)
    return fixes


def _places(document: Document) -> dict[Path, FieldPlace]:
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


def _scalars(value: object, gone: Sequence[Path]) -> Counter[str]:
    """Count each scalar of a tree, except those at or below the paths ``gone``."""
    counts: Counter[str] = Counter()
    pending: list[tuple[Path, object]] = [((), value)]
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
            counts[str(item)] += 1
    return counts


# --- the edits of one finding


def mechanical_edits(
    diagnostics: Iterable[Diagnostic], source: Source, tree: object = None
) -> _Fixes:
    """Return the edits for each diagnostic with a mechanical fix; ``tree`` is the document.

    If two diagnostics change the same place, the first one wins.
    """
    edits_by_diagnostic: _Fixes = {}
    taken: set[tuple[int, int]] = set()
    for diagnostic in diagnostics:
        former = diagnostic.code == FORMER_VERSION
        edits = conversion(tree, source) if former else tuple(_edits(diagnostic, source))
        places = {(edit.line, edit.column) for edit in edits}
        if edits and not places & taken:
            edits_by_diagnostic[diagnostic] = edits
            taken |= places
    return edits_by_diagnostic


def _edits(error: Diagnostic, source: Source) -> Iterator[Edit]:
    path = field_path(error.field)
    fix, edit = error.fix, None
    if error.remove:
        yield from source.remove_all(map(field_path, error.remove))
    elif match := _ADD.fullmatch(fix):
        yield from source.add_first(match[1], match[2])
    elif match := _RENAME.fullmatch(fix):
        edit = source.replace_key((match[1],), match[2])
    elif match := _KIND.fullmatch(fix):
        edit = source.replace((match[1],), match[2])
    elif not source.is_at(path, error.line, error.column):
        # The diagnostic belongs to another document of the same file.
        return
    elif match := _MOVE.fullmatch(fix):
        yield from _moved(path, match[1], source)
    elif match := _DID_YOU_MEAN.fullmatch(fix):
        rename = error.code == "UnknownField"
        edit = (source.replace_key if rename else source.replace)(path, match[1])
    elif match := _NAME.fullmatch(fix):
        edit = source.replace_text(path, match[1])
    elif fix.startswith(_QUOTE) and (scalar := source.scalar(path)) is not None:
        edit = source.replace_text(path, scalar[1])
    elif match := _BARE.fullmatch(fix):
        edit = source.replace_raw(path, match[1])
    if edit is not None:
        yield edit


def _moved(path: Path, target: str, source: Source) -> Iterator[Edit]:
    """Yield the edits that move a misplaced scalar: remove it, and add it where it belongs."""
    there = field_path(target)
    scalar, gone = source.scalar(path), source.remove(path)
    if scalar is None or gone is None or there in source.places:
        return
    put = source.set_raw(there, scalar[1])
    if put:
        yield gone
        yield from put
