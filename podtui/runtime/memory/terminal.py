"""A terminal's line discipline, as far as typing commands needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_ERASE: Final = (0x7F, 0x08)
_INTERRUPT: Final = 0x03
_END: Final = 0x04
_ESCAPE: Final = 0x1B
_NEWLINES: Final = (0x0A, 0x0D)


class Terminal:
    """Keys in, echo and lines out. Without ``echo`` it is no terminal: lines end at line feeds."""

    END: Final = "\x04"
    """The line that says that there will be no more."""

    def __init__(self, *, echo: bool) -> None:
        self._echo = echo
        self._line = bytearray()
        self._escaping = False

    def feed(self, data: bytes) -> Iterator[tuple[bytes, str | None]]:
        """What to show, and a line where one is complete."""
        if not self._echo:
            *lines, rest = (bytes(self._line) + data).split(b"\n")
            self._line = bytearray(rest)
            yield from ((b"", line.decode(errors="replace")) for line in lines)
            return
        for key in data:
            yield self._key(key)

    def _key(self, key: int) -> tuple[bytes, str | None]:
        if self._escaping:
            # A sequence of a cursor key: it ends with a letter.
            self._escaping = not (0x40 <= key <= 0x7E and key not in b"[O")
            return b"", None
        if key == _ESCAPE:
            self._escaping = True
            return b"", None
        if key in _NEWLINES:
            return b"\r\n", self._taken()
        if key == _INTERRUPT:
            self._line.clear()
            return b"^C\r\n", ""
        if key == _END:
            return b"", None if self._line else self.END
        if key in _ERASE:
            if not self._line:
                return b"", None
            del self._line[-1]
            return b"\b \b", None
        if key < 0x20:
            return b"", None
        self._line.append(key)
        return bytes([key]), None

    def _taken(self) -> str:
        line = self._line.decode(errors="replace")
        self._line.clear()
        return line
