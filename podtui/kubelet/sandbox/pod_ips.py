"""Select and order the IP addresses of a pod (reference §7.5)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def sorted_pod_ips(ips: Iterable[str], node_ips: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first address of the node's IP family, then the first of the other family, in
    canonical form.

    A node with an unknown address counts as IPv4.
    """
    node = _parsed(node_ips[0]) if node_ips else None
    primary = 4 if node is None else node.version
    known = [address for text in ips if (address := _parsed(text)) is not None]
    first = next((str(a) for a in known if a.version == primary), None)
    second = next((str(a) for a in known if a.version != primary), None)
    return tuple(address for address in (first, second) if address is not None)
