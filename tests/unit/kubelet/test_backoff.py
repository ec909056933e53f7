"""Exponential back-off."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubelet_settings import default_config
from pod_builders import ctr, make_pod

from podtui.events.token_bucket import TokenBucket
from podtui.kubelet.backoff import (
    Backoff,
    crash_event,
    crash_key,
    crash_limits,
    crash_message,
    image_key,
)


def starts(backoff: Backoff, runs: int, lasting: float = 0.0) -> list[float]:
    """Return the start times of a container that exits ``lasting`` seconds after each start."""
    now, found = 0.0, [0.0]
    for _ in range(runs):
        exited = now + lasting
        now = exited + backoff.remaining("c", exited, since=exited)
        assert backoff.remaining("c", now, since=exited) == 0
        backoff.next("c", now, since=exited)
        found.append(now)
    return found


def pauses(found: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(found)]


def test_case_36_the_first_restart_is_immediate_and_then_it_doubles():
    assert pauses(starts(Backoff(), 9)) == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_the_back_off_counts_from_the_exit():
    assert pauses(starts(Backoff(), 4, lasting=5)) == [5, 15, 25, 45]


def test_case_38_a_run_of_more_than_ten_minutes_starts_over():
    backoff = Backoff()
    last = starts(backoff, 5)[-1]
    exited = last + 601
    assert backoff.remaining("c", exited, since=exited) == 0
    assert backoff.next("c", exited, since=exited) == 10
    assert backoff.remaining("c", exited + 1, since=exited + 1) == 10


def test_a_run_of_just_ten_minutes_does_not():
    backoff = Backoff()
    last = starts(backoff, 5)[-1]
    exited = last + 600
    assert backoff.remaining("c", exited, since=exited) == 160


def test_case_39_a_lower_maximum_lowers_the_first_back_off():
    assert pauses(starts(Backoff(maximum=2), 4)) == [0, 2, 2, 2]
    assert pauses(starts(Backoff(maximum=15), 4)) == [0, 10, 15, 15]


@pytest.mark.parametrize(
    ("gates", "period", "limits"),
    [
        ({}, 300.0, (10.0, 300.0)),
        ({}, 40.0, (10.0, 40.0)),
        ({}, 2.0, (2.0, 2.0)),
        ({"ReduceDefaultCrashLoopBackOffDecay": True}, 300.0, (1.0, 60.0)),
        ({"ReduceDefaultCrashLoopBackOffDecay": True}, 90.0, (1.0, 90.0)),
        ({"KubeletCrashLoopBackOffMax": False}, 2.0, (10.0, 300.0)),
    ],
)
def test_limits_of_crash_loops(gates, period, limits):
    config = default_config(max_container_restart_period=period, feature_gates=gates)
    assert crash_limits(config) == limits


def test_pulls_count_from_the_last_failure():
    backoff = Backoff()
    assert backoff.remaining("i", 0) == 0
    assert backoff.next("i", 1) == 10
    assert backoff.remaining("i", 4) == 7
    assert backoff.remaining("i", 11) == 0
    assert backoff.next("i", 12) == 20
    assert backoff.remaining("i", 12) == 20
    assert backoff.delay("i") == 20


def test_pulls_are_forgotten_after_ten_minutes():
    backoff = Backoff()
    backoff.next("i", 0)
    backoff.next("i", 10)
    assert backoff.remaining("i", 611) == 0
    assert backoff.next("i", 611) == 10


def test_a_future_timestamp_does_not_extend_the_back_off():
    backoff = Backoff()
    backoff.next("c", 0, since=0)
    assert backoff.remaining("c", 5, since=60) == 10


def test_waiting_for_the_remaining_time_is_enough_despite_rounding():
    backoff = Backoff()
    backoff.next("c", 0.1, since=0.1)
    left = backoff.remaining("c", 0.3, since=0.2)
    assert backoff.remaining("c", 0.3 + left - 1e-9, since=0.2) == 0


def test_keys_are_independent():
    backoff = Backoff()
    backoff.next("a", 0)
    assert backoff.remaining("b", 0) == 0
    assert (backoff.delay("a"), backoff.delay("b")) == (10, 0)


def test_forgetting():
    backoff = Backoff()
    for key in ("a", "b", "c"):
        backoff.next(key, 0)
    backoff.forget("a")
    backoff.forget("never known")
    assert len(backoff) == 2
    backoff.discard(lambda key: key == "b")
    assert backoff.delay("b") == 0
    backoff.collect(600)
    assert len(backoff) == 1
    backoff.collect(601)
    assert len(backoff) == 0


@given(
    st.lists(st.floats(min_value=0, max_value=2000), max_size=30),
    st.floats(min_value=1, max_value=300),
)
def test_back_offs_grow_within_bounds(runs, maximum):
    backoff = Backoff(maximum=maximum)
    now, last = 0.0, 0.0
    for lasting in runs:
        exited = now + lasting
        left = backoff.remaining("c", exited, since=exited)
        assert 0 <= left <= maximum
        # Waiting only shortens the remaining time.
        assert backoff.remaining("c", exited + left / 2, since=exited) <= left
        now = exited + left
        delay = backoff.next("c", now, since=exited)
        assert delay <= maximum
        if lasting < 600:
            assert delay >= last
        last = delay


def test_keys_and_messages():
    pod = make_pod(ctr(image="a:1"))
    container = pod.spec.containers[0]
    other_image = make_pod(ctr(image="a:2")).spec.containers[0]
    other_size = make_pod(ctr(image="a:1", resources={"limits": {"cpu": "1"}})).spec.containers[0]
    other_env = make_pod(ctr(image="a:1", env=[{"name": "A"}])).spec.containers[0]
    assert crash_key(pod, container) != crash_key(pod, other_image)
    assert crash_key(pod, container) != crash_key(pod, other_size)
    assert crash_key(pod, container) == crash_key(pod, other_env)
    assert crash_key(pod, container)[2] == "u1"
    assert image_key(pod, "a:1") == "u1_a:1"
    assert crash_event(pod, container) == (
        "Back-off restarting failed container c in pod web-n1_default(u1)"
    )


@pytest.mark.parametrize(
    ("delay", "text"), [(10, "10s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s"), (2, "2s")]
)
def test_the_back_off_in_messages(delay, text):
    pod = make_pod()
    assert crash_message(pod, pod.spec.containers[0], delay) == (
        f"back-off {text} restarting failed container=c pod=web-n1_default(u1)"
    )


# --- rate limits


def test_a_burst_and_then_a_rate():
    bucket = TokenBucket(5, 10)
    assert [bucket.take(0) for _ in range(11)] == [True] * 10 + [False]
    assert [bucket.take(0.2), bucket.take(0.3), bucket.take(0.4)] == [True, False, True]


def test_no_rate_is_no_limit():
    bucket = TokenBucket(0, 0)
    assert all(bucket.take(0) for _ in range(1000))


def test_a_burst_of_zero_allows_nothing():
    assert not TokenBucket(5, 0).take(1000)


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 10), st.integers(1, 20))
def test_never_exceeds_rate_and_burst(pauses, rate, burst):
    bucket, now, passed = TokenBucket(rate, burst), 0.0, 0
    for pause in pauses:
        now += pause
        passed += bucket.take(now)
        assert passed <= burst + now * rate + 1e-6
