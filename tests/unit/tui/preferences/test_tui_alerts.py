"""When and how the user is notified."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs
from tui_scene import ended, node, pod, status, waiting

from podtui.api.v1 import Pod
from podtui.tui.preferences.alerts import (
    FORGET_SECONDS,
    READY_SECONDS,
    Alert,
    AlertKind,
    AlertTracker,
    osc9,
    pod_condition,
    run_command,
    terminal_text,
)

LOOPING = status("app", waiting("CrashLoopBackOff", "back-off"), restarts=3)
CRASHED = status("app", ended(1), ready=False, restarts=3)


def looping() -> Pod:
    return pod("web", LOOPING)


def crashed() -> Pod:
    return pod("web", CRASHED)


def running(*, ready: bool = True) -> Pod:
    return pod("web", status("app", ready=ready))


def failed() -> Pod:
    return pod("web", CRASHED, phase="Failed")


def told(*steps: tuple[float, Pod | None]) -> list[str]:
    """What is told when a pod is seen so, one after the other, the first when we come."""
    book = AlertTracker()
    kinds: list[str] = []
    for number, (now, seen) in enumerate(steps):
        pods = [seen] if seen is not None else []
        book.forget_missing(pods, now)
        kinds += [a.kind for a in book.observe_pods(pods, now, first=number == 0)]
    return kinds


def test_what_was_so_before_we_came_is_no_news() -> None:
    assert told((0, looping()), (1, looping())) == []
    assert told((0, failed())) == []
    assert told((0, running()), (100, running())) == []


def test_a_crash_loop_is_told_once_however_often_it_turns() -> None:
    turn = [(1.0, looping()), (11.0, running()), (12.0, crashed()), (13.0, looping())]
    later = [(now + 20, seen) for now, seen in turn]
    assert told((0, running()), *turn, *later) == ["crashLoop"]


def test_ready_again_is_told_once_it_has_lasted() -> None:
    before = [(0.0, running()), (1.0, looping()), (10.0, running())]
    assert told(*before, (9 + READY_SECONDS, running())) == ["crashLoop"]
    assert told(*before, (10 + READY_SECONDS, running())) == ["crashLoop", "ready"]
    assert told(*before, (10 + READY_SECONDS, running()), (99, running())) == ["crashLoop", "ready"]


def test_a_moment_of_not_ready_starts_the_waiting_anew() -> None:
    steps = [(0.0, running()), (1.0, looping()), (10.0, running()), (20.0, running(ready=False))]
    assert told(*steps, (25.0, running()), (24 + READY_SECONDS, running())) == ["crashLoop"]
    assert told(*steps, (25.0, running()), (25 + READY_SECONDS, running())) == [
        "crashLoop",
        "ready",
    ]


def test_a_pod_that_was_well_is_not_said_to_be_so_again() -> None:
    assert told((0, running()), (10, running(ready=False)), (20, running()), (99, running())) == []


def test_failing_is_told_and_so_is_another_trouble_after_it() -> None:
    assert told((0, running()), (1, failed()), (2, failed()), (3, looping())) == [
        "failed",
        "crashLoop",
    ]


def test_a_new_pod_that_fails_at_once_is_news() -> None:
    assert told((0, None), (1, failed())) == ["failed"]


def test_a_replaced_pod_is_the_same_to_people_and_a_stranger_after_a_while() -> None:
    start = [(0.0, running()), (1.0, looping()), (2.0, None)]
    assert told(*start, (3.0, looping())) == ["crashLoop"]
    assert told(*start, (10.0, running()), (40.0, running())) == ["crashLoop", "ready"]
    late = 3 + FORGET_SECONDS
    assert told(*start, (late, None), (late + 1, looping())) == ["crashLoop", "crashLoop"]


def test_what_waits_is_looked_at_as_time_goes_on() -> None:
    book = AlertTracker()
    book.observe_pods([looping()], 0, first=True)
    assert not book.is_recovering(looping())
    book.observe_pods([running()], 1, first=False)
    assert book.is_recovering(running())


def test_a_completed_pod_is_well_and_a_leaving_one_is_not() -> None:
    assert pod_condition(pod("job", status("app", ended(0)), phase="Succeeded"), 0.0).healthy
    assert not pod_condition(pod("web", status("app"), deleted=True), 0.0).healthy


def test_the_node_is_told_when_it_goes_and_when_it_comes() -> None:
    book = AlertTracker()
    assert book.observe_node(node(), 0, first=True) == []
    gone = book.observe_node(node(ready=False), 1, first=False)
    assert [a.kind for a in gone] == [AlertKind.NODE_NOT_READY]
    assert gone[0].text.startswith("node n1: NotReady: container runtime is down")
    assert book.observe_node(node(ready=False), 2, first=False) == []
    assert [a.text for a in book.observe_node(node(), 3, first=False)] == ["node n1: Ready again"]


HOSTILE = Alert("failed", "web-n1", "default", "bad\x07\x1b]52;c;cHduZWQ=\x07\nword")


def test_nothing_from_outside_ends_the_sequence_or_begins_another() -> None:
    text = osc9(HOSTILE.text, {})
    assert text == "\x1b]9;default/web-n1: bad␇ word\x07"
    assert osc9("x" * 999, {}) == "\x1b]9;" + "x" * 200 + "\x07"


def test_tmux_is_asked_to_pass_it_on() -> None:
    assert osc9("hello", {"TMUX": "/tmp/x,1,0"}) == "\x1bPtmux;\x1b\x1b]9;hello\x07\x1b\\"


@pytest.mark.parametrize(
    ("by", "start"), [((), ""), (("bell",), "\x07"), (("osc9",), "\x1b]9;podtui: default")]
)
def test_only_what_is_asked_for_is_written(by: tuple[str, ...], start: str) -> None:
    text = terminal_text(Alert("failed", "web-n1", "default", "Error"), by, {})
    assert text.startswith(start)
    assert bool(text) == bool(by)


async def test_a_program_is_told_without_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "told"
    script = (
        "import os, sys; open(sys.argv[1], 'w').write("
        "sys.argv[2] + '|' + os.environ['PODTUI_ALERT_KIND'] + os.environ['PODTUI_ALERT_NAME'])"
    )
    alert = Alert("failed", "web-n1", "default", "$(touch x); `y`")
    assert await run_command((sys.executable, "-c", script, str(out)), alert) == ""
    assert out.read_text() == "default/web-n1: $(touch x); `y`|failedweb-n1"


async def test_a_program_that_fails_hangs_or_is_not_there_is_told(tmp_path: Path) -> None:
    missing = await run_command((str(tmp_path / "none"),), HOSTILE)
    assert "No such file" in missing
    assert "status 3" in await run_command((sys.executable, "-c", "raise SystemExit(3)"), HOSTILE)
    hangs = (sys.executable, "-c", "import time; time.sleep(60)")
    assert "killed" in await run_command(hangs, HOSTILE, seconds=0.1)


def test_a_node_that_starts_is_neither_in_trouble_nor_ready_again() -> None:
    untold = "container runtime status check may not have completed yet"
    made = node(ready=False)
    condition = structs.replace(made.status.conditions[0], message=untold)
    starting = structs.replace(made, status=structs.replace(made.status, conditions=(condition,)))
    for first in (True, False):
        book = AlertTracker()
        assert book.observe_node(starting, 0, first=first) == []
        assert book.observe_node(node(), 1, first=False) == []
        assert len(book.observe_node(node(ready=False), 2, first=False)) == 1
