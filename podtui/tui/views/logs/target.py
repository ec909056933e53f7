"""Select the logs to show, and describe their containers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from podtui.api.pods import container_names, container_statuses, is_sidecar, run_began
from podtui.api.printing import ending
from podtui.api.v1 import ContainerStatus, Pod
from podtui.tui.model.model import pod_key
from podtui.tui.views.logs.line_buffer import SOURCES
from podtui.tui.views.logs.times import clock, parse_stamp
from podtui.tui.views.pod_status import Family, pod_status_line
from podtui.tui.widgets.sanitize import clean

TAIL: Final = 5000
"""Number of past lines requested by default."""
HINT: Final = " · scroll up for more"


class Range(Struct, frozen=True):
    """The part of the history to request: ``tail`` lines, ``since`` seconds, or all if neither.

    ``from_start`` shows the beginning of the log first.
    """

    label: str
    tail: int | None = None
    since: int | None = None
    from_start: bool = False


DEFAULT_RANGE: Final = Range("", tail=TAIL)
WHOLE_LOG: Final = Range("")
# The digits 1 to 6 in the picker select the same ranges as in k9s.
RANGES: Final = (
    Range("from the start", from_start=True),
    Range("last 1m", since=60),
    Range("last 5m", since=300),
    Range("last 15m", since=900),
    Range("last 30m", since=1800),
    Range("last 1h", since=3600),
    Range(f"last {TAIL:,} lines", tail=TAIL),
)


class LogTarget(Struct, frozen=True):
    """One container's log."""

    key: str
    namespace: str
    pod: str
    container: str
    previous: bool = False
    range: Range = DEFAULT_RANGE


def targets_of(
    pods: Sequence[Pod],
    selected: Callable[[Pod], str],
    *,
    everything: bool = False,
    previous: bool = False,
    range: Range = DEFAULT_RANGE,
) -> tuple[LogTarget, ...]:
    """Return the logs of some pods: of the container ``selected(pod)``, or with ``everything`` of
    all containers; at most `SOURCES` logs.
    """
    targets = [
        LogTarget(
            pod_key(pod), pod.metadata.namespace, pod.metadata.name, container, previous, range
        )
        for pod in pods
        for container in (container_names(pod) if everything else [selected(pod)])
    ]
    return tuple(targets[:SOURCES])


def source_names(targets: Sequence[LogTarget]) -> tuple[str, ...]:
    """Return the shortest names that distinguish the targets."""
    pods = {(t.namespace, t.pod) for t in targets}
    one_each = len(pods) == len(targets)
    names = len({t.pod for t in targets}) == len(pods)
    return tuple(
        clean(
            t.container
            if len(pods) == 1
            else (t.pod if names else f"{t.namespace}/{t.pod}")
            + ("" if one_each else f"/{t.container}")
        )
        for t in targets
    )


def describe_cut(range: Range, loaded: int, name: str = "") -> str:
    """Describe which part of a log is shown, for the row above it; ``loaded`` earlier lines were
    added to the requested ones."""
    part = f"last {range.tail + loaded:,} lines" if range.tail is not None else range.label
    if range.tail is None and loaded:
        part += f" and {loaded:,} lines before"
    return f"▲ {f'{name}: ' if name else ''}{part} when opened{HINT}"


def describe_end(container: str, status: ContainerStatus | None) -> str:
    """Describe the end of the last instance, for the separator between two logs."""
    ended = status.lastState.terminated if status is not None else None
    if status is None or ended is None:
        return f"{clean(container)} started again"
    return (
        f"{clean(container)} ended with exit code {ended.exitCode} ({clean(ending(ended))}),"
        f" restart {status.restartCount}{_at(ended.finishedAt)}"
    )


def describe_previous(container: str, status: ContainerStatus | None) -> str:
    """Describe the previous instance, for the line above its log."""
    ended = status.lastState.terminated if status is not None else None
    if status is None or ended is None:
        return f"{clean(container)}, the previous instance"
    number = status.restartCount - 1
    which = "the first instance" if number <= 0 else f"the instance of restart {number}"
    return f"{clean(container)}, {which}{_at(run_began(ended), 'started')}"


def _at(moment: str | None, word: str = "at") -> str:
    shown = clock(parse_stamp(str(moment).encode())) if moment else ""
    return f", {word} {shown[:8]}" if shown else ""


def default_container(pod: Pod) -> str:
    """Return the container whose log is most likely wanted.

    If the pod is initializing or failing: the first container that is neither ready and running
    nor ended with exit code 0. Otherwise the first container.
    """
    family = pod_status_line(pod, math.inf).family
    if family in (Family.INIT, Family.ERROR):
        for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
            ended = status.state.terminated
            if ended is not None and ended.exitCode == 0:
                continue
            if status.ready and status.state.running is not None:
                continue
            return status.name
    return pod.spec.containers[0].name if pod.spec.containers else ""


def has_completed(pod: Pod, container: str) -> bool:
    """Return whether this is an init container that will not run again."""
    status = next((s for s in pod.status.initContainerStatuses if s.name == container), None)
    ended = status.state.terminated if status is not None else None
    sidecars = {init.name for init in pod.spec.initContainers if is_sidecar(init)}
    return ended is not None and ended.exitCode == 0 and container not in sidecars


def container_status(pod: Pod, container: str) -> ContainerStatus | None:
    return next((status for status in container_statuses(pod) if status.name == container), None)


def instance(pod: Pod, container: str) -> str:
    """Return a text that changes when a container starts, ends or is replaced.

    After such a change, a finished log may continue.
    """
    status = container_status(pod, container)
    if status is None:
        return ""
    state = status.state
    kind = "running" if state.running else "ended" if state.terminated else "waiting"
    return f"{status.containerID} {kind} {status.restartCount}"
