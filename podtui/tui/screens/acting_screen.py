"""The base of screens with pods to act on: the selection, and the keys of the actions on it."""

from __future__ import annotations

from typing import ClassVar

from textual.actions import parse
from textual.binding import Binding, BindingType

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.tui.commands.actions import ACTIONS, FILES, PODS
from podtui.tui.commands.session import Selection
from podtui.tui.screens.live_screen import LiveScreen
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.views.labels import pod_label


class ActingScreen(LiveScreen):
    """A screen with a selection of pods, files or images. Subclasses define the selection; the
    actions on it are the same on all screens.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(action.key, f"do('{action.name}')", action.title, show=action.shown, id=action.id,
                tooltip=action.help)
        for action in ACTIONS.values()
        if action.key
    ]  # fmt: skip

    SHOWS_PULLS: ClassVar[bool] = False
    """True if the screen shows the progress of image pulls."""

    # --- selection

    @property
    def selection(self) -> Selection:
        """The objects that commands act on."""
        return Selection(
            self.chosen_pods(),
            self.chosen_manifests(),
            self.chosen_image(),
            self._log_line(),
            self.SHOWS_PULLS,
            self.clear_marks,
            self.why_nothing(),
        )

    def _log_line(self) -> tuple[str, str, str] | None:
        focused = self.focused
        widgets = focused.ancestors if focused else ()
        pane = next((widget for widget in widgets if isinstance(widget, LogsPane)), None)
        line = pane.chosen_line if pane is not None else None
        return None if line is None else (line[0].key, line[0].container, line[1])

    def chosen_pods(self) -> tuple[Pod, ...]:
        """Return the pods to act on."""
        return ()

    def chosen_manifests(self) -> tuple[Manifest, ...]:
        """Return the files to act on, without duplicates: by default those of the selected pods."""
        manifests = (self.session.model.manifest_of(pod) for pod in self.chosen_pods())
        return tuple({m.metadata.name: m for m in manifests if m is not None}.values())

    def chosen_image(self) -> str:
        """Return the selected image; empty if the selection is not an image."""
        return ""

    @property
    def menu_title(self) -> str:
        pods = self.chosen_pods()
        if len(pods) == 1:
            return pod_label(pods[0])
        return f"{len(pods)} pods" if pods else super().menu_title

    def clear_marks(self) -> None:
        """Clear the marks after an action on the marked rows."""

    def why_nothing(self) -> str:
        """Return why nothing is selected, if the cursor is on a row without an object."""
        return ""

    def show_selection(self) -> None:
        """Show the selection if it is out of sight."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "do" and self.session.readonly and ACTIONS[str(parameters[0])].writes:
            return None  # disabled: the app refuses its key
        return super().check_action(action, parameters)

    def has_target(self, action: str) -> bool:
        _, name, parameters = parse(action)
        on = ACTIONS[str(parameters[0])].on if name == "do" else ""
        if on == PODS:
            return bool(self.chosen_pods())
        if on == FILES:
            return bool(self.chosen_pods() or self.chosen_manifests())
        return super().has_target(action)

    def action_do(self, name: str, argument: str = "") -> None:
        """Run one of `ACTIONS` on the selection, which is shown first if it is out of sight."""
        if ACTIONS[name].on:
            self.show_selection()
        ACTIONS[name].run(self.session, self.selection, argument)
