"""Plan the resize of running containers, and format resize messages (kubelet.md §13.6)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from podtui.api.pod_resources import (
    BEST_EFFORT,
    GUARANTEED,
    canonical_resources,
    effective_limit,
    pod_limits,
    qos_class,
)
from podtui.api.pods import is_sidecar
from podtui.api.quantity import Format, Quantity, parse_quantity
from podtui.api.v1 import Container, Pod, ResourceRequirements
from podtui.kubelet.resize.allocations import RESIZABLE, Allocation, allocated_pod
from podtui.kubelet.types import (
    ContainerAmounts,
    ContainerUpdate,
    ObservedPod,
    ResizableResource,
)
from podtui.runtime.protocol import ContainerState
from podtui.text.go_format import aggregated

STARTED: Final = "Pod resize started"
COMPLETED: Final = "Pod resize completed"
FAILED: Final = "Pod resize error"
_NOTHING: Final = ResourceRequirements()


def container_amounts(pod: Pod, container: Container) -> ContainerAmounts:
    requests = container.resources.requests
    return ContainerAmounts(
        memory_limit=effective_limit(pod, container, "memory") or 0,
        memory_request=parse_quantity(requests.get("memory", "0")).value(),
        cpu_limit=effective_limit(pod, container, "cpu") or 0,
        cpu_request=parse_quantity(requests.get("cpu", "0")).milli_value(),
    )


def requirements(amounts: ContainerAmounts) -> ResourceRequirements:
    """Convert the amounts to resource requirements, including zeros."""

    def texts(cpu: int, memory: int) -> dict[str, str]:
        return {
            "cpu": str(Quantity.of_milli(cpu)),
            "memory": str(Quantity.of(memory, Format.BINARY_SI)),
        }

    return ResourceRequirements(
        limits=texts(amounts.cpu_limit, amounts.memory_limit),
        requests=texts(amounts.cpu_request, amounts.memory_request),
    )


@dataclass(slots=True)
class ResizePlan:
    """Collects the updates that the running containers of one pod need.

    ``pod`` has the allocated resources; ``actuated`` are those last applied through the engine.
    Containers that ``actuated`` does not contain get no update.
    """

    pod: Pod
    actuated: Allocation | None
    _updates: list[ContainerUpdate] = field(default_factory=list[ContainerUpdate])

    def needs_restart(self, container: Container, container_id: str) -> bool:
        """Return whether a running container must restart to get its new amounts. If not, add the
        required updates to the plan."""
        if self.actuated is None or container.name not in self.actuated.containers:
            return False
        held = allocated_pod(self.pod, self.actuated)
        before = next(spec for spec in _everyone(held) if spec.name == container.name)
        desired = container_amounts(self.pod, container)
        current = container_amounts(held, before)
        changed: list[ResizableResource] = [
            name for name in ("memory", "cpu") if desired.of(name) != current.of(name)
        ]
        policies = {policy.resourceName: policy.restartPolicy for policy in container.resizePolicy}
        if any(policies.get(name) == "RestartContainer" for name in changed):
            return True
        self._updates += [
            ContainerUpdate(
                id=container_id,
                name=container.name,
                resource=name,
                desired=desired,
                current=current,
            )
            for name in changed
        ]
        return False

    @property
    def changes_pod(self) -> bool:
        """Return whether the pod-level resources have changed."""
        return self.actuated is not None and _pod_differs(self.pod, self.actuated)

    @property
    def updates(self) -> tuple[ContainerUpdate, ...]:
        """Return the updates in order: memory before CPU, and for each resource decreases before
        increases. Decreases are in reverse order of discovery."""
        ordered: list[ContainerUpdate] = []
        for name in ("memory", "cpu"):
            updates = [update for update in self._updates if update.resource == name]
            ordered += [update for update in reversed(updates) if not update.grows]
            ordered += [update for update in updates if update.grows]
        return tuple(ordered)


def _everyone(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.initContainers, *pod.spec.containers)


def amounts_to_update(update: ContainerUpdate, current: ContainerAmounts) -> ContainerAmounts:
    """Return the desired amounts of the updated resource, with the current amounts of the other
    one."""
    desired = update.desired
    if update.resource == "memory":
        return replace(
            current, memory_limit=desired.memory_limit, memory_request=desired.memory_request
        )
    return replace(current, cpu_limit=desired.cpu_limit, cpu_request=desired.cpu_request)


def resize_in_progress(pod: Pod, observed: ObservedPod, actuated: Allocation | None) -> bool:
    """Return whether a running container still lacks the amounts allocated to the pod. A container
    that does not run gets them at its start."""
    if actuated is None:
        return False
    held = allocated_pod(pod, actuated)
    if pod.spec.resources is not None and actuated.pod is not None and _pod_differs(pod, actuated):
        return True
    for container, before in zip(_everyone(pod), _everyone(held), strict=True):
        newest = observed.newest(container.name)
        plain_init = container in pod.spec.initContainers and not is_sidecar(container)
        if plain_init or newest is None or newest.state is not ContainerState.RUNNING:
            continue
        if container_amounts(pod, container) != container_amounts(held, before):
            return True
    return False


def _pod_differs(pod: Pod, actuated: Allocation) -> bool:
    desired, before = pod.spec.resources or _NOTHING, actuated.pod or _NOTHING
    return any(
        parse_quantity(amounts.get(name, "0")) != parse_quantity(amounts_before.get(name, "0"))
        for name in RESIZABLE
        for amounts, amounts_before in (
            (desired.limits, before.limits),
            (desired.requests, before.requests),
        )
    )


# --- memory


def pod_memory_limit(pod: Pod) -> int | None:
    """Return the memory limit in bytes that a kubelet would set for the pod as a whole; None for no
    limit (kubelet.md §13.2)."""
    resources = pod.spec.resources
    declared = all(
        parse_quantity(container.resources.limits.get("memory", "0"))
        for container in _everyone(pod)
    )
    declared = declared or (
        resources is not None and bool(parse_quantity(resources.limits.get("memory", "0")))
    )
    qos = qos_class(pod)
    if qos == GUARANTEED or (qos != BEST_EFFORT and declared):
        return pod_limits(pod).get("memory", 0)
    return None


def _new_pod_limit(pod: Pod, held: Pod) -> int | None:
    """Return the pod's new memory limit if it is lower than the old one, else None."""
    new, old = pod_memory_limit(pod), pod_memory_limit(held)
    return new if new is not None and (old is None or new < old) else None


def _new_limits(updates: Iterable[ContainerUpdate]) -> dict[str, int]:
    """Return the lowered memory limits by container."""
    return {
        update.name: update.desired.memory_limit
        for update in updates
        if update.resource == "memory"
        and update.desired.memory_limit
        and not 0 < update.current.memory_limit <= update.desired.memory_limit
    }


def lowers_memory(pod: Pod, held: Pod, updates: Iterable[ContainerUpdate]) -> bool:
    """Return whether `memory_problem` has anything to check. ``held`` has the current resources."""
    memory = [update for update in updates if update.resource == "memory"]
    return bool(memory) and (_new_pod_limit(pod, held) is not None or bool(_new_limits(memory)))


def memory_problem(
    pod: Pod, held: Pod, updates: Iterable[ContainerUpdate], usage: Mapping[str, int]
) -> str:
    """Return why the memory limits cannot be lowered as in ``updates``; empty if they can.

    ``held`` has the current resources; ``usage`` is in bytes by container.
    """
    problems: list[str] = []
    pod_limit, total = _new_pod_limit(pod, held), sum(usage.values())
    if pod_limit is not None and total >= pod_limit:
        problems.append(
            f"attempting to set pod memory limit ({pod_limit}) below current usage ({total})"
        )
    for container, limit in _new_limits(updates).items():
        used, name = usage.get(container), json.dumps(container)
        if used is None:
            problems.append(f"missing container {name} memory usage")
        elif used >= limit:
            problems.append(
                f"attempting to set container {name} memory limit ({limit})"
                f" below current usage ({used})"
            )
    if not problems:
        return ""
    return f"cannot decrease memory limits: {aggregated(problems)}"


# --- messages


def _summary(containers: Iterable[Container]) -> list[dict[str, Any]]:
    summary: list[dict[str, Any]] = []
    for container in containers:
        resources = canonical_resources(container.resources)
        amounts = {"limits": resources.limits, "requests": resources.requests}
        summary.append(
            {
                "name": container.name,
                "resources": {kind: texts for kind, texts in amounts.items() if texts},
            }
        )
    return summary


def resize_message(reason: str, pod: Pod, *, generation: int = 0, error: str = "") -> str:
    """Format ``reason`` followed by the desired resources of the pod's containers as JSON."""
    summary: dict[str, Any] = {}
    if pod.spec.initContainers:
        summary["initContainers"] = _summary(pod.spec.initContainers)
    summary |= {"containers": _summary(pod.spec.containers), "generation": generation}
    if error:
        summary["error"] = error
    text = json.dumps(summary, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return f"{reason}: {text}"
