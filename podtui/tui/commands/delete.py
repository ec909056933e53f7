"""Delete pods: move their manifests to the trash, from which undo restores them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from podtui.api.local import Manifest, Plan, PlanOutcome
from podtui.api.v1 import OwnerReference, Pod
from podtui.errors import AgentUnavailable, ApiError
from podtui.text.terminal_text import plural
from podtui.tui.commands.edit_manifest import undo_rewrite
from podtui.tui.commands.edit_record import create_deleted, undo_change
from podtui.tui.commands.manifest_file import (
    ManifestFileError,
    Rewrite,
    TrashedFile,
    move_to_trash,
    require_text_path,
    restore_file,
)
from podtui.tui.commands.objects import create_deleted_objects, undo_object_change
from podtui.tui.commands.session import (
    DeletedObjects,
    DeletedPods,
    ObjectChange,
    RecordChange,
    Session,
)
from podtui.tui.views.endings import ending_text, losses
from podtui.tui.views.labels import name_label, pod_label
from podtui.tui.views.objects.workloads import owner_in
from podtui.tui.views.plan import plan_lines
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.sanitize import clean


async def delete_selected(
    session: Session, manifests: Sequence[Manifest], pods: Sequence[Pod]
) -> bool:
    """Ask once, then delete the pods through the API and move the files to the trash; return
    whether the user agreed. Raises `ManifestFileError`.
    """
    undo = not session.model.server.is_cluster
    for manifest in manifests:
        await asyncio.to_thread(require_text_path, Path(manifest.spec.path))
    plans = await _plans(session, manifests)
    all_pods = tuple(session.model.pods.values())
    dialog = delete_dialog(manifests, plans, pods, all_pods=all_pods, undo=undo)
    if not await session.confirm(dialog):
        return False
    if pods:
        await _delete_pods(session, pods, undo=undo, before_files=bool(manifests))
    if manifests:
        await _move_to_trash(session, manifests)
    return True


async def _move_to_trash(session: Session, manifests: Sequence[Manifest]) -> None:
    """Move the files to the trash. Raises `ManifestFileError`."""
    trashed: list[TrashedFile] = []
    try:
        for manifest in manifests:
            path = Path(manifest.spec.path)
            file = await asyncio.to_thread(move_to_trash, path, session.utc_now())
            trashed.append(file)
            session.record_action(
                "delete", ["mv", str(path), str(file.path)], manifest.status.podName
            )
    finally:
        if trashed:
            session.undoable.append(tuple(trashed))
    follows = "restores it" if len(manifests) == 1 else "restores them"
    session.notify_undo(f"{_files(manifests)} moved to the trash", follows)


async def _plans(session: Session, manifests: Sequence[Manifest]) -> list[Plan | str]:
    async def ask(manifest: Manifest) -> Plan | str:
        try:
            return await session.client.plan(manifest.metadata.name, None)
        except (AgentUnavailable, ApiError) as error:
            return str(error)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(manifest)) for manifest in manifests]
    return [task.result() for task in tasks]


def delete_dialog(
    manifests: Sequence[Manifest],
    plans: Sequence[Plan | str],
    pods: Sequence[Pod] = (),
    *,
    all_pods: Sequence[Pod] = (),
    undo: bool = False,
) -> Dialog:
    """Return the dialog that lists the files to move, with the pods that end with them, and the
    pods to delete through the API, with what follows. With ``undo``, deleted pods can be created
    again. ``all_pods`` are those of the server.
    """
    lines: list[Line] = []
    over = {
        (pod.metadata.namespace, pod.metadata.name)
        for pod in all_pods
        if pod.status.phase in ("Succeeded", "Failed")
    }
    ended: list[tuple[str, str]] = []
    for manifest, plan in zip(manifests, plans, strict=True):
        path = Path(manifest.spec.path)
        lines.append((Span(f"{clean(path.name)}", "name"), Span(" → .trash/", "muted")))
        if isinstance(plan, str):
            lines.append((Span(f"  ▲ the affected pods are unknown: {clean(plan)}", "warning"),))
            continue
        ended += [
            (pod.namespace, pod.name) for pod in plan.pods if pod.outcome is PlanOutcome.REMOVED
        ]
        lines += [(Span("  "), *line) for line in plan_lines(plan, over)]
    for pod in pods:
        lines.append((Span("✖ ", "error"), Span(pod_label(pod), "name")))
        lines.append((Span(f"  {deletion_effect(pod)}", "muted"),))
    removed = [pod for pod in all_pods if (pod.metadata.namespace, pod.metadata.name) in ended]
    lost = losses([*removed, *filter(_ends, pods)])
    lines += [(), *lost] if lost else [()]
    if manifests:
        lines.append((Span(_undo_text(len(manifests), len(ended)), "muted"),))
    alone = sum(owner_of(pod) is None for pod in pods)
    if pods and not undo:
        lines.append((Span("The API has no undo.", "warning"),))
    elif alone:
        which = "the deleted pods" if alone == len(pods) else "those without an owner"
        before = "Another u" if manifests else "u"
        lines.append((Span(f"{before} creates {which} again.", "muted"),))
    what = _what(manifests, ended, pods)
    return confirmation(f"Delete {what}?", lines, f"Delete {what}")


def _what(
    manifests: Sequence[Manifest], ended: Sequence[tuple[str, str]], pods: Sequence[Pod]
) -> str:
    """Name what is deleted: the pods if each file ends one, else the files as well."""
    if len(ended) == len(manifests):
        names = [name_label(*pod) for pod in ended] + [pod_label(pod) for pod in pods]
        return names[0] if len(names) == 1 else plural(len(names), "pod")
    files = _files(manifests)
    if not pods:
        return files
    return f"{files} and {pod_label(pods[0]) if len(pods) == 1 else plural(len(pods), 'pod')}"


def _undo_text(files: int, pods: int) -> str:
    what = "the file" if files == 1 else "the files"
    if not pods:
        return f"u restores {what}."
    whose = "its" if files == 1 else "their"
    return f"u restores {what} and starts {whose} {'pod' if pods == 1 else 'pods'} again."


def _files(manifests: Sequence[Manifest]) -> str:
    return clean(manifests[0].metadata.name) if len(manifests) == 1 else f"{len(manifests)} files"


async def undo_last(session: Session) -> None:
    """Undo the last delete, fix, or change of an object. Raises `ManifestFileError`, `ApiError`;
    the undo can then be repeated."""
    if not session.undoable:
        session.notify("Nothing to undo in this session; :trash lists earlier deletions.",
                     title="Undo", severity="warning")  # fmt: skip
        return
    last = session.undoable[-1]
    if isinstance(last, Rewrite):
        await undo_rewrite(session, last)
    elif isinstance(last, RecordChange):
        await undo_change(session, last)
    elif isinstance(last, DeletedPods):
        await create_deleted(session, last)
    elif isinstance(last, ObjectChange):
        await undo_object_change(session, last)
    elif isinstance(last, DeletedObjects):
        await create_deleted_objects(session, last)
    else:
        await restore(session, last)


async def restore(session: Session, files: Sequence[TrashedFile]) -> None:
    """Restore files from the trash. A file that cannot be restored does not stop the others. Raises
    `ManifestFileError` with all failures.
    """
    errors: list[str] = []
    restored: list[TrashedFile] = []
    for file in files:
        try:
            await asyncio.to_thread(restore_file, file)
        except ManifestFileError as error:
            errors.append(str(error))
        else:
            restored.append(file)
            session.record_action("restore", ["mv", "-n", str(file.path), str(file.origin)])
            left = [
                tuple(each for each in entry if each != file) if isinstance(entry, tuple) else entry
                for entry in session.undoable
            ]
            session.undoable[:] = [entry for entry in left if entry]
    if errors:
        count = f" ({len(restored)} of {len(files)} restored)" if restored else ""
        raise ManifestFileError("\n".join(errors) + count)
    names = ", ".join(clean(file.origin.name) for file in restored)
    session.notify(names, title="Restored")


async def _delete_pods(
    session: Session, pods: Sequence[Pod], *, undo: bool, before_files: bool
) -> None:
    """Delete the pods one after the other. Pods that the server refuses to delete are listed in a
    notification. With ``before_files``, files follow, which the first undo restores.
    """
    failed: list[str] = []
    done: list[Pod] = []
    for pod in pods:
        meta = pod.metadata
        try:
            await session.client.delete_pod(pod)
        except (AgentUnavailable, ApiError) as error:
            failed.append(f"{pod_label(pod)}: {error}")
        else:
            command = session.kubectl("delete", "pod", meta.name, f"--namespace={meta.namespace}")
            session.record_action("delete", command, meta.name)
            done.append(pod)
    if failed:
        session.notify("\n".join(failed), title="Not deleted", severity="error")
    if done:
        what = pod_label(done[0]) if len(done) == 1 else plural(len(done), "pod")
        alone = tuple(pod for pod in done if owner_of(pod) is None)
        if len(alone) == len(done):
            follows = "creates it again" if len(done) == 1 else "creates them again"
        else:
            follows = "creates those without an owner again"
        if undo and alone:
            session.undoable.append(DeletedPods(alone))
            if before_files:
                session.notify(f"The second u {follows}.", title=f"{what} deleted")
            else:
                session.notify_undo(f"{what} deleted", follows)
        else:
            session.notify(what, title="Deleted")


def _ends(pod: Pod) -> bool:
    """Return whether a pod ends with its record: a static pod goes on."""
    owner = owner_of(pod)
    return owner is None or owner.kind != "Node"


def deletion_effect(pod: Pod) -> str:
    """Return what follows the deletion: the grace period, and whether an owner recreates the
    pod.
    """
    ends = ending_text(pod)
    owner = owner_of(pod)
    if owner is None:
        return f"{ends}; no owner recreates it"
    name = f"{clean(owner.kind)} {clean(owner.name)}"
    if owner.kind == "Node":
        return f"is a static pod of {name}; its kubelet recreates the mirror pod"
    if owner.kind == "Job":
        return f"{ends}; {name} may recreate it"
    return f"{ends}; {name} recreates it"


def owner_of(pod: Pod) -> OwnerReference | None:
    """Return the controller of the pod, else its first owner."""
    return owner_in(pod.metadata)
