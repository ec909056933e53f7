"""Run another program in the terminal while the app stays alive."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import shlex
import signal
import sys
import termios
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from textual.app import SuspendNotSupported

from podtui.errors import PodtuiError

if TYPE_CHECKING:
    from podtui.tui.commands.session import Session

EDITORS = ("PODTUI_EDITOR", "EDITOR")
FALLBACK = "vi"
GRACE_SECONDS = 2.0
"""Seconds for a program to terminate when podtui exits."""
END_SECONDS = 5
"""Seconds for podtui to exit after its terminal was closed."""


class ProgramFailed(PodtuiError):
    """Raised if a program cannot be run, or fails; the text is shown to the user."""


@contextmanager
def lent_terminal(session: Session) -> Generator[None]:
    """Lend the terminal, restored to its state before the app. Watches and timers continue, but
    nothing is drawn.

    Textual's own `App.suspend` assumes that nothing happens meanwhile, so drawing is held back
    here. Raises `ProgramFailed` if there is no terminal to lend.
    """
    if session.app.is_headless:
        yield
        return
    suspension = session.app.suspend()
    with session.app.batch_update():
        try:
            suspension.__enter__()
        except SuspendNotSupported as error:
            raise ProgramFailed("no other program can run in this terminal") from error
        try:
            yield
        finally:
            # An app that a signal ends has already restored the terminal. It must not take it back.
            if not session.is_leaving:
                # Given an exception, Textual would not take the terminal back.
                suspension.__exit__(None, None, None)


def abandon_closed_terminal() -> None:
    """If the output's terminal is gone, redirect output to /dev/null and exit within `END_SECONDS`.

    Textual's output thread ends with the first write that fails; code that then waits for the
    thread, or for room in its queue, waits forever. SIGALRM ends the process in that case.
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


def on_hang_up(call: Callable[[], object]) -> None:
    """Call ``call`` in a thread when the terminal hangs up, also if SIGHUP is not delivered."""
    assert sys.__stdin__ is not None
    hung_up = select.poll()
    # Without events: only the end of the terminal and errors are reported.
    hung_up.register(sys.__stdin__.fileno(), 0)

    def wait() -> None:
        hung_up.poll()
        abandon_closed_terminal()
        call()

    threading.Thread(target=wait, name="hang-up", daemon=True).start()


def ignore_stray_continue() -> None:
    """Pass a SIGCONT to Textual only if Textual has handled the SIGTSTP before it.

    Textual starts its threads again with each SIGCONT. A second pair of threads would keep the
    process from ending. tmux sends a SIGCONT together with SIGHUP when its server ends.
    """
    stop, resume = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)
    stopped = False

    def on_stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if callable(stop):
            stop(number, frame)

    def on_continue(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        if stopped and callable(resume):
            stopped = False
            resume(number, frame)

    signal.signal(signal.SIGTSTP, on_stop)
    signal.signal(signal.SIGCONT, on_continue)


def write_to_terminal(text: str) -> None:
    """Write control sequences to the stream that Textual draws on, between two of its frames."""
    assert sys.__stderr__ is not None
    sys.__stderr__.write(text)
    sys.__stderr__.flush()


_LINE_EDITORS: Final = frozenset(
    "vi vim nvim view nano emacs emacsclient micro joe jed kak mg ne".split()
)
"""Editors that take ``+LINE`` before a file."""


def editor_words(environment: Mapping[str, str]) -> list[str]:
    """Return the editor's command line from the first of `EDITORS` that is set. Raises
    `ProgramFailed`.
    """
    for name in EDITORS:
        text = environment.get(name, "").strip()
        if text:
            try:
                return shlex.split(text)
            except ValueError as error:
                raise ProgramFailed(f"{name} cannot be read: {error}") from error
    return [FALLBACK]


def at_line(words: Sequence[str], line: int | None) -> list[str]:
    """Return an editor's command line that opens a file at a line, if the editor can do so."""
    known = line is not None and os.path.basename(words[0]) in _LINE_EDITORS
    return [*words, f"+{line}"] if known else list(words)


async def run_in_terminal(
    session: Session, words: Sequence[str], environment: Mapping[str, str] | None = None
) -> None:
    """Run a program in the terminal until it ends, without a shell; ``environment`` is added to the
    app's environment. ctrl+c goes to the program only. Raises `ProgramFailed`.
    """
    with lent_terminal(session), _ignore_terminal_signals(session):
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
    """Describe how a program ended; ``code`` is its exit status, or a negative signal number."""
    if code >= 0:
        return f"exited with status {code}"
    known = {each.value: each.name for each in signal.Signals}
    return f"was terminated by {known.get(-code, f'signal {-code}')}"


def why_not_run(program: str, error: OSError | ValueError) -> str:
    """Describe why a program could not be started."""
    if isinstance(error, FileNotFoundError):
        return f"{program}: command not found"
    return f"{program} cannot be run: {getattr(error, 'strerror', None) or error}"


@contextmanager
def _ignore_terminal_signals(session: Session) -> Generator[None]:
    """Keep the app running when ctrl+c or ctrl+\\ is typed: the terminal signals us as well."""
    # Use a function, because the program would inherit an ignored signal.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    session.ignored_signals = frozenset({signal.SIGINT, signal.SIGQUIT})
    try:
        yield
    finally:
        session.ignored_signals = frozenset()
        signal.signal(signal.SIGINT, before)
