"""Starts as waterfalls: the critical path, changes, and drawing."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from msgspec import structs
from timeline_builders import BASE, USUAL, start, step, t
from tui_records import text_of

from podtui.api.insight import PodStart, Step, StepKind
from podtui.tui.screens.pods.pod_screen import POD_TABS
from podtui.tui.screens.tab_bar import tab_spans
from podtui.tui.views.pods.timeline import (
    StepBar,
    Waterfall,
    change,
    length,
    waterfall,
    waterfall_lines,
    with_critical_path,
)
from podtui.tui.widgets.cells import line_width


def by_label(found: Waterfall) -> dict[str, StepBar]:
    return {bar.label: bar for bar in found.bars}


def test_only_steps_that_delay_readiness_are_critical() -> None:
    found = waterfall(USUAL, None, BASE + 60)
    critical = {bar.label for bar in found.bars if bar.critical}
    assert critical == {"admit", "volumes", "sandbox", "pull app:1.2", "start setup", "run setup",
                        "start app", "readiness app"}  # fmt: skip
    assert found.until == pytest.approx(9.0)
    assert found.critical[0].label == "pull app:1.2"
    assert found.waited == pytest.approx(0.1, abs=1e-3)


def test_a_pod_that_waits_for_its_predecessor_says_so() -> None:
    before = structs.replace(USUAL, over=t(0.0))
    edited = start(
        step(StepKind.ADMIT, 0, 0.01), step(StepKind.VOLUMES, 2.6, 2.61),
        step(StepKind.SANDBOX, 2.61, 3.5), ready=3.5,
    )  # fmt: skip
    found = waterfall(edited, before, BASE + 60)
    wait = by_label(found)["wait"]
    assert wait.critical
    assert wait.seconds == pytest.approx(2.59)
    assert wait.note == "for the previous pod to terminate"
    assert found.waited == 0
    alone = by_label(waterfall(edited, None, BASE + 60))["wait"]
    assert alone.note == ""
    under_way = start(step(StepKind.ADMIT, 0, 0.01))
    assert by_label(waterfall(under_way, before, BASE + 5))["wait"].open
    refused = start(structs.replace(step(StepKind.ADMIT, 0, 0.01), failed=True))
    assert "wait" not in by_label(waterfall(refused, before, BASE + 5))
    assert "wait" not in by_label(waterfall(USUAL, before, BASE + 5))


def test_a_running_program_is_not_on_the_critical_path() -> None:
    found = waterfall(start(step(StepKind.RUN, 0, 5, "app"), ready=5), None, BASE + 9)
    assert not any(bar.critical for bar in found.bars)
    assert found.waited == pytest.approx(5)


def test_the_critical_path_never_takes_longer_than_the_start() -> None:
    numbers = random.Random(7)
    for _ in range(300):
        bars: list[StepBar] = []
        for index in range(numbers.randrange(1, 12)):
            began = numbers.uniform(0, 9)
            key = (StepKind.PULL, f"{index}")
            bars.append(StepBar(f"{index}", key, began, began + numbers.uniform(0, 4)))
        until = numbers.uniform(0.1, 12)
        marked, waited = with_critical_path(bars, until)
        path = sum(bar.seconds for bar in marked if bar.critical)
        assert path + waited <= until + 0.02 * (len(bars) + 1)
        assert path + waited >= until - 0.02 * (len(bars) + 1)


def test_a_running_step_is_drawn_up_to_now() -> None:
    found = waterfall(start(step(StepKind.PULL, 1, None, "a")), None, BASE + 11)
    assert (found.ready, found.until, found.bars[0].open) == (False, pytest.approx(11), True)


def test_two_starts_are_compared_step_by_step() -> None:
    before = start(
        step(StepKind.SANDBOX, 0, 1.5), step(StepKind.PULL, 1.5, 8, "old:1"),
        step(StepKind.CREATE, 8, 8.3, "app"), step(StepKind.RUN, 8.3, 90, "app"),
        ready=8.4, over=90,
    )  # fmt: skip
    found = waterfall(USUAL, before, BASE + 100)
    bars = by_label(found)
    assert bars["sandbox"].change == pytest.approx(-1.02)
    assert bars["start app"].change == pytest.approx(0.0)
    assert bars["pull app:1.2"].change is None
    assert found.gone == (("pull old:1", pytest.approx(6.5)),)
    assert found.before == pytest.approx(8.4)
    drawn = text_of(waterfall_lines(found, 100, number=1, of=2))
    assert "the previous start took 8.40s (+600ms)" in drawn
    assert "−1.02s" in drawn
    assert "only in the previous start: pull old:1 6.50s" in drawn


def test_repetitions_are_numbered_and_compared_as_one() -> None:
    def crashing(*lengths: float) -> PodStart:
        steps: list[Step] = []
        at = 0.0
        for taken in lengths:
            steps.append(
                step(StepKind.PULL, at, at + taken, "a:1", failed=True, note="ErrImagePull")
            )
            at += taken + 1
        return start(*steps)

    found = waterfall(crashing(1, 2, 3), crashing(1, 1), BASE + 20)
    assert [bar.label for bar in found.bars] == ["pull a:1", "pull a:1 #2", "pull a:1 #3"]
    assert [bar.change for bar in found.bars] == [None, None, pytest.approx(4.0)]


def test_steps_after_readiness_are_listed_below() -> None:
    again = start(
        *USUAL.steps[:3],
        step(StepKind.RUN, 1, 60, "app", failed=True, note="Error, exit code 3"),
        step(StepKind.CREATE, 70, 70.2, "app"),
        step(StepKind.RUN, 70.2, None, "app"),
        ready=2,
    )
    found = waterfall(again, None, BASE + 80)
    assert [bar.label for bar in found.later] == ["run app #2"]
    drawn = text_of(waterfall_lines(found, 100, number=1, of=1))
    assert "After readiness" in drawn
    assert "run app: Error, exit code 3" in drawn


@pytest.mark.parametrize("width", [48, 60, 78, 118, 198])
@pytest.mark.parametrize("now", [0.0, 0.5, 30.0, 40000.0])
def test_no_line_is_wider_than_the_screen(width: int, now: float) -> None:
    hostile = Step(kind=StepKind.CREATE, began=t(0), subject="x" * 90 + "\x1b[31m漢字")
    for made in (USUAL, start(), start(*USUAL.steps, hostile), start(hostile)):
        found = waterfall(made, USUAL, BASE + now)
        for line in waterfall_lines(found, width, number=1, of=3):
            assert line_width(line) <= width
            assert "\x1b" not in text_of([line])


@pytest.mark.parametrize(
    ("number", "days", "words"),
    [
        (1, 0, "this start (1 of 4), "),
        (2, 0, "the previous start (2 of 4), "),
        (3, 0, "2 starts ago (3 of 4), "),
        (
            4,
            2,
            f"3 starts ago (4 of 4), {datetime.fromtimestamp(BASE, UTC).astimezone():%Y-%m-%d} ",
        ),
    ],
)
def test_title_of_a_start(number: int, days: int, words: str) -> None:
    found = waterfall(USUAL, None, BASE + 60 + 86400 * days)
    line = text_of(waterfall_lines(found, 140, number=number, of=4)).splitlines()[0]
    when = datetime.fromtimestamp(found.began, UTC).astimezone()
    assert f"{words}{when:%H:%M:%S}" in line


def test_every_bar_has_the_position_of_its_step() -> None:
    lines = waterfall_lines(waterfall(USUAL, None, BASE + 60), 100, number=1, of=1)
    pull = next(line for line in lines if text_of([line]).startswith(" ✔ pull app"))
    before, body = text_of([pull[3:4]]), text_of([pull[4:5]])
    room = len(before) + len(body) + len(text_of([pull[5:6]]))
    assert len(before) / room == pytest.approx(0.5 / 9, abs=0.03)
    assert len(body) / room == pytest.approx(3 / 9, abs=0.05)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0ms"), (0.24, "240ms"), (3.424, "3.42s"), (45.13, "45.1s"), (125, "2m05s"),
     (11520, "3h12m")],
)  # fmt: skip
def test_durations_have_about_three_digits(seconds: float, shown: str) -> None:
    assert length(seconds) == shown


def test_changes_show_their_direction() -> None:
    assert [change(c) for c in (1.2, -0.24, 0.004)] == ["+1.20s", "−240ms", "="]


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("chosen", POD_TABS)
def test_all_tabs_have_labels_at_any_width(width: int, chosen: str) -> None:
    found = tab_spans(chosen, {"manifest": " ▲12"}, width, POD_TABS)
    assert [tab for tab, _ in found] == list(POD_TABS)
    assert 1 + sum(line_width(line) for _, line in found) <= width
    assert any(POD_TABS[chosen] in text_of([line]) for tab, line in found if tab == chosen)
