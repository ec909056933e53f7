"""Edit, create and undo changes of pods through the API, as text in the user's editor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.api.v1 import Pod
from podtui.errors import ApiError
from podtui.tui.commands.create_pod import choose_template, named
from podtui.tui.commands.edit_manifest import (
    AGAIN,
    APPLY,
    DISCARD,
    DISCARD_DRAFT,
    EDIT_AGAIN,
    KEEP_DRAFT,
    edited_text,
)
from podtui.tui.commands.session import DeletedPods, Draft, RecordChange, Session
from podtui.tui.views.endings import ending_text, grace_text, losses
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pods.live_manifest import (
    changes_resources_only,
    identity_of,
    live_manifest,
    restarted_containers,
)
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import CANCEL, CANCELS, Dialog, Option
from podtui.tui.widgets.sanitize import clean
from podtui.why import Fix, apply_edits, diff_texts

UPDATE: Final = "update"
RESIZE: Final = "resize"
RECREATE: Final = "recreate"
_WORDS: Final = {
    UPDATE: "The API updates the pod in place.",
    RESIZE: "The pod is resized in place.",
    RECREATE: "The API does not allow this change of a pod: it is deleted, and created again. It",
}
_CONFLICT: Final = 409
_GONE_SECONDS: Final = 30.0
"""Seconds beyond its grace period in which a deleted pod must be gone."""
_TRY_SECONDS: Final = 0.5


class UpdateMethod(Struct, frozen=True):
    """The method by which the API applies a change: update, resize or recreate. ``refusal`` is its
    reason for refusing an update; empty if it accepts one."""

    name: str
    refusal: str = ""


async def edit_pod(session: Session, pod: Pod, line: int | None = None) -> None:
    """Edit an API pod, show the change and how the API applies it, and apply it. The editor opens
    its text at ``line``.

    A text that is not applied is kept as a draft, as for a file. Raises `ApiError`,
    `podtui.tui.commands.terminal.ProgramFailed`.
    """
    meta = pod.metadata
    name, key = f"{meta.name}.yaml", Path(meta.namespace, f"{meta.name}.yaml")
    base = manifest_of(await session.client.get(Pod, meta.namespace, meta.name))
    text, outdated = base.encode(), False
    draft = session.drafts.get(key)
    if draft is not None and draft.base == base.encode():
        text, outdated = draft.text, draft.outdated
        session.notify("Reopened your unsaved draft.", title=pod_label(pod))
    while True:
        text = await edited_text(session, name, text, line)
        if text == base.encode():
            session.drafts.pop(key, None)
            session.notify("Nothing was changed.", title=pod_label(pod))
            return
        session.drafts[key] = Draft(base.encode(), text, outdated)
        current = await session.client.get(Pod, meta.namespace, meta.name)
        change = RecordChange(current, manifest_of(current), text.decode(errors="replace"), "edit")
        outdated = outdated or change.before != base
        try:
            method = await find_method(session, change)
        except ApiError as error:
            answer = await session.ask(refusal_dialog(name, str(error), KEEP_DRAFT))
        else:
            answer = await session.ask(edit_dialog(change, method, changed=outdated))
            if answer == APPLY:
                await _apply(session, change, method)
                session.drafts.pop(key, None)
                return
        base = change.before
        session.drafts[key] = Draft(base.encode(), text, outdated)
        if answer == DISCARD:
            del session.drafts[key]
            session.notify("Draft discarded; nothing was changed.", title=pod_label(pod))
            return
        if answer != AGAIN:
            session.notify("Nothing was changed; e reopens your draft.", title=pod_label(pod))
            return


async def fix_pod(session: Session, pod: Pod, fix: Fix) -> RecordChange | None:
    """Apply a fix to an API pod after asking; return None if the user declines. Raises `ApiError`,
    `podtui.why.EditError`."""
    before = manifest_of(pod)
    change = RecordChange(pod, before, apply_edits(before, fix.edits), fix.title)
    method = await find_method(session, change)
    if not await session.confirm(change_dialog(change, method, f"{clean(fix.title)}?", "Apply")):
        return None
    await _apply(session, change, method)
    return change


async def undo_change(session: Session, done: RecordChange) -> None:
    """Change an API pod back after asking. Raises `ApiError`."""
    meta = done.pod.metadata
    current = await session.client.get(Pod, meta.namespace, meta.name)
    change = RecordChange(current, manifest_of(current), done.before, done.what)
    if change.before == change.after:
        session.undoable.remove(done)
        session.notify("It was already undone.", title=pod_label(current))
        return
    method = await find_method(session, change)
    if await session.confirm(change_dialog(change, method, f"Undo: {clean(done.what)}?", "Undo")):
        session.undoable.remove(done)
        try:
            await _send(session, change, method)
        except ApiError:
            session.undoable.append(done)
            raise
        session.notify(f"Undone: {done.what}", title=pod_label(current))


async def create_deleted(session: Session, deleted: DeletedPods) -> None:
    """Create deleted pods again, with the text that they had. Raises `ApiError`; the undo can then
    be repeated for the rest.
    """
    session.undoable.remove(deleted)
    left = list(deleted.pods)
    try:
        while left:
            await _create_when_gone(session, left[0], manifest_of(left[0]).encode())
            del left[0]
    finally:
        if left:
            session.undoable.append(DeletedPods(tuple(left)))
    names = ", ".join(pod_label(pod) for pod in deleted.pods)
    session.notify(names, title="Created again")


def manifest_of(pod: Pod) -> str:
    """Return the text of a pod that a client may change."""
    return live_manifest(pod).spec.text


async def find_method(session: Session, change: RecordChange) -> UpdateMethod:
    """Return how the API applies a change, found by dry runs: as an update, else as a resize, else
    by creating the pod again. Raises `ApiError` if it refuses all of them.
    """
    meta, text = change.pod.metadata, change.after.encode()
    client = session.client
    try:
        await client.replace_pod(meta.namespace, meta.name, text, dry_run=True)
    except ApiError as error:
        if error.code != 422:
            raise
        refusal = str(error)
    else:
        return UpdateMethod(UPDATE)
    if changes_resources_only(change.before, change.after):
        try:
            await client.replace_pod(
                meta.namespace, meta.name, text, subresource="resize", dry_run=True
            )
        except ApiError as error:
            # 404: a server without resizes.
            if error.code not in (404, 422):
                raise
        else:
            return UpdateMethod(RESIZE, refusal)
    try:
        await client.create_pod(meta.namespace, text, dry_run=True)
    except ApiError as error:
        # The server validates the text first: a conflict of names means that the text is valid.
        if error.code != _CONFLICT:
            raise
    return UpdateMethod(RECREATE, refusal)


async def _apply(session: Session, change: RecordChange, method: UpdateMethod) -> None:
    await _send(session, change, method)
    session.undoable.append(change)
    session.notify_undo(f"{pod_label(change.pod)}: {change.what}", "undoes it")


async def _send(session: Session, change: RecordChange, method: UpdateMethod) -> None:
    pod, text = change.pod, change.after.encode()
    meta = pod.metadata
    if method.name != RECREATE:
        subresource = "resize" if method.name == RESIZE else ""
        await session.client.replace_pod(meta.namespace, meta.name, text, subresource=subresource)
        session.record_action("edit", _kubectl(session, pod, "edit"), meta.name)
        return
    path = await asyncio.to_thread(session.saved_pods.save, pod, text)
    try:
        await session.client.delete_pod(pod)
    except ApiError:
        await asyncio.to_thread(session.saved_pods.discard, meta.uid)
        raise
    session.record_action("delete", _kubectl(session, pod, "delete"), meta.name)
    try:
        await _create_when_gone(session, pod, text)
    except ApiError as error:
        where = f"; its manifest is {path}" if path is not None else ""
        raise ApiError(
            error.code, error.reason, f"{meta.name} was deleted, but not created: {error}{where}"
        ) from error
    await asyncio.to_thread(session.saved_pods.discard, meta.uid)


def _kubectl(session: Session, pod: Pod, verb: str) -> list[str]:
    meta = pod.metadata
    what = ("-f", f"{meta.name}.yaml") if verb == "create" else ("pod", meta.name)
    return session.kubectl(verb, *what, f"--namespace={meta.namespace}")


async def _create_when_gone(session: Session, pod: Pod, text: bytes) -> None:
    """Create a pod once the old one is gone. Other commands may start meanwhile. Raises
    `ApiError`."""
    meta, label = pod.metadata, pod_label(pod)
    grace = meta.deletionGracePeriodSeconds or pod.spec.terminationGracePeriodSeconds or 0
    session.end_questions()
    session.recreated.append(label)
    try:
        for left in range(int((grace + _GONE_SECONDS) / _TRY_SECONDS), -1, -1):
            try:
                await session.client.create_pod(meta.namespace, text)
            except ApiError as error:
                if error.code != _CONFLICT or not left:
                    raise
                await asyncio.sleep(_TRY_SECONDS)
            else:
                break
    finally:
        session.recreated.remove(label)
    session.record_action("create", _kubectl(session, pod, "create"), meta.name)


async def offer_saved_pods(session: Session, saved: Sequence[tuple[str, bytes]]) -> None:
    """Offer to create the pods that an earlier screen deleted, but did not create again: each
    manifest with the UID of the deleted pod. Raises `ApiError`."""
    for uid, text in saved:
        namespace, name = identity_of(text)
        try:
            pod = await session.client.get(Pod, namespace, name)
        except ApiError as error:
            if error.code != 404:
                raise
        else:
            if pod.metadata.uid != uid:
                await asyncio.to_thread(session.saved_pods.discard, uid)
            # Otherwise another screen is about to create it.
            continue
        answer = await session.ask(saved_dialog(f"{namespace}/{name}"))
        if answer == APPLY:
            try:
                await session.client.create_pod(namespace, text)
            except ApiError as error:
                if error.code != _CONFLICT:
                    raise
            session.notify(f"{namespace}/{name}", title="Created again")
        if answer in (APPLY, DISCARD):
            await asyncio.to_thread(session.saved_pods.discard, uid)


def saved_dialog(label: str) -> Dialog:
    """Return the dialog about a pod that an earlier screen deleted."""
    lines: list[Line] = [
        (Span(clean(label), "name"), Span(" was deleted to change it, but not created again:")),
        (Span("the screen ended before. Its changed manifest is still there."),),
    ]
    options = (
        Option(APPLY, "Create it", "y"),
        Option(CANCEL, "Ask later", "n"),
        Option(DISCARD, "Discard it", "d", danger=True),
    )
    return Dialog("Create the pod again?", lines, options)


def _change_lines(change: RecordChange, method: UpdateMethod) -> list[Line]:
    tones = {"-": "error", "+": "good"}
    lines: list[Line] = [(Span(clean(pod_label(change.pod)), "name"),)]
    lines += [
        (Span(f"  {line[:1]} {clean(line[1:])}", tones.get(line[:1], "soft")),)
        for line in diff_texts(change.before, change.after)
        if not line.startswith("@@")
    ]
    if method.name == RECREATE:
        text = f"{_WORDS[RECREATE]} {ending_text(change.pod)}."
        return [*lines, (), (Span(text, "warning"),), *losses([change.pod])]
    lines += [(), (Span(_WORDS[method.name]),)]
    restarts = ", ".join(map(clean, _restarted(change)))
    if restarts:
        text = f"↻ Restarts ({grace_text(change.pod)} to stop): {restarts}"
        lines.append((Span(text, "warning"),))
    return lines


def _restarted(change: RecordChange) -> tuple[str, ...]:
    return restarted_containers(change.before, change.after)


def change_dialog(change: RecordChange, method: UpdateMethod, title: str, verb: str) -> Dialog:
    """Return the dialog with the diff, and how the API applies it."""
    what = "Delete and create again" if method.name == RECREATE else verb
    return Dialog(title, _change_lines(change, method), _options(CANCELS, what, danger=True))


def edit_dialog(change: RecordChange, method: UpdateMethod, *, changed: bool = False) -> Dialog:
    """Return the dialog after an edit. ``changed`` means that the pod has changed meanwhile."""
    lines = _change_lines(change, method)
    if method.name == RECREATE:
        lines.append((Span(clean(method.refusal), "muted"),))
    if changed:
        text = "▲ The pod has changed since the editor opened: the diff undoes that change, too."
        lines.append((Span(text, "warning"),))
    verb = "Delete and create again" if method.name == RECREATE else "Apply"
    # Apply is preselected only if nothing ends or is undone by it.
    danger = method.name == RECREATE or changed or bool(_restarted(change))
    options = _options(KEEP_DRAFT, verb, EDIT_AGAIN, DISCARD_DRAFT, danger=danger)
    return Dialog(f"Change {clean(pod_label(change.pod))}", lines, options)


def _options(keep: Option, verb: str, *others: Option, danger: bool) -> Sequence[Option]:
    apply = Option(APPLY, verb, "y", danger)
    return (keep, *others, apply) if danger else (apply, *others, keep)


async def create_through_api(session: Session) -> None:
    """Ask for template and name, and create the edited pod through the API; no file is written."""
    template = await choose_template(session)
    if template is None:
        return
    name = f"{template.name}.yaml"
    text = named(template, template.name)
    while True:
        text = await edited_text(session, name, text)
        try:
            await session.client.create_pod("default", text)
        except ApiError as error:
            if await session.ask(refusal_dialog(name, str(error), DISCARD_DRAFT)) != AGAIN:
                session.notify("Nothing was changed.", title=name)
                return
        else:
            break
    command = session.kubectl("create", "-f", f"{template.name}.yaml")
    session.record_action("create", command, template.name)
    session.notify("Created through the API.", title=template.name)


def refusal_dialog(name: str, problem: str, otherwise: Option) -> Dialog:
    """Return the dialog with the API's error."""
    lines: list[Line] = [(Span("▲ ", "warning"), Span(clean(problem)))]
    options = [EDIT_AGAIN, otherwise]
    if otherwise is KEEP_DRAFT:
        options.append(DISCARD_DRAFT)
    return Dialog(f"The API refused {clean(name)}", lines, options)
