"""Edit a manifest: run the user's editor, show the plan, replace the file with one rename."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from podtui.api.local import Diagnostic, Plan, PlanOutcome
from podtui.api.v1 import Pod
from podtui.editing.findings import is_better
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.commands.manifest_file import (
    ManifestChanged,
    Rewrite,
    read_manifest_file,
    write_manifest_file,
)
from podtui.tui.commands.session import Draft, Session
from podtui.tui.commands.terminal import at_line, editor_words, run_in_terminal
from podtui.tui.views.endings import losses
from podtui.tui.views.plan import changes_text_only, is_disruptive, outcome_text, plan_lines
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import CANCEL, Dialog, Option, confirmation
from podtui.tui.widgets.sanitize import clean
from podtui.why import diff_texts

APPLY: Final = "apply"
AGAIN: Final = "edit"
OVERWRITE: Final = "overwrite"
DISCARD: Final = "discard"
EDIT_AGAIN: Final = Option(AGAIN, "Edit again", "e")
KEEP_DRAFT: Final = Option(CANCEL, "Keep draft", "n")
DISCARD_DRAFT: Final = Option(DISCARD, "Discard draft", "d", danger=True)


async def edit_file(
    session: Session, path: Path, *, begin: bytes | None = None, line: int | None = None
) -> None:
    """Edit a manifest and write it. ``begin`` is the initial text of a new file, ``line`` the one
    at which the editor opens it.

    A text that is not applied is kept as a draft until it is applied or discarded, or until the
    file changes. Raises `ManifestFileError`, `podtui.tui.commands.terminal.ProgramFailed`.
    """
    base = None if begin is not None else await asyncio.to_thread(read_manifest_file, path)
    text, outdated = base if begin is None else begin, False
    draft = session.drafts.get(path)
    if draft is not None and draft.base == base:
        text, outdated = draft.text, draft.outdated
        session.notify("Reopened your unsaved draft.", title=path.name)
    while True:
        text = await edited_text(session, path.name, text or b"", line)
        if text == base:
            session.drafts.pop(path, None)
            session.notify("Nothing was changed.", title=path.name)
            return
        # Keep the draft until the file is written, so that no failure in between loses it.
        session.drafts[path] = Draft(base, text, outdated)
        plan, problem = await _plan(session, path.name, text)
        current = await _content(path)
        # The text lacks the change until it is applied, also if it is edited again.
        outdated = outdated or current != base
        # The dialog says what was changed meanwhile: an answer to it is about the current file.
        base = current
        session.drafts[path] = Draft(base, text, outdated)
        pods = session.model.pods.values()
        dialog = plan_dialog(path.name, plan, problem, changed=outdated, pods=pods)
        answer = await session.ask(dialog)
        while answer == APPLY:
            try:
                await asyncio.to_thread(write_manifest_file, path, text, expected=base)
            except ManifestChanged as error:
                answer = await session.ask(changed_dialog(path.name, str(error)))
                base, outdated = await _content(path), True
                session.drafts[path] = Draft(base, text, outdated)
                if answer == OVERWRITE:
                    answer = APPLY
            else:
                del session.drafts[path]
                done = outcome_text(plan) if plan is not None else "saved"
                session.notify(done, title=f"{path.name} applied")
                pods = [pod.name for pod in plan.pods] if plan is not None else []
                command = [*editor_words(os.environ), str(path)]
                session.record_action("create" if base is None else "edit", command, *pods)
                return
        if answer == DISCARD:
            del session.drafts[path]
            session.notify("Draft discarded; nothing was changed.", title=path.name)
            return
        if answer != AGAIN:
            session.notify("Nothing was changed; e reopens your draft.", title=path.name)
            return


async def _content(path: Path) -> bytes | None:
    """Return the current content of the file; None if it does not exist."""
    if not await asyncio.to_thread(os.path.lexists, path):
        return None
    return await asyncio.to_thread(read_manifest_file, path)


async def edited_text(session: Session, name: str, text: bytes, line: int | None = None) -> bytes:
    """Run the user's editor on a private copy of the text, and return the result."""
    command = at_line(editor_words(os.environ), line)
    with tempfile.TemporaryDirectory(prefix="podtui-") as private:
        copy = Path(private) / name
        await asyncio.to_thread(copy.write_bytes, text)
        await run_in_terminal(session, [*command, str(copy)])
        return await asyncio.to_thread(read_manifest_file, copy)


async def _plan(session: Session, name: str, text: bytes) -> tuple[Plan | None, str]:
    """Return the agent's plan, or None and the reason why there is none."""
    try:
        return await session.client.plan(name, text), ""
    except (AgentUnavailable, ApiError) as error:
        return None, str(error)


async def rewrite_file(
    session: Session, change: Rewrite, before: Iterable[Diagnostic] | None = None
) -> bool:
    """Show the diff and the plan, ask, and write the new text; return whether that was done. It can
    be undone. Raises `ManifestFileError`.

    ``before`` are the findings of the old text: a change that adds one is refused.
    """
    if not await _rewritten(session, change, f"{change.what}?", "Apply", before):
        return False
    session.undoable.append(change)
    session.notify_undo(f"{change.path.name}: {change.what}", "undoes it")
    return True


async def undo_rewrite(session: Session, change: Rewrite) -> None:
    """Write the old text back after asking. Raises `ManifestFileError`, also if the file has
    changed since.
    """
    back = Rewrite(change.path, change.after, change.before, change.what)
    if await _rewritten(session, back, f"Undo: {change.what}?", "Undo"):
        session.undoable.remove(change)
        session.notify(f"Undone: {change.what}", title=change.path.name)


async def _rewritten(
    session: Session,
    change: Rewrite,
    title: str,
    verb: str,
    before: Iterable[Diagnostic] | None = None,
) -> bool:
    name = change.path.name
    plan, problem = await _plan(session, name, change.after)
    if plan is not None and before is not None and not is_better(before, plan.diagnostics):
        reason = plan.message or "it adds a finding to the file"
        session.notify(f"Not applied: {reason}", title=name, severity="warning")
        return False
    pods = session.model.pods.values()
    if await session.ask(rewrite_dialog(change, title, verb, plan, problem, pods=pods)) == CANCEL:
        return False
    await asyncio.to_thread(write_manifest_file, change.path, change.after, expected=change.before)
    pods = [pod.name for pod in plan.pods] if plan is not None else []
    session.record_action(verb.lower(), [*editor_words(os.environ), str(change.path)], *pods)
    return True


def rewrite_dialog(
    change: Rewrite,
    title: str,
    verb: str,
    plan: Plan | None,
    problem: str = "",
    *,
    pods: Iterable[Pod] = (),
) -> Dialog:
    """Return the dialog with the diff, followed by the effect on ``pods``, those of the server."""
    tones = {"-": "error", "+": "good"}
    diff = diff_texts(change.before.decode(errors="replace"), change.after.decode(errors="replace"))
    lines: list[Line] = [(Span(clean(change.path.name), "name"),)]
    lines += [
        (Span(f"  {line[:1]} {clean(line[1:])}", tones.get(line[:1], "soft")),)
        for line in diff
        if not line.startswith("@@")
    ]
    lines.append(())
    if plan is None:
        lines.append((Span(f"▲ No plan: {clean(problem)}", "warning"),))
    else:
        lines += _effects(plan, pods)
    what = _verb(plan, verb) if plan is not None and is_disruptive([plan]) else verb
    return confirmation(clean(title), lines, what)


_CHANGED: Final = "▲ The file has changed since the editor opened: applying discards that change."


def _effects(plan: Plan, pods: Iterable[Pod]) -> list[Line]:
    """Return the lines of a plan with what is lost, given the pods of the server."""
    pods_by_name = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    over = {key for key, pod in pods_by_name.items() if pod.status.phase in ("Succeeded", "Failed")}
    ends = (PlanOutcome.REPLACED, PlanOutcome.REMOVED)
    keys = [(pod.namespace, pod.name) for pod in plan.pods if pod.outcome in ends]
    lost = losses(pods_by_name[key] for key in keys if key in pods_by_name)
    if any(pod.restarts for pod in plan.pods):
        text = "What restarted containers wrote outside of volumes is lost."
        lost.append((Span(text, "muted"),))
    return [*plan_lines(plan, over), *([(), *lost] if lost else ())]


def plan_dialog(
    name: str,
    plan: Plan | None,
    problem: str = "",
    *,
    changed: bool = False,
    pods: Iterable[Pod] = (),
) -> Dialog:
    """Return the dialog with the plan and the possible answers. Unusable text cannot be applied.
    ``changed`` means that the file has changed meanwhile; ``pods`` are those of the server.
    """
    title = f"Plan for {clean(name)}"
    warning: list[Line] = [(Span(_CHANGED, "warning"),), ()] if changed else []
    if plan is None:
        lines: list[Line] = [*warning, (Span(f"▲ No plan: {clean(problem)}", "warning"),)]
        save = Option(APPLY, "Save anyway", "y", True)
        return Dialog(title, lines, (KEEP_DRAFT, EDIT_AGAIN, DISCARD_DRAFT, save))
    lines = [*warning, *_effects(plan, pods)]
    if not plan.usable:
        return Dialog(title, lines, (EDIT_AGAIN, KEEP_DRAFT, DISCARD_DRAFT))
    danger = is_disruptive([plan]) or changed
    verb = "Save" if changes_text_only(plan) else _verb(plan)
    apply = Option(APPLY, verb, "y", danger)
    options: Sequence[Option] = (
        (KEEP_DRAFT, EDIT_AGAIN, DISCARD_DRAFT, apply)
        if danger
        else (apply, EDIT_AGAIN, KEEP_DRAFT, DISCARD_DRAFT)
    )
    return Dialog(title, lines, options)


def _verb(plan: Plan, apply: str = "Apply") -> str:
    replaced = [pod for pod in plan.pods if pod.outcome in ("Replaced", "Removed")]
    if len(replaced) == 1:
        verb = "replace" if replaced[0].outcome == "Replaced" else "remove"
        return f"{apply} and {verb} {clean(replaced[0].name)}"
    return f"{apply} and terminate {len(replaced)} pods" if replaced else apply


def changed_dialog(name: str, problem: str) -> Dialog:
    lines: list[Line] = [
        (Span("▲ ", "warning"), Span(f"{clean(problem)}.")),
        (Span("Overwriting it would discard its current content.", "muted"),),
    ]
    options = (KEEP_DRAFT, EDIT_AGAIN, DISCARD_DRAFT, Option(OVERWRITE, "Overwrite", "o", True))
    return Dialog(f"{clean(name)} has changed", lines, options)
