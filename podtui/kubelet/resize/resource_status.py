"""What a status says of a container's and a pod's resources (reference §7.2, 13.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podtui.api.quantity import Format, Quantity, canonical, parse_quantity
from podtui.api.v1 import Container, ContainerStatus, ResourceRequirements
from podtui.kubelet.base.types import ObservedContainer
from podtui.kubelet.containers.cgroups import MIN_SHARES, quota_as_milli, shares_as_milli
from podtui.runtime.protocol import ContainerState, Resources

MIN_MILLI_LIMIT: Final = 10
"""The smallest cpu limit that a quota can express."""

Texts = dict[str, str]


def canonical_resources(resources: ResourceRequirements) -> ResourceRequirements:
    """The same amounts, written as the API writes them."""
    return ResourceRequirements(
        limits=_texts(resources.limits), requests=_texts(resources.requests)
    )


def _texts(amounts: Mapping[str, str]) -> Texts:
    return {name: canonical(text) for name, text in sorted(amounts.items())}


def _milli(amounts: Mapping[str, str]) -> int:
    return parse_quantity(amounts.get("cpu", "0")).milli_value()


def _held(held: Resources | None) -> tuple[int, int, int]:
    """cpu request and limit in milli and memory limit in bytes as the engine tells them; 0 for
    what it does not."""
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
    """What one container has: of a running one what the engine holds it to, else what it was
    allocated. ``container`` is the allocated one.

    ``actuated`` is what was last said to the engine: it alone knows memory requests. ``old`` is the
    status before, if it is of the same running instance: what it says stands where nobody knows
    better. Amounts too small for the kernel to tell apart stay as they were asked for.
    """
    allocated = canonical_resources(container.resources)
    if newest.state is not ContainerState.RUNNING:
        return allocated
    request, limit, memory = _held(newest.resources)
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
        said = actuated.requests.get("memory", "0") if actuated is not None else "0"
        if parse_quantity(said):
            requests["memory"] = canonical(said)
        else:
            _keep(requests, before.requests, "memory")
    return ResourceRequirements(
        limits=dict(sorted(limits.items())), requests=dict(sorted(requests.items()))
    )


def _keep(amounts: Texts, before: Mapping[str, str], name: str) -> None:
    if name in before:
        amounts[name] = before[name]
