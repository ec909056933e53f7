"""Parse the engine's log stream into lines. Pure, fed with pieces of any size.

Without a terminal the stream consists of frames: an 8-byte header (stream, length) and one message.
A message without a line feed at the end is part of a longer line. With a terminal the stream is
plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from podtui.errors import EngineError
from podtui.runtime.protocol import LogLine

HEAD: Final = 8
LONGEST_MESSAGE: Final = 16 * 1024
"""The length at which the engine's log driver splits a line."""
_LONGEST_FRAME: Final = 16 * 1024 * 1024
_STAMP: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.?\d*(?:Z|[+-]\d\d:\d\d) ")

Stream = Literal["stdout", "stderr"]


class Frames:
    """Splits a multiplexed stream into (stream, payload). Raises `EngineError` on malformed
    data."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[Stream, bytes]]:
        kept = self._kept
        kept += piece
        at = 0
        while len(kept) - at >= HEAD:
            length = int.from_bytes(kept[at + 4 : at + HEAD], "big")
            kind = kept[at]
            if kind > 3 or length > _LONGEST_FRAME:
                raise EngineError("the engine's stream is not framed as expected")
            if len(kept) - at - HEAD < length:
                break
            start = at + HEAD
            at = start + length
            yield "stderr" if kind >= 2 else "stdout", bytes(kept[start:at])
        del kept[:at]


class FramedLines:
    """Log lines of a container without a terminal."""

    def __init__(self) -> None:
        self._frames = Frames()

    def feed(self, piece: bytes) -> list[LogLine]:
        return [_line(stream, payload) for stream, payload in self._frames.feed(piece)]

    def end(self) -> list[LogLine]:
        return []


class TerminalLines:
    """Log lines of a container with a terminal: all stdout, carriage returns removed."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, piece: bytes) -> list[LogLine]:
        *lines, self._kept = (self._kept + piece).split(b"\n")
        return [part for line in lines for part in _parts(line + b"\n")]

    def end(self) -> list[LogLine]:
        rest, self._kept = self._kept, b""
        return list(_parts(rest)) if rest else []


def _parts(text: bytes) -> Iterator[LogLine]:
    """Split a terminal line where the log driver split it: there is a time stamp inside the
    text."""
    while True:
        stamp = _STAMP.match(text)
        cut = (stamp.end() if stamp else 0) + LONGEST_MESSAGE
        if len(text) <= cut or not _STAMP.match(text, cut):
            yield _line("stdout", text, terminal=True)
            return
        yield _line("stdout", text[:cut])
        text = text[cut:]


def _line(stream: Stream, payload: bytes, *, terminal: bool = False) -> LogLine:
    stamp, _, content = payload.partition(b" ")
    if not _STAMP.match(payload):
        stamp, content = b"", payload
    partial = not content.endswith(b"\n")
    content = content.removesuffix(b"\n")
    if terminal:
        content = content.removesuffix(b"\r")
    return LogLine(
        timestamp=stamp.decode("ascii", "replace"), stream=stream, content=content, partial=partial
    )
