"""Create a pod: choose a template and a name, edit the manifest, confirm the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from podtui.tui.actions.actions import Actions
from podtui.tui.actions.editing import edit_file
from podtui.tui.actions.templates import (
    Template,
    free_name,
    name_problem,
    named,
    new_path,
    read_templates,
)
from podtui.tui.widgets.cells import Line, Span, sized
from podtui.tui.widgets.dialogs import Ask
from podtui.tui.widgets.picker import Picker
from podtui.tui.widgets.sanitize import clean


async def create_pod(actions: Actions, folder: Path) -> None:
    """Ask for template and name, then edit the new manifest. Raises as `edit_file`."""
    templates = await asyncio.to_thread(read_templates)
    chosen = await actions.app.push_screen_wait(template_picker(templates))
    if chosen is None:
        return
    template = templates[chosen]
    taken = {*actions.app.model.manifests}
    words = [(Span("Name of the pod, and of its file (with .yaml).", "muted"),)]
    if not await asyncio.to_thread(folder.exists):
        words.append((Span(f"The folder {clean(str(folder))} is created for it.", "muted"),))
    name = await actions.app.push_screen_wait(
        Ask(
            f"New pod from {template.name}",
            words,
            text=free_name(template.name, taken),
            check=lambda text: name_problem(text, taken),
        )
    )
    if name is not None:
        await edit_file(actions, new_path(folder, name), begin=named(template, name))


def template_picker(templates: Sequence[Template]) -> Picker:
    return Picker("New pod", [template_line(template) for template in templates])


def template_line(template: Template) -> Line:
    return (Span(sized(clean(template.name), 10), "name"), Span(clean(template.words), "soft"))
