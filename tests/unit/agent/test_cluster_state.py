"""The state of a node's membership in a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fixed_clock import FixedClock

from podtui.agent.cluster_state import ClusterState, certificate_condition, mirror_problem, problem
from podtui.agent.cluster_state import well as well_condition
from podtui.api.cluster import cluster_problems
from podtui.api.names import CERTIFICATE_EXPIRING, CLUSTER_UNAVAILABLE, LEASE_NOT_RENEWED
from podtui.api.v1 import Node, ObjectMeta
from podtui.errors import AgentUnavailable, AlreadyExists, ApiError, PodtuiError
from podtui.pki.certificates import make_authority, make_key

NODE = Node(apiVersion="v1", kind="Node", metadata=ObjectMeta(name="n1"))


def lost(text: str) -> PodtuiError:
    return AgentUnavailable(text)


def test_a_problem_keeps_the_time_since_when_it_exists() -> None:
    clock = FixedClock()
    state = ClusterState(clock)
    changes: list[str] = []
    state.on_change = lambda: changes.append("")
    for text in ("connection refused", "connection refused", "no such host"):
        state.report(problem(CLUSTER_UNAVAILABLE, lost(text)))
        clock.advance(60)
    (shown,) = state.added_to(NODE).status.conditions
    assert shown.message == "no such host"
    assert shown.lastTransitionTime == "2026-01-01T00:00:00Z"
    assert shown.lastHeartbeatTime == "2026-01-01T00:02:00Z"
    assert len(changes) == 2
    state.report(well_condition(CLUSTER_UNAVAILABLE, "ClusterAnswers", "it answers"))
    (shown,) = state.added_to(NODE).status.conditions
    assert (shown.status, shown.lastTransitionTime) == ("False", "2026-01-01T00:03:00Z")


def test_the_conditions_are_added_once() -> None:
    state = ClusterState(FixedClock())
    state.report(problem(CLUSTER_UNAVAILABLE, lost("away")))
    node = state.added_to(state.added_to(NODE))
    assert [item.type for item in node.status.conditions] == [CLUSTER_UNAVAILABLE]


@pytest.mark.parametrize(
    ("hours", "status", "reason", "text"),
    [
        (1, "False", "CertificateValid", "the client certificate expires at 20"),
        (95, "True", "CertificateExpiresSoon", "; why"),
        (101, "True", "CertificateExpired", "; why"),
    ],
)
def test_a_certificate_expires(hours: int, status: str, reason: str, text: str) -> None:
    certificate = make_authority(make_key(), datetime(2026, 1, 1, tzinfo=UTC))
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    now = begin + (end - begin) * hours / 100
    condition = certificate_condition(certificate, now + timedelta(seconds=1), "why")
    assert (condition.status, condition.reason) == (status, reason)
    assert text in condition.message


def test_an_expired_certificate_is_the_cause_and_one_that_expires_soon_is_none() -> None:
    state = ClusterState(FixedClock())
    certificate = make_authority(make_key(), datetime(2026, 1, 1, tzinfo=UTC))
    state.report(problem(LEASE_NOT_RENEWED, lost("away")))
    state.report(problem(CLUSTER_UNAVAILABLE, lost("away")))
    end = certificate.not_valid_after_utc
    others = [CLUSTER_UNAVAILABLE, LEASE_NOT_RENEWED]
    for now, types in (
        (end - timedelta(seconds=1), [*others, CERTIFICATE_EXPIRING]),
        (end + timedelta(seconds=1), [CERTIFICATE_EXPIRING, *others]),
    ):
        state.report(certificate_condition(certificate, now))
        assert [item.type for item in cluster_problems(state.added_to(NODE))] == types


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError(403, "Forbidden", "no"), "refused: no"),
        (ApiError(404, "NotFound", "no"), "refused: no"),
        (AlreadyExists("taken"), "refused: taken"),
        (ApiError(401, "Unauthorized", "who"), "not yet: who"),
        (ApiError(429, "TooManyRequests", "later"), "not yet: later"),
        (ApiError(503, "ServiceUnavailable", "away"), "not yet: away"),
        (lost("connection refused"), "not yet: connection refused"),
    ],
)
def test_a_mirror_pod_is_refused_or_not_yet_created(error: PodtuiError, text: str) -> None:
    assert mirror_problem(error) == text
    assert mirror_problem(error, is_known=False) == text.replace("not yet", "unknown")
