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
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from textual.app import SuspendNotSupported

from podtui.errors import PodtuiError
from podtui.tui.commands.raw_terminal import raw, set_modes

if TYPE_CHECKING:
    from podtui.tui.commands.session import Session

EDITORS = ("PODTUI_EDITOR", "EDITOR")
FALLBACK = "vi"
GRACE_SECONDS = 2.0
"""Seconds for a program to terminate when podtui exits."""
END_SECONDS = 5
"""Seconds for podtui to exit after its terminal was closed."""
ANSWER_SECONDS = 0.5
"""Seconds for the terminal to answer a query."""
WRITE_SECONDS = 10.0
"""Seconds for the terminal to take what is written; then the app continues."""
STATE_QUERY: Final = "\x1b[5n"
STATE_ANSWER: Final = b"\x1b[0n"
SAVE_TITLE: Final = "\x1b[22;0t"
RESTORE_TITLE: Final = "\x1b[23;0t"
RESET: Final = "".join((
    "\x18",  # cancel an unfinished control sequence
    "\x1b[!p",  # soft reset
    "\x1b[?1047l",  # the normal screen; unlike 1049, this does not move its cursor
    # No margins, origin mode and scroll region. This moves the cursor, so do it on the alternate
    # screen: leaving that restores the position. DECRC would restore the origin mode as well.
    "\x1b[?1049h\x1b[?69l\x1b[?6l\x1b[r\x1b[?1049l",
    "\x1b[0m\x1b(B\x1b)B\x1b*B\x1b+B\x0f",  # no colours, no line drawing characters
    "\x1b[4l\x1b[20l",  # replace instead of insert; a line feed does not return the carriage
    "\x1b[?1l\x1b>",  # cursor keys and keypad
    "\x1b[>4m\x1b[=0u",  # keys as xterm's modifyOtherKeys and kitty's protocol report them
    "\x1b[?5l\x1b[?7h",  # normal video, automatic wrap
    # Mouse reports, focus reports, bracketed paste, synchronized output, reports of colour changes
    # and of sizes.
    *(f"\x1b[?{mode}l" for mode in
      (9, 1000, 1001, 1002, 1003, 1005, 1006, 1015, 1016, 1004, 2004, 2026, 2031, 2048)),
    "\x1b[?25h\x1b[0 q",  # a visible cursor of the default shape
))  # fmt: skip
"""Undoes what a program that does not clean up leaves in the terminal, without clearing it."""


class ProgramFailed(PodtuiError):
    """Raised if a program cannot be run, or fails; the text is shown to the user."""


@asynccontextmanager
async def lent_terminal(session: Session) -> AsyncGenerator[None]:
    """Lend the terminal, restored to its state before the app. Watches and timers continue, but
    nothing is drawn. The terminal is reset when it is returned.

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
            async with _reset_after(session):
                yield
        finally:
            # An app that a signal ends has already restored the terminal. It must not take it back.
            if not session.is_leaving:
                # Given an exception, Textual would not take the terminal back.
                suspension.__exit__(None, None, None)


@asynccontextmanager
async def _reset_after(session: Session) -> AsyncGenerator[None]:
    """Restore the modes and the title of the terminal when a program returns it, and discard what
    the program has not read.
    """
    assert sys.__stdin__ is not None
    fd = sys.__stdin__.fileno()
    attributes = termios.tcgetattr(fd) if os.isatty(fd) else None
    await _write(SAVE_TITLE)
    try:
        yield
    finally:
        # A terminal that was closed meanwhile needs no reset; `on_hang_up` ends the screen.
        with suppress(OSError, termios.error):
            if session.is_leaving:
                write_to_terminal(RESET + RESTORE_TITLE)
            else:
                await _write(RESET + RESTORE_TITLE)
                if attributes is not None:
                    await discard_answers(fd)
            if attributes is not None:
                set_modes(fd, attributes)


async def _write(text: str) -> None:
    """Write control sequences in a thread: a terminal that is stopped (ctrl+s) or slow blocks.
    After `WRITE_SECONDS`, the thread finishes alone, ahead of what is written next.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(WRITE_SECONDS):
            await asyncio.to_thread(write_to_terminal, text)


async def discard_answers(fd: int) -> None:
    """Ask the terminal for its state, and discard all input up to the answer.

    Editors query the terminal. If such a program ends at once, the answers come later; the app
    would take them as keys. A terminal answers in the order of the queries.
    """
    loop = asyncio.get_running_loop()
    received = bytearray()
    answered = asyncio.Event()

    def take() -> None:
        try:
            data = os.read(fd, 4096)
        except OSError:
            data = b""
        received.extend(data)
        if not data or STATE_ANSWER in received:
            answered.set()

    with raw(fd):
        loop.add_reader(fd, take)
        try:
            await _write(STATE_QUERY)
            async with asyncio.timeout(ANSWER_SECONDS):
                await answered.wait()
        except TimeoutError:
            # A terminal without this query.
            return
        finally:
            loop.remove_reader(fd)


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


def handle_job_control(loop: asyncio.AbstractEventLoop) -> None:
    """Handle SIGTSTP and SIGCONT, for which Textual has set handlers, in the event loop.

    Python runs a handler between any two instructions. Textual's handlers write to the queue of its
    writer thread, and would wait forever for the lock of that queue if the interrupted code holds
    it. Textual also starts its threads again with each SIGCONT: a second pair of threads would keep
    the process from ending, so a SIGCONT without a SIGTSTP before it is ignored. tmux sends one
    together with SIGHUP when its server ends.
    """
    stop, resume = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)
    stopped = False

    def on_stop() -> None:
        nonlocal stopped
        stopped = True
        if callable(stop):
            stop(signal.SIGTSTP, None)

    def on_continue() -> None:
        nonlocal stopped
        if stopped and callable(resume):
            stopped = False
            if _in_foreground():
                write_to_terminal(RESET)
            resume(signal.SIGCONT, None)

    loop.add_signal_handler(signal.SIGTSTP, on_stop)
    loop.add_signal_handler(signal.SIGCONT, on_continue)


def _in_foreground() -> bool:
    """Return whether podtui may write to the terminal; after ``bg`` in a shell it may not."""
    assert sys.__stdin__ is not None
    try:
        return os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp()
    except OSError:
        return False


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


def at_line(command: Sequence[str], line: int | None) -> list[str]:
    """Return an editor's command line that opens a file at a line, if the editor can do so."""
    can_open = line is not None and os.path.basename(command[0]) in _LINE_EDITORS
    return [*command, f"+{line}"] if can_open else list(command)


async def run_in_terminal(
    session: Session, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> None:
    """Run a program in the terminal until it ends, without a shell; ``environment`` is added to the
    app's environment. ctrl+c goes to the program only. Raises `ProgramFailed`.
    """
    async with lent_terminal(session):
        with _ignore_terminal_signals(session):
            code = await _run(command, environment or {})
    if code:
        raise ProgramFailed(f"{os.path.basename(command[0])} {ending(code)}")


async def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    try:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **environment})
    except (OSError, ValueError) as error:
        raise ProgramFailed(why_not_run(command[0], error)) from error
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            await _end(process)


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
    names = {each.value: each.name for each in signal.Signals}
    return f"was terminated by {names.get(-code, f'signal {-code}')}"


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
