"""How what is typed comes in: its thread is woken by that, and by nothing else.

Textual's own looks ten times a second whether it should end, and wakes the processor for it though
nobody touches the screen. Here the end is told through a pipe.
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

from podtui.tui.actions.terminal import abandon_closed_terminal

LOOK: Final = 0.1
"""Seconds between two looks whether an Esc is a key of its own or begins a longer one."""
ALERT: Final = max(1.0, 2 * ESCAPE_DELAY)
"""Seconds after something came in for which there may be such an Esc."""
READ: Final = 4096


def patience(since: float) -> float | None:
    """How long to wait for more when something came in ``since`` seconds ago; None for however long
    it takes."""
    return LOOK if since < ALERT else None


class TerminalClosed(Message):
    """Posted to the app when there will be no more input."""


class Ending(threading.Event):
    """An event that also wakes who selects on its ``reader``."""

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
    """Textual's driver, but for the waiting."""

    exit_event: Ending

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)  # pyright: ignore[reportUnknownMemberType]
        self.exit_event = Ending()
        self._reads = False

    def start_application_mode(self) -> None:
        """Take the terminal, unless it is ours: Textual starts again after every SIGCONT, which
        would leave a second pair of threads behind that nobody ends. tmux sends one, with SIGHUP,
        to the programs of a server that ends."""
        if not self._reads:
            super().start_application_mode()

    def run_input_thread(self) -> None:
        """Hand on what is typed, in a thread of its own, until `exit_event` is set."""
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
                        # A terminal that was closed, where no SIGHUP told of it.
                        data = b""
                    if not data:
                        # Nothing will ever come, and would be ready at once each time.
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
