"""Errors of the manifest that a pod comes from, and their mechanical fixes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from podtui.api.local import Diagnostic, Manifest, ManifestState, Severity
from podtui.api.places import field_path
from podtui.why.edits import Edit
from podtui.why.source import Source
from podtui.why.types import Evidence, Facts, Fix, Found, Rule

_DID_YOU_MEAN = re.compile(r'did you mean "([^"]+)"\?')
_NAME = re.compile(r'a valid name: "([^"]+)"')
_ADD = re.compile(r"add (kind|apiVersion): (\S+)")
_RENAME = re.compile(r'"([^"]+)" should be "(kind|apiVersion)"')
_KIND = re.compile(r"write (kind|apiVersion): (\S+)")
_QUOTE = "write it in quotes"
_BARE = re.compile(r"write it without quotes: (\S+)")
_MOVE = re.compile(r"move it to (\S+)")
_UNUSABLE = (ManifestState.INVALID, ManifestState.LAST_GOOD, ManifestState.DUPLICATE)


def errors_of(manifest: Manifest) -> list[Diagnostic]:
    """Return the errors in the order of the file."""
    return [d for d in manifest.status.diagnostics if d.severity is Severity.ERROR]


def is_unusable(manifest: Manifest | None) -> bool:
    return manifest is not None and manifest.status.state in _UNUSABLE


def _unusable(facts: Facts) -> Found | None:
    manifest = facts.manifest
    if manifest is None or not is_unusable(manifest):
        return None
    found = manifest_words(manifest)
    if manifest.status.state is not ManifestState.LAST_GOOD:
        return found
    runs = "The previous version keeps running; your change is not applied."
    return Found({**found.words, "runs": runs}, found.field)


def manifest_words(manifest: Manifest) -> Found:
    """Return the words for the rule about a file that cannot be used."""
    errors = errors_of(manifest)
    first = errors[0] if errors else None
    more = len(errors) - 1
    where = f"line {first.line}: " if first is not None and first.line is not None else ""
    words = {
        "file": manifest.metadata.name,
        "error": f"{where}{first.message}" if first is not None else manifest.status.message,
        "hint": f"{first.fix[:1].upper()}{first.fix[1:]}" if first is not None else "",
        "more": f"The file has {more} more error{'s' * (more > 1)}." if more > 0 else "",
        "runs": "It produces no pod.",
    }
    return Found(words, field_path(first.field) if first is not None else ())


def manifest_evidence(manifest: Manifest) -> tuple[Evidence, ...]:
    """Return one line of evidence per diagnostic."""
    return tuple(
        Evidence(
            "manifest",
            f"{f'line {d.line}: ' if d.line is not None else ''}{d.text}",
            warning=d.severity is Severity.ERROR,
        )
        for d in manifest.status.diagnostics
    )


def mechanical_edits(
    diagnostics: Iterable[Diagnostic], source: Source
) -> dict[Diagnostic, tuple[Edit, ...]]:
    """Return the edits for each diagnostic with a mechanical fix.

    If two diagnostics change the same place, the first one wins.
    """
    edits_by_diagnostic: dict[Diagnostic, tuple[Edit, ...]] = {}
    taken: set[tuple[int, int]] = set()
    for diagnostic in diagnostics:
        edits = _edits(diagnostic, source)
        places = {(edit.line, edit.column) for edit in edits}
        if edits and not places & taken:
            edits_by_diagnostic[diagnostic] = edits
            taken |= places
    return edits_by_diagnostic


def fix_errors(manifest: Manifest, source: Source) -> Iterator[Fix]:
    """Yield one fix for all errors that have mechanical edits, or for the warnings if there are no
    errors."""
    errors = errors_of(manifest)
    problems = errors or manifest.status.diagnostics
    fixed = mechanical_edits(problems, source)
    if not fixed:
        return
    edits = tuple(dict.fromkeys(edit for group in fixed.values() for edit in group))
    rest = len(problems) - len(fixed) if errors else 0
    title = _as_action(next(iter(fixed)).fix) if len(fixed) == 1 else f"Fix {len(fixed)} errors"
    if not errors and len(fixed) > 1:
        title = f"Fix {len(fixed)} warnings"
    note = "" if not rest else f"{rest} more must be fixed manually."
    yield Fix(f"{title[:1].upper()}{title[1:]}", edits, note)


def _as_action(fix: str) -> str:
    """Return the text of a fix as an action: the user is asked whether to do it."""
    match = _DID_YOU_MEAN.fullmatch(fix)
    return f'write "{match[1]}"' if match else fix


def _error_fixes(facts: Facts, found: Found, source: Source) -> Iterator[Fix]:
    if facts.manifest is not None:
        yield from fix_errors(facts.manifest, source)


def _edits(error: Diagnostic, source: Source) -> tuple[Edit, ...]:
    path = field_path(error.field)
    fix, edit = error.fix, None
    if error.remove:
        return source.remove_all(map(field_path, error.remove))
    if match := _ADD.fullmatch(fix):
        return source.add_first(match[1], match[2])
    if match := _RENAME.fullmatch(fix):
        edit = source.replace_key((match[1],), match[2])
        return (edit,) if edit is not None else ()
    if match := _KIND.fullmatch(fix):
        edit = source.replace((match[1],), match[2])
        return (edit,) if edit is not None else ()
    if not source.is_at(path, error.line, error.column):
        # The diagnostic belongs to another document of the same file.
        return ()
    if match := _MOVE.fullmatch(fix):
        return _moved(error, match[1], source)
    if match := _DID_YOU_MEAN.search(fix):
        if error.code == "UnknownField":
            edit = source.replace_key(path, match[1])
        else:
            edit = source.replace(path, match[1])
    elif match := _NAME.search(fix):
        edit = source.replace_text(path, match[1])
    elif fix.startswith(_QUOTE) and (found := source.scalar(path)) is not None:
        edit = source.replace_text(path, found[1])
    elif match := _BARE.search(fix):
        edit = source.replace_raw(path, match[1])
    return (edit,) if edit is not None else ()


def _moved(error: Diagnostic, target: str, source: Source) -> tuple[Edit, ...]:
    """Move a misplaced scalar: remove it, and add it where it belongs."""
    path, there = field_path(error.field), field_path(target)
    found, gone = source.scalar(path), source.remove(path)
    if found is None or gone is None or there in source.places:
        return ()
    put = source.set_raw(there, found[1])
    return (gone, *put) if put else ()


FOLDER: Rule[Facts] = Rule(
    id="ManifestInvalid",
    match=_unusable,
    title="The file {file} cannot be used: {error}",
    sentences=("{runs}", "{hint}", "{more}"),
    fixes=_error_fixes,
    docs="https://kubernetes.io/docs/concepts/workloads/pods/",
)
