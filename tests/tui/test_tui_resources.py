"""Usage as plots: scales, lines across, and what fits."""

from __future__ import annotations

import pytest
from tui_scene import NOW, pod, status

from podtui.api.insight import UsageSeries
from podtui.tui.cells import Line, line_width
from podtui.tui.plot import Level, buckets, plot, top_of
from podtui.tui.resource_lines import resource_lines

AT = NOW.timestamp()
MI = 1024 * 1024
LIMIT = Level(90, "━", "error")


def text(lines: list[Line]) -> str:
    return "\n".join("".join(span.text for span in line) for line in lines)


@pytest.mark.parametrize(
    ("peak", "levels", "whole", "top"),
    [(14, (), False, 15), (14, (Level(60, "━", ""),), False, 80),
     (14, (Level(500, "━", ""),), False, 15), (14, (Level(500, "━", ""),), True, 600),
     (0, (), False, 1.5), (100, (), False, 150)],
)  # fmt: skip
def test_the_scale_ends_at_a_round_number_above_what_it_shows(
    peak: float, levels: tuple[Level, ...], whole: bool, top: float
) -> None:
    assert top_of(peak, levels, least=1, whole=whole) == pytest.approx(top)


def test_bytes_are_rounded_as_bytes_are() -> None:
    assert top_of(33 * MI, (), least=1, whole=False, binary=True) == 40 * MI


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


@pytest.mark.compares("history")
def test_columns_are_as_high_as_their_values() -> None:
    rows = text(plot([0, 50, 100, None], 4, 100, (), "")).split("\n")
    assert rows == ["  █ ", "  █ ", " ██ ", " ██ "]


def test_the_least_use_is_seen_and_none_is_not() -> None:
    assert text(plot([0.0, 0.01], 2, 100, (), "")).split("\n")[1] == " ▁"


def test_lines_lie_at_their_height_with_a_mark_of_their_own() -> None:
    rows = text(plot([10, 10, 10], 10, 100, (LIMIT, Level(30, "╌", "key")), "")).split("\n")
    assert rows[1] == "━━━"
    assert rows[7] == "╌╌╌"
    beyond = text(plot([10], 4, 50, (LIMIT,), ""))
    assert "━" not in beyond


def series(name: str, peak: float = 20.0) -> UsageSeries:
    times = tuple(AT - 600 + 10 * n for n in range(60))
    return UsageSeries(
        container=name,
        times=times,
        cpu=tuple(peak * n / 59 for n in range(60)),
        memory=tuple(MI * n for n in range(60)),
    )


@pytest.mark.compares("history")
def test_a_container_is_told_with_what_it_asks_for() -> None:
    web = pod("web", status("app"), requests={"cpu": "10m", "memory": "32Mi"},
              limits={"cpu": "25m", "memory": "4Gi"})  # fmt: skip
    shown = text(resource_lines(web, (series("app"),), AT, 160, 40))
    assert "20m now · 20m peak · request 10m · limit 25m" in shown
    assert "59Mi now · 59Mi peak · request 32Mi · limit 4Gi↑" in shown
    assert "━━━━" in shown
    assert "╌╌╌" in shown


def test_a_container_at_its_limit_has_a_mark() -> None:
    web = pod("web", status("app"), limits={"cpu": "21m"})
    assert "▲" in text(resource_lines(web, (series("app"),), AT, 120, 30))
    web = pod("web", status("app"), limits={"cpu": "40m"})
    assert "▲" not in text(resource_lines(web, (series("app"),), AT, 120, 30))


def test_without_figures_it_says_so() -> None:
    web = pod("web", status("app"), status("side"))
    assert "Nothing is measured" in text(resource_lines(web, (), AT, 80, 20))
    half = text(resource_lines(web, (series("app"),), AT, 80, 20))
    assert "does not run" in half


@pytest.mark.parametrize("width", [40, 71, 77, 117, 197])
@pytest.mark.parametrize("whole", [True, False])
def test_no_line_is_wider_than_the_screen(width: int, whole: bool) -> None:
    limits = {"cpu": "1234567m", "memory": "1Ti"}
    requests = {"cpu": "999m", "memory": "999Mi"}
    web = pod("web", status("app"), status("side" * 30), limits=limits, requests=requests)
    usage = (series("app", 123456), series("side" * 30))
    for line in resource_lines(web, usage, AT, width, 20, whole=whole):
        assert line_width(line) <= width
