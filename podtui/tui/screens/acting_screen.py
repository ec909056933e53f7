"""The base of screens with pods to act on: the key bindings and the action that each starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.tui.commands.session import Selection, Session
from podtui.tui.screens.live_screen import LiveScreen
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pod_status import is_rejected
from podtui.tui.widgets.sanitize import clean

WRITING = frozenset(
    {
        "edit", "new", "delete", "undo", "restart", "restart_container", "shell", "attach",
        "debug", "transfer", "pull_image", "remove_image", "prune_images",
    }
)  # fmt: skip
"""Session that are not available in a read-only session."""

ON_PODS = frozenset(
    {"restart", "restart_container", "shell", "attach", "debug", "transfer", "forward"}
)
"""Session on the selected pods."""
ON_FILES = frozenset({"edit", "delete"})
"""Session on the selected files; on a cluster, on the selected pods."""


class ActingScreen(LiveScreen):
    """A screen with a selection of pods, files or images. Subclasses define the selection; the
    actions on it are the same on all screens.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "edit", "Edit", id="act.edit",
                tooltip="Edit the manifest, see the plan, then apply it"),
        Binding("ctrl+d", "delete", "Delete", id="act.delete",
                tooltip="Move the manifest to the trash: the pod ends"),
        Binding("u", "undo", "Undo", show=False, id="act.undo",
                tooltip="Undo the last delete or fix"),
        Binding("r", "restart", "Restart", id="act.restart",
                tooltip="Restart the pod; admit a rejected one again"),
        Binding("s", "shell", "Shell", id="act.shell",
                tooltip="A shell in a container, in this terminal"),
        Binding("a", "attach", "Attach", show=False, id="act.attach",
                tooltip="The terminal of a container's own process"),
        Binding("D", "debug", "Debug", show=False, id="act.debug",
                tooltip="A debugger beside a container, for one that has no shell"),
        Binding("t", "transfer", "Copy files", show=False, id="act.transfer",
                tooltip="Copy files out of a container or into it"),
        Binding("F", "forward", "Forward a port", show=False, id="act.forward",
                tooltip="Forward a port of this machine to the pod, in the background"),
        Binding("f", "forwards", "Port-forwards", show=False, id="act.forwards",
                tooltip="The port-forwards that run"),
        Binding("n", "new", "New", show=False, id="act.new",
                tooltip="A new pod from a template, through the editor"),
        Binding("J", "journal", "Journal", show=False, id="act.journal",
                tooltip="Journal: actions as docker and shell commands"),
        Binding("ctrl+k", "restart_container", "Restart container", show=False,
                id="act.restart-container", tooltip="Restart one of its containers"),
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
        )

    def _log_line(self) -> tuple[str, str, str] | None:
        focused = self.focused
        found = focused.ancestors if focused else ()
        pane = next((widget for widget in found if isinstance(widget, LogsPane)), None)
        line = pane.chosen_line if pane is not None else None
        return None if line is None else (line[0].key, line[0].container, line[1])

    def chosen_pods(self) -> tuple[Pod, ...]:
        """Return the pods to act on."""
        return ()

    def chosen_manifests(self) -> tuple[Manifest, ...]:
        """Return the files to act on, without duplicates: by default those of the selected pods."""
        found = (self.session.model.manifest_of(pod) for pod in self.chosen_pods())
        return tuple({m.metadata.name: m for m in found if m is not None}.values())

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in WRITING and self.session.readonly:
            return False
        return super().check_action(action, parameters)

    def has_target(self, action: str) -> bool:
        if action in ON_PODS:
            return bool(self.chosen_pods())
        if action in ON_FILES:
            return bool(self.chosen_pods() or self.chosen_manifests())
        return super().has_target(action)

    def _one_pod(self) -> Pod | None:
        pods = self.chosen_pods()
        if len(pods) == 1:
            return pods[0]
        if pods:
            self.session.tell(f"{len(pods)} pods are marked: this is for one", severity="warning")
        else:
            self._tell_no_pod()
        return None

    def _tell_no_pod(self) -> None:
        manifests = self.chosen_manifests()
        file = clean(manifests[0].metadata.name) if manifests else ""
        words = f"{file} has no pod to act on" if file else "no pod is chosen"
        self.session.tell(words, severity="warning")

    # --- files

    def action_edit(self) -> None:
        from podtui.tui.commands.edit_manifest import edit_file

        manifests = self.chosen_manifests()
        if len(manifests) == 1:
            path = Path(manifests[0].spec.path)
            self.session.start("Edit", lambda: edit_file(self.session, path))
        else:
            self._tell_no_file(len(manifests))

    def action_new(self) -> None:
        from podtui.tui.commands.create_pod import create_pod

        folder = self.session.manifest_folder
        if folder is None:
            self.session.tell("it is not known which folder the agent reads", severity="warning")
        else:
            self.session.start("New pod", lambda: create_pod(self.session, folder))

    def action_trash(self) -> None:
        folder = self.session.manifest_folder
        if folder is None:
            self.session.tell("it is not known which folder the agent reads", severity="warning")
        else:
            self.session.push(self.session.screens.trash(folder))

    def action_journal(self) -> None:
        pods = self.chosen_pods()
        self.session.push(self.session.screens.journal(pods[0] if len(pods) == 1 else None))

    def action_delete(self) -> None:
        if self.session.model.server.capabilities.deletes:
            self._delete_pods()
            return
        from podtui.tui.commands.delete_manifests import delete_manifests

        manifests = self.chosen_manifests()
        if not manifests:
            self._tell_no_file(0)
            return

        async def delete() -> None:
            if await delete_manifests(self.session, manifests):
                self.clear_marks()

        self.session.start("Delete", delete)

    def action_undo(self) -> None:
        from podtui.tui.commands.delete_manifests import undo_last

        self.session.start("Undo", lambda: undo_last(self.session))

    def _delete_pods(self) -> None:
        from podtui.tui.commands.delete_pods import delete_pods

        pods = self.chosen_pods()
        if not pods:
            self.session.tell("no pod is chosen", severity="warning")
            return

        async def delete() -> None:
            if await delete_pods(self.session, pods):
                self.clear_marks()

        self.session.start("Delete", delete)

    def _tell_no_file(self, count: int) -> None:
        if count:
            words = f"{count} files are chosen: one at a time can be edited"
        elif pods := self.chosen_pods():
            words = f"no file of the folder is known for {pod_label(pods[0])}"
        else:
            words = "no pod is chosen"
        self.session.tell(words, severity="warning")

    # --- pods

    def action_restart(self) -> None:
        from podtui.tui.commands.restart import restart_pods

        pods = self.chosen_pods()
        if not pods:
            self._tell_no_pod()
        elif len(pods) == 1 and is_rejected(pods[0]):
            self.session.start("Retry", lambda: self._retry(pods[0]))
        else:

            async def restart() -> None:
                if await restart_pods(self.session, pods):
                    self.clear_marks()

            self.session.start("Restart", restart)

    async def _retry(self, pod: Pod) -> None:
        from podtui.tui.commands.restart import note

        await self.session.client.retry(pod.metadata.namespace, pod.metadata.name)
        note(self.session, pod, "retry")
        self.session.tell("Admitted again.", title=pod_label(pod))

    def action_shell(self) -> None:
        from podtui.tui.commands.shell import open_shell

        self._for_one("Shell", open_shell)

    def action_attach(self) -> None:
        from podtui.tui.commands.shell import attach_to

        self._for_one("Attach", attach_to)

    def action_debug(self) -> None:
        from podtui.tui.commands.shell import start_debugger

        self._for_one("Debug", start_debugger)

    def action_transfer(self) -> None:
        from podtui.tui.commands.copy_files import transfer_files

        self._for_one("Copy", transfer_files)

    def action_forward(self) -> None:
        from podtui.tui.commands.port_forward import start_forward

        self._for_one("Port-forward", start_forward, writes=False)

    def action_forwards(self) -> None:
        self.session.push(self.session.screens.forwards())

    # --- images

    def action_pull_image(self, name: str = "") -> None:
        """Pull an image and show its progress on the node screen; without a name, ask for it."""
        from podtui.tui.commands.images import pull_image

        async def pull() -> None:
            await pull_image(self.session, name)

        if not self.SHOWS_PULLS:
            self.session.push(self.session.screens.images())
        self.session.start("Pull", pull)

    def _for_one(
        self,
        name: str,
        deed: Callable[[Session, Pod], Awaitable[None]],
        *,
        writes: bool = True,
    ) -> None:
        pod = self._one_pod()
        if pod is not None:
            self.session.start(name, lambda: deed(self.session, pod), writes=writes)

    def action_restart_container(self) -> None:
        from podtui.tui.commands.restart import choose_container, restart_container

        pod = self._one_pod()
        if pod is None:
            return

        async def restart() -> None:
            container = await choose_container(self.session, pod, "Restart")
            if container:
                await restart_container(self.session, pod, container)

        self.session.start("Restart", restart)
