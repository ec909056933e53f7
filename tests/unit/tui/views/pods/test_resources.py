"""Usage as plots: scales, reference lines and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from tui_records import text_of
from tui_scene import ended, pod, status, waiting
from usage_builders import AT, MI, TIMES, ramp, series

from podtui.api.insight import NetworkSeries, UsageSeries
from podtui.api.v1 import Pod
from podtui.tui.views.pods.resources import Used, resource_lines
from podtui.tui.widgets.cells import line_width
from podtui.tui.widgets.chart import (
    Chart,
    Frame,
    ReferenceLine,
    axis_top,
    buckets,
    chart_lines,
    plot,
    rate,
)
from podtui.tui.widgets.format import size

LIMIT = ReferenceLine(90, "━", "error")


@pytest.mark.parametrize(
    ("peak", "levels", "whole", "top"),
    [(14, (), False, 15), (14, (ReferenceLine(60, "━", ""),), False, 80),
     (14, (ReferenceLine(500, "━", ""),), False, 15),
     (14, (ReferenceLine(500, "━", ""),), True, 600),
     (0, (), False, 1.5), (100, (), False, 150)],
)  # fmt: skip
def test_the_scale_ends_at_a_round_number_above_the_maximum(
    peak: float, levels: tuple[ReferenceLine, ...], whole: bool, top: float
) -> None:
    assert axis_top(peak, levels, least=1, whole=whole) == pytest.approx(top)


def test_bytes_are_rounded_to_binary_units() -> None:
    assert axis_top(33 * MI, (), least=1, whole=False, binary=True) == 40 * MI


def test_each_column_has_the_largest_value_of_its_time() -> None:
    times = [float(n) for n in range(100)]
    values = [1.0] * 100
    values[37] = 9.0
    found = buckets(times, values, 10, 0.0, 100.0)
    assert found == [1, 1, 1, 9, 1, 1, 1, 1, 1, 1]


def test_columns_between_two_points_are_filled_and_gaps_are_not() -> None:
    found = buckets([0, 10, 20, 90], [1, 1, 1, 5], 50, 0.0, 100.0)
    assert found[3] == 1
    assert found[30] is None
    assert found[46] == 5


def test_unevenly_spaced_points_leave_no_gaps() -> None:
    far, close = [60.0 * n for n in range(30)], [1800 + 10.0 * n for n in range(30)]
    times = [*far, *close]
    found = buckets(times, [1.0] * 60, 150, 0.0, 2100.0)
    assert None not in found


def test_missing_measurements_are_a_gap_up_to_the_next_point() -> None:
    found = buckets([0, 10, 20, 30], [1, None, None, 2], 40, 0.0, 40.0)
    assert found[:10] == [1] * 10
    assert found[10:30] == [None] * 20
    assert found[30:] == [2] * 10


def test_columns_are_as_high_as_their_values() -> None:
    rows = text_of(plot([0, 50, 100, None], 4, 100, (), "")).split("\n")
    assert rows == ["  █ ", "  █ ", " ██ ", " ██ "]


def test_the_smallest_usage_is_visible_and_zero_is_not() -> None:
    assert text_of(plot([0.0, 0.01], 2, 100, (), "")).split("\n")[1] == " ▁"


def test_limit_lines_are_at_their_height_with_a_mark() -> None:
    rows = text_of(plot([10, 10, 10], 10, 100, (LIMIT, ReferenceLine(30, "╌", "key")), "")).split(
        "\n"
    )
    assert rows[1] == "━━━"
    assert rows[7] == "╌╌╌"
    beyond = text_of(plot([10], 4, 50, (LIMIT,), ""))
    assert "━" not in beyond


def test_limit_lines_do_not_hide_values() -> None:
    low = ReferenceLine(30, "╌", "key")
    rows = text_of(plot([20, 40, None], 2, 100, (LIMIT, low), "")).split("\n")
    assert rows[1] == "▃▆╌"


NETWORK = NetworkSeries(times=TIMES, received=ramp(20 * 1024), sent=(None, *ramp(600)[1:]))


def used(web: Pod, *usage: UsageSeries, **changes: Any) -> Used:
    return Used(web, usage, **({"network": NETWORK} | changes))


def shown(of: Used, width: int, height: int, *, whole: bool = False) -> str:
    return text_of(resource_lines(of, AT, "1h", width, height, whole=whole))


def test_a_container_is_shown_with_its_requests_and_limits() -> None:
    web = pod("web", status("app"),
              requests={"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "8Mi"},
              limits={"cpu": "25m", "memory": "4Gi", "ephemeral-storage": "16Mi"})  # fmt: skip
    output = shown(used(web, series("app")), 330, 40)
    assert "cpu 20m now · 20m peak · request 10m · limit 25m" in output
    assert "mem 59Mi now · 59Mi peak · request 32Mi · limit 4Gi↑" in output
    assert "disk 12Mi now · 12Mi peak · request 8Mi · limit 16Mi" in output
    assert "━━━━" in output
    assert "╌╌╌" in output


def test_disk_and_network_are_shown_in_bytes_per_second() -> None:
    output = shown(used(pod("web", status("app")), series("app")), 330, 40)
    assert "read 2KiB/s now · 2KiB/s peak" in output
    assert "write 3MiB/s now" in output
    assert "in 20KiB/s now" in output
    assert "out 600B/s now" in output
    assert "no request" in output
    assert output.count("no limit") == 2, "only cpu and memory have them as a rule"


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0B/s"), (600, "600B/s"), (2048, "2KiB/s"), (1_300_000, "1.2MiB/s"), (5 << 30, "5GiB/s")],
)
def test_rates_as_text(count: int, words: str) -> None:
    assert rate(count) == words


def chart(values: Sequence[float | None], **changes: Any) -> list[str]:
    times = [AT - 10.0 * n for n in range(len(values))][::-1]
    found = Chart("mem", times, values, size, size, "bar-one", **({"binary": True} | changes))
    return text_of(chart_lines(found, 60, Frame(AT - 60, AT, 8))).split("\n")


def test_horizontal_lines_have_their_value_at_the_left() -> None:
    rows = chart([10 * MI] * 6, request=6 * MI, limit=12 * MI)
    (limit,) = [row for row in rows[1:] if "━" in row]
    (request,) = [row for row in rows[1:] if "╌" in row]
    assert limit.split("┤")[0].strip() == "12Mi"
    assert request.split("┤")[0].strip() == "6Mi"


def test_a_missing_current_value_is_not_the_last_known_one() -> None:
    assert chart([MI, 2 * MI, None])[0].startswith("mem ? now · 2Mi peak")


def test_before_the_first_figures_their_time_is_announced() -> None:
    assert "the first measurement comes in ten seconds" in chart([None])[0]
    assert "not measured: the disk is not counted" in chart([], why="the disk is not counted")[0]


def test_unavailable_figures_are_reported_once_with_the_reason() -> None:
    why = {"disk": "the disk is not counted", "network": "the node's network"}
    bare = structs.replace(series("app"), read=(None,) * 60, written=(None,) * 60)
    of = used(pod("web", status("app")), bare, network=NetworkSeries(), unmeasured=why)
    output = shown(of, 100, 30)
    assert "read, write not measured: the disk is not counted" in output
    assert "in, out not measured: the node's network" in output
    assert "┤" in output


def test_constant_zero_takes_one_line() -> None:
    calm = structs.replace(series("app"), read=(0.0,) * 60, written=(None, *(0.0,) * 59))
    output = shown(used(pod("web", status("app")), calm), 100, 30)
    assert "read, write 0B/s constantly" in output
    assert "in 20KiB/s" in output


def test_a_container_at_its_limit_has_a_mark() -> None:
    web = pod("web", status("app"), limits={"cpu": "21m"})
    assert "▲" in shown(used(web, series("app")), 120, 30)
    web = pod("web", status("app"), limits={"cpu": "40m"})
    assert "▲" not in shown(used(web, series("app")), 120, 30)


def test_without_figures_their_time_is_announced() -> None:
    web = pod("web", status("app"), status("side"))
    output = shown(Used(web), 80, 20)
    assert "No measurements of this pod in the last 1h" in output
    assert "ten seconds after" in output
    assert "no measurements" in shown(used(web, series("app")), 80, 20)


def test_a_container_that_does_not_run_shows_its_state() -> None:
    loop = status("app", waiting("CrashLoopBackOff"), last=ended(1, seconds=12), restarts=4)
    crashed = pod("web", loop, status("side", ended(0, minutes=2)))
    output = shown(Used(crashed), 80, 20)
    assert "app not running: CrashLoopBackOff, exited with code 1 12s ago" in output
    assert "side exited with code 0 2m ago" in output
    assert "ten seconds after" not in output, "nothing starts"
    with_past = shown(used(crashed, series("app")), 80, 20)
    assert "app · not running: CrashLoopBackOff" in with_past
    assert "side · exited with code 0" in with_past
    rejected = pod("big", phase="Failed", reason="OutOfcpu")
    assert "app has not started: OutOfcpu" in shown(Used(rejected), 80, 20)


def test_a_pod_with_one_container_fits_a_small_terminal() -> None:
    web = pod("web", status("app"), limits={"cpu": "40m"}, requests={"memory": "1Mi"})
    lines = resource_lines(used(web, series("app")), AT, "1h", 75, 18)
    assert len(lines) <= 18


@pytest.mark.parametrize("width", [40, 71, 77, 117, 197])
@pytest.mark.parametrize("whole", [True, False])
def test_no_line_is_wider_than_the_screen(width: int, whole: bool) -> None:
    limits = {"cpu": "1234567m", "memory": "1Ti", "ephemeral-storage": "2Ti"}
    requests = {"cpu": "999m", "memory": "999Mi"}
    web = pod("web", status("app"), status("side" * 30), limits=limits, requests=requests)
    of = used(web, series("app", 123456), series("side" * 30), unmeasured={"disk": "x " * 90})
    for line in resource_lines(of, AT, "7d", width, 20, whole=whole):
        assert line_width(line) <= width
