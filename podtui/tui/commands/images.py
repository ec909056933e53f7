"""Pull, remove and prune images on request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, cast
from urllib.parse import quote, urlencode

from podtui.api.image_reference import parse_image_reference
from podtui.api.local import NodeImage, PrunedImages, PullStep
from podtui.api.names import GROUP_VERSION
from podtui.text.terminal_text import plural
from podtui.tui.commands.session import Session
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, TextDialog, confirmation
from podtui.tui.widgets.format import size
from podtui.tui.widgets.sanitize import clean

_NAMED: Final = 3
"""Images that a notification names; for more, only their number is given."""


async def pull_image(session: Session, name: str = "") -> bool:
    """Pull an image; without a name, ask for it. ``session.pulls`` has the progress while it runs.
    Return whether it was pulled. Raises `ApiError`.
    """
    name = (name or await _ask_name(session)).strip()
    if not name:
        return False
    if problem := name_problem(name):
        session.notify(problem, title="Pull", severity="warning")
        return False
    if name in session.pulls:
        session.notify(f"{name} is already being pulled", title="Pull", severity="warning")
        return False
    session.end_questions()
    session.pulls[name] = PullStep(status="Waiting")
    image: NodeImage | None = None
    try:
        steps = cast("AsyncGenerator[PullStep]", session.client.pull_image(name))
        async with aclosing(steps):
            async for step in steps:
                session.pulls[name] = step
                image = step.image or image
    finally:
        del session.pulls[name]
    _note(session, "pull image", "POST", f"/pull?{urlencode({'image': name})}")
    if image is not None:
        session.notify(f"{name}, {size(image.sizeBytes)}", title="Pulled")
    return True


async def remove_image(session: Session, image: NodeImage) -> bool:
    """Ask, then remove an image; an image in use is refused, with a notification of its users.
    Return whether it was removed. Raises `ApiError`.
    """
    name = name_of(image)
    if image.users:
        text = f"{name} is used by {', '.join(image.users)}"
        session.notify(text, title="Not removed", severity="warning")
        return False
    if not await session.confirm(removal_dialog(image)):
        return False
    await session.client.remove_image(image.id)
    _note(session, "remove image", "DELETE", f"/{quote(image.id, safe='')}")
    session.notify(f"{name}, {size(image.sizeBytes)}", title="Removed")
    return True


async def prune_images(session: Session, images: Sequence[NodeImage]) -> bool:
    """Remove the unused images that podtui pulled, after asking with their number and size. Return
    whether that was done. Raises `ApiError`.
    """
    unused = prunable(images)
    if not unused:
        session.notify("Every image that podtui pulled is in use.", title="Nothing to prune")
        return False
    if not await session.confirm(prune_dialog(unused)):
        return False
    ids = [image.id for image in unused]
    pruned = await session.client.prune_images(ids)
    _note(session, "prune images", "POST", f"/prune?{urlencode({'id': ids}, doseq=True)}")
    session.notify(pruned_text(pruned), title="Pruned")
    if pruned.kept:
        session.notify("\n".join(pruned.kept), title="Not removed", severity="warning")
    return True


def prunable(images: Sequence[NodeImage]) -> tuple[NodeImage, ...]:
    """Return the images that the agent would remove."""
    return tuple(image for image in images if image.collectable and not image.users)


def name_of(image: NodeImage) -> str:
    """Return the image's first name, or its ID if it has none."""
    return clean(next(iter(image.names), image.id))


def name_problem(name: str) -> str:
    """Return why the text is not an image name; empty if it is one."""
    return "" if parse_image_reference(name) else f"{name!r} is not a valid image reference"


def removal_dialog(image: NodeImage) -> Dialog:
    name = name_of(image)
    lines: list[Line] = [(Span("✖ ", "error"), Span(name, "name"), _size(image))]
    lines += [(Span(f"  also {clean(other)}", "soft"),) for other in image.names[1:]]
    if not image.collectable:
        lines.append((Span("podtui did not pull it; no registry may provide it.", "warning"),))
    return confirmation(f"Remove {name}?", lines, "Remove image")


def prune_dialog(images: Sequence[NodeImage]) -> Dialog:
    total = size(sum(image.sizeBytes for image in images))
    what = plural(len(images), "unused image")
    lines: list[Line] = [
        (Span("✖ ", "error"), Span(name_of(image), "name"), _size(image)) for image in images
    ]
    lines.append((Span(f"{total} in total, minus shared layers.", "soft"),))
    return confirmation(f"Remove {what}, {total}?", lines, f"Remove {what}")


def pruned_text(pruned: PrunedImages) -> str:
    """Return a summary such as ``a:1, b:1: 12Mi``."""
    count = len(pruned.removed)
    names = ", ".join(pruned.removed) if count <= _NAMED else plural(count, "image")
    return f"{names}: {size(pruned.sizeBytes)}" if count else "No image was removed."


def _size(image: NodeImage) -> Span:
    return Span(f"  {size(image.sizeBytes)}", "soft")


async def _ask_name(session: Session) -> str:
    def check(text: str) -> str:
        return name_problem(text.strip()) if text.strip() else ""

    hint: Line = (Span("An image reference, as for docker pull.", "soft"),)
    return await session.ask(TextDialog("Pull an image", [hint], check=check)) or ""


def _note(session: Session, what: str, method: str, rest: str) -> None:
    """Add a request to the agent's socket to the journal, as a curl command."""
    socket = session.client.target.removeprefix("unix:")
    url = f"http://podtui/apis/{GROUP_VERSION}/images{rest}"
    session.record_action(what, ["curl", "--unix-socket", socket, "-X", method, url])
