"""The engine's log stream as lines: pure, fed with pieces of any size.

Without a terminal the stream is frames of an 8-byte head (stream, length) and one message each; a
message that does not end a line is part of a longer one. With a terminal it is the bare text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from podtui.errors import EngineError
from podtui.runtime.protocol import LogLine

HEAD: Final = 8
LONGEST_MESSAGE: Final = 16 * 1024
"""Where the engine's log driver cuts a line."""
_LONGEST_FRAME: Final = 16 * 1024 * 1024
_STAMP: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.?\d*(?:Z|[+-]\d\d:\d\d) ")

Stream = Literal["stdout", "stderr"]


class Frames:
    """Cuts a multiplexed stream into (stream, payload). Raises `EngineError` on nonsense."""

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
                raise EngineError("the engine's stream is not framed as announced")
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

    def feed(self, piece: bytes) -> Iterator[LogLine]:
        for stream, payload in self._frames.feed(piece):
            yield _line(stream, payload)

    def end(self) -> Iterator[LogLine]:
        return iter(())


class TerminalLines:
    """Log lines of a container with a terminal: all stdout, carriage returns dropped."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, piece: bytes) -> Iterator[LogLine]:
        *lines, self._kept = (self._kept + piece).split(b"\n")
        for line in lines:
            yield from _parts(line + b"\n")

    def end(self) -> Iterator[LogLine]:
        rest, self._kept = self._kept, b""
        if rest:
            yield from _parts(rest)


def _parts(text: bytes) -> Iterator[LogLine]:
    """A terminal's line, cut where the driver cut it: there it has a time stamp inside."""
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
