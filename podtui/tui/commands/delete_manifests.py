"""Delete pods: move their manifests to the trash, from which undo restores them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.api.local import Manifest
from podtui.api.plan import Plan
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.commands.edit_manifest import undo_rewrite
from podtui.tui.commands.manifest_file import ManifestFileError, Rewrite, put_new
from podtui.tui.commands.session import Actions
from podtui.tui.views.plan import plan_lines
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.sanitize import clean

TRASH: Final = ".trash"

_STAMP: Final = "%Y%m%dT%H%M%S.%fZ"

_NAME: Final = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)~(.+)", re.DOTALL)


class Trashed(Struct, frozen=True):
    """One file in the trash: its path, its original path and the time of deletion."""

    path: Path
    origin: Path
    moment: datetime


def throw_away(path: Path, moment: datetime) -> Trashed:
    """Move a file to the trash of its folder. Raises `ManifestFileError`."""
    trash = path.parent / TRASH
    stamp = moment.astimezone(UTC).strftime(_STAMP)
    kept = trash / f"{stamp}~{path.name}"
    try:
        trash.mkdir(mode=0o700, exist_ok=True)
        if os.path.lexists(kept):
            raise FileExistsError(0, "there is such a file in the trash already")
        os.rename(path, kept)
    except OSError as error:
        raise ManifestFileError(
            f"{path.name} cannot be moved to {TRASH}: {error.strerror}"
        ) from error
    return Trashed(kept, path, moment)


def bring_back(trashed: Trashed) -> None:
    """Move a file from the trash to its original path. Raises `ManifestFileError`, also if a file
    of that name exists.
    """
    try:
        put_new(trashed.path, trashed.origin)
    except FileExistsError as error:
        raise ManifestFileError(f"there is another {trashed.origin.name} by now") from error
    except FileNotFoundError as error:
        raise ManifestFileError(f"{trashed.origin.name} is no longer in the trash") from error
    except OSError as error:
        raise ManifestFileError(
            f"{trashed.origin.name} cannot be brought back: {error.strerror}"
        ) from error


def trashed_files(folder: Path) -> list[Trashed]:
    """Return the files in the trash of a folder, the newest first. Raises `ManifestFileError`."""
    trash = folder / TRASH
    try:
        names = os.listdir(trash)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ManifestFileError(f"{trash} cannot be read: {error.strerror}") from error
    found: list[Trashed] = []
    for name in names:
        match = _NAME.fullmatch(name)
        moment = _moment(match[1]) if match is not None else None
        if match is not None and moment is not None:
            found.append(Trashed(trash / name, folder / match[2], moment))
    return sorted(found, key=lambda one: one.path.name, reverse=True)


def _moment(stamp: str) -> datetime | None:
    """Parse the time in a file name; None if it is invalid, because podtui did not write it."""
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


async def delete_manifests(actions: Actions, manifests: Sequence[Manifest]) -> bool:
    """Ask, then move the files to the trash; return whether that was done. Raises
    `ManifestFileError`.
    """
    plans = await _plans(actions, manifests)
    if not await actions.confirm(delete_dialog(manifests, plans)):
        return False
    thrown: list[Trashed] = []
    try:
        for manifest in manifests:
            path = Path(manifest.spec.path)
            one = await asyncio.to_thread(throw_away, path, actions.now())
            thrown.append(one)
            actions.did("delete", ["mv", str(path), str(one.path)], manifest.status.podName)
    finally:
        if thrown:
            actions.undoable.append(tuple(thrown))
    actions.tell_undo(f"{_files(manifests)} moved to the trash")
    return True


async def _plans(actions: Actions, manifests: Sequence[Manifest]) -> list[Plan | str]:
    async def ask(manifest: Manifest) -> Plan | str:
        try:
            return await actions.client.plan(manifest.metadata.name, None)
        except (AgentUnavailable, ApiError) as error:
            return str(error)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(manifest)) for manifest in manifests]
    return [task.result() for task in tasks]


def delete_dialog(manifests: Sequence[Manifest], plans: Sequence[Plan | str]) -> Dialog:
    """Return the dialog that lists the files to move and the pods that end with them."""
    lines: list[Line] = []
    ended = 0
    for manifest, plan in zip(manifests, plans, strict=True):
        path = Path(manifest.spec.path)
        lines.append((Span(f"{clean(path.name)}", "name"), Span(" → .trash/", "muted")))
        if isinstance(plan, str):
            lines.append((Span(f"  ▲ what ends is not known: {clean(plan)}", "warning"),))
            continue
        ended += len(plan.pods)
        lines += [(Span("  "), *line) for line in plan_lines(plan)]
    lines += [
        (),
        (Span("A pod lives as long as its file: deleting its record would not end it.", "muted"),),
        (Span("u brings the last deleted files back; restored pods start fresh.", "muted"),),
    ]
    what = _files(manifests) if ended != len(manifests) else _pods(plans)
    return confirmation(f"Delete {what}?", lines, f"Delete {what}")


def _files(manifests: Sequence[Manifest]) -> str:
    return clean(manifests[0].metadata.name) if len(manifests) == 1 else f"{len(manifests)} files"


def _pods(plans: Sequence[Plan | str]) -> str:
    names = [pod.name for plan in plans if not isinstance(plan, str) for pod in plan.pods]
    return clean(names[0]) if len(names) == 1 else f"{len(names)} pods"


async def undo_last(actions: Actions) -> None:
    """Undo the last delete or fix. Raises `ManifestFileError`; the undo can then be repeated."""
    if not actions.undoable:
        actions.tell("Nothing was deleted or fixed in this session; :trash lists what was before.",
                     title="Undo", severity="warning")  # fmt: skip
        return
    last = actions.undoable[-1]
    if isinstance(last, Rewrite):
        await undo_rewrite(actions, last)
    else:
        await restore(actions, last)


async def restore(actions: Actions, files: Sequence[Trashed]) -> None:
    """Restore files from the trash. A file that cannot be restored does not stop the others. Raises
    `ManifestFileError` with all failures.
    """
    wrong: list[str] = []
    back: list[Trashed] = []
    for one in files:
        try:
            await asyncio.to_thread(bring_back, one)
        except ManifestFileError as error:
            wrong.append(str(error))
        else:
            back.append(one)
            actions.did("bring back", ["mv", "-n", str(one.path), str(one.origin)])
            left = [
                deed if isinstance(deed, Rewrite) else tuple(each for each in deed if each != one)
                for deed in actions.undoable
            ]
            actions.undoable[:] = [deed for deed in left if deed]
    if wrong:
        rest = f" ({len(back)} of {len(files)} are back)" if back else ""
        raise ManifestFileError("\n".join(wrong) + rest)
    names = ", ".join(clean(one.origin.name) for one in back)
    actions.tell(names, title="Brought back")
