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
from podtui.tui.preferences.alerts import Alert, AlertTracker, run_command, terminal_text
from podtui.tui.preferences.file_changes import changes_of, stamp_of
from podtui.tui.preferences.preferences import Preferences
from podtui.tui.preferences.user_keys import KeyMap, UserBindings, read_user_bindings
from podtui.tui.widgets.sanitize import clean

MOST_HELD: Final = 20
"""Maximum number of alerts kept while another program uses the terminal."""

KEEP_SECONDS: Final = 1.0
"""Seconds between two checks for pods that no longer exist."""


class PreferencesFile(Struct, frozen=True):
    """The settings file; ``read`` reads all settings again.

    ``read`` may block, and raises `PodtuiError` for invalid settings.
    """

    path: Path
    read: Callable[[], Preferences]


def user_bindings_of(preferences: Preferences) -> UserBindings | None:
    """Validate the user's keys and commands against all bindings.

    Returns None if the user has defined none; then the modules of the bindings are not imported.
    """
    if not (preferences.keys or preferences.commands or preferences.hotkeys):
        return None
    return read_user_bindings(preferences, scopes())


def problems_of(preferences: Preferences) -> tuple[str, ...]:
    """Return the problems of keys, commands and hotkeys."""
    bindings = user_bindings_of(preferences)
    return () if bindings is None else bindings.problems


def _binding_settings(preferences: Preferences) -> tuple[object, ...]:
    """Return the preferences that `user_bindings_of` depends on, for comparison."""
    return (
        preferences.keys,
        preferences.places,
        preferences.commands,
        preferences.hotkeys,
        preferences.custom_places,
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
        self._bindings = False
        self._tracker = AlertTracker()
        self._terminal_lent = False
        self._held_alerts: deque[str] = deque(maxlen=MOST_HELD)
        """Text to write when podtui has the terminal again."""
        self._checked = False
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
        if _binding_settings(preferences) != _binding_settings(before):
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
        bindings = user_bindings_of(preferences)
        if bindings is not None or self._bindings:
            self._take(bindings)

    def _take(self, bindings: UserBindings | None) -> None:
        self._bindings = bindings is not None
        bindings = bindings or UserBindings()
        self._keys = bindings.key_map
        self._app.set_keymap(bindings.key_map.keys)
        self._custom.use(bindings.commands, bindings.hotkeys)
        for problem in bindings.problems:
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

    def send_alerts(self, model: Model, changes: Changes, now: float) -> None:
        """Send notifications for changes."""
        for alert in self._find_alerts(model, changes, now):
            if alert.kind in self._now.notify_on or self._is_node_back(alert):
                self._deliver(alert)

    def _is_node_back(self, alert: Alert) -> bool:
        return not alert.namespace and "nodeNotReady" in self._now.notify_on

    def _find_alerts(self, model: Model, changes: Changes, now: float) -> list[Alert]:
        if not (model.is_synced(Pod) and model.is_synced(Node)):
            return []
        first, self._checked = not self._checked, True
        if first:
            changes = model.all_changes()
        changed = changes.pods - changes.measured
        pods = [pod for key in changed if (pod := model.pods.get(key)) is not None]
        if not 0 <= now - self._kept_at < KEEP_SECONDS:
            self._kept_at = now
            self._tracker.forget_missing(model.pods.values(), now)
        if not changed:
            pods = [pod for pod in model.pods.values() if self._tracker.is_recovering(pod)]
        alerts = self._tracker.observe_pods(pods, now, first=first)
        if changes.node and model.node is not None:
            alerts += self._tracker.observe_node(model.node, now, first=first)
        return alerts

    def _deliver(self, alert: Alert) -> None:
        text = terminal_text(alert, self._now.notify_by, os.environ)
        if text and self._terminal_lent:
            self._held_alerts.append(text)
        elif text:
            self._write(text)
        if self._now.notify_command:
            self._app.run_worker(partial(self._run, alert), group="notify")

    def _write(self, text: str) -> None:
        if text and not self._app.is_headless:
            write_to_terminal(text)

    def _lend(self, _: object) -> None:
        # Another program uses the terminal.
        self._terminal_lent = True

    def _take_back(self, _: object) -> None:
        self._terminal_lent = False
        self._write("".join(self._held_alerts))
        self._held_alerts.clear()

    async def _run(self, alert: Alert) -> None:
        problem = await run_command(self._now.notify_command, alert)
        if problem:
            self._warn("notifyCommand", problem)
