"""Create a pod: choose a template and a name, edit the manifest, confirm the plan."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtui.resources import shipped
from podtui.tui.commands.edit_manifest import edit_file
from podtui.tui.commands.manifest_file import ManifestFileError
from podtui.tui.commands.session import Session
from podtui.tui.widgets.cells import Line, Span, sized
from podtui.tui.widgets.dialogs import Picker, TextDialog
from podtui.tui.widgets.sanitize import clean

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_LONGEST: Final = 200
"""Leaves room for the node's name, which is appended to a static pod's name."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template; ``description`` is the first comment of its text."""

    name: str
    description: str
    text: str


def read_templates() -> list[Template]:
    """Return the templates sorted by name. Blocks. Raises `ManifestFileError`."""
    try:
        files = sorted(shipped("templates").glob("*.yaml"))
        return [template_of(file.stem, file.read_text(encoding="utf-8")) for file in files]
    except OSError as error:
        raise ManifestFileError(f"cannot read the templates: {error}") from error


def template_of(name: str, text: str) -> Template:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return Template(name, " ".join(lines), text)


def named(template: Template, name: str) -> bytes:
    """Return the template's text with the pod's name and its label ``app`` replaced."""
    old = re.escape(template.name)
    text = re.sub(rf"^(  name|    app): {old}$", rf"\1: {name}", template.text, flags=re.MULTILINE)
    return text.encode()


def name_problem(name: str, taken: Collection[str]) -> str:
    """Return why a new pod cannot have this name; empty if it can. ``taken`` are file names."""
    if not name:
        return "the name must not be empty"
    if len(name) > _LONGEST:
        return f"must be no more than {_LONGEST} characters"
    if not _NAME.fullmatch(name):
        return (
            "must consist of lower case alphanumeric characters, '-' or '.', and must start and end"
            " with an alphanumeric character"
        )
    if file_name(name) in taken:
        return f"{file_name(name)} already exists"
    return ""


def file_name(name: str) -> str:
    return f"{name}.yaml"


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Return ``wanted``, with the first free number appended if the name is taken."""
    number, name = 1, wanted
    while file_name(name) in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def new_path(folder: Path, name: str) -> Path:
    return folder / file_name(name)


async def create_pod(session: Session, folder: Path) -> None:
    """Ask for template and name, then edit the new manifest. Raises as `edit_file`."""
    template = await choose_template(session)
    if template is None:
        return
    taken = {*session.model.manifests}
    lines = [(Span("Name of the pod; its file is NAME.yaml.", "muted"),)]
    if not await asyncio.to_thread(folder.exists):
        lines.append((Span(f"The folder {clean(str(folder))} will be created.", "muted"),))
    name = await session.ask(
        TextDialog(
            f"New pod from {template.name}",
            lines,
            text=free_name(template.name, taken),
            check=lambda text: name_problem(text, taken),
        )
    )
    if name is not None:
        await edit_file(session, new_path(folder, name), begin=named(template, name))


async def choose_template(session: Session) -> Template | None:
    """Ask for a template. Raises `ManifestFileError`."""
    templates = await asyncio.to_thread(read_templates)
    selected = await session.ask(template_picker(templates))
    return None if selected is None else templates[selected]


def template_picker(templates: Sequence[Template]) -> Picker:
    return Picker("New pod", [template_line(template) for template in templates])


def template_line(template: Template) -> Line:
    return (
        Span(sized(clean(template.name), 10), "name"),
        Span(clean(template.description), "soft"),
    )
