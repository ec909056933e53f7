"""Resources and ports: what pods request from the node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from podtui.api.places import Path
from podtui.api.pods import is_sidecar
from podtui.api.quantity import Format, Quantity, parse_quantity
from podtui.api.v1 import Container, Node, Pod

_LACKING: Final = re.compile(r"\(res: ([^,]+), q: (\d+)\)")
_ROUND: Final = {"cpu": 10 * 10**6, "memory": 1024**2 * 10**9}
"""Nano units to which a lowered request is rounded down."""


def quantity(text: str) -> Quantity:
    """Parse a quantity; return zero if the text is invalid."""
    try:
        return parse_quantity(text)
    except ValueError:
        return Quantity.of(0)


def plain(amount: Quantity) -> str:
    """Format for reading: bytes in the unit with the shortest number, other amounts unchanged."""
    size, units = amount.value(), ("Ki", "Mi", "Gi", "Ti", "Pi")
    if amount.format is not Format.BINARY_SI or size < 10 * 1024:
        return str(amount)
    power = min(len(units), (size.bit_length() - 1) // 10)
    return f"{size / 1024**power:.1f}".removesuffix(".0") + units[power - 1]


def lacking(message: str) -> dict[str, Quantity]:
    """Return the missing amount of each resource, from the message of a rejection (kubelet.md
    §5.2)."""
    return {
        name: Quantity.of_milli(int(amount)) if name == "cpu" else _bytes(int(amount))
        for name, amount in _LACKING.findall(message)
    }


def _bytes(amount: int) -> Quantity:
    return Quantity.of(amount, Format.BINARY_SI)


def requested(pod: Pod, resource: str) -> Quantity:
    """Return the pod's request as admission counts it (kubelet.md §5.1), without overhead."""
    shared = pod.spec.resources
    if shared is not None and resource in shared.requests:
        return quantity(shared.requests[resource])
    sidecars, most = Quantity.of(0), Quantity.of(0)
    for container in pod.spec.initContainers:
        request = quantity(container.resources.requests.get(resource, "0"))
        if is_sidecar(container):
            sidecars += request
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + request)
    total = sidecars
    for container in pod.spec.containers:
        total += quantity(container.resources.requests.get(resource, "0"))
    return max(total, most)


def allocatable(node: Node | None, resource: str) -> Quantity | None:
    text = node.status.allocatable.get(resource) if node is not None else None
    return quantity(text) if text else None


def largest_request(pod: Pod, resource: str) -> tuple[Path, Quantity] | None:
    """Return the field with the largest request for a resource."""
    shared = pod.spec.resources
    if shared is not None and resource in shared.requests:
        return ("spec", "resources", "requests", resource), quantity(shared.requests[resource])
    requests = [
        (("spec", kind, index, "resources", "requests", resource), quantity(text))
        for kind, containers in _kinds(pod)
        for index, container in enumerate(containers)
        if (text := container.resources.requests.get(resource))
    ]
    return max(requests, key=lambda request: request[1]) if requests else None


def _kinds(pod: Pod) -> tuple[tuple[str, tuple[Container, ...]], ...]:
    return ("containers", pod.spec.containers), ("initContainers", pod.spec.initContainers)


def lowered(amount: Quantity, by: Quantity, resource: str) -> Quantity | None:
    """Return the amount minus ``by``, rounded down to a round number; None if nothing remains."""
    step = _ROUND.get(resource, 10**9)
    left = (amount - by).nano // step * step
    return Quantity(left, amount.format) if left > 0 else None


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod uses; an empty ``ip`` means all addresses."""

    number: int
    protocol: str
    ip: str
    path: Path

    def clashes(self, other: HostPort) -> bool:
        same = (self.number, self.protocol) == (other.number, other.protocol)
        return same and (not self.ip or not other.ip or self.ip == other.ip)


def host_ports(pod: Pod) -> Iterator[HostPort]:
    """Yield the host ports of containers and sidecars (kubelet.md §5.1)."""
    for kind, containers in _kinds(pod):
        for index, container in enumerate(containers):
            if kind == "initContainers" and not is_sidecar(container):
                continue
            for number, port in enumerate(container.ports):
                if port.hostPort:
                    ip = "" if port.hostIP in ("", "0.0.0.0") else port.hostIP
                    path = ("spec", kind, index, "ports", number, "hostPort")
                    yield HostPort(port.hostPort, port.protocol or "TCP", ip, path)
