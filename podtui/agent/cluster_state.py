"""The state of a node's membership in its cluster, as conditions of the copy of the node.

The conditions are not sent to the cluster: they are about what the cluster cannot know.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from cryptography import x509
from msgspec import structs

from podtui.api.cluster import CERTIFICATE_EXPIRED, CONDITIONS
from podtui.api.names import CERTIFICATE_EXPIRING
from podtui.api.times import rfc3339
from podtui.api.v1 import Node, NodeCondition
from podtui.clock import Clock
from podtui.errors import AlreadyExists, ApiError, PodtuiError

LATE_SHARE: Final = 0.9
"""By this part of its life, a certificate that is rotated has a successor."""


class ClusterState:
    """``on_change`` is called when a condition has changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._conditions: dict[str, NodeCondition] = {}
        self.on_change: Callable[[], None] = lambda: None

    def restore(self, node: Node) -> None:
        """Take over the conditions of the copy, so that a problem keeps the time since when it
        exists. That of the certificate is left out: the node may have other credentials now."""
        kept = [c for c in node.status.conditions if c.type in CONDITIONS]
        self._conditions = {c.type: c for c in kept if c.type != CERTIFICATE_EXPIRING}

    def report(self, condition: NodeCondition) -> None:
        """Set a condition. It keeps its transition time while its status is the same."""
        before, since = self._conditions.get(condition.type), rfc3339(self._clock.now())
        condition = structs.replace(condition, lastHeartbeatTime=since, lastTransitionTime=since)
        if before is not None and before.status == condition.status:
            condition = structs.replace(condition, lastTransitionTime=before.lastTransitionTime)
            if (before.reason, before.message) == (condition.reason, condition.message):
                return
        self._conditions[condition.type] = condition
        self.on_change()

    def added_to(self, node: Node) -> Node:
        """Return the node with the conditions."""
        added = [self._conditions[name] for name in CONDITIONS if name in self._conditions]
        return _with_conditions(node, (*without_state(node).status.conditions, *added))


def without_state(node: Node) -> Node:
    """Return the node without the conditions about the cluster."""
    others = tuple(c for c in node.status.conditions if c.type not in CONDITIONS)
    return _with_conditions(node, others)


def _with_conditions(node: Node, conditions: tuple[NodeCondition, ...]) -> Node:
    return structs.replace(node, status=structs.replace(node.status, conditions=conditions))


def problem(name: str, error: PodtuiError, reason: str = "") -> NodeCondition:
    """Return the condition ``name`` with an error; the reason is the API server's, if it has
    one."""
    named = error.reason if isinstance(error, ApiError) else ""
    return NodeCondition(
        type=name, status="True", reason=reason or named or "NoAnswer", message=str(error)
    )


def well(name: str, reason: str, message: str) -> NodeCondition:
    return NodeCondition(type=name, status="False", reason=reason, message=message)


def certificate_condition(
    certificate: x509.Certificate, now: datetime, rotation: str = ""
) -> NodeCondition:
    """Return the condition of the client certificate. ``rotation`` is why it has no successor."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    why = f"; {rotation}" if rotation else ""
    if now > end:
        text = f"the client certificate expired at {rfc3339(end)}{why}"
        return NodeCondition(
            type=CERTIFICATE_EXPIRING, status="True", reason=CERTIFICATE_EXPIRED, message=text
        )
    text = f"the client certificate expires at {rfc3339(end)}"
    if now >= begin + (end - begin) * LATE_SHARE:
        return NodeCondition(
            type=CERTIFICATE_EXPIRING,
            status="True",
            reason="CertificateExpiresSoon",
            message=text + why,
        )
    return well(CERTIFICATE_EXPIRING, "CertificateValid", text)


def is_refusal(error: PodtuiError) -> bool:
    """Return whether the API server refuses this request, and not all requests of the node."""
    return isinstance(error, ApiError) and 400 <= error.code < 500 and error.code not in (401, 429)


def mirror_problem(error: PodtuiError, *, is_known: bool = True) -> str:
    """Return why a static pod has no mirror pod: ``refused`` by the API server, or ``not yet``
    created. Unless the mirror pods are known, it may have one of an earlier agent."""
    if isinstance(error, AlreadyExists) or is_refusal(error):
        return f"refused: {error}"
    return f"not yet: {error}" if is_known else f"unknown: {error}"
