"""The commands on the selected pods, files and images, which keys, menu and prompt share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.api.local import Manifest, ManifestState
from podtui.api.pods import is_api_pod
from podtui.api.v1 import Pod
from podtui.tui.commands.copy_files import transfer_files
from podtui.tui.commands.create_pod import create_pod
from podtui.tui.commands.delete import delete_selected, undo_last
from podtui.tui.commands.edit_manifest import edit_file
from podtui.tui.commands.edit_record import create_through_api, edit_pod
from podtui.tui.commands.images import pull_image
from podtui.tui.commands.port_forward import start_forward
from podtui.tui.commands.restart import (
    choose_container,
    note,
    restart_container,
    restart_pods,
)
from podtui.tui.commands.session import Selection, Session
from podtui.tui.commands.shell import attach_to, open_shell, start_debugger
from podtui.tui.views.labels import manifest_message, pod_label
from podtui.tui.views.pod_status import is_rejected
from podtui.tui.widgets.sanitize import clean

PODS: Final = "pods"
FILES: Final = "files"


class Action(Struct, frozen=True):
    """A command on the selection of a screen.

    ``key`` is the default key, ``id`` the ID under which the user may change it. ``on`` is the kind
    of object that it needs. ``needs`` are capabilities of the server, of which any one is enough.
    An action that ``writes`` is not available in a read-only session. ``run`` is called with the
    argument typed in the prompt, if any.
    """

    name: str
    id: str
    key: str
    title: str
    help: str
    run: Callable[[Session, Selection, str], None]
    shown: bool = False
    on: str = ""
    needs: tuple[str, ...] = ()
    writes: bool = True


def _edit(session: Session, selection: Selection, _: str) -> None:
    manifests, api_pods = selection.manifests, _api_pods(selection)
    if api_pods and not manifests and not session.changes_objects:
        session.refuse()
        return
    if len(api_pods) == 1 and not manifests:
        session.start("Edit", lambda: edit_pod(session, api_pods[0]))
        return
    if len(manifests) == 1:
        path = Path(manifests[0].spec.path)
        session.start("Edit", lambda: edit_file(session, path))
    else:
        _notify_no_file(session, selection)


def _api_pods(selection: Selection) -> tuple[Pod, ...]:
    """Return the selected pods that come from the API, not from a file."""
    return tuple(filter(is_api_pod, selection.pods))


def _delete(session: Session, selection: Selection, _: str) -> None:
    manifests = selection.manifests
    of_cluster = session.model.server.capabilities.deletes
    pods = selection.pods if of_cluster else _api_pods(selection)
    if of_cluster and not pods:
        session.notify("no pod is selected", severity="warning")
        return
    if pods and not session.changes_objects:
        session.refuse()
        return
    if not of_cluster and not pods and not manifests:
        _notify_no_file(session, selection)
        return

    async def delete() -> None:
        if await delete_selected(session, () if of_cluster else manifests, pods):
            selection.clear()

    session.start("Delete", delete)


def _undo(session: Session, _: Selection, __: str) -> None:
    session.start("Undo", lambda: undo_last(session))


def _restart(session: Session, selection: Selection, _: str) -> None:
    pods = selection.pods
    if not pods:
        _notify_no_pod(session, selection)
        return
    if len(pods) == 1 and is_rejected(pods[0]):
        session.start("Retry", lambda: _retry(session, pods[0]))
        return

    async def restart() -> None:
        if await restart_pods(session, pods):
            selection.clear()

    session.start("Restart", restart)


async def _retry(session: Session, pod: Pod) -> None:
    await session.client.retry(pod.metadata.namespace, pod.metadata.name)
    note(session, pod, "retry")
    session.notify("Retrying the admission.", title=pod_label(pod))


def _restart_container(session: Session, selection: Selection, _: str) -> None:
    pod = _one_pod(session, selection)
    if pod is None:
        return

    async def restart() -> None:
        container = await choose_container(session, pod, "Restart")
        if container:
            await restart_container(session, pod, container)

    session.start("Restart", restart)


def _on_one_pod(
    title: str,
    command: Callable[[Session, Pod], Awaitable[None]],
    *,
    writes: bool = True,
    changes_pod: bool = False,
) -> Callable[[Session, Selection, str], None]:
    def run(session: Session, selection: Selection, _: str) -> None:
        if changes_pod and not session.changes_objects:
            session.refuse()
            return
        pod = _one_pod(session, selection)
        if pod is not None:
            session.start(title, lambda: command(session, pod), writes=writes)

    return run


def _forwards(session: Session, _: Selection, __: str) -> None:
    session.push(session.screens.forwards())


def _journal(session: Session, selection: Selection, _: str) -> None:
    pods = selection.pods
    session.push(session.screens.journal(pods[0] if len(pods) == 1 else None))


def _new(session: Session, _: Selection, __: str) -> None:
    folder = _folder(session)
    if folder is not None:
        session.start("New pod", lambda: create_pod(session, folder))


def _create(session: Session, _: Selection, __: str) -> None:
    if not session.changes_objects:
        session.refuse()
        return
    session.start("Create", lambda: create_through_api(session))


def _trash(session: Session, _: Selection, __: str) -> None:
    folder = _folder(session)
    if folder is not None:
        session.push(session.screens.trash(folder))


def _pull_image(session: Session, selection: Selection, name: str) -> None:
    async def pull() -> None:
        await pull_image(session, name)

    if not selection.shows_pulls:
        session.push(session.screens.images())
    session.start("Pull", pull)


ACTIONS: Final = {
    action.name: action
    for action in (
        Action("edit", "act.edit", "e", "Edit", "Edit the manifest, see the plan, then apply it",
               _edit, shown=True, on=FILES, needs=("manifests",)),
        Action("delete", "act.delete", "ctrl+d", "Delete",
               "Move the manifest to the trash; the pod ends",
               _delete, shown=True, on=FILES, needs=("manifests", "deletes")),
        Action("undo", "act.undo", "u", "Undo", "Undo the last delete or fix",
               _undo, needs=("manifests",)),
        Action("restart", "act.restart", "r", "Restart",
               "Restart the pod; retry a rejected one",
               _restart, shown=True, on=PODS, needs=("restarts",)),
        Action("shell", "act.shell", "s", "Shell", "Open a shell in a container",
               _on_one_pod("Shell", open_shell), shown=True, on=PODS),
        Action("attach", "act.attach", "a", "Attach", "Attach to the main process of a container",
               _on_one_pod("Attach", attach_to), on=PODS),
        Action("debug", "act.debug", "D", "Debug",
               "Add a debug container, for images without a shell",
               _on_one_pod("Debug", start_debugger, changes_pod=True), on=PODS),
        Action("transfer", "act.transfer", "t", "Copy files",
               "Copy files from or to a container",
               _on_one_pod("Copy", transfer_files), on=PODS),
        Action("forward", "act.forward", "F", "Forward a port",
               "Forward a local port to the pod, in the background",
               _on_one_pod("Port-forward", start_forward, writes=False), on=PODS, writes=False),
        Action("forwards", "act.forwards", "f", "Port-forwards", "Running port-forwards",
               _forwards, writes=False),
        Action("new", "act.new", "n", "New", "Create a pod from a template in the editor",
               _new, needs=("manifests",)),
        Action("create", "", "", "Create",
               "Create a pod from a template through the API, without a file",
               _create, needs=("manifests",)),
        Action("journal", "act.journal", "J", "Journal",
               "Journal: actions as docker and shell commands",
               _journal, needs=("engine",), writes=False),
        Action("restart_container", "act.restart-container", "ctrl+k", "Restart container",
               "Restart one container of the pod",
               _restart_container, on=PODS, needs=("restarts",)),
        Action("trash", "", "", "Trash", "List deleted files, to restore them",
               _trash, needs=("manifests",), writes=False),
        Action("pull_image", "", "", "Pull", "Pull an image now", _pull_image, needs=("engine",)),
    )
}  # fmt: skip
"""The actions by name, in the order of help and menu."""


def _folder(session: Session) -> Path | None:
    folder = session.manifest_folder
    if folder is None:
        session.notify("the manifest folder of the agent is unknown", severity="warning")
    return folder


def _one_pod(session: Session, selection: Selection) -> Pod | None:
    pods = selection.pods
    if len(pods) == 1:
        return pods[0]
    if pods:
        session.notify(
            f"{len(pods)} pods are marked; this action requires exactly one", severity="warning"
        )
    else:
        _notify_no_pod(session, selection)
    return None


def _notify_no_pod(session: Session, selection: Selection) -> None:
    manifests = selection.manifests
    text = no_pod_text(manifests[0]) if manifests else selection.nothing or "no pod is selected"
    session.notify(text, severity="warning")


def no_pod_text(manifest: Manifest) -> str:
    """Return why a file has no pod to act on."""
    state, name = manifest.status.state, clean(manifest.metadata.name)
    why = manifest_message(manifest) or clean(manifest.status.message)
    if state is ManifestState.ACCEPTED:
        return f"{name} has no pod yet"
    verb = {ManifestState.DUPLICATE: "defines a pod of another file",
            ManifestState.IGNORED: "is ignored"}.get(state, "is invalid")  # fmt: skip
    return f"{name} has no pod: it {verb}" + (f": {why}" if why else "")


def _notify_no_file(session: Session, selection: Selection) -> None:
    count = len(selection.manifests)
    if count:
        message = f"{count} files are selected; only one can be edited at a time"
    elif selection.pods:
        message = f"no manifest file found for {pod_label(selection.pods[0])}"
    else:
        message = selection.nothing or "no pod is selected"
    session.notify(message, severity="warning")
