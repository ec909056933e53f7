"""Files of the user's preferences and themes."""

from __future__ import annotations

from pathlib import Path

from podtui.settings import resolve
from podtui.tui.preferences.preferences import Preferences, preferences_of


def write_theme(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def write_preferences(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def read_preferences(path: Path) -> Preferences:
    return preferences_of(resolve({}, {"PODTUI_CONFIG": str(path)}))
