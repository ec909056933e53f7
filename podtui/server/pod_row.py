"""One pod on one line, in kubectl's words: what READY, STATUS and RESTARTS say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from podtui.api.pods import is_sidecar
from podtui.api.v1 import ContainerStateTerminated, ContainerStatus, Pod
from podtui.server.age import parse_time, short_duration, since

NONE = "<none>"


@dataclass(slots=True)
class _Summary:
    """What is being made of the container statuses."""

    status: str
    ready: int = 0
    restarts: int = 0
    last_restart: datetime | None = None

    def count(self, statuses: Iterable[ContainerStatus]) -> None:
        for status in statuses:
            self.restarts += status.restartCount
            ended = status.lastState.terminated
            finished = parse_time(ended.finishedAt) if ended is not None else None
            if finished is not None and (self.last_restart is None or finished > self.last_restart):
                self.last_restart = finished


def pod_row(pod: Pod, now: datetime) -> list[str]:
    """The cells: name, ready, status, restarts, age, ip, node, nominated node, gates."""
    summary = _summarise(pod)
    sidecars = sum(map(is_sidecar, pod.spec.initContainers))
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart is not None:
        restarts += f" ({short_duration((now - summary.last_restart).total_seconds())} ago)"
    return [
        pod.metadata.name,
        f"{summary.ready}/{len(pod.spec.containers) + sidecars}",
        summary.status,
        restarts,
        since(pod.metadata.creationTimestamp, now),
        pod.status.podIP or (pod.status.podIPs[0].ip if pod.status.podIPs else NONE),
        pod.spec.nodeName or NONE,
        pod.status.nominatedNodeName or NONE,
        _gates(pod),
    ]


def _summarise(pod: Pod) -> _Summary:
    status = pod.status
    summary = _Summary(status.reason or status.phase)
    initialising = _initialising(pod, summary)
    if initialising and not _is_true(pod, "Initialized"):
        summary.status = initialising
        summary.count(status.initContainerStatuses)
    else:
        sidecars = {c.name for c in pod.spec.initContainers if is_sidecar(c)}
        summary.count(s for s in status.initContainerStatuses if s.name in sidecars)
        summary.count(status.containerStatuses)
        _of_containers(pod, summary)
    if pod.metadata.deletionTimestamp:
        if status.reason == "NodeLost":
            summary.status = "Unknown"
        elif status.phase not in ("Succeeded", "Failed"):
            summary.status = "Terminating"
    return summary


def _initialising(pod: Pod, summary: _Summary) -> str:
    """The first init container that holds the pod up, as ``Init:…``; empty once all are through.
    Counts the ready sidecars before it."""
    sidecars = {c.name for c in pod.spec.initContainers if is_sidecar(c)}
    for position, status in enumerate(pod.status.initContainerStatuses):
        ended, waiting = status.state.terminated, status.state.waiting
        if ended is not None and ended.exitCode == 0:
            continue
        if status.name in sidecars and status.started:
            summary.ready += status.ready
            continue
        if ended is not None:
            return f"Init:{_ending(ended)}"
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return f"Init:{waiting.reason}"
        return f"Init:{position}/{len(pod.spec.initContainers)}"
    return ""


def _of_containers(pod: Pod, summary: _Summary) -> None:
    """The status of the first container that has something to say."""
    running = False
    for status in reversed(pod.status.containerStatuses):
        ended, waiting = status.state.terminated, status.state.waiting
        if waiting is not None and waiting.reason:
            summary.status = waiting.reason
        elif ended is not None:
            summary.status = _ending(ended)
        elif status.ready and status.state.running is not None:
            running = True
            summary.ready += 1
    if running and summary.status == "Completed":
        summary.status = "Running" if _is_true(pod, "Ready") else "NotReady"


def _ending(ended: ContainerStateTerminated) -> str:
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exitCode}"


def _gates(pod: Pod) -> str:
    gates = pod.spec.readinessGates
    if not gates:
        return NONE
    return f"{sum(_is_true(pod, gate.conditionType) for gate in gates)}/{len(gates)}"


def _is_true(pod: Pod, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in pod.status.conditions)
