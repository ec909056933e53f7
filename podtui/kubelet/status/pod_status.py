"""Compute the status of a pod from its spec and its observed state (kubelet.md §7)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from podtui.api.names import CONFIG_SEEN
from podtui.api.pod_resources import is_static, pod_resources, qos_class
from podtui.api.pods import is_sidecar
from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus
from podtui.kubelet.containers.restart import restart_all_triggers
from podtui.kubelet.sandbox.sandbox import sandbox_changed, sorted_pod_ips
from podtui.kubelet.status.conditions import (
    CONTAINERS_READY,
    DISRUPTION_TARGET,
    OWNED,
    READY,
    READY_TO_START,
    RESIZE,
    RESTARTING_ALL,
    pod_conditions,
)
from podtui.kubelet.status.container_status import (
    LOST_WHEN_TERMINATED,
    PodView,
    container_statuses,
    lost,
)
from podtui.kubelet.status.phase import FAILED, TERMINAL, pod_phase
from podtui.kubelet.types import AdmitResult, NodeContext, ObservedPod
from podtui.runtime.protocol import SandboxState

DEADLINE_REASON: Final = "DeadlineExceeded"
DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"


def deadline(pod: Pod, status: PodStatus | None) -> datetime | None:
    """Return the time when ``activeDeadlineSeconds`` have passed since the pod's ``startTime``.

    Return None if there is no deadline. ``startTime`` is cut to seconds; if the pod was first seen
    within the same second, that precise time counts, so that a deadline is never early.
    """
    limit = pod.spec.activeDeadlineSeconds
    started = None if status is None else parse_time(status.startTime)
    if limit is None or started is None:
        return None
    seen = parse_time(pod.metadata.annotations.get(CONFIG_SEEN))
    if seen is not None and started <= seen < started + timedelta(seconds=1):
        started = seen
    return started + timedelta(seconds=limit)


def past_deadline(pod: Pod, status: PodStatus | None, now: datetime) -> bool:
    """Return True if the pod has been active for longer than its deadline allows."""
    moment = deadline(pod, status)
    return moment is not None and now >= moment


def _created_in_newest_sandbox(pod: Pod, observed: ObservedPod) -> bool:
    """Return True if a regular container was ever created in the newest sandbox."""
    if not observed.sandboxes:
        return False
    names = {container.name for container in pod.spec.containers}
    newest = observed.sandboxes[0].id
    return any(
        container.name in names and container.sandbox_id == newest
        for container in observed.containers
    )


def _ips(
    pod: Pod, observed: ObservedPod, host_ips: tuple[str, ...], previous: PodStatus | None
) -> tuple[str, ...]:
    """Return the pod's addresses: those of a dead sandbox are kept until another one is ready."""
    if pod.spec.hostNetwork:
        return host_ips
    if observed.sandboxes and observed.sandboxes[0].state is SandboxState.READY:
        return sorted_pod_ips(observed.sandboxes[0].ips, host_ips)
    return () if previous is None else tuple(entry.ip for entry in previous.podIPs)


def pod_status(
    pod: Pod, view: PodView, node: NodeContext, *, now: datetime, terminal: bool = False
) -> PodStatus:
    """Compute the complete status, as a kubelet reports it. ``pod`` is as allocated.

    Parts that did not change since the previous status keep their times, and a terminal phase
    stays. ``terminal`` is set for the last status of a pod that was torn down. In strict mode,
    static pods have no addresses of the node, as with a standalone kubelet.
    """
    observed, previous = view.observed, view.previous
    node_ips = () if node.strict and is_static(pod) else node.host_ips
    init, regular, ephemeral = container_statuses(pod, view, node)
    phase = pod_phase(
        pod,
        (*init, *regular),
        created_in_newest_sandbox=_created_in_newest_sandbox(pod, observed),
        terminal=terminal,
    )
    reason, message = "", ""
    # Ended is final, whatever is observed later. After a restart of the kubelet, the record of an
    # API pod still has the phase.
    source = previous if previous is not None and previous.phase in TERMINAL else pod.status
    if source.phase in TERMINAL:
        phase, reason, message = source.phase, source.reason, source.message
    elif phase not in TERMINAL and past_deadline(pod, previous, now):
        phase, reason, message = FAILED, DEADLINE_REASON, DEADLINE_MESSAGE
    elif previous is not None and previous.phase == phase:
        reason, message = previous.reason, previous.message
    ips = _ips(pod, observed, node_ips, view.recorded if previous is None else previous)
    conditions = pod_conditions(
        pod,
        (*init, *regular),
        phase=phase,
        sandbox_ready=not sandbox_changed(pod, observed),
        restarting_all=bool(restart_all_triggers(pod, observed)),
        previous=() if previous is None else previous.conditions,
        now=now,
        resize=view.resize,
    )
    resources = pod_resources(pod)
    started = previous.startTime if previous is not None and previous.startTime else rfc3339(now)
    return PodStatus(
        phase=phase,
        reason=reason,
        message=message,
        conditions=conditions,
        initContainerStatuses=init,
        containerStatuses=regular,
        ephemeralContainerStatuses=ephemeral,
        hostIP=node_ips[0] if node_ips else "",
        hostIPs=tuple(HostIP(ip=ip) for ip in node_ips),
        podIP=ips[0] if ips else "",
        podIPs=tuple(PodIP(ip=ip) for ip in ips),
        qosClass=qos_class(pod),
        startTime=started,
        resources=resources,
        allocatedResources=resources.requests,
        observedGeneration=pod.metadata.generation or None,
    )


def rejected_status(pod: Pod, verdict: AdmitResult, now: datetime) -> PodStatus:
    """Return the status of a pod that was not admitted and never runs (kubelet.md §5.3)."""
    return PodStatus(
        phase=FAILED,
        reason=verdict.reason,
        message=f"Pod was rejected: {verdict.message}",
        qosClass=qos_class(pod),
        startTime=rfc3339(now),
        observedGeneration=pod.metadata.generation or None,
    )


def status_ended_by(
    pod: Pod,
    status: PodStatus,
    *,
    reason: str,
    message: str,
    disruption: str = "",
    now: datetime,
) -> PodStatus:
    """Return the status of a pod ended by preemption, eviction, node shutdown or its deadline.

    ``disruption`` is the message of a ``DisruptionTarget`` condition, empty for none. A pod that
    succeeded keeps its status.
    """
    if status.phase == "Succeeded":
        return status
    conditions = status.conditions
    if disruption:
        mark = PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason="TerminationByKubelet",
            message=disruption,
            lastTransitionTime=rfc3339(now),
        )
        # The order of a kubelet: conditions of other components, this one, its own.
        others = [condition for condition in conditions if condition.type != DISRUPTION_TARGET]
        foreign = sum(1 for condition in others if condition.type not in OWNED)
        conditions = (*others[:foreign], mark, *others[foreign:])
    return msgspec.structs.replace(
        status, phase=FAILED, reason=reason, message=message, conditions=conditions
    )


def _finished(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return msgspec.structs.replace(
        status, state=lost(LOST_WHEN_TERMINATED), ready=False, started=False
    )


def _ever_started(status: ContainerStatus) -> bool:
    return status.state.waiting is None or status.lastState.terminated is not None


def _regular_containers_were_due(pod: Pod) -> bool:
    """Return True if the pod's regular containers were due to start.

    The kubelet reads this from the pod as given by its source, so a static pod with init containers
    never counts: the regular containers that did not start stay waiting.
    """
    if not pod.spec.initContainers:
        return True
    if any(_ever_started(status) for status in pod.status.containerStatuses):
        return True
    if not pod.status.initContainerStatuses:
        return False
    last = pod.status.initContainerStatuses[-1]
    if any(
        container.name == last.name and is_sidecar(container)
        for container in pod.spec.initContainers
    ):
        return last.state.running is not None and bool(last.started)
    ends = (last.lastState.terminated, last.state.terminated)
    return any(end is not None and end.exitCode == 0 for end in ends)


def final_status(pod: Pod, status: PodStatus) -> PodStatus:
    """Return the status after everything of the pod is gone (kubelet.md §7.6).

    Regular containers that were due and init containers up to the last one that started
    (always the first one) are reported as terminated. The phase becomes Failed unless it is
    terminal, or the pod static.
    """
    init = status.initContainerStatuses
    started = (index for index, container in enumerate(init) if _ever_started(container))
    reached = max(started, default=0)
    phase = status.phase
    # Nothing can run any more, so that an API pod must not appear to wait. A static pod that is
    # removed keeps its phase (kubelet.md §0.4).
    if phase not in TERMINAL and not is_static(pod):
        phase = FAILED
    regular = status.containerStatuses
    return msgspec.structs.replace(
        status,
        phase=phase,
        initContainerStatuses=tuple(
            _finished(container) if index <= reached else container
            for index, container in enumerate(init)
        ),
        containerStatuses=tuple(map(_finished, regular))
        if _regular_containers_were_due(pod)
        else regular,
    )


def _with_container(
    statuses: tuple[ContainerStatus, ...], container_id: str, **changes: bool
) -> tuple[ContainerStatus, ...]:
    return tuple(
        msgspec.structs.replace(status, **changes) if status.containerID == container_id else status
        for status in statuses
    )


def sandbox_made(status: PodStatus, now: datetime) -> PodStatus:
    """Return the status right after the sandbox was made, within a sync pass (kubelet.md §6.4).

    Only ``PodReadyToStartContainers`` changes; the address follows with the next status.
    """
    return msgspec.structs.replace(
        status,
        conditions=tuple(
            msgspec.structs.replace(condition, status="True", lastTransitionTime=rfc3339(now))
            if condition.type == READY_TO_START and condition.status != "True"
            else condition
            for condition in status.conditions
        ),
    )


def merge_readiness(
    pod: Pod, status: PodStatus, container_id: str, *, ready: bool, now: datetime
) -> PodStatus:
    """Return the status right after a readiness result changed, without a pass (kubelet.md §7.3).

    ``container_id`` includes its scheme (``docker://ID``). A container that is not running does not
    become ready.
    """
    every = (*status.initContainerStatuses, *status.containerStatuses)
    running = any(
        container.containerID == container_id and container.state.running is not None
        for container in every
    )
    is_ready = ready and running
    changed = msgspec.structs.replace(
        status,
        initContainerStatuses=_with_container(
            status.initContainerStatuses, container_id, ready=is_ready
        ),
        containerStatuses=_with_container(status.containerStatuses, container_id, ready=is_ready),
    )
    # Nothing was observed since the last pass: what the conditions depend on is read from those
    # that it left, and only the two that depend on readiness are replaced.
    kept = {condition.type: condition for condition in status.conditions}
    fresh = pod_conditions(
        pod,
        (*changed.initContainerStatuses, *changed.containerStatuses),
        phase=status.phase,
        sandbox_ready=READY_TO_START in kept and kept[READY_TO_START].status == "True",
        restarting_all=RESTARTING_ALL in kept and kept[RESTARTING_ALL].status == "True",
        previous=status.conditions,
        now=now,
        resize=tuple(condition for condition in status.conditions if condition.type in RESIZE),
    )
    conditions = tuple(
        condition
        if condition.type in (READY, CONTAINERS_READY) or condition.type not in kept
        else kept[condition.type]
        for condition in fresh
    )
    return msgspec.structs.replace(changed, conditions=conditions)
