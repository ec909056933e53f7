"""Logs out of the view: to a file, to the clipboard, to a pager."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.tui.logs.ansi import colours_only, plain_text
from podtui.tui.logs.line_buffer import Block, Snapshot
from podtui.tui.logs.log_lines import LogLines
from podtui.tui.logs.log_tags import EVENTS, is_log
from podtui.tui.logs.log_time import rfc3339

MOST_COPIED: Final = 100_000
"""Bytes: terminals drop a clipboard sequence that is longer."""
MOST_NAMED: Final = 120
"""Characters of names in the name of a file, which may have 255 bytes."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.+-]+")


class Export(Struct, frozen=True):
    """What is written: a moment's lines, or those ``chosen`` of each of its blocks. ``names`` of
    several sources are written before their lines."""

    snapshot: Snapshot
    chosen: tuple[array[int], ...] | None = None
    names: tuple[str, ...] = ()

    def lines(self) -> Iterator[bytes]:
        """Lines with their times. Events are left out; what is said about gaps and restarts is
        not. Raises OSError."""
        for number, block in enumerate(self.snapshot.blocks()):
            chosen = range(len(block)) if self.chosen is None else self.chosen[number]
            for index in chosen:
                if block.tags[index] not in EVENTS:
                    yield _export(block, index, self.names)

    def save(self, path: Path) -> int:
        """Write to a new file, readable by the owner alone; returns the number of lines. Leaves
        none when it raises OSError, FileExistsError among them."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        return _write_whole(descriptor, path, self.lines())

    def temporary(self) -> Path:
        """A file for a pager, readable by the owner alone, with no control sequences but colours.
        Leaves none when it raises OSError."""
        descriptor, name = tempfile.mkstemp(prefix="podtui-", suffix=".log")
        _write_whole(descriptor, Path(name), map(colours_only, self.lines()))
        return Path(name)


def export_of(lines: LogLines, *, names: Sequence[str] = (), everything: bool = False) -> Export:
    """What a view holds, or what it shows of that. Close its snapshot."""
    shown = None if everything else lines.rows.shown
    chosen = None
    if shown is not None:
        chosen = tuple(shown.members(chunk)[:] for chunk in lines.buffer.chunks)
    return Export(lines.buffer.snapshot(), chosen, tuple(names))


def _export(block: Block, index: int, names: Sequence[str]) -> bytes:
    text, tag = block.line(index), block.tags[index]
    if not is_log(tag):
        return b"--- " + text
    stamp = rfc3339(block.stamps[index]).encode()
    parts = [stamp] if stamp else []
    if len(names) > 1 and tag < len(names):
        parts.append(names[tag].encode())
    return b" ".join([*parts, text])


def _write_whole(descriptor: int, path: Path, lines: Iterable[bytes]) -> int:
    """All of the lines, or no file. Closes ``descriptor``."""
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
    """``web-n1-app-20261121-070809.log``; of several logs, how many. Whatever the names are, it is
    a file of the folder one is in, which no shell and no terminal takes for something else."""
    first = names[0] if len(names) == 1 else f"{names[0]}-and-{len(names) - 1}-more"
    part = "-filtered" if filtered else ""
    safe = _UNSAFE.sub("_", first).lstrip(".-_")[:MOST_NAMED]
    return f"{safe or 'log'}{part}-{stamp}.log"


def clipboard_text(lines: Sequence[bytes]) -> tuple[str, int]:
    """What is copied, and how many of the lines that is."""
    taken: list[bytes] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MOST_COPIED and taken:
            break
        taken.append(line[:MOST_COPIED])
    # No control sequence may reach whatever it is pasted into.
    return "\n".join(map(plain_text, taken)), len(taken)


def pager_command(environment: dict[str, str]) -> list[str]:
    """``$PAGER``, else less; less is told to keep colours and long lines. Raises ValueError for a
    ``$PAGER`` with an open quote."""
    command = shlex.split(environment.get("PAGER", "")) or ["less"]
    if Path(command[0]).name == "less":
        command += ["-R", "-S"]
    return command
