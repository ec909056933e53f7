"""What containers used, kept for who looks later."""

from __future__ import annotations

import pytest
from fake_host import FakeHost
from kubelet_world import World, pod

from podtui.kubelet.usage_history import POINTS_KEPT, SPACING, UsageHistory

UID = "uid-web-n1"


def test_points_are_as_far_apart_as_said_however_often_one_asks() -> None:
    history = UsageHistory()
    for second in range(100):
        history.take(second, [("u", "c", 12.5, second)])
    (series,) = history.series("u")
    gaps = [b - a for a, b in zip(series.times, series.times[1:], strict=False)]
    assert min(gaps) >= SPACING - 1
    assert series.cpu[0] == 12.5
    assert series.memory == tuple(int(t) for t in series.times)


def test_memory_is_bounded_and_the_newest_points_stay() -> None:
    history = UsageHistory()
    for number in range(3 * POINTS_KEPT):
        history.take(number * SPACING, [("u", "c", 1, number)])
    (series,) = history.series("u")
    assert POINTS_KEPT * 3 // 4 <= len(series.times) <= POINTS_KEPT
    assert series.memory[-1] == 3 * POINTS_KEPT - 1
    assert list(series.times) == sorted(series.times)


def test_pods_have_their_own_and_those_that_are_gone_have_none() -> None:
    history = UsageHistory()
    history.take(0, [("u", "b", 1, 1), ("u", "a", 1, 1), ("v", "a", 2, 2)])
    assert [s.container for s in history.series("u")] == ["a", "b"]
    history.keep(lambda uid: uid == "v")
    assert history.series("u") == ()
    assert [s.cpu for s in history.series("v")] == [(2.0,)]


@pytest.mark.virtual_time
@pytest.mark.parametrize("local", [True, False])
async def test_an_engine_on_this_machine_is_watched_and_others_only_when_asked(
    local: bool,
) -> None:
    world = World(host=FakeHost() if local else None)
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        await world.sleep(65)
        found = (await world.kubelet.insights.insight("default", "web-n1")).usage
    assert [len(series.times) >= 6 for series in found] == ([True] if local else [])


@pytest.mark.virtual_time
async def test_an_idle_machine_is_not_asked() -> None:
    world = World(host=FakeHost())
    async with world.running():
        await world.sleep(100)
        assert "stats" not in world.calls
