"""The agent's log: each traceback once."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from podtui.agent.log import MAX_TRACEBACKS, PlainLines, RepeatedTracebacks


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainLines())
    handler.addFilter(RepeatedTracebacks())
    logger = logging.getLogger("test of the log")
    logger.propagate = False
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)


def fail(number: int) -> None:
    raise ValueError(f"number {number}")


def fail_elsewhere() -> None:
    raise ValueError("elsewhere")


def report(logger: logging.Logger, number: int) -> None:
    try:
        fail(number)
    except ValueError:
        logger.exception("request %d failed", number)


def test_a_repeated_traceback_is_logged_once_with_a_count(
    log: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, stream = log
    for number in range(1, 3544):
        report(logger, number)
    text = stream.getvalue()
    assert text.count("Traceback") == 1
    lines = [line for line in text.splitlines() if " E " in line]
    assert len(lines) == 4
    assert lines[0].endswith("request 1 failed")
    assert lines[-1].endswith(
        "request 1000 failed: ValueError: number 1000"
        " (1,000 times since the agent started; the traceback is above)"
    )


def test_other_tracebacks_and_messages_are_logged(
    log: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, stream = log
    for number in range(5):
        report(logger, number)
        try:
            fail_elsewhere()
        except ValueError:
            logger.exception("the other failed")
        logger.error("no traceback")
    text = stream.getvalue()
    assert text.count("Traceback") == 2
    assert text.count("no traceback") == 5


def test_causes_and_groups_distinguish_tracebacks(
    log: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, stream = log
    for error in (KeyError("a"), ValueError("b"), KeyError("c")):
        try:
            raise ExceptionGroup("all", [error])
        except ExceptionGroup:
            logger.exception("failed")
    assert stream.getvalue().count("+ Exception Group Traceback") == 2


def test_the_memory_of_tracebacks_is_bounded() -> None:
    known = RepeatedTracebacks()
    for number in range(3 * MAX_TRACEBACKS):
        name = f"logger {number}"
        error = (ValueError, ValueError("x"), None)
        record = logging.LogRecord(name, logging.ERROR, "", 1, "failed", None, error)
        assert known.filter(record)
        assert len(known._counts) <= MAX_TRACEBACKS
