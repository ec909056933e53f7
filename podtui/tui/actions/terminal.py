"""The terminal lent to another program, while the app lives on behind it."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from podtui.errors import PodtuiError

if TYPE_CHECKING:
    from textual.app import App

EDITORS = ("PODTUI_EDITOR", "EDITOR")
FALLBACK = "vi"


class ProgramFailed(PodtuiError):
    """Raised where a program cannot be run, or fails; the text is for the user."""


@contextmanager
def lent_terminal(app: App[None]) -> Generator[None]:
    """The terminal as it was before the app; watches and timers go on, and nothing is drawn.

    Textual's own `App.suspend` expects that nothing happens meanwhile: what would be drawn is held
    back here.
    """
    if app.is_headless:
        yield
        return
    with app.batch_update(), app.suspend():
        yield


def editor_words(environment: Mapping[str, str]) -> list[str]:
    """The editor's command line, by the first of `EDITORS` that says something. Raises
    `ProgramFailed`."""
    for name in EDITORS:
        text = environment.get(name, "").strip()
        if text:
            try:
                return shlex.split(text)
            except ValueError as error:
                raise ProgramFailed(f"{name} cannot be read: {error}") from error
    return [FALLBACK]


async def run_in_terminal(app: App[None], words: Sequence[str]) -> None:
    """Run a program in the terminal until it ends. No shell is asked. Raises `ProgramFailed`."""
    with lent_terminal(app):
        try:
            process = await asyncio.create_subprocess_exec(*words)
        except OSError as error:
            raise ProgramFailed(f"{words[0]} cannot be run: {error.strerror}") from error
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    if code:
        raise ProgramFailed(f"{os.path.basename(words[0])} ended with status {code}")
