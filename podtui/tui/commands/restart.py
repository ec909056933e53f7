"""Restart pods and containers with unchanged manifests."""

from __future__ import annotations

from collections.abc import Sequence

from podtui.api.names import GROUP_VERSION
from podtui.api.pods import all_containers, container_statuses, is_api_pod, is_sidecar
from podtui.api.v1 import Pod
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.commands.session import Session
from podtui.tui.views.endings import data_volumes, grace_text
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pod_status import is_rejected
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, Picker, confirmation
from podtui.tui.widgets.sanitize import clean


async def restart_pods(session: Session, pods: Sequence[Pod]) -> bool:
    """Ask, then restart the pods; return whether the user agreed. Pods that the agent would refuse
    to restart are left out.
    """
    able = [pod for pod in pods if not refusal(pod)]
    if not able:
        text = "\n".join(f"{pod_label(pod)}: {refusal(pod)}" for pod in pods)
        session.notify(text, title="Not restarted", severity="warning")
        return False
    if not await session.confirm(restart_dialog(pods)):
        return False
    pods = able
    failed: list[str] = []
    done: list[Pod] = []
    for pod in pods:
        try:
            await session.client.restart(pod.metadata.namespace, pod.metadata.name)
        except (AgentUnavailable, ApiError) as error:
            failed.append(f"{pod_label(pod)}: {error}")
        else:
            done.append(pod)
            note(session, pod, "restart")
    if failed:
        session.notify("\n".join(failed), title="Not restarted", severity="error")
    if done:
        session.notify(pod_label(done[0]) if len(done) == 1 else f"{len(done)} pods",
                     title="Restarting")  # fmt: skip
    return True


async def restart_container(session: Session, pod: Pod, container: str) -> None:
    """Restart one container of a pod: it is stopped, and starts again. Raises `ApiError`."""
    await session.client.restart(pod.metadata.namespace, pod.metadata.name, container)
    note(session, pod, "restart", container)
    session.notify(f"{clean(container)} of {pod_label(pod)}", title="Restarting")


def note(session: Session, pod: Pod, verb: str, container: str = "") -> None:
    """Add the request to the journal. It is a curl command on the agent's socket, because kubectl
    has no such verb.
    """
    meta = pod.metadata
    path = f"/apis/{GROUP_VERSION}/namespaces/{meta.namespace}/pods/{meta.name}/{verb}"
    query = f"?container={container}" if container else ""
    socket = session.client.target.removeprefix("unix:")
    command = ["curl", "--unix-socket", socket, "-X", "POST", f"http://podtui{path}{query}"]
    session.record_action(verb, command, meta.name)


def starts_over(pod: Pod) -> bool:
    """Return whether a restart recreates the pod: it has ended, or it has containers that are not
    always restarted.
    """
    if pod.status.phase in ("Succeeded", "Failed"):
        return True
    return any(
        (container.restartPolicy or pod.spec.restartPolicy or "Always") != "Always"
        for container in pod.spec.containers
    )


def refusal(pod: Pod) -> str:
    """Return why the agent would not restart a pod; empty if it would."""
    if pod.metadata.deletionTimestamp:
        return "it is terminating"
    if is_api_pod(pod) and (is_rejected(pod) or starts_over(pod)):
        return "it was created through the API, and only a static pod can start over"
    return ""


def restart_dialog(pods: Sequence[Pod]) -> Dialog:
    """Return the dialog that lists the pods to restart with what is lost, and those that stay as
    they are.
    """
    able = [pod for pod in pods if not refusal(pod)]
    lines: list[Line] = [
        (Span("↻ ", "warning"), Span(pod_label(pod), "name"), Span(f"  {_effect(pod)}"))
        for pod in able
    ]
    lines += [
        (Span("= ", "muted"), Span(pod_label(pod), "name"),
         Span(f"  is not restarted: {refusal(pod)}", "muted"))
        for pod in pods
        if refusal(pod)
    ]  # fmt: skip
    what = pod_label(able[0]) if len(able) == 1 else f"{len(able)} pods"
    return confirmation(f"Restart {what}?", lines, f"Restart {what}")


def _effect(pod: Pod) -> str:
    if is_rejected(pod):
        return "is admitted again, if it fits now; nothing of it runs"
    if not starts_over(pod) and not any(s.state.running for s in container_statuses(pod)):
        return "its containers start now, without back-off; nothing of it runs"
    if not starts_over(pod):
        return (
            f"its containers are stopped ({grace_text(pod)}) and started again; what they wrote"
            " outside of volumes is lost"
        )
    policy = pod.spec.restartPolicy or "Always"
    volumes = data_volumes(pod)
    lost = "their logs and what they wrote"
    if volumes:
        lost = f"their logs, what they wrote and the data of {', '.join(volumes)}"
    return f"is recreated (restartPolicy {clean(policy)}): its containers, {lost} are lost"


async def choose_container(
    session: Session, pod: Pod, verb: str, *, ask: bool = True, names: Sequence[str] = ()
) -> str:
    """Ask for one container of a pod; return an empty string if the user cancels.

    With ``ask``, confirm what ``verb`` ends. ``names`` are the candidates, by default the sidecars
    and the regular containers. The first regular container is preselected, as in kubectl.
    """
    candidates = list(names) or restartable_names(pod)
    index: int | None = 0
    if len(candidates) > 1:
        lines = [container_line(pod, name) for name in candidates]
        regular = {container.name for container in pod.spec.containers}
        start = next((index for index, name in enumerate(candidates) if name in regular), 0)
        index = await session.ask(Picker(f"{verb} a container", lines, start=start))
    if index is None:
        return ""
    container = candidates[index]
    if ask and not await session.confirm(container_dialog(pod, container, verb)):
        return ""
    return container


def restartable_names(pod: Pod) -> list[str]:
    """Return sidecars and regular containers, in the order of the manifest."""
    sidecars = [container.name for container in pod.spec.initContainers if is_sidecar(container)]
    return [*sidecars, *(container.name for container in pod.spec.containers)]


def container_line(pod: Pod, name: str) -> Line:
    image = next(
        (container.image for _, container in all_containers(pod) if container.name == name), ""
    )
    return (Span(f"{clean(name)}  ", "name"), Span(clean(image), "muted"))


def container_dialog(pod: Pod, name: str, verb: str) -> Dialog:
    what = f"{clean(name)} of {pod_label(pod)}"
    lines = [container_line(pod, name), (Span(container_effect(pod, name), "muted"),)]
    return confirmation(f"{verb} {what}?", lines, f"{verb} {clean(name)}")


def container_effect(pod: Pod, name: str) -> str:
    """Return what a restart of one container ends and loses."""
    if not any(s.name == name and s.state.running for s in container_statuses(pod)):
        return "It does not run; it starts now, without back-off."
    return (
        f"It is stopped ({grace_text(pod)}) and started again; what it wrote outside of volumes is"
        " lost."
    )
