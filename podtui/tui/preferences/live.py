"""Apply the user's preferences to a running screen, and reload them when their file changes."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct
from textual.app import App

from podtui.api.v1 import Node, Pod
from podtui.errors import PodtuiError
from podtui.tui.commands.custom_runner import CustomRunner
from podtui.tui.commands.key_registry import scopes
from podtui.tui.commands.terminal import write_to_terminal
from podtui.tui.model.model import Changes, Model
from podtui.tui.preferences.alerts import Alert, AlertBook, run_command, terminal_text
from podtui.tui.preferences.file_changes import changes_of, stamp_of
from podtui.tui.preferences.preferences import Preferences
from podtui.tui.preferences.user_keys import Chosen, KeyMap, choose
from podtui.tui.widgets.sanitize import clean

MOST_HELD: Final = 20
"""Maximum number of alerts kept while another program uses the terminal."""

KEEP_SECONDS: Final = 1.0
"""Seconds between two checks which pods still exist."""


class PreferencesFile(Struct, frozen=True):
    """The settings file; ``read`` reads all settings again.

    ``read`` may block, and raises `PodtuiError` for invalid settings.
    """

    path: Path
    read: Callable[[], Preferences]


def chosen_of(preferences: Preferences) -> Chosen | None:
    """Validate the user's keys and commands against all bindings.

    Returns None if the user has defined none; then the modules of the bindings are not imported.
    """
    if not (preferences.keys or preferences.commands or preferences.hotkeys):
        return None
    return choose(preferences, scopes())


def problems_of(preferences: Preferences) -> tuple[str, ...]:
    """Return the problems of keys, commands and hotkeys."""
    chosen = chosen_of(preferences)
    return () if chosen is None else chosen.problems


def key_map_of(preferences: Preferences) -> KeyMap:
    """Return only the keys of the preferences."""
    chosen = chosen_of(preferences)
    return KeyMap() if chosen is None else chosen.key_map


def _asked(preferences: Preferences) -> tuple[object, ...]:
    """Return the preferences that `chosen_of` depends on, for comparison."""
    return (
        preferences.keys,
        preferences.places,
        preferences.commands,
        preferences.hotkeys,
        preferences.own_places,
    )


class LivePreferences:
    """One app's preferences."""

    def __init__(
        self,
        app: App[Any],
        custom: CustomRunner,
        preferences: Preferences,
        file: PreferencesFile | None,
    ) -> None:
        self._app = app
        self._custom = custom
        self._now = preferences
        self._file = file
        self._keys = KeyMap()
        self._chosen = False
        self._book = AlertBook()
        self._lent = False
        self._held: deque[str] = deque(maxlen=MOST_HELD)
        """Text to write when podtui has the terminal again."""
        self._looked = False
        self._kept_at = 0.0

    def start(self) -> None:
        """Apply the preferences and watch their file."""
        self._use_keys(self._now)
        app = cast("Any", self._app)
        app.app_suspend_signal.subscribe(app, self._lend, immediate=True)
        app.app_resume_signal.subscribe(app, self._take_back, immediate=True)
        if self._file is not None:
            self._app.run_worker(
                partial(self._watch, self._file), name="preferences", group="preferences"
            )

    def use(self, preferences: Preferences) -> None:
        """Apply changed preferences.

        Unchanged ones are not touched, so that changes made by key since then are kept.
        """
        before, self._now = self._now, preferences
        if _asked(preferences) != _asked(before):
            self._use_keys(preferences)
        if preferences.theme and preferences.theme != before.theme:
            if preferences.theme in self._app.available_themes:
                self._app.theme = preferences.theme
            else:
                self._warn("Theme", f"There is no theme {preferences.theme!r}.")

    @property
    def theme(self) -> str:
        """The theme of the settings."""
        return self._now.theme

    @property
    def remembers_theme(self) -> bool:
        return not self._now.theme_is_fixed

    @property
    def keymap(self) -> Mapping[str, str]:
        """The valid keys of the user."""
        return self._keys.keys

    def _use_keys(self, preferences: Preferences) -> None:
        chosen = chosen_of(preferences)
        if chosen is not None or self._chosen:
            self._take(chosen)

    def _take(self, chosen: Chosen | None) -> None:
        self._chosen = chosen is not None
        chosen = chosen or Chosen()
        self._keys = chosen.key_map
        self._app.set_keymap(chosen.key_map.keys)
        self._custom.use(chosen.commands, chosen.hotkeys)
        for problem in chosen.problems:
            self._warn("Settings", problem)

    def _warn(self, title: str, text: str) -> None:
        self._app.notify(clean(text), title=title, severity="warning", markup=False, timeout=10)

    async def _watch(self, file: PreferencesFile) -> None:
        async for _ in changes_of(partial(stamp_of, file.path)):
            try:
                preferences = await asyncio.to_thread(file.read)
            except PodtuiError as error:
                self._warn("Settings", str(error))
            else:
                self.use(preferences)

    # --- notifications

    def look(self, model: Model, changes: Changes, now: float) -> None:
        """Send notifications for changes."""
        for alert in self._news(model, changes, now):
            if alert.kind in self._now.notify_on or self._is_node_back(alert):
                self._tell(alert)

    def _is_node_back(self, alert: Alert) -> bool:
        return not alert.namespace and "nodeNotReady" in self._now.notify_on

    def _news(self, model: Model, changes: Changes, now: float) -> list[Alert]:
        if not (model.is_synced(Pod) and model.is_synced(Node)):
            return []
        first, self._looked = not self._looked, True
        if first:
            changes = model.everything()
        changed = changes.pods - changes.measured
        pods = [pod for key in changed if (pod := model.pods.get(key)) is not None]
        if not 0 <= now - self._kept_at < KEEP_SECONDS:
            self._kept_at = now
            self._book.keep_pods(model.pods.values(), now)
        if not changed:
            pods = [pod for pod in model.pods.values() if self._book.waits(pod)]
        found = self._book.look_at_pods(pods, now, first=first)
        if changes.node and model.node is not None:
            found += self._book.look_at_node(model.node, now, first=first)
        return found

    def _tell(self, alert: Alert) -> None:
        text = terminal_text(alert, self._now.notify_by, os.environ)
        if text and self._lent:
            self._held.append(text)
        elif text:
            self._write(text)
        if self._now.notify_command:
            self._app.run_worker(partial(self._run, alert), group="notify")

    def _write(self, text: str) -> None:
        if text and not self._app.is_headless:
            write_to_terminal(text)

    def _lend(self, _: object) -> None:
        # Another program uses the terminal.
        self._lent = True

    def _take_back(self, _: object) -> None:
        self._lent = False
        self._write("".join(self._held))
        self._held.clear()

    async def _run(self, alert: Alert) -> None:
        problem = await run_command(self._now.notify_command, alert)
        if problem:
            self._warn("notifyCommand", problem)
