"""Errors of the manifest that a pod comes from, and their mechanical fixes."""

from __future__ import annotations

from podtui.api.local import UNUSABLE, Diagnostic, Manifest, ManifestState, Severity
from podtui.api.places import Path, field_path, field_text
from podtui.text.terminal_text import plural
from podtui.why.types import Evidence, Facts, Fix, Match, Rule


def errors_of(manifest: Manifest) -> list[Diagnostic]:
    """Return the errors in the order of the file."""
    return [d for d in manifest.status.diagnostics if d.severity is Severity.ERROR]


def is_unusable(manifest: Manifest | None) -> bool:
    return manifest is not None and manifest.status.state in UNUSABLE


def _unusable(facts: Facts) -> Match | None:
    manifest = facts.manifest
    if manifest is None or not is_unusable(manifest):
        return None
    match = manifest_match(manifest)
    if manifest.status.state is not ManifestState.LAST_GOOD:
        return match
    runs = "The previous version keeps running; your change is not applied."
    return Match({**match.values, "runs": runs}, match.field)


def manifest_match(manifest: Manifest) -> Match:
    """Return the match for the rule about a file that cannot be used."""
    errors = errors_of(manifest)
    first = errors[0] if errors else None
    more = len(errors) - 1
    where = f"line {first.line}: " if first is not None and first.line is not None else ""
    values = {
        "file": manifest.metadata.name,
        "error": f"{where}{first.message}" if first is not None else manifest.status.message,
        "hint": f"{first.fix[:1].upper()}{first.fix[1:]}" if first is not None else "",
        "more": f"The file has {plural(more, 'more error')}." if more > 0 else "",
        "runs": "It produces no pod.",
    }
    return Match(values, field_path(first.field) if first is not None else ())


def manifest_evidence(manifest: Manifest) -> tuple[Evidence, ...]:
    """Return one line of evidence per diagnostic."""
    return tuple(map(_evidence, manifest.status.diagnostics))


def findings_at(manifest: Manifest | None, path: Path) -> tuple[Evidence, ...]:
    """Return the diagnostics of one field."""
    every = manifest.status.diagnostics if manifest is not None else ()
    return tuple(_evidence(d) for d in every if d.field == field_text(path))


def _evidence(finding: Diagnostic) -> Evidence:
    line = f"line {finding.line}: " if finding.line is not None else ""
    return Evidence("manifest", f"{line}{finding.text}", warning=finding.severity is Severity.ERROR)


def fixes_of(manifest: Manifest) -> tuple[Fix, ...]:
    """Return the fix of the file's findings that the agent has found and verified, if any."""
    fix = manifest.status.fix
    if fix is None:
        return ()
    note = f"{fix.errors} more must be fixed manually." if fix.errors else ""
    return (Fix(fix.title, fix.edits, note),)


FOLDER: Rule[Facts] = Rule(
    id="ManifestInvalid",
    match=_unusable,
    title="The file {file} cannot be used: {error}",
    sentences=("{runs}", "{hint}", "{more}"),
    docs="https://kubernetes.io/docs/concepts/workloads/pods/",
)
