"""The history of usage: recent points, older and coarser ones, and the file."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fake_host import FakeHost
from kubelet_world import World, pod

from podtui.api.insight import InsightPart, InsightQuery, PodInsight
from podtui.errors import PodtuiError
from podtui.kubelet.stats.metrics import LEAST_SECONDS, CounterReading, rate
from podtui.kubelet.stats.usage_history import (
    GONE_SECONDS,
    LEVELS,
    NOT_MEASURED,
    SPACING,
    PointRow,
    UsageBook,
    UsageHistory,
    decode,
    encode,
)
from podtui.store.usage import UsageRow, UsageTable

UID = "uid-web-n1"
KEY = ("default", "web", "app")
NETWORK = ("default", "web")
WEEK = 7 * 86400.0
T0 = 1_700_000_400
"""A multiple of ten minutes."""


def values(cpu: float, rest: float = 1.0) -> tuple[float, ...]:
    return (cpu, rest, rest, rest, rest)


def filled(seconds: int, every: int = 10) -> UsageHistory:
    """Return a history whose milli cores equal the elapsed seconds."""
    history = UsageHistory()
    for second in range(0, seconds, every):
        history.add(T0 + second, KEY, values(second))
    return history


def test_points_have_a_fixed_interval_regardless_of_scans() -> None:
    points = filled(100, every=1).points(KEY, T0, 900)
    gaps = [b - a for a, b in zip(points.times, points.times[1:], strict=False)]
    assert min(gaps) >= SPACING - 1
    assert points.columns[0] == tuple(at - T0 for at in points.times)


def test_memory_is_bounded_and_the_newest_points_are_kept() -> None:
    history = filled(3 * 86400)
    for level in LEVELS:
        points = history.points(KEY, 0, level.span)
        assert points.times[-1] == T0 + 3 * 86400 - 10
        assert list(points.times) == sorted(set(points.times))
    assert len(history.points(KEY, 0, LEVELS[0].span).times) <= sum(one.kept for one in LEVELS)


@pytest.mark.parametrize(("span", "spacing"), [(900, 10), (3600, 10), (21600, 60), (86400, 600)])
def test_a_long_span_has_few_points_and_ends_now(span: float, spacing: float) -> None:
    end = T0 + 2 * 86400
    points = filled(2 * 86400).points(KEY, end - span, span)
    assert end - points.times[-1] <= SPACING
    assert points.times[0] - (end - span) <= 600
    assert len(points.times) <= span / spacing + 600 / SPACING + 60
    assert points.columns[0][-1] == 2 * 86400 - 10


def test_coarse_points_keep_the_peak_of_their_interval() -> None:
    history = UsageHistory()
    for second in range(0, 7200, 10):
        history.add(T0 + second, KEY, values(900 if second == 610 else 5, NOT_MEASURED))
    points = history.points(KEY, T0, 86400)
    recorded = dict(zip(points.times, points.columns[0], strict=True))
    assert recorded[T0] == 5
    assert recorded[T0 + 600] == 900
    assert recorded[T0 + 1200] == 5
    assert all(math.isnan(value) for value in points.columns[1])


def test_a_measured_value_replaces_a_missing_one() -> None:
    history = UsageHistory()
    for second, value in ((0, NOT_MEASURED), (10, 7.0), (20, NOT_MEASURED), (60, 1.0)):
        history.add(T0 + second, NETWORK, (value, value))
    (row,) = history.drain()
    assert (row.level, row.at, tuple(row.values[NETWORK])) == (1, T0, (7.0, 7.0))


def test_the_history_of_removed_pods_is_kept_for_a_while() -> None:
    history = UsageHistory()
    for key in (("default", "web", "b"), KEY, ("default", "db", "app"), NETWORK):
        history.add(T0, key, (1.0,) * (5 if len(key) == 3 else 2))
    assert history.containers("default", "web") == ("app", "b")
    history.keep({("default", "db")}, T0 + GONE_SECONDS)
    assert history.containers("default", "web") == ("app", "b")
    history.keep({("default", "db")}, T0 + GONE_SECONDS + 1)
    assert history.containers("default", "web") == ()
    assert history.points(NETWORK, 0, 900).times == ()
    assert history.containers("default", "db") == ("app",)


def test_only_new_points_wake_waiters() -> None:
    history = filled(10)
    history.drain()
    before = history.changed.count
    history.add(T0 + 3, KEY, values(1))
    history.drain()
    assert history.changed.count == before
    history.add(T0 + 11, KEY, values(1))
    history.drain()
    assert history.changed.count == before + 1


# --- rates

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "after", "seconds", "expected"),
    [(100, 300, 10.0, 20.0), (100, 100, 10.0, 0.0), (300, 100, 10.0, None),
     (100, 300, 0.0, None), (100, 300, -5.0, None), (0, 10**9, LEAST_SECONDS / 2, None)],
)  # fmt: skip
def test_counter_resets_and_clock_jumps_produce_no_rate(
    before: int, after: int, seconds: float, expected: float | None
) -> None:
    later = CounterReading(after, NOON + timedelta(seconds=seconds))
    assert rate(CounterReading(before, NOON), later) == expected
    assert rate(None, later) is None


# --- on disk


class FakeTable:
    def __init__(self, problem: str = "") -> None:
        self.rows: list[UsageRow] = []
        self.oldest: Mapping[int, int] = {}
        self.problem = problem

    def load(self) -> tuple[UsageRow, ...]:
        if self.problem:
            raise PodtuiError(self.problem)
        return tuple(sorted(self.rows, key=lambda row: (row.level, row.at)))

    def write(self, rows: Sequence[UsageRow], oldest: Mapping[int, int]) -> None:
        if self.problem:
            raise PodtuiError(self.problem)
        self.rows += rows
        self.oldest = oldest


class At:
    """A clock that does not advance."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_the_next_agent_continues_the_history() -> None:
    table, end = FakeTable(), T0 + 5000
    before = filled(5000)
    await UsageBook(table, before, At(end)).write(before.drain())
    after = UsageHistory()
    await UsageBook(table, after, At(end)).load()
    after.add(end + 60, KEY, values(5060))
    points = after.points(KEY, T0, 86400)
    assert points.times[0] == T0
    assert max(points.columns[0]) == 5060
    gaps = [b - a for a, b in zip(points.times, points.times[1:], strict=False)]
    assert max(gaps) <= 600
    lately = after.points(KEY, T0, 21600)
    assert lately.times[0] == T0
    assert lately.columns[0][:2] == (50, 110), "the highest of each minute"
    assert lately.times[-1] == end + 60


async def test_rows_of_one_time_are_merged(tmp_path: Path) -> None:
    table, history = UsageTable(str(tmp_path / "records.db")), UsageHistory()
    book = UsageBook(table, history, At(T0 + 200))
    for key in (KEY, ()):
        for second in (0, 60):
            history.add(T0 + second, key, (7.0,) * (5 if key else 4))
        await book.write(history.drain())
    after = UsageHistory()
    await UsageBook(table, after, At(T0 + 200)).load()
    for key in (KEY, ()):
        assert after.points(key, T0, 21600).columns[0] == (7.0,)


async def test_an_interval_with_a_restart_is_rebuilt_from_its_minutes() -> None:
    table, history = FakeTable(), filled(900)
    await UsageBook(table, history, At(T0 + 900)).write(history.drain())
    after = UsageHistory()
    await UsageBook(table, after, At(T0 + 900)).load()
    for second in (900, 1200):
        after.add(T0 + second, KEY, values(1.0))
    (row,) = [row for row in after.drain() if row.level == 2]
    assert (row.at, row.values[KEY][0]) == (T0 + 600, 830), "the last whole minute before it"


async def test_rows_older_than_their_level_are_deleted() -> None:
    table, history = FakeTable(), filled(200)
    now = T0 + 2 * WEEK
    await UsageBook(table, history, At(now)).write(history.drain())
    assert table.oldest == {1: int(now - LEVELS[1].span), 2: int(now - LEVELS[2].span)}
    after = UsageHistory()
    await UsageBook(table, after, At(now)).load()
    assert after.containers("default", "web") == ()


@pytest.mark.parametrize("data", [b"", b"\x81", b"\x80\x00", b"\x81\xa1a\xc4\x03abc"])
def test_invalid_entries_are_ignored(data: bytes) -> None:
    found = decode(UsageRow(1, T0, data))
    assert found is None or not found.values


def test_values_of_another_width_are_left_out() -> None:
    history = UsageHistory()
    history.restore(PointRow(1, T0, {KEY: (1.0, 2.0), ("a", "b", "c", "d"): (1.0,)}))
    assert history.containers("default", "web") == ()


def test_rows_round_trip() -> None:
    row = PointRow(2, T0, {KEY: (1.5, 2.0, NOT_MEASURED, 0.0, 3.0), (): (1.0, 2.0, 3.0, 4.0)})
    found = decode(encode(row))
    assert found is not None
    assert (found.level, found.at, found.values.keys()) == (2, T0, row.values.keys())
    assert repr(list(found.values[KEY])) == repr(list(row.values[KEY]))


async def test_an_unusable_file_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history = filled(200)
    book = UsageBook(FakeTable("disk full"), history, At(T0))
    await book.load()
    rows = history.drain()
    for _ in range(3):
        await book.write(rows)
    assert [record.getMessage() for record in caplog.records] == [
        "the usage history starts empty: disk full",
        "cannot record the usage history: disk full",
    ]


def test_the_table_keeps_new_rows_and_drops_old_ones(tmp_path: Path) -> None:
    path = f"{tmp_path}/records.db"
    UsageTable(path).write([UsageRow(1, T0, b"a" * 1000), UsageRow(2, T0, b"b")], {})
    UsageTable(path).write([UsageRow(1, T0 + 60, b"c")], {1: T0 + 60, 2: T0})
    assert UsageTable(path).load() == (UsageRow(1, T0 + 60, b"c"), UsageRow(2, T0, b"b"))
    with pytest.raises(PodtuiError, match="cannot use the usage in"):
        UsageTable(f"{tmp_path}/nowhere/records.db").load()


# --- in the kubelet


async def usage_insight(world: World, **fields: object) -> PodInsight:
    query = InsightQuery(part=InsightPart.USAGE, **fields)  # type: ignore[arg-type]
    found = await world.kubelet.insights.insight("default", "web-n1", query)
    assert found is not None
    return found


@pytest.mark.virtual_time
@pytest.mark.parametrize("local", [True, False])
async def test_usage_is_scanned_continuously_only_on_a_local_engine(
    local: bool,
) -> None:
    world = World(host=FakeHost() if local else None)
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        await world.sleep(65)
        found = await usage_insight(world)
    assert [len(series.times) >= 6 for series in found.usage] == ([True] if local else [])


@pytest.mark.virtual_time
async def test_disk_and_network_rates_appear_after_the_second_scan() -> None:
    world = World(host=FakeHost())
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        await world.sleep(85)
        found = await usage_insight(world)
    (series,) = found.usage
    for values_of in (series.read, series.written, found.network.received, found.network.sent):
        assert values_of[0] is None
        assert all(value is not None and value >= 0 for value in values_of[1:])
    assert series.storage[-1] is not None
    assert found.unmeasured == {}


@pytest.mark.virtual_time
async def test_a_host_network_pod_reports_why_it_has_no_network_figures() -> None:
    world = World(host=FakeHost())
    async with world.running():
        world.add(pod("web-n1", UID, hostNetwork=True))
        await world.until(world.runs(UID))
        await world.sleep(45)
        found = await usage_insight(world)
    assert found.network.times == ()
    assert found.unmeasured == {
        "network": "the pod uses the node's network, so its own traffic is not measured"
    }


@pytest.mark.virtual_time
async def test_a_restarted_container_produces_no_rate_spike() -> None:
    world = World(host=FakeHost())
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        await world.sleep(300)
        world.runtime.kill(world.containers(UID)[0].id, 1)
        await world.sleep(60)
        (series,) = (await usage_insight(world)).usage
    assert all(0 <= value <= 50 for value in series.cpu)
    assert all(value is None or 0 <= value <= 32 * 1024 for value in series.written)
    assert None in series.written[1:]


@pytest.mark.virtual_time
async def test_a_waiter_gets_the_next_point() -> None:
    world = World(host=FakeHost())
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        await world.sleep(30)
        first = await usage_insight(world)
        began = world.clock.monotonic()
        later = await usage_insight(world, seen=first.version, wait=30.0)
        assert world.clock.monotonic() - began <= SPACING + 1
        assert later.usage[0].times[-1] > first.usage[0].times[-1]
        query = InsightQuery(part=InsightPart.USAGE, seen=later.version, wait=3.0)
        assert await world.kubelet.insights.insight("default", "web-n1", query) is None


@pytest.mark.virtual_time
async def test_the_nodes_history_is_kept_too() -> None:
    world = World(host=FakeHost())
    async with world.running():
        await world.sleep(65)
        found = await world.kubelet.insights.node()
    assert found is not None
    assert len(found.times) >= 6
    assert all(value > 0 for value in found.memory)


@pytest.mark.virtual_time
async def test_layers_are_measured_rarely_except_for_new_containers() -> None:
    world = World(host=FakeHost())
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        await world.sleep(15)
        before = world.calls["layer_sizes"]
        await world.sleep(600)
        assert 9 <= world.calls["layer_sizes"] - before <= 10
        before = world.calls["layer_sizes"]
        world.add(pod("db-n1", "uid-db-n1"))
        await world.until(world.runs("uid-db-n1"))
        await world.sleep(2 * SPACING + 1)
        assert world.calls["layer_sizes"] > before


@pytest.mark.virtual_time
async def test_an_idle_machine_is_not_scanned() -> None:
    world = World(host=FakeHost())
    async with world.running():
        await world.sleep(100)
        assert "stats" not in world.calls
        assert "sandbox_stats" not in world.calls
        assert "layer_sizes" not in world.calls
