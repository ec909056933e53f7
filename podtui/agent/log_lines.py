"""Format the agent's log safely for terminals: text from pods (probe output, engine messages, file
names) cannot inject control sequences or extra lines."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from podtui.terminal_text import lines, one_line


class PlainLines(logging.Formatter):
    """Formats each message as one line; tracebacks keep their lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname).1s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return lines(super().format(record))


def log_to(stream: TextIO | None = None) -> None:
    """Start logging, by default to standard error. Call once per process."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(PlainLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
