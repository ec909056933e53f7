"""The saved state of the screen: sizes, hidden panes, sorting, columns, theme.

It is a small JSON file in the user's state directory. An unreadable file is reported once, and kept
until there is something to save.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from podtui.tui.screens.main.layout import PANES, View
from podtui.tui.widgets.table_pane import TableMemory

MAX_BYTES: Final = 65536


class ScreenMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The saved state of the screen: ``shares`` by split, ``tables`` by pane.

    ``theme`` was chosen by a key or a command while the settings said ``theme_over``; it is valid
    until the settings change.
    """

    shares: dict[str, float] = {}
    hidden: tuple[str, ...] = ()
    active: str = "pods"
    lower: str = "logs"
    zoomed: bool = False
    tables: dict[str, TableMemory] = {}
    theme: str = ""
    theme_over: str = ""

    def theme_for(self, settings_theme: str) -> str:
        """Return the theme that the user chose last, here or in the settings."""
        return self.theme if self.theme and self.theme_over == settings_theme else settings_theme


def recalled_view(memory: ScreenMemory) -> View:
    """Return the saved view, without unknown panes and invalid sizes."""
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
    """The file of the saved state. With ``path`` None, nothing is saved. ``problem`` is the reason
    why the file was not used.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.problem = ""
        self.memory = ScreenMemory()

    def read(self) -> None:
        """Read the file, if it exists. Blocks."""
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
        """Save the state atomically. Blocks; raises OSError."""
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
