"""Pod conditions (kubelet.md §7.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from podtui.api.pod_resources import is_static
from podtui.api.pods import is_sidecar
from podtui.api.times import rfc3339
from podtui.api.v1 import Container, ContainerStatus, Pod, PodCondition
from podtui.kubelet.containers.restart import has_restart_all_rule
from podtui.kubelet.status.phase import FAILED, SUCCEEDED

READY_TO_START: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
SCHEDULED: Final = "PodScheduled"
RESTARTING_ALL: Final = "AllContainersRestarting"
DISRUPTION_TARGET: Final = "DisruptionTarget"
OWNED: Final = (READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, RESTARTING_ALL)
"""The conditions that this kubelet computes; others are kept unchanged, in front."""
RESIZE: Final = ("PodResizePending", "PodResizeInProgress")
"""Conditions of a resize: passed in with each status, placed between kept and computed ones."""


def _names(state: str, names: Sequence[str]) -> list[str]:
    return [f"containers with {state} status: [{' '.join(names)}]"] if names else []


def _condition(kind: str, true: bool, reason: str = "", message: str = "") -> PodCondition:
    return PodCondition(
        type=kind, status="True" if true else "False", reason=reason, message=message
    )


def _started_before(pod: Pod, statuses: dict[str, ContainerStatus]) -> bool:
    """Return True if a regular container runs or ran, so that initialization has finished."""
    regular = (statuses.get(container.name) for container in pod.spec.containers)
    return any(
        status is not None
        and (status.state.running is not None or status.state.terminated is not None)
        for status in regular
    )


def _init_done(container: Container, status: ContainerStatus) -> bool:
    return bool(status.started) if is_sidecar(container) else status.ready


def initialized_condition(
    pod: Pod, statuses: dict[str, ContainerStatus], phase: str
) -> PodCondition:
    """Return ``Initialized``. ``statuses`` are those of all containers, by name."""
    init = pod.spec.initContainers
    if init and not statuses:
        return _condition(INITIALIZED, False, "UnknownContainerStatuses")
    unknown = [container.name for container in init if container.name not in statuses]
    incomplete = [
        container.name
        for container in init
        if container.name in statuses and not _init_done(container, statuses[container.name])
    ]
    if phase == SUCCEEDED and not unknown:
        return _condition(INITIALIZED, True, "PodCompleted")
    if _started_before(pod, statuses) or not (unknown or incomplete):
        return _condition(INITIALIZED, True)
    problems = [*_names("unknown", unknown), *_names("incomplete", incomplete)]
    return _condition(INITIALIZED, False, "ContainersNotInitialized", ", ".join(problems))


def containers_ready_condition(
    pod: Pod, statuses: dict[str, ContainerStatus], phase: str
) -> PodCondition:
    """Return ``ContainersReady``: True if every sidecar and regular container is ready."""
    if not statuses:
        return _condition(CONTAINERS_READY, False, "UnknownContainerStatuses")
    counted = [container.name for container in pod.spec.initContainers if is_sidecar(container)]
    counted += [container.name for container in pod.spec.containers]
    unknown = [name for name in counted if name not in statuses]
    unready = [name for name in counted if name in statuses and not statuses[name].ready]
    if phase == SUCCEEDED and not unknown:
        return _condition(CONTAINERS_READY, False, "PodCompleted")
    if phase == FAILED:
        return _condition(CONTAINERS_READY, False, "PodFailed")
    problems = [*_names("unknown", unknown), *_names("unready", unready)]
    if problems:
        return _condition(CONTAINERS_READY, False, "ContainersNotReady", ", ".join(problems))
    return _condition(CONTAINERS_READY, True)


def ready_condition(
    pod: Pod, containers_ready: PodCondition, existing: Iterable[PodCondition]
) -> PodCondition:
    """Return ``Ready``: True if the containers are ready and every readiness gate's condition is
    True."""
    if containers_ready.status != "True":
        return _condition(READY, False, containers_ready.reason, containers_ready.message)
    by_type = {condition.type: condition for condition in existing}
    problems: list[str] = []
    for gate in pod.spec.readinessGates:
        condition = by_type.get(gate.conditionType)
        if condition is None:
            problems.append(
                "corresponding condition of pod readiness gate"
                f' "{gate.conditionType}" does not exist.'
            )
        elif condition.status != "True":
            problems.append(
                f'the status of pod readiness gate "{gate.conditionType}" is not "True",'
                f" but {condition.status}"
            )
    if problems:
        return _condition(READY, False, "ReadinessGatesNotReady", ", ".join(problems))
    return _condition(READY, True)


def restarting_all_condition(pod: Pod, triggered: bool, phase: str) -> PodCondition | None:
    """Return ``AllContainersRestarting``; None for a pod without a rule that can cause it."""
    if not has_restart_all_rule(pod):
        return None
    if phase in (SUCCEEDED, FAILED):
        reason = "PodCompleted" if phase == SUCCEEDED else "PodFailed"
        return _condition(RESTARTING_ALL, False, reason)
    if triggered:
        message = "container exited with restart policy rule"
        return _condition(RESTARTING_ALL, True, "RestartAllContainersStarted", message)
    return _condition(RESTARTING_ALL, False)


def others_conditions(pod: Pod) -> tuple[PodCondition, ...]:
    """Return the conditions in the pod's source that other components set."""
    return tuple(
        condition for condition in pod.status.conditions if condition.type not in (*OWNED, *RESIZE)
    )


def _dated(condition: PodCondition, previous: PodCondition | None, now: datetime) -> PodCondition:
    """Set the time of the last change of ``status``."""
    moment = rfc3339(now)
    if previous is not None and previous.status == condition.status:
        moment = previous.lastTransitionTime or moment
    return msgspec.structs.replace(condition, lastTransitionTime=moment)


def pod_conditions(
    pod: Pod,
    statuses: Iterable[ContainerStatus],
    *,
    phase: str,
    sandbox_ready: bool,
    restarting_all: bool,
    previous: tuple[PodCondition, ...],
    now: datetime,
    resize: tuple[PodCondition, ...] = (),
) -> tuple[PodCondition, ...]:
    """Return all conditions in order: foreign ones first, ``resize``, then ours.

    ``lastTransitionTime`` changes only together with ``status``.
    """
    by_name = {status.name: status for status in statuses}
    foreign = list(others_conditions(pod))
    kinds = {condition.type for condition in foreign}
    foreign += [
        condition
        for condition in previous
        # In the record of an API pod, only DisruptionTarget can be missing so far.
        if condition.type not in (*OWNED, *RESIZE, *kinds)
        and (is_static(pod) or condition.type == DISRUPTION_TARGET)
    ]
    foreign += resize
    # DisruptionTarget is the last condition before ours.
    foreign.sort(key=lambda condition: condition.type == DISRUPTION_TARGET)
    before = {condition.type: condition for condition in previous}
    initialized = initialized_condition(pod, by_name, phase)
    was = before.get(INITIALIZED)
    if sandbox_ready and has_restart_all_rule(pod) and was is not None and was.status == "True":
        # A pod stays initialized when a rule restarts all of its containers.
        initialized = _condition(INITIALIZED, True, "PodCompleted" if phase == SUCCEEDED else "")
    containers_ready = containers_ready_condition(pod, by_name, phase)
    conditions = [
        _condition(READY_TO_START, sandbox_ready),
        initialized,
        ready_condition(pod, containers_ready, foreign),
        containers_ready,
        _condition(SCHEDULED, True),
    ]
    restarting = restarting_all_condition(pod, restarting_all, phase)
    if restarting is not None:
        conditions.append(restarting)
    dated = [_dated(condition, before.get(condition.type), now) for condition in conditions]
    generation = pod.metadata.generation
    if generation:
        dated = [
            msgspec.structs.replace(condition, observedGeneration=generation) for condition in dated
        ]
    return (*foreign, *dated)
