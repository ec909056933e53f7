"""Edit and create pods through the API, as text in the user's editor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from podtui.api.v1 import Pod
from podtui.errors import ApiError
from podtui.tui.commands.create_pod import choose_template, named
from podtui.tui.commands.edit_manifest import edited_text
from podtui.tui.commands.session import Session
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pods.describe import pod_yaml
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import CANCEL, Dialog, Option
from podtui.tui.widgets.sanitize import clean

AGAIN: Final = "edit"


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
