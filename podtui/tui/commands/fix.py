"""Apply a fix: write it into the file, and follow the pod until the fix is verified or fails."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.api.local import Manifest
from podtui.tui.commands.edit_manifest import rewrite_file
from podtui.tui.commands.manifest_file import Rewrite
from podtui.tui.commands.session import Session
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
    """A written fix, and the check of its effect."""

    change: Rewrite
    trial: Trial

    @property
    def text(self) -> str:
        """The content of the file after the fix."""
        return self.change.after.decode()


async def apply_fix(session: Session, manifest: Manifest, fix: Fix, trial: Trial) -> Applied | None:
    """Show the plan of a fix, ask, and write it into the file of the manifest; return None if the
    user declines.

    Raises `ManifestChanged` if the file differs from the manifest that was read,
    `ManifestFileError` if it cannot be written, `podtui.why.EditError`.
    """
    text = manifest.spec.text
    after = apply_edits(text, fix.edits)
    change = Rewrite(Path(manifest.spec.path), text.encode(), after.encode(), fix.title)
    return Applied(change, trial) if await rewrite_file(session, change) else None


def outcome(
    applied: Applied,
    manifest: Manifest | None,
    facts: Facts | None,
    diagnosis: Diagnosis,
    *,
    liveness_passed: bool,
) -> Outcome:
    """Return the progress of an applied fix."""
    if manifest is None or manifest.spec.text != applied.text:
        return Outcome(Verdict.PENDING, "waiting for the agent to read the file")
    wanted = manifest.status.podUID
    if facts is None or (wanted and facts.pod.metadata.uid != wanted):
        return Outcome(Verdict.PENDING, "waiting for the pod to be replaced")
    return verify(applied.trial, facts, diagnosis, liveness_passed=liveness_passed)


def outcome_line(applied: Applied, found: Outcome) -> Line:
    glyph, tone = _STATES[found.verdict]
    state = {
        Verdict.PENDING: "applied, not verified yet: ",
        Verdict.VERIFIED: "applied and verified: ",
    }.get(found.verdict, "applied, but ")
    return (
        Span(f"{glyph} {state}", tone),
        Span(clean(found.words), tone if found.verdict is not Verdict.PENDING else ""),
        Span(f"  ({clean(applied.change.what)})", "soft"),
        Span("  u", "hint-key"),
        Span(" undoes it", "muted"),
    )
