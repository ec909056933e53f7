"""The commands on objects of any kind as data, which keys, hints, menu and help share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from podtui.api.v1 import ObjectMeta
from podtui.client.any_kind import ServedKind
from podtui.tui.commands.edit_object import edit_object
from podtui.tui.commands.objects import delete, pause, restart, run_now, scale
from podtui.tui.commands.open_url import open_url
from podtui.tui.commands.port_forward import start_service_forward
from podtui.tui.commands.session import Session

OnObject = Callable[[Session, ServedKind, ObjectMeta], Awaitable[None]]


class ObjectAction(Struct, frozen=True):
    """A command on an object. ``applies`` returns whether objects of a kind have it. ``run`` acts
    on one object; without it, the command deletes all selected ones. Not ``writes``: it is allowed
    in a read-only session."""

    name: str
    key: str
    title: str
    help: str
    applies: Callable[[ServedKind], bool]
    run: OnObject | None
    writes: bool = True

    @property
    def id(self) -> str:
        return f"object.{self.name}"


def _can(verb: str) -> Callable[[ServedKind], bool]:
    return lambda kind: verb in kind.verbs


def _is(*names: str) -> Callable[[ServedKind], bool]:
    return lambda kind: kind.qualified_name in names


OBJECT_ACTIONS: Final = {
    action.name: action
    for action in (
        ObjectAction("edit", "e", "Edit", "Edit the object, see the change, then apply it",
                     _can("patch"), edit_object),
        ObjectAction("delete", "ctrl+d", "Delete", "Delete the object, or the marked ones",
                     _can("delete"), None),
        ObjectAction("scale", "s", "Scale", "Set the number of replicas",
                     lambda kind: "scale" in kind.subresources, scale),
        ObjectAction("restart", "r", "Restart", "Replace all pods of the workload",
                     _is("deployments.apps", "statefulsets.apps", "daemonsets.apps"), restart),
        ObjectAction("pause", "p", "Pause",
                     "Pause or resume a rollout; suspend or resume a Job or a CronJob",
                     _is("deployments.apps", "jobs.batch", "cronjobs.batch"), pause),
        ObjectAction("run", "t", "Run now", "Create a Job from the CronJob now",
                     _is("cronjobs.batch"), run_now),
        ObjectAction("open-url", "w", "Open URL", "Open the URL in a browser, and copy it",
                     _is("services", "ingresses.networking.k8s.io"), open_url, writes=False),
        ObjectAction("forward", "F", "Forward a port", "Forward a local port to the Service",
                     _is("services"), start_service_forward, writes=False),
    )
}  # fmt: skip
"""The commands by name, in the order of help and menu."""


def run_action(
    session: Session,
    name: str,
    kind: ServedKind,
    metas: Sequence[ObjectMeta],
    clear_marks: Callable[[], None],
) -> None:
    """Run a command on the selected objects; ``clear_marks`` is called once they are deleted."""
    action = OBJECT_ACTIONS[name]
    if not metas:
        session.notify("no object is selected", severity="warning")
        return
    if (run := action.run) is not None:
        if len(metas) > 1:
            text = f"{len(metas)} objects are marked; this action requires exactly one"
            session.notify(text, severity="warning")
        else:
            start = partial(run, session, kind, metas[0])
            session.start(action.title, start, writes=action.writes)
        return

    async def delete_all() -> None:
        if await delete(session, kind, metas):
            clear_marks()

    session.start(action.title, delete_all)
