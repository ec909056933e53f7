"""How often something may happen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podtui.kubelet.base.backoff import TokenBucket


def test_a_burst_and_then_a_rate():
    bucket = TokenBucket(5, 10)
    assert [bucket.take(0) for _ in range(11)] == [True] * 10 + [False]
    assert [bucket.take(0.2), bucket.take(0.3), bucket.take(0.4)] == [True, False, True]


def test_no_rate_is_no_limit():
    bucket = TokenBucket(0, 0)
    assert all(bucket.take(0) for _ in range(1000))


def test_no_burst_is_nothing():
    assert not TokenBucket(5, 0).take(1000)


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 10), st.integers(1, 20))
def test_it_never_lets_more_through_than_it_may(pauses, rate, burst):
    bucket, now, passed = TokenBucket(rate, burst), 0.0, 0
    for pause in pauses:
        now += pause
        passed += bucket.take(now)
        assert passed <= burst + now * rate + 1e-6
