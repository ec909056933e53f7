"""The queue: places, order, back-off, and what wakes a refused pod."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scheduler_world import a_node, a_pod

from podtui.api.v1 import Pod
from podtui.scheduler.hints import NodeChange, PodChange
from podtui.scheduler.infos import node_facts, pod_info
from podtui.scheduler.queue import Queued, QueueState, SchedulingQueue, backoff_seconds

FIT = frozenset({"NodeResourcesFit"})
GONE = PodChange(pod_info(a_pod("gone", node="n1")), None)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def queue(time: Time) -> SchedulingQueue:
    return SchedulingQueue(time)


def popped(queue: SchedulingQueue) -> Queued:
    found = queue.pop()
    assert found is not None
    return found


def test_order_by_priority_then_time(queue: SchedulingQueue, time: Time) -> None:
    for name, priority in (("a", 0), ("b", 5), ("c", 5), ("d", 9)):
        queue.add(a_pod(name, priority=priority))
        time.now += 0.1
    assert [popped(queue).pending.info.name for _ in range(4)] == ["d", "b", "c", "a"]
    assert queue.pop() is None


def test_backoff_doubles_up_to_ten_seconds() -> None:
    assert [backoff_seconds(n) for n in range(8)] == [0, 1, 2, 4, 8, 10, 10, 10]


def test_a_refused_pod_waits_for_a_change_that_helps(queue: SchedulingQueue) -> None:
    queue.add(a_pod(cpu="1"))
    queue.put_back(popped(queue), FIT)
    assert queue.state("uid-web") is QueueState.WAITING
    facts = node_facts(a_node())
    queue.move(NodeChange(facts, facts))
    assert queue.pop() is None
    queue.move(GONE)
    assert popped(queue).uid == "uid-web"


def test_a_change_during_the_attempt_is_not_missed(queue: SchedulingQueue) -> None:
    queue.add(a_pod(cpu="1"))
    attempt = popped(queue)
    queue.move(GONE)
    queue.put_back(attempt, FIT)
    assert queue.state("uid-web") is QueueState.BACKOFF
    # Without other pods, it need not wait.
    assert popped(queue).uid == "uid-web"


def test_a_pod_in_backoff_lets_active_ones_go_first(queue: SchedulingQueue, time: Time) -> None:
    queue.add(a_pod("eager", cpu="1", priority=9))
    attempt = popped(queue)
    queue.move(GONE)
    queue.put_back(attempt, FIT)
    queue.add(a_pod("patient"))
    assert popped(queue).uid == "uid-patient"
    queue.add(a_pod("patient2"))
    time.now = 2.5
    assert popped(queue).uid == "uid-eager"


def test_an_error_is_retried_after_its_backoff(queue: SchedulingQueue, time: Time) -> None:
    queue.add(a_pod())
    queue.put_back(popped(queue))
    assert queue.pop() is None
    assert queue.deadline() == 2
    time.now = 2.0
    queue.put_back(popped(queue))
    assert queue.deadline() == 5


def test_the_flush_after_five_minutes(queue: SchedulingQueue, time: Time) -> None:
    queue.add(a_pod())
    queue.put_back(popped(queue), FIT)
    assert queue.deadline() == 300
    time.now = 299
    assert queue.pop() is None
    time.now = 300
    assert popped(queue).uid == "uid-web"


def test_scheduling_gates_keep_a_pod_out_of_the_queue(queue: SchedulingQueue, time: Time) -> None:
    queue.add(a_pod(schedulingGates=[{"name": "g"}]))
    queue.move(GONE)
    time.now = 1000
    assert queue.pop() is None
    assert queue.deadline() is None
    queue.add(a_pod())
    assert popped(queue).uid == "uid-web"


def test_missing_claims_keep_a_pod_out_of_the_queue(queue: SchedulingQueue) -> None:
    queue.add(a_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
    assert queue.state("uid-web") is QueueState.GATED


def test_an_update_that_helps_wakes_the_pod(queue: SchedulingQueue) -> None:
    queue.add(a_pod())
    queue.put_back(popped(queue), frozenset({"TaintToleration"}))
    queue.add(a_pod(labels={"a": "b"}))
    assert queue.state("uid-web") is QueueState.WAITING
    queue.add(a_pod(tolerations=[{"operator": "Exists"}]))
    assert queue.state("uid-web") is QueueState.BACKOFF


class Places(RuleBasedStateMachine):
    """Every pod is in one queue, in the order of priorities, and none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.time = Time()
        self.queue = SchedulingQueue(self.time)
        self.pods: dict[str, Pod] = {}
        self.attempts: list[Queued] = []

    @rule(name=st.sampled_from("abcdef"), priority=st.integers(-2, 2), gated=st.booleans())
    def add(self, name: str, priority: int, gated: bool) -> None:
        gates = [{"name": "g"}] if gated else []
        pod = a_pod(name, cpu="1", priority=priority, schedulingGates=gates)
        known = self.pods.get(pod.metadata.uid)
        if known is None or (known.spec.priority == priority and known.spec.schedulingGates):
            self.pods[pod.metadata.uid] = pod
            self.queue.add(pod)

    @rule(name=st.sampled_from("abcdef"))
    def delete(self, name: str) -> None:
        self.pods.pop(f"uid-{name}", None)
        self.queue.delete(f"uid-{name}")
        assert self.queue.state(f"uid-{name}") is None

    @rule()
    def pop(self) -> None:
        active = [
            self.pods[uid].spec.priority or 0
            for uid in self.pods
            if self.queue.state(uid) is QueueState.ACTIVE
        ]
        found = self.queue.pop()
        if active:
            assert found is not None
            assert found.pending.info.priority >= max(active)
        if found is not None:
            assert found.uid in self.pods
            assert not found.pending.spec.schedulingGates
            self.attempts.append(found)

    @rule(refused=st.booleans())
    def put_back(self, refused: bool) -> None:
        if self.attempts:
            attempt = self.attempts.pop(0)
            self.queue.put_back(attempt, FIT if refused else frozenset())
            assert self.queue.state(attempt.uid) is not QueueState.IN_FLIGHT or any(
                other.uid == attempt.uid for other in self.attempts
            )

    @rule()
    def something_ends(self) -> None:
        self.queue.move(GONE)
        assert not any(self.queue.state(uid) is QueueState.WAITING for uid in self.pods)

    @rule(seconds=st.floats(0, 400))
    def wait(self, seconds: float) -> None:
        self.time.now += seconds

    @invariant()
    def each_pod_has_a_place(self) -> None:
        assert len(self.queue) == len(self.pods)
        assert all(self.queue.state(uid) is not None for uid in self.pods)

    @invariant()
    def the_deadline_brings_a_pod(self) -> None:
        waiting = [uid for uid in self.pods if self.queue.state(uid) in _TIMED]
        deadline = self.queue.deadline()
        assert (deadline is not None) == bool(waiting)
        if deadline is not None:
            assert deadline <= self.time.now + 300

    def teardown(self) -> None:
        """Check that every pod without gates returns in the end."""
        for attempt in self.attempts:
            self.queue.put_back(attempt, FIT)
        self.time.now += 1000
        came = set[str]()
        while (found := self.queue.pop()) is not None:
            came.add(found.uid)
        gated = {uid for uid in self.pods if self.queue.state(uid) is QueueState.GATED}
        assert came | gated == set(self.pods)


_TIMED = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.ERROR, QueueState.WAITING)
TestPlaces = Places.TestCase
TestPlaces.settings = examples(300, stateful_step_count=40)
