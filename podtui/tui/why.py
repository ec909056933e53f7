"""Why a pod is as it is, on a line or two: the first thing that one wants to know."""

from __future__ import annotations

from podtui.api.local import Manifest
from podtui.api.printing import ending
from podtui.api.times import short_duration
from podtui.api.v1 import ContainerStatus, Pod
from podtui.tui.cells import Line, Span
from podtui.tui.format import epoch
from podtui.tui.pod_status import Family, pod_status_line
from podtui.tui.rows import manifest_message, place_of
from podtui.tui.sanitize import clean

REJECTED = "Pod was rejected: "


def explain_pod(pod: Pod, manifest: Manifest | None, now: float) -> Line:
    """What holds the pod up, or what it runs where all is well."""
    line = pod_status_line(pod)
    if line.rejected:
        message = clean(pod.status.message.removeprefix(REJECTED))
        return (Span("rejected ", "error"), Span(message), Span("  r starts it afresh", "muted"))
    if line.family is Family.COMPLETED:
        return _endings(pod, now)
    if pod.status.message and line.family in (Family.ERROR, Family.TERMINATING):
        return (Span(clean(pod.status.message)),)
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        found = _trouble(status, now)
        if found:
            return found
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "False" and condition.message:
            return (Span("not ready ", line.family.value), Span(clean(condition.message)))
    return _contents(pod)


def _trouble(status: ContainerStatus, now: float) -> Line:
    name = Span(clean(status.name) + " ", "key")
    waiting, ended = status.state.waiting, status.state.terminated
    if waiting is not None and (waiting.message or waiting.reason.endswith("Error")):
        last = _last(status, now)
        message = clean(waiting.message or waiting.reason)
        return (
            name,
            Span(last),
            Span(" · " if last else ""),
            Span(message, "soft" if last else ""),
        )
    if ended is not None and ended.exitCode != 0:
        return (name, Span(_ended(status, now)))
    return ()


def _last(status: ContainerStatus, now: float) -> str:
    ended = status.lastState.terminated
    if ended is None:
        return ""
    when = epoch(ended.finishedAt)
    ago = f" {short_duration(now - when)} ago" if when is not None else ""
    message = f": {clean(ended.message.strip())}" if ended.message.strip() else ""
    return f"ended with exit code {ended.exitCode} ({clean(ending(ended))}){ago}{message}"


def _ended(status: ContainerStatus, now: float) -> str:
    ended = status.state.terminated
    if ended is None:
        return ""
    message = f": {clean(ended.message.strip())}" if ended.message.strip() else ""
    return f"ended with exit code {ended.exitCode} ({clean(ending(ended))}){message}"


def _endings(pod: Pod, now: float) -> Line:
    spans: list[Span] = []
    for status in pod.status.containerStatuses:
        ended = status.state.terminated
        if ended is None:
            continue
        when = epoch(ended.finishedAt)
        ago = f" {short_duration(now - when)} ago" if when is not None else ""
        spans += [
            Span("  ·  " if spans else "", "muted"),
            Span(clean(status.name) + " ", "key"),
            Span(f"ended with exit code {ended.exitCode}{ago}", "soft"),
        ]
    return tuple(spans) or _contents(pod)


def _contents(pod: Pod) -> Line:
    spans: list[Span] = []
    for container in pod.spec.containers:
        if spans:
            spans.append(Span("  ·  ", "muted"))
        spans.append(Span(clean(container.name) + " ", "key"))
        spans.append(Span(clean(container.image), "soft"))
    return tuple(spans)


def explain_manifest(manifest: Manifest) -> Line:
    """What is wrong with a file, and what podtui does about it."""
    state = manifest.status.message
    return (
        Span(place_of(manifest) + " ", "key"),
        Span(manifest_message(manifest)),
        Span(f"  {clean(state)}" if state and manifest.status.diagnostics else "", "muted"),
    )
