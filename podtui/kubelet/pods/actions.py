"""Compute the actions of a sync pass from the desired and the observed pod
(kubelet.md §6.1-6.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from podtui.api.kills import KillReason
from podtui.api.pods import is_sidecar
from podtui.api.v1 import Container, Pod
from podtui.kubelet.containers.container_config import container_hash
from podtui.kubelet.containers.restart import (
    init_failed,
    init_restarts_after,
    may_restart,
    restart_all_triggers,
    should_restart,
)
from podtui.kubelet.resize.allocations import Allocation
from podtui.kubelet.resize.plan import ResizePlan
from podtui.kubelet.sandbox.sandbox import sandbox_changed
from podtui.kubelet.types import (
    ContainerToKill,
    ObservedContainer,
    ObservedPod,
    PodActions,
    ProbeResult,
    ProbeView,
)
from podtui.runtime.protocol import ContainerState


def regular_started(pod: Pod, observed: ObservedPod) -> bool:
    """Return True if a regular container is created or running in the newest sandbox.

    This proves that initialization has finished.
    """
    names = {container.name for container in pod.spec.containers}
    alive = (ContainerState.CREATED, ContainerState.RUNNING)
    sandbox = observed.sandboxes[0].id if observed.sandboxes else ""
    return any(
        container.name in names and container.state in alive and container.sandbox_id == sandbox
        for container in observed.containers
    )


@dataclass(slots=True)
class _InitPlan:
    initialized: bool = False
    failed: bool = False
    start: list[str] = field(default_factory=list[str])
    kill: list[ContainerToKill] = field(default_factory=list[ContainerToKill])


def _changed(container: Container, observed: ObservedContainer) -> bool:
    return bool(observed.hash) and observed.hash != container_hash(container)


def _init_sidecar_running(
    container: Container,
    observed: ObservedContainer,
    probes: ProbeView,
    plan: _InitPlan,
    resize: ResizePlan,
    restart: Callable[[], None],
    *,
    requested: bool,
) -> bool:
    """Plan the kill of a running sidecar if needed; return True if it counts as initialized."""
    name = container.name

    def kill(message: str, reason: KillReason) -> None:
        plan.kill.append(_to_kill(observed, message, reason))
        restart()

    # Nothing waits for a sidecar to end: its startup probe decides when the next container starts.
    if container.startupProbe is not None:
        result = probes.startup.get(observed.id)
        if result is ProbeResult.FAILURE:
            kill(f"Init container {name} failed startup probe", KillReason.STARTUP_PROBE)
        if result is not ProbeResult.SUCCESS:
            return False
    if _changed(container, observed):
        kill(f"Init container {name} definition changed", KillReason.DEFINITION_CHANGED)
    elif probes.liveness.get(observed.id) is ProbeResult.FAILURE:
        kill(f"Init container {name} failed liveness probe", KillReason.LIVENESS_PROBE)
    elif resize.needs_restart(container, observed.id):
        kill(_resized(container), KillReason.RESIZE)
    elif requested:
        kill("", KillReason.REQUESTED)
    return True


def _plan_init(
    pod: Pod,
    observed: ObservedPod,
    probes: ProbeView,
    resize: ResizePlan,
    requested: frozenset[str],
) -> _InitPlan:
    """Plan the init containers, walking from the last one to the first.

    The first container found with an instance decides how far initialization got. Of the
    containers before it in the list, only sidecars still matter.
    """
    specs = pod.spec.initContainers
    plan = _InitPlan(initialized=not specs)
    decided = plan.initialized or regular_started(pod, observed)
    plan.initialized = decided
    starts: set[int] = set()

    def done(index: int) -> None:
        if index + 1 == len(specs):
            plan.initialized = True
        else:
            starts.add(index + 1)

    # Backwards, because an init container starts only after those before it have succeeded. The
    # last one with an instance thus proves that the earlier ones did.
    for index in reversed(range(len(specs))):
        container = specs[index]
        newest = observed.newest(container.name)
        sidecar = is_sidecar(container)
        if newest is None:
            if decided and sidecar:
                starts.add(index)
            continue
        if decided and not sidecar:
            continue
        if newest.state is ContainerState.RUNNING:
            if sidecar:
                ready = _init_sidecar_running(
                    container,
                    newest,
                    probes,
                    plan,
                    resize,
                    lambda at=index: starts.add(at),
                    requested=newest.id in requested,
                )
                if ready and not decided:
                    done(index)
            else:
                # Only records the updates: in a valid pod, no plain init container restarts for
                # a resize.
                resize.needs_restart(container, newest.id)
        elif sidecar or newest.state is ContainerState.CREATED:
            if newest.state is ContainerState.UNKNOWN:
                plan.kill.append(_unknown(newest, "Init container"))
            starts.add(index)
        elif newest.state is ContainerState.EXITED and not init_failed(newest):
            done(index)
        elif _init_restarts(pod, container, newest):
            if newest.state is ContainerState.UNKNOWN:
                plan.kill.append(_unknown(newest, "Init container"))
            starts.add(index)
        else:
            plan.failed = True
            return plan
        decided = True
    if not decided:
        starts.add(0)
    plan.start = [specs[index].name for index in sorted(starts)]
    return plan


def _init_restarts(pod: Pod, container: Container, observed: ObservedContainer) -> bool:
    """Return True if a plain init container that did not succeed runs again.

    A container in the unknown state has no known exit code, so restart rules cannot apply to it.
    """
    if observed.state is ContainerState.UNKNOWN:
        return may_restart(pod, container)
    return init_restarts_after(pod, container, observed.exit_code)


def _unknown(observed: ObservedContainer, what: str = "Container") -> ContainerToKill:
    text = f'{what} is in "unknown" state, try killing it before restart'
    return _to_kill(observed, text, KillReason.UNKNOWN)


def _to_kill(observed: ObservedContainer, message: str, reason: KillReason) -> ContainerToKill:
    return ContainerToKill(id=observed.id, name=observed.name, message=message, reason=reason)


def _resized(container: Container) -> str:
    return f"Container {container.name} resize requires restart"


def _why_kill(
    container: Container, observed: ObservedContainer, probes: ProbeView
) -> tuple[str, KillReason] | None:
    if _changed(container, observed):
        return f"Container {container.name} definition changed", KillReason.DEFINITION_CHANGED
    if probes.liveness.get(observed.id) is ProbeResult.FAILURE:
        return f"Container {container.name} failed liveness probe", KillReason.LIVENESS_PROBE
    if probes.startup.get(observed.id) is ProbeResult.FAILURE:
        return f"Container {container.name} failed startup probe", KillReason.STARTUP_PROBE
    return None


def _succeeded(observed: ObservedContainer) -> bool:
    return observed.state is ContainerState.EXITED and observed.exit_code == 0


def _new_sandbox(pod: Pod, observed: ObservedPod) -> PodActions:
    attempt = observed.sandboxes[0].attempt + 1 if observed.sandboxes else 0
    ending = PodActions(kill_pod=True, attempt=attempt)
    if pod.metadata.deletionTimestamp is not None:
        return ending
    # Its containers ran in the lost sandbox, and may not run a second time.
    if pod.spec.restartPolicy == "Never" and attempt != 0 and observed.containers:
        return ending
    wanted: list[str] = []
    created = False
    for container in pod.spec.containers:
        newest = observed.newest(container.name)
        created = created or newest is not None
        # Restart rules and a container's own policy "Never" do not count here: with a new sandbox,
        # such a container runs again.
        policy = container.restartPolicy or pod.spec.restartPolicy
        if policy == "OnFailure" and newest is not None and _succeeded(newest):
            continue
        wanted.append(container.name)
    if not wanted and created:
        return ending
    # Initialization starts anew with the sandbox. Init containers of the old one are removed:
    # `_plan_init` would take them for those of the new one.
    init = pod.spec.initContainers
    return PodActions(
        kill_pod=bool(observed.sandboxes or observed.containers),
        create_sandbox=True,
        attempt=attempt,
        start_init=(init[0].name,) if init else (),
        start=() if init else tuple(wanted),
        purge_init=bool(init),
    )


def compute_pod_actions(
    pod: Pod,
    observed: ObservedPod,
    *,
    probes: ProbeView,
    actuated: Allocation | None = None,
    requested: frozenset[str] = frozenset(),
) -> PodActions:
    """Return all actions of one pass that bring the observed pod to the desired one.

    ``pod`` is the pod as allocated. ``actuated`` holds the resources last applied to its running
    containers, None if unknown. ``requested`` holds the ids of containers to restart on request.
    Crash-loop back-off is not considered here: the container starter applies it. Actions with
    ``kill_pod`` but without ``create_sandbox`` end the pod.
    """
    # First what affects all containers, so that nothing is planned for one of them in vain.
    if sandbox_changed(pod, observed):
        return _new_sandbox(pod, observed)
    sandbox = observed.sandboxes[0]
    if triggers := restart_all_triggers(pod, observed):
        # The pass only removes them. To the next pass, the sandbox is that of a new pod.
        return PodActions(
            sandbox_id=sandbox.id,
            attempt=sandbox.attempt,
            reset=_reset_order(pod, observed, triggers),
        )
    resize = ResizePlan(pod, actuated)
    ephemeral = _new_ephemeral(pod, observed)
    plan = _plan_init(pod, observed, probes, resize, requested)
    if plan.failed:
        return PodActions(kill_pod=True, sandbox_id=sandbox.id, attempt=sandbox.attempt)
    if not plan.initialized:
        if pod.metadata.deletionTimestamp is not None:
            plan.start.clear()
        return PodActions(
            sandbox_id=sandbox.id,
            attempt=sandbox.attempt,
            kill=tuple(plan.kill),
            start_init=tuple(plan.start),
            start_ephemeral=ephemeral,
            update=resize.updates,
        )
    kill = list(plan.kill)
    start: list[str] = []
    kept = 0
    for container in pod.spec.containers:
        newest = observed.newest(container.name)
        if newest is None or newest.state is not ContainerState.RUNNING:
            if should_restart(pod, container, newest):
                if newest is not None and newest.state is ContainerState.UNKNOWN:
                    kill.append(_unknown(newest))
                start.append(container.name)
            continue
        why = _why_kill(container, newest, probes)
        if why is None and resize.needs_restart(container, newest.id):
            text, reason = _resized(container), KillReason.RESIZE
            kill.append(_to_kill(newest, text, reason))
            start.append(container.name)
            continue
        if why is None and newest.id in requested:
            kill.append(_to_kill(newest, "", KillReason.REQUESTED))
            start.append(container.name)
            continue
        if why is None:
            kept += 1
            continue
        message, reason = why
        # A changed definition makes another container, which no restart policy keeps from running.
        if _changed(container, newest) or may_restart(pod, container):
            message += ", will be restarted"
            start.append(container.name)
        kill.append(_to_kill(newest, message, reason))
    # Sidecars do not count: they end with the regular containers.
    if not kept and not start:
        return PodActions(
            kill_pod=True, kill=tuple(kill), sandbox_id=sandbox.id, attempt=sandbox.attempt
        )
    return PodActions(
        sandbox_id=sandbox.id,
        attempt=sandbox.attempt,
        kill=tuple(kill),
        start_init=tuple(plan.start),
        start=tuple(start),
        start_ephemeral=ephemeral,
        update=resize.updates,
        resize_pod=resize.changes_pod,
    )


def _new_ephemeral(pod: Pod, observed: ObservedPod) -> tuple[str, ...]:
    """Return the ephemeral containers without an instance: each is started only once."""
    every = (container.name for container in pod.spec.ephemeralContainers)
    return tuple(name for name in every if observed.newest(name) is None)


def _reset_order(pod: Pod, observed: ObservedPod, triggers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids to remove: regular containers, then init containers, then the triggers.

    An interrupted pass thus leaves the triggering containers for the next one. Ephemeral
    containers are left alone.
    """
    init = {container.name for container in pod.spec.initContainers}
    names = init | {container.name for container in pod.spec.containers}

    def rank(container: ObservedContainer) -> int:
        if container.name in triggers:
            return 2
        return 1 if container.name in init else 0

    removed = (container for container in observed.containers if container.name in names)
    return tuple(container.id for container in sorted(removed, key=rank))
