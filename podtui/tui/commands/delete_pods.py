"""Delete pods of a cluster through its API server. There is no undo."""

from __future__ import annotations

from collections.abc import Sequence

from podtui.api.v1 import OwnerReference, Pod
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.commands.session import Session
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.format import plural
from podtui.tui.widgets.sanitize import clean


async def delete_pods(session: Session, pods: Sequence[Pod]) -> bool:
    """Ask, then delete the pods one after the other; return whether the user agreed. Pods that the
    server refuses to delete are listed in a notification.
    """
    if not await session.confirm(delete_pods_dialog(pods)):
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
            session.did("delete", words, meta.name)
            done.append(pod)
    if failed:
        session.tell("\n".join(failed), title="Not deleted", severity="error")
    if done:
        session.tell(pod_label(done[0]) if len(done) == 1 else plural(len(done), "pod"),
                     title="Deleted")  # fmt: skip
    return True


def delete_pods_dialog(pods: Sequence[Pod]) -> Dialog:
    """Return the dialog that says for each pod what follows its deletion."""
    lines: list[Line] = []
    for pod in pods:
        lines.append((Span("✖ ", "error"), Span(pod_label(pod), "name")))
        lines.append((Span(f"  {fate(pod)}", "muted"),))
    lines += [(), (Span("A cluster has no undo.", "warning"),)]
    what = pod_label(pods[0]) if len(pods) == 1 else plural(len(pods), "pod")
    return confirmation(f"Delete {what}?", lines, f"Delete {what}")


def fate(pod: Pod) -> str:
    """Return what follows the deletion: the grace period, and whether an owner recreates the
    pod.
    """
    grace = pod.spec.terminationGracePeriodSeconds
    ends = f"has {30 if grace is None else grace} s to end"
    owner = owner_of(pod)
    if owner is None:
        return f"{ends}; it has no owner: it is not recreated"
    name = f"{clean(owner.kind)} {clean(owner.name)}"
    if owner.kind == "Node":
        return f"is a static pod of {name}: its kubelet makes the record again"
    if owner.kind == "Job":
        return f"{ends}; {name} may make another"
    return f"{ends}; {name} makes another"


def owner_of(pod: Pod) -> OwnerReference | None:
    """Return the controller of the pod, else its first owner."""
    owners = pod.metadata.ownerReferences
    return next((one for one in owners if one.controller), owners[0] if owners else None)
