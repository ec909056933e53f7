"""A fix on its way: written into the file, and watched until the pod is well or the next cause
shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.tui.actions.manifest_file import (
    ManifestChanged,
    read_manifest_file,
    write_manifest_file,
)
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.sanitize import clean
from podtui.why import Diagnosis, Fix, Health, apply_edits


@dataclass(frozen=True, slots=True)
class Applied:
    """A fix that was written: ``cause`` is what it is to take away, ``text`` what the file holds
    since."""

    title: str
    cause: str
    text: str


async def apply_fix(manifest: Manifest, fix: Fix) -> str:
    """Write a fix into the file that the manifest was read from; the file's new text.

    Raises `ManifestChanged` where the file is not what was read, `ManifestFileError` where it
    cannot be written, `podtui.why.EditError`.
    """
    path = Path(manifest.spec.path)
    before = await asyncio.to_thread(read_manifest_file, path)
    text = manifest.spec.text
    if before != text.encode():
        raise ManifestChanged(f"{path.name} is not what the agent read: nothing was changed")
    after = apply_edits(text, fix.edits)
    await asyncio.to_thread(write_manifest_file, path, after.encode(), expected=before)
    return after


def progress(applied: Applied, manifest: Manifest | None, pod: Pod | None, said: Diagnosis) -> Line:
    """How far an applied fix has come."""
    done = Span("✔ applied: ", "good"), Span(clean(applied.title), "soft"), Span("  ")
    if manifest is None or manifest.spec.text != applied.text:
        return (*done, Span("◔ waiting for the agent to read it", "pending"))
    wanted = manifest.status.podUID
    if pod is None or (wanted and pod.metadata.uid != wanted):
        return (*done, Span("◔ waiting for the pod to be replaced", "pending"))
    if said.health is Health.WAITING:
        return (*done, Span("◔ waiting for the pod to be well", "pending"))
    if said.health is Health.BROKEN:
        words = "the cause is still there" if said.cause == applied.cause else "this is next"
        return (*done, Span(f"▲ {words}", "warning"))
    return (*done, Span("● it helped", "running"))
