"""Build container statuses from a pod's observed containers (kubelet.md §7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from podtui.api.pod_resources import canonical_resources
from podtui.api.pods import NEVER_STARTED, ephemeral_containers, is_sidecar
from podtui.api.quantity import Format, Quantity, canonical, parse_quantity
from podtui.api.times import optional_rfc3339
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ContainerUser,
    LinuxContainerUser,
    Pod,
    PodStatus,
    ResourceRequirements,
    VolumeMount,
    VolumeMountStatus,
)
from podtui.kubelet.containers.cgroups import MIN_SHARES, quota_as_milli, shares_as_milli
from podtui.kubelet.containers.container_config import stop_signal
from podtui.kubelet.containers.mounts import is_recursive_read_only
from podtui.kubelet.containers.restart import init_failed, init_restarts_after, should_restart
from podtui.kubelet.pleg.observer import cut, message_limit
from podtui.kubelet.status.conditions import RESTARTING_ALL as RESTARTING_ALL_CONDITION
from podtui.kubelet.status.phase import RESTARTING_ALL
from podtui.kubelet.types import (
    ConfigError,
    ObservedContainer,
    ObservedPod,
    ProbeResult,
    ProbeView,
)
from podtui.runtime.protocol import ContainerState as Observed
from podtui.runtime.protocol import Resources

MIN_MILLI_LIMIT: Final = 10
"""The smallest CPU limit in millicores that a quota can express."""
STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
LOST_WHEN_TERMINATED: Final = "The container could not be located when the pod was terminated"
LOST_WHEN_DELETED: Final = (
    "The container could not be located when the pod was deleted.  The container used to be Running"
)
INIT_FORGOTTEN: Final = (
    "Unable to get init container status from container runtime and pod has been initialized,"
    " treat it as exited normally"
)
REMOVED_BY_RULE: Final = "The container is removed because RestartAllContainers in place"


def lost(message: str, reason: str = STATUS_UNKNOWN) -> ContainerState:
    """Return the state of a container whose end was not observed: it counts as killed."""
    return ContainerState(
        terminated=ContainerStateTerminated(exitCode=137, reason=reason, message=message)
    )


@dataclass(frozen=True, slots=True)
class _View:
    """The inputs for the statuses of all containers of one pod."""

    pod: Pod
    observed: ObservedPod
    probes: ProbeView
    previous: Mapping[str, ContainerStatus]
    restarting_all: bool
    waiting: Mapping[str, tuple[str, str]]
    runtime_name: str
    recursive_read_only: bool
    regular_created: bool
    stop_signals: bool
    actuated: Mapping[str, ResourceRequirements]


def _waiting(reason: str = "", message: str = "") -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))


def _mounts(container: Container, *, recursive: bool) -> tuple[VolumeMountStatus, ...]:
    return tuple(
        VolumeMountStatus(
            name=mount.name,
            mountPath=mount.mountPath,
            readOnly=mount.readOnly or None,
            recursiveReadOnly=_read_only_mode(mount, recursive) if mount.readOnly else "",
        )
        for mount in container.volumeMounts
    )


def _read_only_mode(mount: VolumeMount, supported: bool) -> str:
    try:
        recursive = is_recursive_read_only(mount, supported=supported)
    except ConfigError:
        # The container waits with this error as its message.
        recursive = False
    return "Enabled" if recursive else "Disabled"


def _user(one: ObservedContainer) -> ContainerUser | None:
    """Return the user of the first process, None if the runtime does not report it."""
    if one.user is None:
        return None
    uid, gid, groups = one.user
    return ContainerUser(linux=LinuxContainerUser(uid=uid, gid=gid, supplementalGroups=groups))


def _state(one: ObservedContainer, view: _View, was_running: bool) -> ContainerState:
    if one.state is Observed.RUNNING:
        return ContainerState(
            running=ContainerStateRunning(startedAt=optional_rfc3339(one.started_at))
        )
    if one.state is Observed.EXITED:
        return ContainerState(
            terminated=ContainerStateTerminated(
                exitCode=one.exit_code,
                reason=one.reason,
                message=cut(one.message, message_limit(view.pod)),
                startedAt=optional_rfc3339(one.started_at) or NEVER_STARTED,
                finishedAt=optional_rfc3339(one.finished_at),
                containerID=f"{view.runtime_name}://{one.id}",
            )
        )
    if one.state is Observed.UNKNOWN and was_running:
        return lost(LOST_WHEN_TERMINATED)
    return _waiting()


def _base(container: Container, view: _View, init: bool) -> ContainerStatus:
    """Return the status of a container that the runtime does not know."""
    has_init = bool(view.pod.spec.initContainers)
    status = ContainerStatus(
        name=container.name,
        image=container.image,
        imageID="",
        ready=False,
        restartCount=0,
        state=_waiting("PodInitializing" if has_init else "ContainerCreating"),
    )
    old = view.previous.get(container.name)
    ran = old is not None and (old.state.terminated or old.state.running)
    if old is not None and ran and view.restarting_all:
        # This includes the container that triggered the restart.
        return msgspec.structs.replace(
            status,
            restartCount=old.restartCount + 1,
            lastState=lost(REMOVED_BY_RULE, RESTARTING_ALL),
            state=_waiting(RESTARTING_ALL, REMOVED_BY_RULE),
        )
    if old is not None and old.state.terminated is not None:
        return old
    if init and view.regular_created and not is_sidecar(container):
        state = ContainerState(
            terminated=ContainerStateTerminated(
                exitCode=0, reason="Completed", message=INIT_FORGOTTEN
            )
        )
        return msgspec.structs.replace(status, state=state)
    if old is None:
        return status
    status = msgspec.structs.replace(status, restartCount=old.restartCount, lastState=old.lastState)
    if old.state.running is not None:
        return msgspec.structs.replace(
            status, restartCount=old.restartCount + 1, lastState=lost(LOST_WHEN_DELETED)
        )
    return status


def _from_runtime(
    container: Container,
    newest: ObservedContainer,
    before: ObservedContainer | None,
    view: _View,
) -> ContainerStatus:
    old = view.previous.get(container.name)
    was_running = old is not None and old.state.running is not None
    state = _state(newest, view, was_running)
    last = ContainerState()
    if before is not None:
        last = _state(before, view, was_running=False)
        if last.waiting is not None:
            last = ContainerState()
    elif old is not None and newest.restart_count and old.restartCount == newest.restart_count:
        last = old.lastState
    unknown_end = newest.state is Observed.UNKNOWN and was_running
    container_id = f"{view.runtime_name}://{newest.id}"
    same = was_running and old is not None and old.containerID == container_id
    return ContainerStatus(
        name=container.name,
        image=newest.image or container.image,
        imageID=newest.image_ref or newest.image_id,
        containerID=container_id,
        ready=False,
        restartCount=newest.restart_count + (1 if unknown_end else 0),
        state=state,
        lastState=last,
        user=_user(newest),
        resources=container_resources_status(
            container, newest, actuated=view.actuated.get(container.name), old=old if same else None
        ),
        allocatedResources=canonical_resources(container.resources).requests,
        stopSignal=stop_signal(container) if view.stop_signals else "",
    )


def _to_be_started(
    container: Container, newest: ObservedContainer | None, view: _View, init: bool
) -> bool:
    if newest is None or not init or is_sidecar(container):
        return should_restart(view.pod, container, newest)
    if newest.state is Observed.RUNNING or view.regular_created:
        return False
    if newest.state is Observed.EXITED:
        again = init_restarts_after(view.pod, container, newest.exit_code)
        return init_failed(newest) and again
    return True


def _started(container: Container, newest: ObservedContainer | None, view: _View) -> bool:
    if newest is None or newest.state is not Observed.RUNNING:
        return False
    if container.startupProbe is None:
        return True
    result = view.probes.startup.get(newest.id)
    if result is not None:
        return result is ProbeResult.SUCCESS
    old = view.previous.get(container.name)
    same = old is not None and old.containerID == f"{view.runtime_name}://{newest.id}"
    return same and old is not None and bool(old.started)


def _ready(
    container: Container, newest: ObservedContainer | None, started: bool, view: _View
) -> bool:
    if newest is None or not started:
        return False
    if container.readinessProbe is None:
        return True
    return view.probes.readiness.get(newest.id) is ProbeResult.SUCCESS


def _status(container: Container, view: _View, init: bool) -> ContainerStatus:
    seen = [one for one in view.observed.containers if one.name == container.name][:2]
    newest = seen[0] if seen else None
    if newest is None:
        status = _base(container, view, init)
    else:
        status = _from_runtime(container, newest, seen[1] if len(seen) > 1 else None, view)
    cached = view.waiting.get(container.name)
    if cached is not None and _to_be_started(container, newest, view, init):
        last = status.state if status.state.terminated is not None else status.lastState
        status = msgspec.structs.replace(status, lastState=last, state=_waiting(*cached))
    if init and not is_sidecar(container):
        ended = status.state.terminated
        started = newest is not None and newest.state is Observed.RUNNING
        ready = ended is not None and ended.exitCode == 0
    else:
        started = _started(container, newest, view)
        ready = _ready(container, newest, started, view)
    return msgspec.structs.replace(
        status,
        started=started,
        ready=ready,
        volumeMounts=_mounts(container, recursive=view.recursive_read_only),
    )


def _ephemeral_status(container: Container, view: _View) -> ContainerStatus:
    """Return the status with ``started`` unset and ``ready`` False: neither applies here."""
    status = _status(container, view, init=False)
    return msgspec.structs.replace(status, started=None, ready=False)


Statuses = tuple[ContainerStatus, ...]


def container_statuses(
    pod: Pod,
    observed: ObservedPod,
    probes: ProbeView,
    *,
    previous: PodStatus | None,
    waiting: Mapping[str, tuple[str, str]],
    runtime_name: str,
    recursive_read_only: bool,
    regular_created: bool,
    stop_signals: bool = False,
    actuated: Mapping[str, ResourceRequirements] | None = None,
) -> tuple[Statuses, Statuses, Statuses]:
    """Return the statuses of init, regular and ephemeral containers.

    Init containers are in spec order, the others sorted by name.

    The newest instance gives the state, the one before it ``lastState``. ``waiting`` holds, by
    container, why its last start failed. ``regular_created``: a regular container was created.
    ``recursive_read_only``: the engine supports such mounts. ``actuated`` holds, by container, the
    resources last sent to the engine. ``stop_signals``: the feature gate ``ContainerStopSignals``
    is on.
    """
    known = previous or PodStatus()
    view = _View(
        pod=pod,
        observed=observed,
        probes=probes,
        previous={
            one.name: one
            for one in (
                *known.initContainerStatuses,
                *known.containerStatuses,
                *known.ephemeralContainerStatuses,
            )
        },
        restarting_all=any(
            one.type == RESTARTING_ALL_CONDITION and one.status == "True"
            for one in known.conditions
        ),
        waiting=waiting,
        runtime_name=runtime_name,
        recursive_read_only=recursive_read_only,
        regular_created=regular_created,
        stop_signals=stop_signals,
        actuated=actuated or {},
    )
    init = tuple(_status(one, view, init=True) for one in pod.spec.initContainers)
    regular = sorted(pod.spec.containers, key=lambda one: one.name)
    ephemeral = sorted(ephemeral_containers(pod), key=lambda one: one.name)
    return (
        init,
        tuple(_status(one, view, init=False) for one in regular),
        tuple(_ephemeral_status(one, view) for one in ephemeral),
    )


# --- resources


def _milli(amounts: Mapping[str, str]) -> int:
    return parse_quantity(amounts.get("cpu", "0")).milli_value()


def _engine_amounts(held: Resources | None) -> tuple[int, int, int]:
    """Return CPU request and limit in millicores and the memory limit in bytes, as reported by the
    engine; 0 for unknown values."""
    if held is None:
        return 0, 0, 0
    limit = quota_as_milli(held.cpu_quota, held.cpu_period)
    return shares_as_milli(held.cpu_shares), limit, max(held.memory, 0)


def container_resources_status(
    container: Container,
    newest: ObservedContainer,
    *,
    actuated: ResourceRequirements | None,
    old: ContainerStatus | None,
) -> ResourceRequirements:
    """Return the resources for a container's status: the engine's values for a running container,
    else the allocated ones. ``container`` has the allocated resources.

    ``actuated`` are the resources last applied through the engine, the only source of memory
    requests. ``old`` is the previous status if it is of the same running instance; its values are
    kept where there is no better source. Amounts too small for the kernel to distinguish are kept
    as requested.
    """
    allocated = canonical_resources(container.resources)
    if newest.state is not Observed.RUNNING:
        return allocated
    request, limit, memory = _engine_amounts(newest.resources)
    before = (old.resources if old is not None else None) or ResourceRequirements()
    limits, requests = dict(allocated.limits), dict(allocated.requests)
    if limits:
        if not limit:
            _keep(limits, before.limits, "cpu")
        elif max(limit, _milli(limits)) > MIN_MILLI_LIMIT:
            limits["cpu"] = str(Quantity.of_milli(limit))
        if memory:
            limits["memory"] = str(Quantity.of(memory, Format.BINARY_SI))
        else:
            _keep(limits, before.limits, "memory")
    if requests:
        if not request:
            _keep(requests, before.requests, "cpu")
        elif max(request, _milli(requests)) > MIN_SHARES:
            requests["cpu"] = str(Quantity.of_milli(request))
        actuated_memory = actuated.requests.get("memory", "0") if actuated is not None else "0"
        if parse_quantity(actuated_memory):
            requests["memory"] = canonical(actuated_memory)
        else:
            _keep(requests, before.requests, "memory")
    return ResourceRequirements(
        limits=dict(sorted(limits.items())), requests=dict(sorted(requests.items()))
    )


def _keep(amounts: dict[str, str], before: Mapping[str, str], name: str) -> None:
    if name in before:
        amounts[name] = before[name]
