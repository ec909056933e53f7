"""Pressure: when it begins, when resources must be reclaimed, and how long it lasts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import container, pod

from podtui.api.thresholds import Threshold
from podtui.api.v1 import ResourceRequirements
from podtui.kubelet.eviction import PodUsage, Pressure, advance, met, pods_memory, ranked
from podtui.kubelet.node.host import Observation

GI = 1 << 30
HARD = Threshold(signal="memory.available", value="100")
SOFT = Threshold(signal="memory.available", value="200", grace=30.0)
DISK = Threshold(signal="imagefs.available", value="15%")
PERIOD = 300.0


def memory(available: int, capacity: int = 1000) -> dict[str, Observation]:
    return {"memory.available": Observation(available, capacity)}


def after(*samples: tuple[float, int], thresholds: tuple[Threshold, ...] = (HARD,)) -> Pressure:
    """Return the pressure after observations (second, available memory)."""
    state = Pressure()
    for now, available in samples:
        state = advance(state, thresholds, memory(available), now=now, transition=PERIOD)
    return state


def test_a_hard_threshold_is_due_at_once():
    state = after((0, 99))
    assert state.due == (HARD,)
    assert state.conditions == ("MemoryPressure",)


def test_a_value_at_the_threshold_is_not_due():
    assert after((0, 100)) == Pressure()


def test_a_condition_stays_five_minutes_after_relief():
    assert after((0, 99), (10, 500)).conditions == ("MemoryPressure",)
    assert after((0, 99), (299.9, 500)).conditions == ("MemoryPressure",)
    assert after((0, 99), (300, 500)).conditions == ()
    assert after((0, 99), (200, 99), (300, 500)).conditions == ("MemoryPressure",)
    assert after((0, 99), (10, 500)).due == ()


def test_a_soft_threshold_sets_the_condition_and_is_due_after_its_grace_period():
    soft = (SOFT,)
    assert after((0, 150), thresholds=soft).conditions == ("MemoryPressure",)
    assert after((0, 150), (29, 150), thresholds=soft).due == ()
    assert after((0, 150), (30, 150), thresholds=soft).due == soft
    assert after((0, 150), (20, 250), (30, 150), thresholds=soft).due == (), (
        "the grace period starts again"
    )


def test_a_minimum_reclaim_keeps_it_due():
    wide = Threshold(signal="memory.available", value="100", reclaim="50")
    assert after((0, 99), (10, 149), thresholds=(wide,)).due == (wide,)
    assert after((0, 99), (10, 150), thresholds=(wide,)).due == ()
    assert after((0, 149), thresholds=(wide,)).due == (), "it was never met"


def test_a_missing_observation_causes_no_pressure():
    assert advance(Pressure(), (DISK,), memory(0), now=0, transition=PERIOD) == Pressure()


def test_memory_comes_before_the_disk():
    seen = {**memory(1), "imagefs.available": Observation(100, 1000)}
    state = advance(Pressure(), (DISK, HARD), seen, now=0, transition=PERIOD)
    assert state.due == (HARD, DISK)
    assert state.conditions == ("MemoryPressure", "DiskPressure")


def test_every_signal_has_its_condition():
    seen = {
        name: Observation(0, 1000)
        for name in ("nodefs.inodesFree", "pid.available", "allocatableMemory.available")
    }
    some = tuple(Threshold(signal=name, value="5%") for name in seen)
    state = advance(Pressure(), some, seen, now=0, transition=PERIOD)
    assert state.conditions == ("MemoryPressure", "DiskPressure", "PIDPressure")


SAMPLES = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 400)), min_size=1, max_size=30)


@given(SAMPLES, st.sampled_from([HARD, SOFT]), st.integers(0, 60))
def test_pressure_agrees_with_a_simple_model(samples, threshold, reclaim):
    """Compared with a simple model after each observation."""
    limit = int(threshold.value)
    one = Threshold(
        signal=threshold.signal,
        value=threshold.value,
        grace=threshold.grace,
        reclaim=str(reclaim) if reclaim else "",
    )
    state, now = Pressure(), 0.0
    since: float | None = None
    last: float | None = None
    was_due = False
    for pause, available in samples:
        now += pause
        pressed = available < limit or (was_due and available < limit + reclaim)
        since = (now if since is None else since) if pressed else None
        last = now if pressed else last
        was_due = since is not None and now - since >= one.grace
        state = advance(state, (one,), memory(available), now=now, transition=PERIOD)
        assert bool(state.due) == was_due
        assert bool(state.conditions) == (last is not None and now - last < PERIOD)


# --- the pods' own memory


def test_pods_memory_is_read_only_if_needed():
    mine = (Threshold(signal="allocatableMemory.available", value="100"),)
    node = Observation(600, 1000)
    assert pods_memory(node, 200, None, mine) == Observation(400, 800)
    assert pods_memory(node, 550, None, mine) is None, "the pods must be measured"
    assert pods_memory(node, 550, 40, mine) == Observation(410, 450)


def test_pods_may_use_allocatable_while_the_machine_has_more():
    mine = (Threshold(signal="allocatableMemory.available", value="100"),)
    node = Observation(400, 1000)
    seen = pods_memory(node, 400, 550, mine)
    assert seen == Observation(50, 600)
    assert met(mine, {"allocatableMemory.available": seen}) == mine


# --- the order of eviction


def pod_with(name: str, memory: str = "", **spec: object):
    requests = {"memory": memory} if memory else {}
    return pod(name, "", container(resources=ResourceRequirements(requests=requests)), **spec)


@pytest.mark.parametrize("resource", ["memory", "ephemeral-storage", "inodes"])
def test_pods_of_unknown_usage_are_evicted_first(resource):
    pods = [pod_with("known"), pod_with("unknown")]
    found = ranked(resource, pods, {"uid-known": PodUsage(memory=1, storage=1, inodes=1)})
    assert [one.metadata.name for one in found] == ["unknown", "known"]


def test_memory_ranks_by_excess_then_priority_then_usage():
    pods = [
        pod_with("within", "2Gi"),
        pod_with("dear", "1Gi", priority=9),
        pod_with("a-little", "1Gi"),
        pod_with("much"),
    ]
    usage = {f"uid-{one.metadata.name}": PodUsage(memory=GI + 1) for one in pods}
    found = ranked("memory", pods, usage)
    assert [one.metadata.name for one in found] == ["much", "a-little", "dear", "within"]


def test_processes_rank_by_priority_then_number():
    pods = [pod_with("dear", priority=9), pod_with("few"), pod_with("many")]
    usage = {
        "uid-dear": PodUsage(processes=900),
        "uid-few": PodUsage(processes=1),
        "uid-many": PodUsage(processes=90),
    }
    found = ranked("pids", pods, usage)
    assert [one.metadata.name for one in found] == ["many", "few", "dear"]
