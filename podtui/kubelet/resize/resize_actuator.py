"""Apply resizes through the engine: memory first, decreases before increases (reference §13.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.v1 import Container, Pod
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.base.types import ContainerAmounts, ContainerUpdate
from podtui.kubelet.containers.cgroups import cgroup_rules, container_resources
from podtui.kubelet.containers.starter import Place
from podtui.kubelet.resize.allocation import allocated_pod
from podtui.kubelet.resize.allocations import Allocations
from podtui.kubelet.resize.resize import (
    amounts_to_say,
    container_amounts,
    lowers_memory,
    memory_problem,
    requirements,
)
from podtui.runtime.protocol import Resources, Runtime

LIFT: Final = -1


class ResizeActuator:
    def __init__(self, runtime: Runtime, allocations: Allocations, config: KubeletConfig) -> None:
        self._runtime = runtime
        self._allocations = allocations
        self._config = config

    async def carry_out(self, pod: Pod, updates: Sequence[ContainerUpdate], place: Place) -> str:
        """Apply the updates. Return the error message, empty on success; ``pod`` has the allocated
        resources. Updates before a failure stay applied. Raises `EngineUnavailable`."""
        try:
            problem = await self._memory_problem(pod, updates)
            if problem:
                return problem
            for update in updates:
                await self._say(pod, update, place)
        except EngineUnavailable:
            raise
        except EngineError as error:
            return str(error)
        self._allocations.actuate_pod(pod)
        return ""

    async def _memory_problem(self, pod: Pod, updates: Sequence[ContainerUpdate]) -> str:
        held = self._held(pod)
        if not lowers_memory(pod, held, updates):
            return ""
        stats = await self._runtime.stats()
        usage = {one.name: one.memory for one in stats if one.pod_uid == pod.metadata.uid}
        return memory_problem(pod, held, updates, usage)

    def _held(self, pod: Pod) -> Pod:
        """Return the pod with the resources last applied through the engine."""
        return allocated_pod(pod, self._allocations.actuated(pod.metadata.uid))

    async def _say(self, pod: Pod, update: ContainerUpdate, place: Place) -> None:
        held = self._held(pod)
        current = container_amounts(held, _container(held, update.name))
        amounts = amounts_to_say(update, current)
        container = structs.replace(_container(pod, update.name), resources=requirements(amounts))
        rules = cgroup_rules(self._config, lower_oom=place.engine.supports_lower_oom_score)
        resources = container_resources(pod, container, place.node.resources, rules)
        await self._runtime.update_container(update.id, _lifting(resources, current))
        self._allocations.actuate(pod, container)


def _lifting(resources: Resources, current: ContainerAmounts) -> Resources:
    """Set removed limits to "unlimited" explicitly: the engine keeps the old value of an absent
    field."""
    return replace(
        resources,
        memory=resources.memory or (LIFT if current.memory_limit else 0),
        cpu_quota=resources.cpu_quota or (LIFT if current.cpu_limit else 0),
    )


def _container(pod: Pod, name: str) -> Container:
    everyone = (*pod.spec.initContainers, *pod.spec.containers)
    return next(one for one in everyone if one.name == name)
