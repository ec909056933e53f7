"""The membership of a node in a cluster, as the copy of the node on its agent shows it."""

from __future__ import annotations

from typing import Final

from podtui.api.names import (
    CERTIFICATE_EXPIRING,
    CLUSTER,
    CLUSTER_UNAVAILABLE,
    LEASE_NOT_RENEWED,
    NODE_REFUSED,
)
from podtui.api.v1 import Node, NodeCondition

CONDITIONS: Final = (CERTIFICATE_EXPIRING, CLUSTER_UNAVAILABLE, NODE_REFUSED, LEASE_NOT_RENEWED)
"""The conditions about the cluster, causes before their effects. ``True`` is a problem."""
CERTIFICATE_EXPIRED: Final = "CertificateExpired"
"""The reason of `CERTIFICATE_EXPIRING` after the certificate has expired."""
NOT_REGISTERED: Final = "NotRegistered"
"""The reason of `NODE_REFUSED` if the node does not exist, and others have to create it."""


def cluster_of(node: Node | None) -> str:
    """Return the URL of the API server of the cluster that the agent's node belongs to; empty if
    the agent is its own cluster."""
    return "" if node is None else node.metadata.annotations.get(CLUSTER, "")


def cluster_problems(node: Node | None) -> tuple[NodeCondition, ...]:
    """Return the problems between the node and its cluster, causes before their effects. A
    certificate that only expires soon causes none of the others."""
    if node is None:
        return ()
    problems = [c for c in node.status.conditions if c.type in CONDITIONS and c.status == "True"]
    problems.sort(key=lambda c: CONDITIONS.index(c.type))
    soon = [
        c for c in problems if c.type == CERTIFICATE_EXPIRING and c.reason != CERTIFICATE_EXPIRED
    ]
    return (*(c for c in problems if c not in soon), *soon)
