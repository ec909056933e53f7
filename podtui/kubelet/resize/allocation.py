"""The resources that a pod was admitted with, as opposed to those in its manifest (reference
§13.6).

An allocation is independent of later edits of the manifest: the kubelet runs the pod with the
allocated resources, and a new amount is allocated only after admission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from podtui.api.quantity import parse_quantity
from podtui.api.v1 import Container, Pod, ResourceRequirements

RESIZABLE: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The resources of a pod and of its containers by name. ``pod`` is None if the pod sets no
    pod-level resources.

    Ephemeral containers have no resources and are left out.
    """

    pod: ResourceRequirements | None
    containers: Mapping[str, ResourceRequirements]


def allocation_of(pod: Pod) -> Allocation:
    """Return the pod's requested resources as an allocation."""
    everyone = (*pod.spec.initContainers, *pod.spec.containers)
    return Allocation(
        pod=pod.spec.resources, containers={one.name: one.resources for one in everyone}
    )


def _same_amounts(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    return left == right or (
        left.keys() == right.keys()
        and all(parse_quantity(text) == parse_quantity(right[name]) for name, text in left.items())
    )


def same_resources(left: ResourceRequirements | None, right: ResourceRequirements | None) -> bool:
    """Return whether both have equal amounts, independent of the notation."""
    if left is None or right is None:
        return left is right
    return (
        _same_amounts(left.limits, right.limits)
        and _same_amounts(left.requests, right.requests)
        and left.claims == right.claims
    )


def allocated_pod(pod: Pod, allocation: Allocation | None) -> Pod:
    """Return the pod with its allocated resources; the same object if nothing differs."""
    if allocation is None:
        return pod

    def allocated(container: Container) -> Container:
        own = allocation.containers.get(container.name)
        if own is None or same_resources(own, container.resources):
            return container
        return structs.replace(container, resources=own)

    spec = pod.spec
    init = tuple([allocated(one) for one in spec.initContainers])
    regular = tuple([allocated(one) for one in spec.containers])
    same = all(
        new is old
        for new, old in zip(
            (*init, *regular), (*spec.initContainers, *spec.containers), strict=True
        )
    )
    if same_resources(allocation.pod, spec.resources):
        if same:
            return pod
        resources = spec.resources
    else:
        resources = allocation.pod
    return structs.replace(
        pod,
        spec=structs.replace(spec, initContainers=init, containers=regular, resources=resources),
    )


def with_pod_limits(pod: Pod, container: Container) -> ResourceRequirements:
    """Return a container's resources for the engine: limits that it does not set come from the
    pod."""
    own = container.resources
    shared = pod.spec.resources.limits if pod.spec.resources is not None else {}
    missing = {
        name: shared[name]
        for name in RESIZABLE
        if name in shared and not parse_quantity(own.limits.get(name, "0"))
    }
    return structs.replace(own, limits={**own.limits, **missing}) if missing else own


def _resizable(resources: ResourceRequirements) -> list[int]:
    texts = [
        amounts.get(name, "0")
        for name in RESIZABLE
        for amounts in (resources.limits, resources.requests)
    ]
    return [parse_quantity(text).nano for text in texts]


def asks_for_resize(old: Pod, new: Pod) -> bool:
    """Return whether an update changes the pod-level resources, or the CPU or memory of an existing
    container."""
    if not same_resources(old.spec.resources, new.spec.resources):
        return True
    before = {one.name: one for one in (*old.spec.initContainers, *old.spec.containers)}
    return any(
        one.name in before and _resizable(before[one.name].resources) != _resizable(one.resources)
        for one in (*new.spec.initContainers, *new.spec.containers)
    )
