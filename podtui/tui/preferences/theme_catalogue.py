"""The themes that the user can choose from, and the problems of their files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Sequence
from functools import partial
from pathlib import Path

from textual.theme import Theme

from podtui.tui.preferences.file_changes import changes_of
from podtui.tui.preferences.themes import DEFAULT_THEME, ThemeFile, load_themes, theme_stamps


class ThemeCatalogue:
    """The themes of ``folders``. ``wanted`` is the theme to start with."""

    def __init__(self, folders: Sequence[Path] = (), wanted: str | None = None) -> None:
        self.folders = tuple(folders)
        self.names: list[str] = []
        self._wanted = wanted
        self._problems: list[str] = []

    def load(self) -> list[Theme]:
        """Read all theme files, and return the valid themes."""
        return self.use(load_themes(self.folders))

    def use(self, files: Sequence[ThemeFile]) -> list[Theme]:
        """Replace the names by those of ``files``, and return the valid themes."""
        themes = [file.theme for file in files if file.theme is not None]
        self.names = [theme.name for theme in themes]
        self._problems += [problem for file in files for problem in file.problems]
        return themes

    def first(self, available: Container[str]) -> str | None:
        """Return the theme to start with; None if it is not ``available``. If the user wanted it,
        that is a problem.
        """
        name = self._wanted or DEFAULT_THEME
        if name in available:
            return name
        if self._wanted:
            self._problems.append(f"There is no theme {name!r}.")
        return None

    def after(self, name: str) -> str | None:
        """Return the theme after ``name``, in a circle; None if there are no themes."""
        if not self.names:
            return None
        index = self.names.index(name) if name in self.names else -1
        return self.names[(index + 1) % len(self.names)]

    def take_problems(self) -> list[str]:
        """Return the problems that were not taken before."""
        problems, self._problems = self._problems, []
        return problems

    async def changes(self) -> AsyncIterator[list[ThemeFile]]:
        """Yield all theme files each time that one of them changes."""
        async for _ in changes_of(partial(theme_stamps, self.folders)):
            yield await asyncio.to_thread(load_themes, self.folders)
