"""Terminal input whose thread wakes up only for input and for its end.

Textual's input thread polls ten times a second for its exit event, which wakes the processor of an
idle machine. Here a pipe signals the exit.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Any, Final

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from podtui.tui.commands.terminal import abandon_closed_terminal

LOOK: Final = 0.1
"""Seconds between two checks whether a pending Esc is a key press or starts an escape sequence."""
ALERT: Final = max(1.0, 2 * ESCAPE_DELAY)
"""Seconds after the last input during which an Esc may be pending."""
READ: Final = 4096


def patience(since: float) -> float | None:
    """Return the timeout for the next read if the last input was ``since`` seconds ago; None to
    wait indefinitely.
    """
    return LOOK if since < ALERT else None


class TerminalClosed(Message):
    """Posted to the app when the terminal gives no more input."""


class Ending(threading.Event):
    """An event that also wakes a thread that selects on its ``reader``."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self._writer = os.pipe()

    def set(self) -> None:
        if not self.is_set():
            super().set()
            os.write(self._writer, b"\0")

    def clear(self) -> None:
        if self.is_set():
            super().clear()
            os.read(self.reader, 1)


class PatientDriver(LinuxDriver):
    """Textual's Linux driver with an input thread that blocks instead of polling."""

    exit_event: Ending

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)  # pyright: ignore[reportUnknownMemberType]
        self.exit_event = Ending()
        self._reads = False

    def start_application_mode(self) -> None:
        """Take over the terminal, unless that is already done.

        Textual calls this again after every SIGCONT, which would start a second pair of threads
        that never end. tmux sends a SIGCONT together with SIGHUP when its server ends.
        """
        if not self._reads:
            super().start_application_mode()

    def run_input_thread(self) -> None:
        """Read and dispatch input in a separate thread until `exit_event` is set."""
        self._reads = True
        try:
            self._read_input()
        finally:
            self._reads = False

    def _read_input(self) -> None:
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        came = time.monotonic()
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self.exit_event.reader, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = selector.select(patience(time.monotonic() - came))
                if any(key.fd == self.fileno for key, _ in ready):
                    came = time.monotonic()
                    try:
                        data = os.read(self.fileno, READ)
                    except OSError:
                        # The terminal was closed without a SIGHUP.
                        data = b""
                    if not data:
                        # At end of file the descriptor is always ready: selecting on it would spin.
                        selector.unregister(self.fileno)
                        abandon_closed_terminal()
                        self.process_message(TerminalClosed())
                    if text := decode(data):
                        self._hand_on(parser.feed(text))
                self._hand_on(parser.tick())
        with contextlib.suppress(EOFError, ParseError):
            self._hand_on(parser.feed(""))

    def _hand_on(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.process_message(message)
