"""The agent's log: one line per message, and each traceback once."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from types import CodeType
from typing import Final, TextIO, cast

from podtui.errors import is_reported
from podtui.text.terminal_text import lines, one_line

MAX_TRACEBACKS: Final = 1000
"""Different tracebacks whose repetitions are counted; then counting starts over."""


class PlainLines(logging.Formatter):
    """Formats each message as one line; tracebacks keep their lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname).1s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return lines(super().format(record))


class RepeatedTracebacks(logging.Filter):
    """Passes an error with its traceback once. Of its repetitions, it passes the 10th, the 100th
    and so on, as one line with the count."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[tuple[object, ...]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        key = (record.name, record.levelno, *_origin(error))
        if key not in self._counts and len(self._counts) >= MAX_TRACEBACKS:
            self._counts.clear()
        self._counts[key] += 1
        count = self._counts[key]
        if count == 1:
            return True
        if not is_reported(count):
            return False
        text = f"{record.getMessage()}: {type(error).__name__}: {error}"
        record.msg = f"{text} ({count:,} times since the agent started; the traceback is above)"
        record.args = record.exc_info = record.exc_text = None
        return True


def _origin(error: BaseException) -> Iterator[tuple[type[BaseException], CodeType | None, int]]:
    """Yield the type of the error and its positions in the code, those of its causes, and those of
    the errors that it groups. Texts do not count: they may contain what a client sent."""
    pending: list[BaseException] = [error]
    seen: set[int] = set()
    while pending:
        error = pending.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        yield type(error), None, 0
        frame = error.__traceback__
        while frame is not None:
            yield type(error), frame.tb_frame.f_code, frame.tb_lineno
            frame = frame.tb_next
        if isinstance(error, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", error).exceptions
        pending += [cause for cause in (error.__cause__, error.__context__) if cause is not None]


def log_to(stream: TextIO | None = None) -> None:
    """Start logging, by default to standard error. Call once per process."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(PlainLines())
    handler.addFilter(RepeatedTracebacks())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
