"""The terminal lent to another program, while the app lives on behind it."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import signal
import sys
import termios
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from podtui.errors import PodtuiError

if TYPE_CHECKING:
    from podtui.tui.app import PodtuiApp

EDITORS = ("PODTUI_EDITOR", "EDITOR")
FALLBACK = "vi"
GRACE_SECONDS = 2.0
"""For a program that is to end since podtui does."""
END_SECONDS = 5
"""For podtui to end in once its terminal is closed."""


class ProgramFailed(PodtuiError):
    """Raised where a program cannot be run, or fails; the text is for the user."""


@contextmanager
def lent_terminal(app: PodtuiApp) -> Generator[None]:
    """The terminal as it was before the app; watches and timers go on, and nothing is drawn.

    Textual's own `App.suspend` expects that nothing happens meanwhile: what would be drawn is held
    back here. Raises `ProgramFailed` where there is no terminal to lend.
    """
    if app.is_headless:
        yield
        return
    lent = app.suspend()
    with app.batch_update():
        try:
            lent.__enter__()
        except SuspendNotSupported as error:
            raise ProgramFailed("this terminal cannot be lent to another program") from error
        try:
            yield
        finally:
            # An app that a signal ends has restored the terminal, and must not take it back.
            if not app.is_leaving:
                # Told of an exception, it would leave the terminal as it is.
                lent.__exit__(None, None, None)


def abandon_closed_terminal() -> None:
    """Send the output to nowhere if its terminal is gone, and end within `END_SECONDS`.

    Textual's output thread ends with the first write that fails; whoever then waits for it, or for
    room in its queue, waits for ever. SIGALRM ends the process in that case.
    """
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None:
            continue
        try:
            termios.tcgetattr(stream.fileno())
        except termios.error as error:
            if error.args[0] == errno.EIO:
                signal.alarm(END_SECONDS)
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


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


async def run_in_terminal(
    app: PodtuiApp, words: Sequence[str], environment: Mapping[str, str] | None = None
) -> None:
    """Run a program in the terminal until it ends; ``environment`` is added to ours. No shell is
    asked. ctrl+c is the program's alone. Raises `ProgramFailed`."""
    with lent_terminal(app), _keys_signal_only_the_program(app):
        try:
            process = await asyncio.create_subprocess_exec(
                *words, env={**os.environ, **(environment or {})}
            )
        except (OSError, ValueError) as error:
            raise ProgramFailed(why_not_run(words[0], error)) from error
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                await _end(process)
    if code:
        raise ProgramFailed(f"{os.path.basename(words[0])} {ending(code)}")


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def ending(code: int) -> str:
    """How a program ended, by its exit status, or by the signal that ended it as its negative."""
    if code >= 0:
        return f"ended with status {code}"
    known = {each.value: each.name for each in signal.Signals}
    return f"was ended by {known.get(-code, f'signal {-code}')}"


def why_not_run(program: str, error: OSError | ValueError) -> str:
    """Why a program could not be started, in words."""
    if isinstance(error, FileNotFoundError):
        return f"{program}: there is no such program here"
    return f"{program} cannot be run: {getattr(error, 'strerror', None) or error}"


@contextmanager
def _keys_signal_only_the_program(app: PodtuiApp) -> Generator[None]:
    """Keep the app when ctrl+c or ctrl+\\ is typed: the terminal sends their signals to us, too."""
    # A function, since a signal that we ignored would be ignored by the program, too.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    app.ignored_signals = frozenset({signal.SIGINT, signal.SIGQUIT})
    try:
        yield
    finally:
        app.ignored_signals = frozenset()
        signal.signal(signal.SIGINT, before)
