"""Build container statuses from a pod's observed containers (kubelet.md §7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    PodCondition,
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
from podtui.kubelet.resize.allocations import Allocation
from podtui.kubelet.status.conditions import RESTARTING_ALL as RESTARTING_ALL_CONDITION
from podtui.kubelet.status.phase import RESTARTING_ALL
from podtui.kubelet.types import (
    ConfigError,
    NodeContext,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """The state of a pod that the kubelet has observed, without its spec.

    ``previous`` is the last status of this UID, ``recorded`` the one from before this kubelet
    started.
    """

    observed: ObservedPod
    probes: ProbeView
    previous: PodStatus | None = None
    recorded: PodStatus | None = None
    waiting: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Why each container's last start failed: (reason, message)."""
    resize: tuple[PodCondition, ...] = ()
    """The conditions of a resize."""
    actuated: Allocation | None = None
    """The resources last sent to the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """The inputs for the statuses of all containers of one pod."""

    pod: Pod
    view: PodView
    node: NodeContext
    previous: Mapping[str, ContainerStatus]
    restarting_all: bool
    regular_created: bool
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


def _user(container: ObservedContainer) -> ContainerUser | None:
    """Return the user of the first process, None if the runtime does not report it."""
    if container.user is None:
        return None
    uid, gid, groups = container.user
    return ContainerUser(linux=LinuxContainerUser(uid=uid, gid=gid, supplementalGroups=groups))


def _state(instance: ObservedContainer, context: _Context, was_running: bool) -> ContainerState:
    if instance.state is Observed.RUNNING:
        return ContainerState(
            running=ContainerStateRunning(startedAt=optional_rfc3339(instance.started_at))
        )
    if instance.state is Observed.EXITED:
        return ContainerState(
            terminated=ContainerStateTerminated(
                exitCode=instance.exit_code,
                reason=instance.reason,
                message=cut(instance.message, message_limit(context.pod)),
                startedAt=optional_rfc3339(instance.started_at) or NEVER_STARTED,
                finishedAt=optional_rfc3339(instance.finished_at),
                containerID=f"{context.node.runtime_name}://{instance.id}",
            )
        )
    if instance.state is Observed.UNKNOWN and was_running:
        return lost(LOST_WHEN_TERMINATED)
    return _waiting()


def _base(container: Container, context: _Context, init: bool) -> ContainerStatus:
    """Return the status of a container that the runtime does not know."""
    # A container without an instance may have run: instances are removed on purpose, and get lost.
    # The last status decides, so that a container that ran does not appear as a new one.
    has_init = bool(context.pod.spec.initContainers)
    status = ContainerStatus(
        name=container.name,
        image=container.image,
        imageID="",
        ready=False,
        restartCount=0,
        state=_waiting("PodInitializing" if has_init else "ContainerCreating"),
    )
    old = context.previous.get(container.name)
    ran = old is not None and (old.state.terminated or old.state.running)
    if old is not None and ran and context.restarting_all:
        # This includes the container that triggered the restart.
        return msgspec.structs.replace(
            status,
            restartCount=old.restartCount + 1,
            lastState=lost(REMOVED_BY_RULE, RESTARTING_ALL),
            state=_waiting(RESTARTING_ALL, REMOVED_BY_RULE),
        )
    if old is not None and old.state.terminated is not None:
        return old
    if init and context.regular_created and not is_sidecar(container):
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
    context: _Context,
) -> ContainerStatus:
    old = context.previous.get(container.name)
    was_running = old is not None and old.state.running is not None
    state = _state(newest, context, was_running)
    last = ContainerState()
    if before is not None:
        last = _state(before, context, was_running=False)
        if last.waiting is not None:
            last = ContainerState()
    # The instance before is gone, but the last status of this instance still has its end.
    elif old is not None and newest.restart_count and old.restartCount == newest.restart_count:
        last = old.lastState
    unknown_end = newest.state is Observed.UNKNOWN and was_running
    container_id = f"{context.node.runtime_name}://{newest.id}"
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
            container,
            newest,
            actuated=context.actuated.get(container.name),
            old=old if same else None,
        ),
        allocatedResources=canonical_resources(container.resources).requests,
        stopSignal=stop_signal(container) if context.node.stop_signals else "",
    )


def _to_be_started(
    container: Container, newest: ObservedContainer | None, context: _Context, init: bool
) -> bool:
    if newest is None or not init or is_sidecar(container):
        return should_restart(context.pod, container, newest)
    if newest.state is Observed.RUNNING or context.regular_created:
        return False
    if newest.state is Observed.EXITED:
        again = init_restarts_after(context.pod, container, newest.exit_code)
        return init_failed(newest) and again
    return True


def _started(container: Container, newest: ObservedContainer | None, context: _Context) -> bool:
    if newest is None or newest.state is not Observed.RUNNING:
        return False
    if container.startupProbe is None:
        return True
    # Without a result, as after a restart of the kubelet, an instance stays what it was.
    result = context.view.probes.startup.get(newest.id)
    if result is not None:
        return result is ProbeResult.SUCCESS
    old = context.previous.get(container.name)
    same = old is not None and old.containerID == f"{context.node.runtime_name}://{newest.id}"
    return same and old is not None and bool(old.started)


def _ready(
    container: Container, newest: ObservedContainer | None, started: bool, context: _Context
) -> bool:
    if newest is None or not started:
        return False
    if container.readinessProbe is None:
        return True
    return context.view.probes.readiness.get(newest.id) is ProbeResult.SUCCESS


def _status(container: Container, context: _Context, init: bool) -> ContainerStatus:
    seen = [
        instance for instance in context.view.observed.containers if instance.name == container.name
    ][:2]
    newest = seen[0] if seen else None
    if newest is None:
        status = _base(container, context, init)
    else:
        status = _from_runtime(container, newest, seen[1] if len(seen) > 1 else None, context)
    # A failed start is remembered until one succeeds. It explains the state only as long as the
    # container is to be started at all.
    cached = context.view.waiting.get(container.name)
    if cached is not None and _to_be_started(container, newest, context, init):
        last = status.state if status.state.terminated is not None else status.lastState
        status = msgspec.structs.replace(status, lastState=last, state=_waiting(*cached))
    if init and not is_sidecar(container):
        ended = status.state.terminated
        started = newest is not None and newest.state is Observed.RUNNING
        ready = ended is not None and ended.exitCode == 0
    else:
        started = _started(container, newest, context)
        ready = _ready(container, newest, started, context)
    return msgspec.structs.replace(
        status,
        started=started,
        ready=ready,
        volumeMounts=_mounts(container, recursive=context.node.recursive_read_only),
    )


def _ephemeral_status(container: Container, context: _Context) -> ContainerStatus:
    """Return the status with ``started`` unset and ``ready`` False: neither applies here."""
    status = _status(container, context, init=False)
    return msgspec.structs.replace(status, started=None, ready=False)


Statuses = tuple[ContainerStatus, ...]


def container_statuses(
    pod: Pod, view: PodView, node: NodeContext
) -> tuple[Statuses, Statuses, Statuses]:
    """Return the statuses of init, regular and ephemeral containers.

    Init containers are in spec order, the others sorted by name. The newest instance gives the
    state, the one before it ``lastState``.
    """
    previous = view.previous or PodStatus()
    regular_names = {container.name for container in pod.spec.containers}
    context = _Context(
        pod=pod,
        view=view,
        node=node,
        previous={
            status.name: status
            for status in (
                *previous.initContainerStatuses,
                *previous.containerStatuses,
                *previous.ephemeralContainerStatuses,
            )
        },
        restarting_all=any(
            condition.type == RESTARTING_ALL_CONDITION and condition.status == "True"
            for condition in previous.conditions
        ),
        regular_created=any(
            instance.name in regular_names for instance in view.observed.containers
        ),
        actuated={} if view.actuated is None else view.actuated.containers,
    )
    regular = sorted(pod.spec.containers, key=lambda container: container.name)
    ephemeral = sorted(ephemeral_containers(pod), key=lambda container: container.name)
    return (
        tuple(_status(container, context, init=True) for container in pod.spec.initContainers),
        tuple(_status(container, context, init=False) for container in regular),
        tuple(_ephemeral_status(container, context) for container in ephemeral),
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
    # A container that does not run has no resources in effect: it would start with these.
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
