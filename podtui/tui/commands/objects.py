"""The commands on objects of any kind: each asks with a plan, and reports the server's answer.

Before it asks, a command has the server check the change without making it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import PurePath
from typing import Any, Final

import msgspec

from podtui.api.v1 import ObjectMeta, Pod
from podtui.client.any_kind import AnyObject, ServedKind
from podtui.client.protocol import STRATEGIC_MERGE, Lost, Synced
from podtui.errors import AgentUnavailable, ApiError
from podtui.text.terminal_text import plural
from podtui.tui.commands.session import DeletedObjects, ObjectChange, Session
from podtui.tui.views.endings import losses
from podtui.tui.views.labels import name_label
from podtui.tui.views.objects.content import manifest_of, masked
from podtui.tui.views.objects.workloads import (
    BETWEEN,
    OWNING,
    Revision,
    owner_in,
    part_of,
    pods_of,
    rollback_patch,
    spec_of,
    strategy_text,
)
from podtui.tui.views.yaml_text import yaml_text
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, TextDialog, confirmation
from podtui.tui.widgets.sanitize import clean
from podtui.why import diff_texts

RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
_KEPT_NAME: Final = 45
"""Characters of a CronJob's name in the name of a Job that is started by hand."""
_NOT_CREATED_AGAIN: Final = frozenset(
    {"PersistentVolumeClaim", "PersistentVolume", "Job", "Namespace", "Node",
     "CustomResourceDefinition"}
)  # fmt: skip
"""Kinds that another object of the same text does not bring back: data, results or contents are
gone."""
_DIFF_TONES: Final[Mapping[str, str]] = {"-": "error", "+": "good"}


def object_label(kind: ServedKind, meta: ObjectMeta) -> str:
    return f"{clean(kind.kind)} {name_label(meta.namespace, meta.name)}"


def diff_lines(before: str, after: str) -> list[Line]:
    """Return the changed lines of a text."""
    return [
        (Span(f"  {line[:1]} {clean(line[1:])}", _DIFF_TONES.get(line[:1], "soft")),)
        for line in diff_texts(before, after)
        if not line.startswith("@@")
    ]


# --- changes by a patch


async def send_patch(
    session: Session, change: ObjectChange, *, undo: bool = False, dry_run: bool = False
) -> AnyObject:
    """Send the patch of a change, or the one that undoes it. Raises `ApiError`."""
    return await session.client.patch_object(
        change.kind,
        change.before.namespace,
        change.before.name,
        change.reverse if undo else change.patch,
        subresource=change.subresource,
        content_type=change.content_type,
        dry_run=dry_run,
    )


def plan_dialog(title: str, lines: Sequence[Line], verb: str) -> Dialog:
    """Return the dialog with the plan of a command."""
    return confirmation(title, lines, verb)


async def apply_change(
    session: Session,
    change: ObjectChange,
    lines: Sequence[Line],
    verb: str,
    command: Sequence[str],
) -> AnyObject | None:
    """Have the server check a change, show its plan, and make it if the user agrees. Return the
    server's answer; None if the user declines. Raises `ApiError`.
    """
    await send_patch(session, change, dry_run=True)
    label = object_label(change.kind, change.before)
    plan = [*lines, *_owner_lines(change.before)]
    if not await session.confirm(plan_dialog(f"{verb} {label}?", plan, verb)):
        return None
    answer = await send_patch(session, change)
    record(session, change.kind, change.before, command)
    if change.reverse and not session.model.server.is_cluster:
        session.undoable.append(change)
    return answer


def report(session: Session, change: ObjectChange, text: str) -> None:
    """Show the result of a change."""
    label = object_label(change.kind, change.before)
    if session.undoable and session.undoable[-1] is change:
        session.notify_undo(f"{label}: {text}", "undoes it")
    else:
        session.notify(text, title=label)


async def undo_object_change(session: Session, done: ObjectChange) -> None:
    """Change an object back after asking. Raises `ApiError`."""
    meta = done.before
    label = object_label(done.kind, meta)
    current = await session.client.get_object(done.kind, meta.namespace, meta.name)
    if current.metadata.uid != meta.uid:
        session.undoable.remove(done)
        session.notify("It is another object with the same name now.", title=label,
                       severity="warning")  # fmt: skip
        return
    before = manifest_of(current.content)
    text: list[Line] = [(Span(clean(done.what), "soft"),)]
    answer = await send_patch(session, done, undo=True, dry_run=True)
    if not done.subresource:
        after = manifest_of(answer.content)
        text += plan_diff(before, after)
    if await session.confirm(plan_dialog(f"Undo the change of {label}?", text, "Undo")):
        await send_patch(session, done, undo=True)
        session.undoable.remove(done)
        session.notify(f"Undone: {done.what}", title=label)


def plan_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    """Return the difference of two objects, without the values of a Secret."""
    return diff_lines(yaml_text(masked(before)), yaml_text(masked(after, before)))


def _owner_lines(meta: ObjectMeta) -> list[Line]:
    owner = owner_in(meta)
    if owner is None:
        return []
    name = f"{clean(owner.kind)} {clean(owner.name)}"
    return [(Span(f"▲ {name} owns it, and may undo this.", "warning"),)]


def record(session: Session, kind: ServedKind, meta: ObjectMeta, command: Sequence[str]) -> None:
    """Add a command to the journal: the kubectl arguments after the options."""
    server = session.model.server
    if server.is_cluster:
        where = f"--context={server.context}"
    else:
        root = PurePath(session.client.target.removeprefix("unix:")).parent
        where = f"--kubeconfig={root / 'kubeconfig'}"
    scope = [f"--namespace={meta.namespace}"] if meta.namespace else []
    session.record_action(command[0], ["kubectl", where, *command, *scope], meta.name)


def _named(kind: ServedKind, meta: ObjectMeta) -> str:
    return f"{kind.qualified_name}/{meta.name}"


# --- scale, restart, roll back


async def scale(session: Session, kind: ServedKind, meta: ObjectMeta) -> None:
    """Ask for the number of replicas, and set it. Raises `ApiError`."""
    client, label = session.client, object_label(kind, meta)
    # An empty patch returns the current scale.
    current = await client.patch_object(
        kind, meta.namespace, meta.name, {}, subresource="scale", dry_run=True
    )
    before: int = spec_of(current).get("replicas", 0)
    typed = await session.ask(replicas_dialog(label, before))
    if typed is None:
        return
    wanted = int(typed)
    if wanted == before:
        session.notify("Nothing was changed.", title=label)
        return
    change = ObjectChange(
        kind, meta, _replicas(wanted), _replicas(before), f"{before} → {wanted} replicas", "scale"
    )
    item = await client.get_object(kind, meta.namespace, meta.name)
    answer = await apply_change(
        session, change, _scale_lines(item, before, wanted), "Scale",
        ["scale", _named(kind, meta), f"--replicas={wanted}"],
    )  # fmt: skip
    if answer is not None:
        running = part_of(answer.content, "status").get("replicas", 0)
        set_to: int = spec_of(answer).get("replicas", 0)
        report(session, change, f"{before} → {plural(set_to, 'replica')}, {running} exist now")


def replicas_dialog(label: str, now: int) -> TextDialog:
    """Return the dialog that asks for the number of replicas."""
    lines = [(Span(f"{label} has {plural(now, 'replica')} now.", "soft"),)]
    return TextDialog(f"Scale {label}", lines, text=str(now), selected=True, check=_count_error)


def _replicas(count: int) -> dict[str, Any]:
    return {"spec": {"replicas": count}}


def _count_error(text: str) -> str:
    return "" if text.isascii() and text.isdecimal() else "a number of replicas, like 3"


def _scale_lines(item: AnyObject, before: int, wanted: int) -> list[Line]:
    count = plural(abs(wanted - before), "pod")
    if wanted > before:
        return [(Span("+ ", "good"), Span(f"{before} → {wanted} replicas: {count} more"))]
    lines: list[Line] = [
        (Span("✖ ", "error"), Span(f"{before} → {wanted} replicas: {count} end")),
        (Span("What they wrote outside of volumes is lost.", "muted"),),
    ]
    spec = spec_of(item)
    policy = part_of(spec, "persistentVolumeClaimRetentionPolicy").get("whenScaled", "Retain")
    if spec.get("volumeClaimTemplates"):
        text = (
            ("▲ Their claims are deleted (whenScaled: Delete).", "error")
            if policy == "Delete"
            else ("Their claims are kept.", "muted")
        )
        lines.append((Span(*text),))
    return lines


async def restart(session: Session, kind: ServedKind, meta: ObjectMeta) -> None:
    """Replace all pods of a workload, by an annotation in its template. Raises `ApiError`."""
    item = await session.client.get_object(kind, meta.namespace, meta.name)
    label = object_label(kind, meta)
    if spec_of(item).get("paused"):
        session.notify("It is paused; resume it first.", title=label, severity="warning")
        return
    stamp = session.utc_now().isoformat(timespec="seconds").replace("+00:00", "Z")
    template = {"metadata": {"annotations": {RESTARTED_AT: stamp}}}
    # Undoing it would be another restart.
    change = ObjectChange(kind, item.metadata, {"spec": {"template": template}}, {}, "restarted")
    pods = await owned_pods(session, kind, item)
    command = ["rollout", "restart", _named(kind, meta)]
    answer = await apply_change(session, change, _replaced(item, pods), "Restart", command)
    if answer is not None:
        wanted = spec_of(answer).get("replicas", len(pods))
        report(session, change, f"restarted; {plural(wanted, 'pod')} to replace")


def _replaced(item: AnyObject, pods: Sequence[Pod]) -> list[Line]:
    lines: list[Line] = [(Span("↻ ", "warning"), Span(f"{plural(len(pods), 'pod')} of it"))]
    return [*lines, (Span(strategy_text(item), "muted"),), *losses(pods)]


async def roll_back(
    session: Session, kind: ServedKind, item: AnyObject, to: Revision, current: Revision | None
) -> None:
    """Give a workload the template of an earlier revision. Raises `ApiError`."""
    label = object_label(kind, item.metadata)
    if to.current:
        session.notify(f"Revision {to.number} is the current one.", title=label)
        return
    if spec_of(item).get("paused"):
        session.notify("It is paused; resume it first.", title=label, severity="warning")
        return
    template = part_of(item.content, "spec", "template")
    change = ObjectChange(
        kind, item.metadata, to.rollback(),
        rollback_patch(template, current.cause if current is not None else ""),
        f"rolled back to revision {to.number}", content_type=STRATEGIC_MERGE,
    )  # fmt: skip
    lines = diff_lines(yaml_text(template), yaml_text(to.template))
    pods = await owned_pods(session, kind, item)
    command = ["rollout", "undo", _named(kind, item.metadata), f"--to-revision={to.number}"]
    plan = [*lines, (), *_replaced(item, pods)]
    answer = await apply_change(session, change, plan, "Roll back", command)
    if answer is not None:
        report(session, change, change.what)


# --- pause, suspend, run now


async def pause(session: Session, kind: ServedKind, meta: ObjectMeta) -> None:
    """Pause or resume a rollout; suspend or resume a Job or a CronJob. Raises `ApiError`."""
    item = await session.client.get_object(kind, meta.namespace, meta.name)
    field = "paused" if kind.kind == "Deployment" else "suspend"
    stopped = bool(spec_of(item).get(field))
    verb = "Resume" if stopped else "Pause" if field == "paused" else "Suspend"
    done = {"Resume": "resumed", "Pause": "paused", "Suspend": "suspended"}[verb]
    change = ObjectChange(
        kind, item.metadata, {"spec": {field: not stopped}}, {"spec": {field: stopped}}, done
    )
    pods = await owned_pods(session, kind, item)
    lines = [(Span(_pause_text(kind, item, pods, resume=stopped)),)]
    command = ["rollout", verb.lower(), _named(kind, meta)]
    if field == "suspend":
        patch = msgspec.json.encode(change.patch).decode()
        command = ["patch", _named(kind, meta), f"--patch={patch}"]
    answer = await apply_change(session, change, lines, verb, command)
    if answer is not None:
        is_stopped = bool(spec_of(answer).get(field))
        report(session, change, f"{field}: {str(is_stopped).lower()}")


def _pause_text(kind: ServedKind, item: AnyObject, pods: Iterable[Pod], *, resume: bool) -> str:
    if kind.kind == "Deployment":
        if resume:
            return "Changes of its pod template since the pause are rolled out."
        return "Its pods keep running; changes of its pod template wait until it is resumed."
    if kind.kind == "CronJob":
        if resume:
            return "It starts Jobs on schedule again; a missed run may start at once."
        return "It starts no more Jobs; those that run go on."
    if resume:
        return "It creates its pods again."
    running = sum(pod.status.phase in ("Pending", "Running") for pod in pods)
    return f"Its running pods are deleted: {running}. Finished ones count as before."


async def run_now(session: Session, kind: ServedKind, meta: ObjectMeta) -> None:
    """Create a Job from a CronJob, as ``kubectl create job --from`` does. Raises `ApiError`."""
    jobs = session.model.kind_named("jobs.batch")
    if jobs is None:
        raise ApiError(404, "NotFound", "the server has no Jobs")
    item = await session.client.get_object(kind, meta.namespace, meta.name)
    template = part_of(item.content, "spec", "jobTemplate")
    inner = part_of(template, "metadata")
    name = f"{meta.name[:_KEPT_NAME]}-manual-{session.utc_now():%d%H%M%S}"
    annotations = {"cronjob.kubernetes.io/instantiate": "manual", **part_of(inner, "annotations")}
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta.name,
             "uid": item.metadata.uid, "controller": True}  # fmt: skip
    job = {
        "apiVersion": jobs.api_version,
        "kind": jobs.kind,
        "metadata": {
            "name": name, "namespace": meta.namespace, "labels": part_of(inner, "labels"),
            "annotations": annotations, "ownerReferences": [owner],
        },
        "spec": template.get("spec"),
    }  # fmt: skip
    client = session.client
    await client.create_object(jobs, meta.namespace, job, dry_run=True)
    lines: list[Line] = [(Span("+ ", "good"), Span(f"Job {clean(name)}", "name"))]
    running = len(part_of(item.content, "status").get("active") or ())
    if running:
        text = f"{plural(running, 'Job')} of it already run; concurrencyPolicy does not apply."
        lines.append((Span(text, "warning"),))
    label = object_label(kind, meta)
    if await session.confirm(plan_dialog(f"Run {label} now?", lines, "Run now")):
        answer = await client.create_object(jobs, meta.namespace, job)
        command = ["create", "job", name, f"--from=cronjob/{meta.name}"]
        record(session, kind, meta, command)
        session.notify(f"Job {answer.metadata.name} was created.", title=label)


# --- delete


async def delete(session: Session, kind: ServedKind, metas: Sequence[ObjectMeta]) -> bool:
    """Ask once, then delete objects; return whether the user agreed. Objects that the server
    refuses to delete are listed in a notification. Raises `ApiError`.
    """
    items = [await session.client.get_object(kind, m.namespace, m.name) for m in metas]
    kept = tuple(
        manifest_of(item.content) for item in items if can_create_again(session, kind, item)
    )
    lines = [line for item in items for line in await _deletion_lines(session, kind, item)]
    if session.model.server.is_cluster:
        lines += [(), (Span("The API has no undo.", "warning"),)]
    elif kept:
        which = "it" if len(metas) == 1 else "those without an owner"
        lines += [(), (Span(f"u creates {which} again.", "muted"),)]
    what = object_label(kind, metas[0]) if len(metas) == 1 else f"{len(metas)} {kind.plural}"
    if not await session.confirm(plan_dialog(f"Delete {what}?", lines, f"Delete {what}")):
        return False
    failed: list[str] = []
    for meta in (item.metadata for item in items):
        try:
            await session.client.delete_object(kind, meta.namespace, meta.name, uid=meta.uid)
        except (AgentUnavailable, ApiError) as error:
            failed.append(f"{object_label(kind, meta)}: {error}")
            names = (meta.namespace, meta.name)
            kept = tuple(each for each in kept if _identity(each) != names)
        else:
            record(session, kind, meta, ["delete", _named(kind, meta)])
    if failed:
        session.notify("\n".join(failed), title="Not deleted", severity="error")
    if len(failed) < len(items):
        if kept:
            session.undoable.append(DeletedObjects(kind, kept))
            session.notify_undo(f"{what} deleted", "creates it again"
                                if len(kept) == 1 else "creates them again")  # fmt: skip
        else:
            session.notify(what, title="Deleted")
    return True


def _identity(content: Mapping[str, Any]) -> tuple[str, str]:
    meta = part_of(content, "metadata")
    return meta.get("namespace", ""), meta["name"]


def can_create_again(session: Session, kind: ServedKind, item: AnyObject) -> bool:
    """Return whether a deleted object can be created again with the same effect."""
    return (
        not session.model.server.is_cluster
        and kind.kind not in _NOT_CREATED_AGAIN
        and owner_in(item.metadata) is None
        and "create" in kind.verbs
    )


async def _deletion_lines(session: Session, kind: ServedKind, item: AnyObject) -> list[Line]:
    """Return what ends or is lost with an object."""
    meta = item.metadata
    lines: list[Line] = [(Span("✖ ", "error"), Span(object_label(kind, meta), "name"))]
    owner = owner_in(meta)
    if owner is not None:
        name = f"{clean(owner.kind)} {clean(owner.name)}"
        lines.append((Span(f"  {name} owns it, and may create it again", "muted"),))
    pods = await owned_pods(session, kind, item)
    if kind.kind in OWNING and pods:
        lines.append((Span(f"  its {plural(len(pods), 'pod')} end", "muted"),))
        lines += losses(pods)
    elif kind.kind == "PersistentVolumeClaim":
        lines += await _claim_lines(session, item, pods)
    elif kind.kind == "Namespace":
        count = sum(pod.metadata.namespace == meta.name for pod in session.model.pods.values())
        text = f"  everything in it is deleted, with {plural(count, 'pod')} and all claims"
        lines.append((Span(text, "error"),))
    elif kind.kind == "CustomResourceDefinition":
        lines.append((Span("  all objects of its kind are deleted", "error"),))
    if meta.finalizers and kind.kind != "PersistentVolumeClaim":
        names = ", ".join(map(clean, meta.finalizers))
        lines.append((Span(f"  it stays until its finalizers are gone: {names}", "muted"),))
    return lines


async def _claim_lines(session: Session, item: AnyObject, pods: Sequence[Pod]) -> list[Line]:
    lines: list[Line] = []
    volumes, name = session.model.kind_named("persistentvolumes"), spec_of(item).get("volumeName")
    if name and volumes is not None:
        try:
            volume = await session.client.get_object(volumes, "", name)
            policy = spec_of(volume).get("persistentVolumeReclaimPolicy")
        except ApiError as error:
            lines.append(
                (Span(f"  ▲ what follows for the data is unknown: {clean(str(error))}", "warning"),)
            )
        else:
            is_lost = policy == "Delete"
            fate = "its data is deleted" if is_lost else "its data is kept"
            text = f"  {fate}: volume {clean(name)} has the reclaim policy {clean(str(policy))}"
            lines.append((Span(text, "error" if is_lost else "muted"),))
    if pods:
        names = ", ".join(clean(pod.metadata.name) for pod in pods)
        lines.append((Span(f"  it stays until the pods that use it end: {names}", "warning"),))
    return lines


async def owned_pods(session: Session, kind: ServedKind, item: AnyObject) -> list[Pod]:
    """Return the pods of an object. Raises `ApiError`, `AgentUnavailable`."""
    between = session.model.kind_named(BETWEEN.get(kind.kind, ""))
    items = await listed(session, between, item.metadata.namespace) if between is not None else []
    return pods_of(item, items, session.model.pods.values())


async def listed(session: Session, kind: ServedKind, namespace: str) -> list[AnyObject]:
    """Return the objects of a kind. Raises `ApiError`, `AgentUnavailable`."""
    async with aclosing(session.client.follow_objects(kind, namespace)) as deltas:
        async for delta in deltas:
            if isinstance(delta, Synced):
                return [item for item in delta.items if isinstance(item, AnyObject)]
            if isinstance(delta, Lost):
                break
    raise AgentUnavailable(f"the {kind.plural} could not be listed")


async def create_deleted_objects(session: Session, deleted: DeletedObjects) -> None:
    """Create deleted objects again. Raises `ApiError`; the undo can then be repeated for the
    rest.
    """
    session.undoable.remove(deleted)
    left = list(deleted.contents)
    names: list[str] = []
    try:
        while left:
            namespace, name = _identity(left[0])
            await session.client.create_object(deleted.kind, namespace, left[0])
            names.append(name_label(namespace, name))
            del left[0]
    finally:
        if left:
            session.undoable.append(DeletedObjects(deleted.kind, tuple(left)))
    session.notify(", ".join(names), title="Created again")
