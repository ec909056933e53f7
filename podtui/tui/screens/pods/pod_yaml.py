"""The tab with the pod as YAML: the live object or its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.tui.commands.availability import is_offered
from podtui.tui.screens.text_screens import show_manifest
from podtui.tui.views.pods.describe import pod_yaml
from podtui.tui.widgets.text_view import TextView

if TYPE_CHECKING:
    from podtui.tui.screens.live_screen import LiveScreen


class YamlView(TextView):
    """The YAML of a pod; ``source`` is ``live`` or ``manifest``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "turn", "Live or manifest", id="yaml.source",
                tooltip="Turn between the live object and its manifest"),
        Binding("m", "managed", "Managed fields", id="yaml.managed",
                tooltip="Show or hide metadata.managedFields"),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.source = "live"
        self._managed = False
        self._pod: Pod | None = None
        self._manifest: Manifest | None = None
        self._shown: object = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        screen = cast("LiveScreen", self.screen)
        return is_offered(screen.session.model.server.capabilities, action, parameters)

    def show_pod(self, pod: Pod, manifest: Manifest | None) -> None:
        """Show a pod; does nothing if it is shown already."""
        self._pod, self._manifest = pod, manifest
        wanted = (pod, self._managed) if self.source == "live" else (manifest,)
        if wanted == self._shown:
            return
        self._shown = wanted
        if self.source == "live":
            self.load(pod_yaml(pod, managed=self._managed), language="yaml")
        else:
            show_manifest(self, manifest)
        hidden = bool(pod.metadata.managedFields) and not self._managed
        words = "live object" + (", managed fields hidden" if hidden else "")
        self.border_title = words if self.source == "live" else "manifest"

    def action_turn(self) -> None:
        self.source = "manifest" if self.source == "live" else "live"
        self._again()

    def action_managed(self) -> None:
        self._managed = not self._managed
        self._again()

    def _again(self) -> None:
        if self._pod is not None:
            self.show_pod(self._pod, self._manifest)
