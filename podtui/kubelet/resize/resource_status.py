"""The resources in the status of containers and pods (reference §7.2, 13.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podtui.api.quantity import Format, Quantity, canonical, parse_quantity
from podtui.api.v1 import Container, ContainerStatus, ResourceRequirements
from podtui.kubelet.base.types import ObservedContainer
from podtui.kubelet.containers.cgroups import MIN_SHARES, quota_as_milli, shares_as_milli
from podtui.runtime.protocol import ContainerState, Resources

MIN_MILLI_LIMIT: Final = 10
"""The smallest CPU limit in millicores that a quota can express."""

Texts = dict[str, str]


def canonical_resources(resources: ResourceRequirements) -> ResourceRequirements:
    """Return the same amounts in the API's canonical form."""
    return ResourceRequirements(
        limits=_texts(resources.limits), requests=_texts(resources.requests)
    )


def _texts(amounts: Mapping[str, str]) -> Texts:
    return {name: canonical(text) for name, text in sorted(amounts.items())}


def _milli(amounts: Mapping[str, str]) -> int:
    return parse_quantity(amounts.get("cpu", "0")).milli_value()


def _held(held: Resources | None) -> tuple[int, int, int]:
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
