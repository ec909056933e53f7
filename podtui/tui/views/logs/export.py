"""Export log lines to a file, the clipboard or a pager."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.tui.views.logs.ansi import colours_only, plain_text
from podtui.tui.views.logs.line_buffer import CUT, EVENTS, LineBlock, LineSnapshot, is_log
from podtui.tui.views.logs.lines import LogLines
from podtui.tui.views.logs.target import HINT
from podtui.tui.views.logs.times import rfc3339

MOST_COPIED: Final = 100_000
"""Maximum number of bytes to copy: terminals ignore a longer clipboard sequence."""
MOST_NAMED: Final = 120
"""Maximum number of characters from log names in a file name, which may have 255 bytes."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.+-]+")


class Export(Struct, frozen=True):
    """Lines to export: all lines of a snapshot, or the ``chosen`` indexes of each of its blocks.

    With several ``names``, the name of its source is written before each line.
    """

    snapshot: LineSnapshot
    chosen: tuple[array[int], ...] | None = None
    names: tuple[str, ...] = ()

    def lines(self, change: Callable[[bytes], bytes] = bytes) -> Iterator[bytes]:
        """Yield the lines with their times, including remarks on gaps and restarts but no events.
        ``change`` is applied to their texts.

        Raises OSError.
        """
        for number, block in enumerate(self.snapshot.blocks()):
            selected = range(len(block)) if self.chosen is None else self.chosen[number]
            for index in selected:
                if block.tags[index] not in EVENTS:
                    yield _export(block, index, self.names, change)

    def save(self, path: Path) -> int:
        """Write to a new file that only the owner can read. Returns the number of lines.

        Raises OSError, including FileExistsError, and then leaves no new file behind.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        return _write_whole(descriptor, path, self.lines())

    def temporary(self) -> Path:
        """Write a temporary file for a pager: only the owner can read it, and it contains no
        control sequences but colours. Raises OSError and then leaves no file behind."""
        descriptor, name = tempfile.mkstemp(prefix="podtui-", suffix=".log")
        _write_whole(descriptor, Path(name), self.lines(colours_only))
        return Path(name)


def export_of(lines: LogLines, *, names: Sequence[str] = (), everything: bool = False) -> Export:
    """Return an export of the shown lines, or of all lines with ``everything``.

    The caller must close its snapshot.
    """
    shown = None if everything else lines.rows.shown
    selected = None
    if shown is not None:
        selected = tuple(shown.members(chunk)[:] for chunk in lines.buffer.chunks)
    return Export(lines.buffer.snapshot(), selected, tuple(names))


def _export(
    block: LineBlock, index: int, names: Sequence[str], change: Callable[[bytes], bytes]
) -> bytes:
    text, tag = change(block.line(index)), block.tags[index]
    if tag == CUT:
        # How to see more concerns the screen only.
        text = text.partition(HINT.encode())[0]
    if not is_log(tag):
        return b"--- " + text
    stamp = rfc3339(block.stamps[index]).encode()
    parts = [stamp] if stamp else []
    if len(names) > 1 and tag < len(names):
        parts.append(names[tag].encode())
    return b" ".join([*parts, text])


def _write_whole(descriptor: int, path: Path, lines: Iterable[bytes]) -> int:
    """Write all lines, or remove the file on OSError. Closes ``descriptor``."""
    count = 0
    try:
        with os.fdopen(descriptor, "wb") as file:
            for line in lines:
                file.write(line + b"\n")
                count += 1
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return count


def file_name(names: Sequence[str], stamp: str, *, filtered: bool) -> str:
    """Return a file name such as ``web-n1-app-20261121-070809.log``; for several logs, the first
    name and the number of the others.

    The name is safe for any input: it is in the current folder and contains no characters that are
    special to a shell or a terminal.
    """
    first = names[0] if len(names) == 1 else f"{names[0]}-and-{len(names) - 1}-more"
    part = "-filtered" if filtered else ""
    safe = _UNSAFE.sub("_", first).lstrip(".-_")[:MOST_NAMED]
    return f"{safe or 'log'}{part}-{stamp}.log"


def clipboard_text(lines: Sequence[bytes]) -> tuple[str, int]:
    """Return the text to copy and the number of lines in it."""
    taken: list[bytes] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MOST_COPIED and taken:
            break
        taken.append(line[:MOST_COPIED])
    # A control sequence must not reach the program where the text is pasted.
    return "\n".join(map(plain_text, taken)), len(taken)


def pager_command(environment: dict[str, str]) -> list[str]:
    """Return the command of ``$PAGER``, by default less, with options that make less show colours
    and not wrap long lines. Raises ValueError for a ``$PAGER`` with an open quote."""
    command = shlex.split(environment.get("PAGER", "")) or ["less"]
    if Path(command[0]).name == "less":
        command += ["-R", "-S"]
    return command
