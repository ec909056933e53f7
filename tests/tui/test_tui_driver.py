"""How what is typed comes in."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from textual import events
from textual.message import Message

from podtui.tui import driver
from podtui.tui.driver import ALERT, LOOK, Ending, PatientDriver, patience


def test_one_looks_for_an_escape_only_while_there_may_be_one() -> None:
    assert patience(0) == patience(ALERT * 0.99) == LOOK
    assert patience(ALERT) is None


class Typed(PatientDriver):
    """Reads from ``fileno`` instead of a terminal."""

    def __init__(self, fileno: int) -> None:
        self.fileno = fileno
        self.exit_event = Ending()
        self._debug = False
        self.keys: list[str] = []
        self.came = threading.Event()

    def process_message(self, message: Message) -> None:
        if isinstance(message, events.Key):
            self.keys.append(message.key)
            self.came.set()

    def next_keys(self) -> list[str]:
        assert self.came.wait(10), "no key came"
        self.came.clear()
        return self.keys


@contextmanager
def typing() -> Generator[tuple[Typed, int, threading.Thread]]:
    source, sink = os.pipe()
    typed = Typed(source)
    thread = threading.Thread(target=typed.run_input_thread, daemon=True)
    thread.start()
    try:
        yield typed, sink, thread
    finally:
        typed.exit_event.set()
        thread.join(10)
        for each in (source, sink):
            os.close(each)
    assert not thread.is_alive(), "it does not end"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """What was waited for, in order; nothing that comes in is a reason to look again."""
    found: list[float | None] = []

    def never_alert(_since: float) -> None:
        found.append(None)

    monkeypatch.setattr(driver, "patience", never_alert)
    return found


def test_keys_come_in(waits: list[float | None]) -> None:
    with typing() as (typed, sink, _):
        os.write(sink, b"x")
        assert typed.next_keys() == ["x"]
        os.write(sink, b"\x1b[A")
        assert typed.next_keys() == ["x", "up"]


def test_an_escape_by_itself_is_a_key_after_a_moment() -> None:
    with typing() as (typed, sink, _):
        os.write(sink, b"\x1b")
        assert typed.next_keys() == ["escape"]


def test_a_letter_of_several_bytes_that_come_one_by_one(waits: list[float | None]) -> None:
    with typing() as (typed, sink, _):
        for byte in "日".encode():
            os.write(sink, bytes([byte]))
        os.write(sink, b"x")
        assert typed.next_keys()[0] == "日"


def test_nothing_wakes_it_but_keys_and_its_end(waits: list[float | None]) -> None:
    with typing() as (typed, sink, thread):
        os.write(sink, b"x")
        typed.next_keys()
        thread.join(0.3)
        assert len(waits) <= 2, "once for the key, once until the end"
    assert len(waits) <= 2


def test_it_ends_and_begins_again(waits: list[float | None]) -> None:
    """As when the screen makes room for a shell."""
    with typing() as (typed, sink, thread):
        typed.exit_event.set()
        thread.join(10)
        typed.exit_event.clear()
        again = threading.Thread(target=typed.run_input_thread, daemon=True)
        again.start()
        os.write(sink, b"y")
        assert typed.next_keys() == ["y"]
        typed.exit_event.set()
        again.join(10)
        assert not again.is_alive()


def test_a_terminal_that_is_gone_does_not_keep_it_busy(waits: list[float | None]) -> None:
    source, sink = os.pipe()
    os.close(sink)
    typed: Any = Typed(source)
    thread = threading.Thread(target=typed.run_input_thread, daemon=True)
    thread.start()
    thread.join(0.3)
    assert len(waits) <= 2
    typed.exit_event.set()
    thread.join(10)
    assert not thread.is_alive()
    os.close(source)
