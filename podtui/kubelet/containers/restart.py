"""Restarts of containers: by policy, on request, and their counts (kubelet.md §6.2, 6.3, 6.8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import structs

from podtui.api.pods import is_sidecar
from podtui.api.v1 import Container, ContainerRestartRule, ContainerStatus, Pod, PodStatus
from podtui.errors import RestartRefused
from podtui.kubelet.types import ObservedContainer, ObservedPod
from podtui.runtime.protocol import ContainerState

ALWAYS = "Always"


class ExitDecision(StrEnum):
    """The consequence of one exit of a container."""

    STOP = "Stop"
    RESTART = "Restart"
    RESTART_ALL = "RestartAllContainers"


def _matches(rule: ContainerRestartRule, exit_code: int) -> bool:
    if rule.exitCodes is None:
        return False
    listed = exit_code in rule.exitCodes.values
    return listed if rule.exitCodes.operator == "In" else not listed


def _by_policy(policy: str, exit_code: int) -> ExitDecision:
    if policy == "Never" or (policy == "OnFailure" and exit_code == 0):
        return ExitDecision.STOP
    return ExitDecision.RESTART


def exit_decision(pod: Pod, container: Container, exit_code: int) -> ExitDecision:
    """Apply the container's rules first, then its own policy, then the pod's."""
    if not container.restartPolicy:
        return _by_policy(pod.spec.restartPolicy, exit_code)
    for rule in container.restartPolicyRules:
        if _matches(rule, exit_code):
            all_of_them = rule.action == ExitDecision.RESTART_ALL
            return ExitDecision.RESTART_ALL if all_of_them else ExitDecision.RESTART
    return _by_policy(container.restartPolicy, exit_code)


def restarts_after(pod: Pod, container: Container, exit_code: int) -> bool:
    """Return True if the container runs again after an exit with this code."""
    return exit_decision(pod, container, exit_code) is not ExitDecision.STOP


def init_failed(observed: ObservedContainer) -> bool:
    """Return True if a plain init container failed; an OOM kill is a failure even with code 0."""
    return observed.exit_code != 0 or observed.reason == "OOMKilled"


def init_restarts_after(pod: Pod, container: Container, exit_code: int) -> bool:
    """Return True if a *failed* plain init container is retried."""
    if container.restartPolicy:
        return restarts_after(pod, container, exit_code)
    return pod.spec.restartPolicy != "Never"


def may_restart(pod: Pod, container: Container) -> bool:
    """Return True if the restart policy allows another run; rules are not consulted.

    Used where no exit code is known, as after a kill by a probe.
    """
    return (container.restartPolicy or pod.spec.restartPolicy) != "Never"


def should_restart(pod: Pod, container: Container, observed: ObservedContainer | None) -> bool:
    """Return True if the container must be started, given its newest instance.

    Never created, stuck in created, or unknown: yes. Running: no. Exited: by rules and policies. A
    pod marked for deletion starts no container.
    """
    if pod.metadata.deletionTimestamp is not None:
        return False
    if observed is None:
        return True
    if observed.state is ContainerState.RUNNING:
        return False
    if observed.state is ContainerState.EXITED:
        return restarts_after(pod, container, observed.exit_code)
    return True


def has_restart_all_rule(pod: Pod) -> bool:
    """Return True if a rule of the pod can restart all of its containers."""
    return any(
        rule.action == ExitDecision.RESTART_ALL
        for container in (*pod.spec.initContainers, *pod.spec.containers)
        for rule in container.restartPolicyRules
    )


def restart_all_triggers(pod: Pod, observed: ObservedPod) -> tuple[str, ...]:
    """Return the names of the containers whose last exit requires a restart of all containers."""
    if pod.metadata.deletionTimestamp is not None or not has_restart_all_rule(pod):
        return ()
    triggers: list[str] = []
    for container in (*pod.spec.containers, *pod.spec.initContainers):
        newest = observed.newest(container.name)
        if newest is None or newest.state is not ContainerState.EXITED:
            continue
        if exit_decision(pod, container, newest.exit_code) is ExitDecision.RESTART_ALL:
            triggers.append(container.name)
    return tuple(triggers)


# --- restarts on request


class RestartRequests:
    """Engine ids of the containers to restart on request, by pod UID.

    An id is forgotten once its container is no longer the newest of its name, so that two requests
    cause only one restart.
    """

    def __init__(self) -> None:
        self._asked: dict[str, frozenset[str]] = {}

    def ask(self, uid: str, ids: Iterable[str]) -> None:
        self._asked[uid] = self._asked.get(uid, frozenset()) | frozenset(ids)

    def of(self, observed: ObservedPod) -> frozenset[str]:
        """Return the ids of the restart requests that are still pending."""
        requested = self._asked.get(observed.uid)
        if requested is None:
            return frozenset()
        newest = {container.name: container.id for container in reversed(observed.containers)}
        left = requested & frozenset(newest.values())
        if left:
            self._asked[observed.uid] = left
        else:
            del self._asked[observed.uid]
        return left

    def forget(self, uid: str) -> None:
        """Drop the requests for a pod that is gone or starts over."""
        self._asked.pop(uid, None)


def always_restarts(pod: Pod, container: Container) -> bool:
    """Return True if a container always runs again, however it ends."""
    if is_sidecar(container):
        return True
    policy = container.restartPolicy or pod.spec.restartPolicy
    return policy == ALWAYS and container in pod.spec.containers


def restarts_in_place(pod: Pod) -> bool:
    """Return True if stopping its containers restarts the pod; otherwise, it has to start over."""
    return all(always_restarts(pod, container) for container in pod.spec.containers)


def to_restart(pod: Pod, observed: ObservedPod | None, name: str = "") -> tuple[str, ...]:
    """Return the ids of the containers to stop, to restart the pod or its container ``name``.

    Containers that do not run are omitted: they only have to start. Raises `LookupError` for an
    unknown container and `RestartRefused` for one that would not run again.
    """
    every = (*pod.spec.initContainers, *pod.spec.containers)
    wanted = [spec for spec in every if spec.name == name] if name else list(every)
    if not wanted:
        raise LookupError(f'container "{name}" not found in pod "{pod.metadata.name}"')
    if name and not always_restarts(pod, wanted[0]):
        raise RestartRefused(
            f'container "{name}" would not start again after it is stopped: restart the pod instead'
        )
    newest = [observed.newest(spec.name) if observed else None for spec in wanted]
    return tuple(
        instance.id
        for instance, spec in zip(newest, wanted, strict=True)
        if instance is not None
        and instance.state is ContainerState.RUNNING
        and always_restarts(pod, spec)
    )


# --- restart counts (kubelet.md §6.5)


@dataclass(slots=True)
class _Counts:
    """By container name: the newest instance's count, and the highest count ever shown.

    The latter is one ahead if a status counts an instance that vanished.
    """

    instances: dict[str, int] = field(default_factory=dict[str, int])
    shown: dict[str, int] = field(default_factory=dict[str, int])


class RestartCounts:
    """Restart counts by pod UID.

    They are remembered here, and learnt from the records of an earlier run; a kubelet reads them
    from the names of log files.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _Counts] = {}

    def observe(self, observed: ObservedPod) -> None:
        counts = self._pods.setdefault(observed.uid, _Counts())
        for container in observed.containers:
            highest = counts.instances.get(container.name, -1)
            counts.instances[container.name] = max(highest, container.restart_count)

    def show(self, uid: str, status: PodStatus, *, seed: PodStatus | None) -> PodStatus:
        """Return the status with no count lower than one shown before.

        ``seed`` is the last status of an earlier run.
        """
        counts = self._pods.setdefault(uid, _Counts())
        if seed is not None and not counts.shown:
            self._learn(counts, seed)

        def raised(every: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
            statuses: list[ContainerStatus] = []
            for container in every:
                counted = (
                    counts.instances.get(container.name, 0),
                    counts.shown.get(container.name, 0),
                )
                highest = max(container.restartCount, *counted)
                counts.shown[container.name] = highest
                same = highest == container.restartCount
                statuses.append(
                    container if same else structs.replace(container, restartCount=highest)
                )
            return tuple(statuses)

        return structs.replace(
            status,
            initContainerStatuses=raised(status.initContainerStatuses),
            containerStatuses=raised(status.containerStatuses),
        )

    def _learn(self, counts: _Counts, seed: PodStatus) -> None:
        for container in (*seed.initContainerStatuses, *seed.containerStatuses):
            counts.shown[container.name] = container.restartCount
            if container.containerID:
                highest = counts.instances.get(container.name, -1)
                counts.instances[container.name] = max(highest, container.restartCount)

    def next(self, uid: str, container: str) -> int:
        """Return the restart count of the container's next instance."""
        counts = self._pods.get(uid, _Counts())
        instance = counts.instances.get(container, -1)
        return max(instance + 1, counts.shown.get(container, 0))

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
