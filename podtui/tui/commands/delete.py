"""Delete pods: move their manifests to the trash, from which undo restores them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from podtui.api.local import Manifest, Plan
from podtui.api.v1 import OwnerReference, Pod
from podtui.errors import AgentUnavailable, ApiError
from podtui.terminal_text import plural
from podtui.tui.commands.edit_manifest import undo_rewrite
from podtui.tui.commands.edit_record import create_deleted, undo_change
from podtui.tui.commands.manifest_file import (
    ManifestFileError,
    Rewrite,
    TrashedFile,
    move_to_trash,
    restore_file,
)
from podtui.tui.commands.session import DeletedPods, RecordChange, Session
from podtui.tui.views.labels import pod_label
from podtui.tui.views.plan import plan_lines
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.sanitize import clean


async def delete_manifests(session: Session, manifests: Sequence[Manifest]) -> bool:
    """Ask, then move the files to the trash; return whether that was done. Raises
    `ManifestFileError`.
    """
    plans = await _plans(session, manifests)
    if not await session.confirm(delete_dialog(manifests, plans)):
        return False
    trashed: list[TrashedFile] = []
    try:
        for manifest in manifests:
            path = Path(manifest.spec.path)
            one = await asyncio.to_thread(move_to_trash, path, session.utc_now())
            trashed.append(one)
            session.record_action(
                "delete", ["mv", str(path), str(one.path)], manifest.status.podName
            )
    finally:
        if trashed:
            session.undoable.append(tuple(trashed))
    session.notify_undo(f"{_files(manifests)} moved to the trash")
    return True


async def _plans(session: Session, manifests: Sequence[Manifest]) -> list[Plan | str]:
    async def ask(manifest: Manifest) -> Plan | str:
        try:
            return await session.client.plan(manifest.metadata.name, None)
        except (AgentUnavailable, ApiError) as error:
            return str(error)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(manifest)) for manifest in manifests]
    return [task.result() for task in tasks]


def delete_dialog(manifests: Sequence[Manifest], plans: Sequence[Plan | str]) -> Dialog:
    """Return the dialog that lists the files to move and the pods that end with them."""
    lines: list[Line] = []
    ended = 0
    for manifest, plan in zip(manifests, plans, strict=True):
        path = Path(manifest.spec.path)
        lines.append((Span(f"{clean(path.name)}", "name"), Span(" → .trash/", "muted")))
        if isinstance(plan, str):
            lines.append((Span(f"  ▲ the affected pods are unknown: {clean(plan)}", "warning"),))
            continue
        ended += len(plan.pods)
        lines += [(Span("  "), *line) for line in plan_lines(plan)]
    lines += [
        (),
        (
            Span(
                "A static pod runs as long as its file exists, even if its API object is deleted.",
                "muted",
            ),
        ),
        (Span("u restores the last deleted files and creates their pods again.", "muted"),),
    ]
    what = _files(manifests) if ended != len(manifests) else _pods(plans)
    return confirmation(f"Delete {what}?", lines, f"Delete {what}")


def _files(manifests: Sequence[Manifest]) -> str:
    return clean(manifests[0].metadata.name) if len(manifests) == 1 else f"{len(manifests)} files"


def _pods(plans: Sequence[Plan | str]) -> str:
    names = [pod.name for plan in plans if not isinstance(plan, str) for pod in plan.pods]
    return clean(names[0]) if len(names) == 1 else f"{len(names)} pods"


async def undo_last(session: Session) -> None:
    """Undo the last delete, fix, or edit of an API pod. Raises `ManifestFileError`, `ApiError`; the
    undo can then be repeated."""
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


async def delete_pods(session: Session, pods: Sequence[Pod]) -> bool:
    """Ask, then delete the pods one after the other; return whether the user agreed. Pods that the
    server refuses to delete are listed in a notification.
    """
    undo = not session.model.server.is_cluster
    if not await session.confirm(delete_pods_dialog(pods, undo=undo)):
        return False
    failed: list[str] = []
    done: list[Pod] = []
    for pod in pods:
        meta = pod.metadata
        try:
            await session.client.delete_pod(pod)
        except (AgentUnavailable, ApiError) as error:
            failed.append(f"{pod_label(pod)}: {error}")
        else:
            words = session.kubectl("delete", "pod", meta.name, f"--namespace={meta.namespace}")
            session.record_action("delete", words, meta.name)
            done.append(pod)
    if failed:
        session.notify("\n".join(failed), title="Not deleted", severity="error")
    if done:
        what = pod_label(done[0]) if len(done) == 1 else plural(len(done), "pod")
        alone = tuple(pod for pod in done if owner_of(pod) is None)
        if undo and alone:
            session.undoable.append(DeletedPods(alone))
            session.notify_undo(f"{what} deleted", "creates it again")
        else:
            session.notify(what, title="Deleted")
    return True


def delete_pods_dialog(pods: Sequence[Pod], *, undo: bool = False) -> Dialog:
    """Return the dialog that says for each pod what follows its deletion. With ``undo``, deleted
    pods can be created again.
    """
    lines: list[Line] = []
    for pod in pods:
        lines.append((Span("✖ ", "error"), Span(pod_label(pod), "name")))
        lines.append((Span(f"  {deletion_effect(pod)}", "muted"),))
    if undo:
        lines += [(), (Span("u creates the deleted pods again.", "muted"),)]
    else:
        lines += [(), (Span("The API has no undo.", "warning"),)]
    what = pod_label(pods[0]) if len(pods) == 1 else plural(len(pods), "pod")
    return confirmation(f"Delete {what}?", lines, f"Delete {what}")


def deletion_effect(pod: Pod) -> str:
    """Return what follows the deletion: the grace period, and whether an owner recreates the
    pod.
    """
    grace = pod.spec.terminationGracePeriodSeconds
    ends = f"has {30 if grace is None else grace} s to terminate"
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
    owners = pod.metadata.ownerReferences
    return next((one for one in owners if one.controller), owners[0] if owners else None)
