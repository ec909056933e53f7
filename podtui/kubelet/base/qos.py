"""QoS classes (reference §7.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import Pod, ResourceRequirements

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
_COUNTED: Final = ("cpu", "memory")


def _positive(amounts: dict[str, str]) -> dict[str, Quantity]:
    counted = ((name, parse_quantity(amounts[name])) for name in _COUNTED if name in amounts)
    return {name: amount for name, amount in counted if amount.nano > 0}


def _sum(into: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        into[name] = into[name] + amount if name in into else amount


def _class(resources: Iterable[ResourceRequirements]) -> str:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for each in resources:
        own_limits = _positive(each.limits)
        _sum(requests, _positive(each.requests))
        _sum(limits, own_limits)
        guaranteed = guaranteed and len(own_limits) == len(_COUNTED)
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if guaranteed and requests == limits else BURSTABLE


def compute_qos_class(pod: Pod) -> str:
    """Compute the QoS class from the spec, ignoring the status."""
    spec = pod.spec
    if spec.resources is not None and (spec.resources.limits or spec.resources.requests):
        return _class((spec.resources,))
    return _class(container.resources for container in (*spec.initContainers, *spec.containers))


def qos_class(pod: Pod) -> str:
    """Return the QoS class from the status or, if not set there, from the spec."""
    return pod.status.qosClass or compute_qos_class(pod)
