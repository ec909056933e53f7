"""Apply a fix to a file, and follow the fixed pod until the fix is verified or fails."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.tui.commands.edit_manifest import rewrite_file
from podtui.tui.commands.manifest_file import Rewrite
from podtui.tui.commands.session import RecordChange, Session
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.sanitize import clean
from podtui.why import Diagnosis, Facts, Fix, apply_edits
from podtui.why.trial import Outcome, Trial, Verdict, verify

_STATES: Final = {
    Verdict.PENDING: ("◔", "pending"),
    Verdict.VERIFIED: ("●", "running"),
    Verdict.FAILED_AGAIN: ("✖", "error"),
    Verdict.OTHER_CAUSE: ("▲", "warning"),
}


class Applied(Struct, frozen=True):
    """An applied fix, and the check of its effect."""

    change: Rewrite | RecordChange
    trial: Trial

    def is_taken(self, manifest: Manifest | None, pod: Pod | None) -> bool:
        """Return whether the agent has read the file with the fix, or the API pod has the fix."""
        change = self.change
        if isinstance(change, Rewrite):
            return manifest is not None and manifest.spec.text == change.after.decode()
        before = change.pod
        return pod is not None and (
            pod.metadata.uid != before.metadata.uid or pod.spec != before.spec
        )


async def apply_fix(session: Session, manifest: Manifest, fix: Fix) -> Rewrite | None:
    """Show the plan of a fix, ask, and write it into the file of the manifest; return None if the
    user declines.

    Raises `ManifestChanged` if the file differs from the manifest that was read,
    `ManifestFileError` if it cannot be written, `podtui.why.EditError`.
    """
    text = manifest.spec.text
    after = apply_edits(text, fix.edits)
    change = Rewrite(Path(manifest.spec.path), text.encode(), after.encode(), fix.title)
    return change if await rewrite_file(session, change, manifest.status.diagnostics) else None


def outcome(
    applied: Applied,
    manifest: Manifest | None,
    facts: Facts | None,
    diagnosis: Diagnosis,
    *,
    liveness_passed: bool,
) -> Outcome:
    """Return the progress of an applied fix."""
    if not applied.is_taken(manifest, facts.pod if facts is not None else None):
        in_file = isinstance(applied.change, Rewrite)
        awaited = "the agent to read the file" if in_file else "the pod to be changed"
        return Outcome(Verdict.PENDING, f"waiting for {awaited}")
    wanted = manifest.status.podUID if manifest is not None else ""
    if facts is None or (wanted and facts.pod.metadata.uid != wanted):
        return Outcome(Verdict.PENDING, "waiting for the pod to be replaced")
    return verify(applied.trial, facts, diagnosis, liveness_passed=liveness_passed)


def outcome_line(applied: Applied, result: Outcome) -> Line:
    glyph, tone = _STATES[result.verdict]
    state = {
        Verdict.PENDING: "applied, not verified yet: ",
        Verdict.VERIFIED: "applied and verified: ",
    }.get(result.verdict, "applied, but ")
    return (
        Span(f"{glyph} {state}", tone),
        Span(clean(result.text), tone if result.verdict is not Verdict.PENDING else ""),
        Span(f"  ({clean(applied.change.what)})", "soft"),
        Span("  u", "hint-key"),
        Span(" undoes it", "muted"),
    )
