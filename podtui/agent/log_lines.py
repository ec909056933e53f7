"""The agent's own log, as a terminal may show it: what pods write (the output of a probe, an
engine's words, the name of a file) does nothing to it, and makes no lines of its own."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from podtui.terminal_text import lines, one_line


class PlainLines(logging.Formatter):
    """A message is one line; a traceback has as many as it needs."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname).1s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return lines(super().format(record))


def log_to(stream: TextIO | None = None) -> None:
    """Log from now on, by default to the standard error. Once for a process."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(PlainLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
