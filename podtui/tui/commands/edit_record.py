"""Edit and create pods through the API, as text in the user's editor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from podtui.api.v1 import Pod
from podtui.errors import ApiError
from podtui.tui.commands.create_pod import choose_template, named
from podtui.tui.commands.edit_manifest import edited_text
from podtui.tui.commands.session import Session
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pods.describe import pod_yaml
from podtui.tui.views.pods.live_manifest import changes_resources_only, live_manifest
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import CANCEL, Dialog, Option, confirmation
from podtui.tui.widgets.sanitize import clean
from podtui.why import Fix, apply_edits, diff_texts

AGAIN: Final = "edit"
UPDATE: Final = "update"
RESIZE: Final = "resize"
RECREATE: Final = "recreate"
_WORDS: Final = {
    UPDATE: "The API updates the pod in place.",
    RESIZE: "The pod is resized in place.",
    RECREATE: "The API does not allow this change of a pod: it is deleted, and created again.",
}
_CONFLICT: Final = 409
_GONE_SECONDS: Final = 30.0
"""Seconds beyond its grace period in which a deleted pod must be gone."""
_TRY_SECONDS: Final = 0.5


async def edit_pod(session: Session, pod: Pod) -> None:
    """Edit an API pod, and replace it in the API. Raises
    `podtui.tui.commands.terminal.ProgramFailed`."""
    meta = pod.metadata
    current = await session.client.get(Pod, meta.namespace, meta.name)
    text = await asyncio.to_thread(pod_yaml, current)

    async def apply(edited: bytes) -> None:
        await session.client.replace_pod(meta.namespace, meta.name, edited)

    if await _apply(session, f"{meta.name}.yaml", text.encode(), apply, new=False):
        words = session.kubectl("edit", "pod", meta.name, f"--namespace={meta.namespace}")
        session.record_action("edit", words, meta.name)
        session.notify("Applied through the API.", title=pod_label(pod))


async def fix_pod(session: Session, pod: Pod, fix: Fix) -> None:
    """Apply a fix to an API pod after asking: in place if the API allows it, else by deleting the
    pod and creating it again. Raises `ApiError`, `podtui.why.EditError`."""
    meta, before = pod.metadata, live_manifest(pod).spec.text
    after = apply_edits(before, fix.edits)
    ways = {UPDATE: ""}
    if changes_resources_only(before, after):
        ways[RESIZE] = "resize"
    way = await _way(session, pod, after.encode(), ways)
    if await session.ask(fix_dialog(pod, fix.title, before, after, way)) == CANCEL:
        return
    if way == RECREATE:
        await session.client.delete_pod(pod)
        session.record_action("delete", _kubectl(session, pod, "delete"), meta.name)
        await _create_again(session, pod, after.encode())
        session.record_action("create", _kubectl(session, pod, "create"), meta.name)
    else:
        await session.client.replace_pod(
            meta.namespace, meta.name, after.encode(), subresource=ways[way]
        )
        session.record_action("edit", _kubectl(session, pod, "edit"), meta.name)
    session.notify(fix.title, title=f"{pod_label(pod)} changed through the API")


def _kubectl(session: Session, pod: Pod, verb: str) -> list[str]:
    meta = pod.metadata
    what = ("-f", f"{meta.name}.yaml") if verb == "create" else ("pod", meta.name)
    return session.kubectl(verb, *what, f"--namespace={meta.namespace}")


async def _way(session: Session, pod: Pod, text: bytes, ways: Mapping[str, str]) -> str:
    """Return the first of the ways, which have their subresources, in which the API takes the
    changed pod; else `RECREATE`."""
    meta = pod.metadata
    for way, subresource in ways.items():
        try:
            await session.client.replace_pod(
                meta.namespace, meta.name, text, subresource=subresource, dry_run=True
            )
        except ApiError as error:
            # 404: a server without resizes.
            if error.code not in (404, 422):
                raise
        else:
            return way
    return RECREATE


async def _create_again(session: Session, pod: Pod, text: bytes) -> None:
    """Create the pod once the old one is gone. If the API refuses the text, the user may edit
    it."""
    meta = pod.metadata
    grace = meta.deletionGracePeriodSeconds or pod.spec.terminationGracePeriodSeconds or 0
    tries = int((grace + _GONE_SECONDS) / _TRY_SECONDS)

    async def create(changed: bytes) -> None:
        for left in range(tries, -1, -1):
            try:
                await session.client.create_pod(meta.namespace, changed)
            except ApiError as error:
                if error.code != _CONFLICT or not left:
                    raise
                await asyncio.sleep(_TRY_SECONDS)
            else:
                return

    try:
        await create(text)
    except ApiError as error:
        name = f"{meta.name}.yaml"
        if await session.ask(refusal_dialog(name, str(error))) == AGAIN:
            await _apply(session, name, text, create, new=True)


def fix_dialog(pod: Pod, title: str, before: str, after: str, way: str) -> Dialog:
    """Return the dialog with the diff, and how the API takes it."""
    tones = {"-": "error", "+": "good"}
    lines: list[Line] = [(Span(clean(pod_label(pod)), "name"),)]
    lines += [
        (Span(f"  {line[:1]} {clean(line[1:])}", tones.get(line[:1], "soft")),)
        for line in diff_texts(before, after)
        if not line.startswith("@@")
    ]
    lines += [(), (Span(_WORDS[way], "warning" if way == RECREATE else ""),)]
    verb = "Delete and create again" if way == RECREATE else "Apply"
    return confirmation(f"{clean(title)}?", lines, verb)


async def create_through_api(session: Session) -> None:
    """Ask for template and name, and create the edited pod through the API; no file is written."""
    template = await choose_template(session)
    if template is None:
        return

    async def apply(edited: bytes) -> None:
        await session.client.create_pod("default", edited)

    begin = named(template, template.name)
    if await _apply(session, f"{template.name}.yaml", begin, apply, new=True):
        words = session.kubectl("create", "-f", f"{template.name}.yaml")
        session.record_action("create", words, template.name)
        session.notify("Created through the API.", title=template.name)


async def _apply(
    session: Session,
    name: str,
    begin: bytes,
    apply: Callable[[bytes], Awaitable[None]],
    *,
    new: bool,
) -> bool:
    """Edit until the API accepts the text, or the user gives up; return whether it was applied."""
    text = begin
    while True:
        text = await edited_text(session, name, text)
        if text == begin and not new:
            session.notify("Nothing was changed.", title=name)
            return False
        try:
            await apply(text)
        except ApiError as error:
            if await session.ask(refusal_dialog(name, str(error))) != AGAIN:
                session.notify("Nothing was changed.", title=name)
                return False
        else:
            return True


def refusal_dialog(name: str, problem: str) -> Dialog:
    """Return the dialog with the API's error."""
    lines: list[Line] = [(Span("▲ ", "warning"), Span(clean(problem)))]
    options = (Option(AGAIN, "Edit again", "e"), Option(CANCEL, "Discard", "d", danger=True))
    return Dialog(f"The API refused {clean(name)}", lines, options)
