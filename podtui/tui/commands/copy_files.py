"""Copy files out of a container and into it."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from podtui.api.v1 import Pod
from podtui.errors import UsageError
from podtui.text.terminal_text import plural
from podtui.tui.commands.restart import choose_container
from podtui.tui.commands.session import Session
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, TextDialog, confirmation
from podtui.tui.widgets.format import size
from podtui.tui.widgets.sanitize import clean


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy request. With ``out``, copy from the container's ``remote`` to ``local``; otherwise
    from ``local`` to ``remote``.
    """

    out: bool
    local: Path
    remote: str


def parse_transfer(text: str) -> Transfer:
    """Parse ``:/path/in/container local`` or ``local :/path``. Raises `UsageError`."""
    try:
        paths = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"unclosed quote: {error}") from error
    if len(paths) != 2:
        raise UsageError("expected two paths: source and destination")
    source, target = paths
    if source.startswith(":") == target.startswith(":"):
        raise UsageError("exactly one path must begin with ':' (the path in the container)")
    out = source.startswith(":")
    remote, local = (source, target) if out else (target, source)
    if not remote.startswith(":/"):
        raise UsageError("the path in the container must begin with ':/'")
    try:
        return Transfer(out, Path(local).expanduser(), remote[1:])
    except RuntimeError as error:
        raise UsageError(f"{local!r} is in the home directory of an unknown user") from error


def transfer_problem(text: str) -> str:
    """Return why the text is invalid; empty if it is valid."""
    try:
        parse_transfer(text)
    except UsageError as error:
        return str(error)
    return ""


def replaced_by(transfer: Transfer) -> Path | None:
    """Return the local file or non-empty folder that the copy overwrites; None if there is none.
    Blocks.
    """
    if not transfer.out:
        return None
    name = PurePosixPath(transfer.remote).name
    inside = transfer.local / name if name and transfer.local.is_dir() else transfer.local
    if inside.is_dir():
        return inside if any(inside.iterdir()) else None
    return inside if os.path.lexists(inside) else None


def overwrite_dialog(path: Path) -> Dialog:
    what = "Files with the same names in this folder" if path.is_dir() else "This file"
    lines: list[Line] = [
        (Span("✖ ", "error"), Span(clean(str(path)), "name")),
        (Span(f"{what} will be overwritten.", "muted"),),
    ]
    return confirmation(f"Overwrite {clean(path.name)}?", lines, "Overwrite")


async def transfer_files(session: Session, pod: Pod) -> None:
    """Ask for source and target, then copy. Raises `PodtuiError`."""
    container = await choose_container(session, pod, "Copy files of", ask=False)
    if not container:
        return
    lines: list[Line] = [
        (Span(":/etc/hosts ./hosts", "key"), Span("   copies from the container", "muted")),
        (Span("./site :/www", "key"), Span("          copies to the container", "muted")),
    ]
    title = f"Copy files: {clean(container)} of {pod_label(pod)}"
    text = await session.ask(TextDialog(title, lines, text=":/", check=transfer_problem))
    if text is None:
        return
    wanted = parse_transfer(text)
    lost = await asyncio.to_thread(replaced_by, wanted)
    if lost is not None and not await session.confirm(overwrite_dialog(lost)):
        return
    session.end_questions()
    meta = pod.metadata
    where = f"{meta.namespace}/{meta.name}:{wanted.remote}"
    pair = [where, str(wanted.local)] if wanted.out else [str(wanted.local), where]
    client = session.client
    if wanted.out:
        done = await client.copy_from(
            meta.namespace, meta.name, container, wanted.remote, wanted.local
        )
    else:
        done = await client.copy_to(
            meta.namespace, meta.name, container, wanted.local, wanted.remote
        )
    session.record_action("copy", session.kubectl("cp", "-c", container, *pair), meta.name)
    skipped = f"; {done.skipped} links and devices were skipped" if done.skipped else ""
    session.notify(f"{plural(done.files, 'file')}, {size(done.bytes)}{skipped}", title="Copied")
