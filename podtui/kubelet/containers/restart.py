"""Decide whether a container runs again (reference §6.2, 6.3, 6.8)."""

from __future__ import annotations

from enum import StrEnum

from podtui.api.v1 import Container, ContainerRestartRule, Pod
from podtui.kubelet.base.types import ObservedContainer, ObservedPod
from podtui.runtime.protocol import ContainerState


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
    found: list[str] = []
    for container in (*pod.spec.containers, *pod.spec.initContainers):
        newest = observed.newest(container.name)
        if newest is None or newest.state is not ContainerState.EXITED:
            continue
        if exit_decision(pod, container, newest.exit_code) is ExitDecision.RESTART_ALL:
            found.append(container.name)
    return tuple(found)
