"""The saved state of the screen: the layout for each server, and the theme.

It is a small JSON file in the user's state directory. An unreadable file is reported once, and kept
until there is something to save. A screen always opens with its pods visible and focused: focus and
zoom are not saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from podtui.private_files import locked, write_private
from podtui.tui.screens.main.layout import PANES, View
from podtui.tui.widgets.table_pane import TableMemory

MAX_BYTES: Final = 65536
MAX_LAYOUTS: Final = 32
"""Layouts that are kept, those of the servers shown last."""


class ScreenLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The saved arrangement of the panes: ``shares`` by split, ``tables`` by pane."""

    shares: dict[str, float] = {}
    hidden: tuple[str, ...] = ()
    lower: str = "logs"
    tables: dict[str, TableMemory] = {}


class ScreenMemory(msgspec.Struct, frozen=True):
    """The saved state of a screen.

    ``theme`` was chosen by a key or a command while the settings said ``theme_over``; it is valid
    until the settings change.
    """

    layout: ScreenLayout = ScreenLayout()
    theme: str = ""
    theme_over: str = ""

    def theme_for(self, settings_theme: str) -> str:
        """Return the theme that the user chose last, here or in the settings."""
        return self.theme if self.theme and self.theme_over == settings_theme else settings_theme


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of the file; ``layouts`` is by server, the one shown last at the end."""

    theme: str = ""
    theme_over: str = ""
    layouts: dict[str, ScreenLayout] = {}


def recalled_view(layout: ScreenLayout) -> View:
    """Return the saved view, without unknown panes and invalid sizes. The pods are visible."""
    view = View(
        lower=layout.lower if layout.lower in PANES[1:] else "logs",
        shares={name: share for name, share in layout.shares.items() if 0 < share < 1},
    )
    for pane in layout.hidden:
        if pane != "pods":
            view = view.without(pane)
    return view


def layout_of(view: View, tables: Mapping[str, TableMemory]) -> ScreenLayout:
    hidden = tuple(name for name in PANES if name in view.hidden)
    return ScreenLayout(dict(view.shares), hidden, view.lower, dict(tables))


class MemoryFile:
    """The file of the saved state. ``server`` is what the screen shows: a root directory or the
    address of a cluster. With ``path`` None, nothing is saved. ``problem`` is the reason why the
    file was not used.
    """

    def __init__(self, path: Path | None, server: str = "") -> None:
        self._path = path
        self._server = server
        self.problem = ""
        self.memory = ScreenMemory()

    def read(self) -> None:
        """Read the file, if it exists. Blocks."""
        content = self._content()
        layout = content.layouts.get(self._server, ScreenLayout())
        self.memory = ScreenMemory(layout, content.theme, content.theme_over)

    def _content(self) -> _Content:
        if self._path is None:
            return _Content()
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return _Content()
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror}"
            return _Content()
        try:
            if len(data) > MAX_BYTES:
                raise msgspec.DecodeError("it is too large")
            return msgspec.json.decode(data, type=_Content)
        except msgspec.DecodeError as error:
            self.problem = f"{self._path} is not used: {error}"
            return _Content()

    def write(self, memory: ScreenMemory) -> None:
        """Save the layout, and the theme if this screen changed it. Blocks; raises OSError."""
        before, self.memory = self.memory, memory
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Other screens save theirs in the same file.
        with locked(self._path.with_suffix(".lock")):
            content = self._content()
            layouts = dict(content.layouts)
            layouts.pop(self._server, None)
            layouts[self._server] = memory.layout
            themes = (memory.theme, memory.theme_over)
            if themes == (before.theme, before.theme_over):
                themes = (content.theme, content.theme_over)
            content = _Content(*themes, dict(list(layouts.items())[-MAX_LAYOUTS:]))
            text = msgspec.json.format(msgspec.json.encode(content)) + b"\n"
            write_private(self._path, text)
