"""What the screen remembers between runs: sizes, hidden panes, sorting, columns, the theme.

A small JSON file in the user's state directory. One that cannot be read is left alone until there
is something to remember, and told of once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from podtui.tui.overview.arrangement import PANES, View

MAX_BYTES: Final = 65536


class TableMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """``columns`` None: nobody chose. An empty ``sort`` is the table's own."""

    sort: str = ""
    descending: bool = False
    columns: tuple[str, ...] | None = None
    wide: bool = False


class ScreenMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """``shares`` by split, ``tables`` by pane. ``theme`` was chosen by a key or a command while the
    settings said ``theme_over``: it holds until they say something else."""

    shares: dict[str, float] = {}
    hidden: tuple[str, ...] = ()
    active: str = "pods"
    lower: str = "logs"
    zoomed: bool = False
    tables: dict[str, TableMemory] = {}
    theme: str = ""
    theme_over: str = ""

    def theme_for(self, settings_theme: str) -> str:
        """The theme that the user chose last, here or in the settings."""
        return self.theme if self.theme and self.theme_over == settings_theme else settings_theme


def recalled_view(memory: ScreenMemory) -> View:
    """The panes as they were, as far as there are such panes and sizes that make sense."""
    view = View(
        active=memory.active if memory.active in PANES else "pods",
        lower=memory.lower if memory.lower in PANES[1:] else "logs",
        shares={name: share for name, share in memory.shares.items() if 0 < share < 1},
    )
    for pane in memory.hidden:
        view = view.without(pane)
    return replace(view, zoomed=memory.zoomed)


def memory_of(view: View, tables: Mapping[str, TableMemory]) -> ScreenMemory:
    return ScreenMemory(
        dict(view.shares),
        tuple(name for name in PANES if name in view.hidden),
        view.active,
        view.lower,
        view.zoomed,
        dict(tables),
    )


class MemoryFile:
    """``path`` None remembers nothing. ``problem`` says why the file was not used."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.problem = ""
        self.memory = ScreenMemory()

    def read(self) -> None:
        """Take in the file, if there is one. Blocks."""
        if self._path is None:
            return
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror}"
            return
        try:
            if len(data) > MAX_BYTES:
                raise msgspec.DecodeError("it is too large")
            self.memory = msgspec.json.decode(data, type=ScreenMemory)
        except msgspec.DecodeError as error:
            self.problem = f"{self._path} is not used: {error}"

    def write(self, memory: ScreenMemory) -> None:
        """Keep it, whole or not at all. Blocks; raises OSError."""
        self.memory = memory
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".screen-", dir=self._path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(memory)) + b"\n")
            os.replace(name, self._path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
