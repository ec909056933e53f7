"""The single definitions of a pod's and a node's health. Lists, counts, filters, ``podtui status``,
notifications and ``podtui why`` all use `pod_health`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from podtui.api.kills import kill_of
from podtui.api.pods import is_sidecar, is_true, run_began
from podtui.api.times import parse_time
from podtui.api.v1 import Container, ContainerStatus, Node, NodeCondition, Pod

STABLE_SECONDS: Final = 600.0
"""The run time after which a restarted container counts as healthy again. The kubelet resets its
crash-loop back-off after the same time."""
LONGEST_TRIAL: Final = 3600.0
"""Upper limit of the trial of a container that restarted more than once. It must run as long as its
previous run, but no longer than this."""
ON_ITS_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of waiting containers that are not failures."""
_ENDED: Final = ("Succeeded", "Failed")
_CHECK_PENDING: Final = "container runtime status check may not have completed yet"
_PREFIX: Final = f"[{_CHECK_PENDING}, "


class Health(StrEnum):
    """The states of a pod, in the order of the header's counts."""

    RUNNING = "running"
    """As intended: ready, or with containers that have completed."""
    NOT_READY = "not ready"
    """Runs, but is not ready; nothing has failed so far."""
    RESTARTING = "restarting"
    """Runs again, but restarted too recently to be trusted."""
    PENDING = "pending"
    """Its containers do not run yet; nothing has failed so far."""
    INIT = "init"
    """Its init containers are not done yet; nothing has failed so far."""
    FAILING = "failing"
    TERMINATING = "terminating"
    COMPLETED = "completed"
    """Completed as intended."""


WELL: Final = frozenset({Health.RUNNING, Health.COMPLETED, Health.TERMINATING})
"""The healths that the filter "unhealthy only" hides."""


GLYPHS: Final = {
    Health.RUNNING: "●",
    Health.NOT_READY: "◐",
    Health.RESTARTING: "▲",
    Health.PENDING: "○",
    Health.INIT: "◔",
    Health.FAILING: "✖",
    Health.TERMINATING: "◌",
    Health.COMPLETED: "✔",
}


class PodHealth(Struct, frozen=True):
    """``container`` is the container that determines the health; ``reason`` is one word for the
    problem. ``until`` (epoch seconds) is set while a restarted container is on trial: at that time
    the health changes even without a new status."""

    health: Health
    reason: str = ""
    container: str = ""
    until: float | None = None

    @property
    def well(self) -> bool:
        return self.health in WELL


def pod_health(pod: Pod, now: float) -> PodHealth:
    """Return the health of a pod from its API object alone; ``now`` is in epoch seconds.

    The first failing container in start order decides, then the first waiting one. See
    docs/screen.md.
    """
    phase = pod.status.phase
    if pod.metadata.deletionTimestamp and phase not in _ENDED:
        return PodHealth(Health.TERMINATING)
    if phase == "Succeeded":
        return PodHealth(Health.COMPLETED)
    if phase in ("Failed", "Unknown"):
        return PodHealth(Health.FAILING, pod.status.reason or phase)
    waiting: PodHealth | None = None
    recovering: PodHealth | None = None
    completed = 0
    for container, status, init in _containers(pod):
        health = _container_health(pod, container, status, now, init=init)
        if health.health is Health.FAILING:
            return health
        if health.health is Health.RESTARTING:
            recovering = _later(recovering, health)
        elif health.health is Health.PENDING:
            waiting = waiting or _waiting(health, container, phase, init=init)
        elif health.health is Health.COMPLETED:
            completed += not init
    if recovering is not None or waiting is not None or phase != "Running":
        return recovering or waiting or PodHealth(Health.PENDING, phase)
    if completed and completed == len(pod.spec.containers):
        return PodHealth(Health.COMPLETED)
    # A pod with a completed container is not Ready, and never will be.
    return PodHealth(Health.RUNNING if completed or is_true(pod, "Ready") else Health.NOT_READY)


def _waiting(health: PodHealth, container: Container, phase: str, *, init: bool) -> PodHealth:
    """Return the health of a pod that waits for a container. In the phase Running, a sidecar counts
    like any other container."""
    started = phase == "Running" and (not init or is_sidecar(container))
    if started:
        return structs.replace(health, health=Health.NOT_READY)
    if init or health.reason == "PodInitializing":
        return structs.replace(health, health=Health.INIT)
    return health


def on_trial_until(
    pod: Pod, container: Container, status: ContainerStatus, *, init: bool
) -> float | None:
    """Return when a restarted, running container counts as stable (epoch seconds); None for one
    that never failed or was restarted on purpose."""
    last, runs = status.lastState.terminated, status.state.running
    if last is None or runs is None or (init and not is_sidecar(container)):
        return None
    if last.reason == "Unknown" and last.exitCode == 255:
        # Reported after a restart of the machine or of the runtime.
        return None
    kill = kill_of(pod, container.name, last)
    if kill is not None and kill.on_purpose:
        return None
    finished, started = _epoch(last.finishedAt), _epoch(run_began(last))
    since = _epoch(runs.startedAt) or finished
    if since is None:
        return None
    trial = STABLE_SECONDS
    if status.restartCount > 1 and finished is not None and started is not None:
        trial = min(LONGEST_TRIAL, max(STABLE_SECONDS, finished - started))
    return since + trial


def _container_health(
    pod: Pod, container: Container, status: ContainerStatus, now: float, *, init: bool
) -> PodHealth:
    """Return the health of a container: `Health.PENDING` for every wait."""
    state, name = status.state, container.name
    ended = state.terminated
    if ended is not None:
        runs_once = (init and not is_sidecar(container)) or _policy(pod, container) != "Always"
        if ended.exitCode == 0 and runs_once:
            return PodHealth(Health.COMPLETED)
        kill = kill_of(pod, name, ended)
        on_purpose = kill is not None and kill.on_purpose
        health = Health.PENDING if on_purpose else Health.FAILING
        return PodHealth(health, ended.reason or f"ExitCode:{ended.exitCode}", name)
    if state.running is None and (state.waiting is not None or not status.ready):
        return _not_running(pod, container, status)
    until = on_trial_until(pod, container, status, init=init)
    if until is not None and now < until:
        return PodHealth(Health.RESTARTING, "Restarted", name, until)
    if init and not is_sidecar(container):
        return PodHealth(Health.PENDING, "Init", name)
    if not status.ready or status.started is False:
        return PodHealth(Health.PENDING, "NotReady", name)
    return PodHealth(Health.RUNNING)


def _not_running(pod: Pod, container: Container, status: ContainerStatus) -> PodHealth:
    reason = status.state.waiting.reason if status.state.waiting is not None else ""
    last = status.lastState.terminated
    kill = kill_of(pod, container.name, last)
    failed = last is not None and not (kill is not None and kill.on_purpose)
    if reason not in ON_ITS_WAY or failed:
        return PodHealth(Health.FAILING, reason or "Restarting", container.name)
    return PodHealth(Health.PENDING, reason, container.name)


def _containers(pod: Pod) -> Iterator[tuple[Container, ContainerStatus, bool]]:
    """Yield the containers that have a status, in start order, with a flag for init containers."""
    spec, status = pod.spec, pod.status
    for containers, statuses, init in (
        (spec.initContainers, status.initContainerStatuses, True),
        (spec.containers, status.containerStatuses, False),
    ):
        by_name = {status.name: status for status in statuses}
        for container in containers:
            if container.name in by_name:
                yield container, by_name[container.name], init


def _policy(pod: Pod, container: Container) -> str:
    return container.restartPolicy or pod.spec.restartPolicy or "Always"


def _later(first: PodHealth | None, second: PodHealth) -> PodHealth:
    """Return the one that recovers later."""
    if first is None or (second.until or 0.0) > (first.until or 0.0):
        return second
    return first


def _epoch(text: str | None) -> float | None:
    moment = parse_time(text)
    return moment.timestamp() if moment is not None else None


def unready(node: Node | None) -> NodeCondition | None:
    """Return the Ready condition if it is not True; None if the node is ready or unknown."""
    conditions = node.status.conditions if node is not None else ()
    return next((c for c in conditions if c.type == "Ready" and c.status != "True"), None)


def unready_words(condition: NodeCondition) -> str:
    """Return the reasons why a node is not ready, in the kubelet's words.

    The kubelet lists all problems of its runtime (kubelet.md §3). The first entry, about runtimes
    that have not answered yet, carries no information; it is left out if others follow.
    """
    condition_message = condition.message or condition.reason or "no reason reported"
    if not condition_message.startswith(_PREFIX):
        return condition_message
    return condition_message.removeprefix(_PREFIX).removesuffix("]")


def is_starting(condition: NodeCondition) -> bool:
    """Return whether a node is not ready only because its kubelet has just started."""
    return condition.message == _CHECK_PENDING
