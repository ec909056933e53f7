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


def notified(*steps: tuple[float, Pod | None]) -> list[str]:
    """Return the notifications for a sequence of states, the first being the initial one."""
    book = AlertTracker()
    kinds: list[str] = []
    for number, (now, seen) in enumerate(steps):
        pods = [seen] if seen is not None else []
        book.forget_missing(pods, now)
        kinds += [a.kind for a in book.observe_pods(pods, now, first=number == 0)]
    return kinds


def test_existing_states_are_not_notified() -> None:
    assert notified((0, looping()), (1, looping())) == []
    assert notified((0, failed())) == []
    assert notified((0, running()), (100, running())) == []


def test_a_crash_loop_is_notified_once() -> None:
    turn = [(1.0, looping()), (11.0, running()), (12.0, crashed()), (13.0, looping())]
    later = [(now + 20, seen) for now, seen in turn]
    assert notified((0, running()), *turn, *later) == ["crashLoop"]


def test_recovery_is_notified_after_it_lasted() -> None:
    before = [(0.0, running()), (1.0, looping()), (10.0, running())]
    assert notified(*before, (9 + READY_SECONDS, running())) == ["crashLoop"]
    assert notified(*before, (10 + READY_SECONDS, running())) == ["crashLoop", "ready"]
    assert notified(*before, (10 + READY_SECONDS, running()), (99, running())) == [
        "crashLoop",
        "ready",
    ]


def test_a_short_unreadiness_restarts_the_wait() -> None:
    steps = [(0.0, running()), (1.0, looping()), (10.0, running()), (20.0, running(ready=False))]
    assert notified(*steps, (25.0, running()), (24 + READY_SECONDS, running())) == ["crashLoop"]
    assert notified(*steps, (25.0, running()), (25 + READY_SECONDS, running())) == [
        "crashLoop",
        "ready",
    ]


def test_a_healthy_pod_is_not_notified_again() -> None:
    assert (
        notified((0, running()), (10, running(ready=False)), (20, running()), (99, running())) == []
    )


def test_a_failure_and_a_later_one_are_both_notified() -> None:
    assert notified((0, running()), (1, failed()), (2, failed()), (3, looping())) == [
        "failed",
        "crashLoop",
    ]


def test_a_new_pod_that_fails_at_once_is_notified() -> None:
    assert notified((0, None), (1, failed())) == ["failed"]


def test_a_replaced_pod_inherits_its_state_for_a_while() -> None:
    start = [(0.0, running()), (1.0, looping()), (2.0, None)]
    assert notified(*start, (3.0, looping())) == ["crashLoop"]
    assert notified(*start, (10.0, running()), (40.0, running())) == ["crashLoop", "ready"]
    late = 3 + FORGET_SECONDS
    assert notified(*start, (late, None), (late + 1, looping())) == ["crashLoop", "crashLoop"]


def test_pending_notifications_are_checked_over_time() -> None:
    book = AlertTracker()
    book.observe_pods([looping()], 0, first=True)
    assert not book.is_recovering(looping())
    book.observe_pods([running()], 1, first=False)
    assert book.is_recovering(running())


def test_a_completed_pod_is_healthy_and_a_terminating_one_is_not() -> None:
    assert pod_condition(pod("job", status("app", ended(0)), phase="Succeeded"), 0.0).healthy
    assert not pod_condition(pod("web", status("app"), deleted=True), 0.0).healthy


def test_loss_and_return_of_the_node_are_notified() -> None:
    book = AlertTracker()
    assert book.observe_node(node(), 0, first=True) == []
    gone = book.observe_node(node(ready=False), 1, first=False)
    assert [a.kind for a in gone] == [AlertKind.NODE_NOT_READY]
    assert gone[0].text.startswith("node n1: NotReady: container runtime is down")
    assert book.observe_node(node(ready=False), 2, first=False) == []
    assert [a.text for a in book.observe_node(node(), 3, first=False)] == ["node n1: Ready again"]


HOSTILE = Alert("failed", "web-n1", "default", "bad\x07\x1b]52;c;cHduZWQ=\x07\nword")


def test_outside_text_cannot_break_the_escape_sequence() -> None:
    text = osc9(HOSTILE.text, {})
    assert text == "\x1b]9;default/web-n1: bad␇ word\x07"
    assert osc9("x" * 999, {}) == "\x1b]9;" + "x" * 200 + "\x07"


def test_tmux_passthrough_is_used() -> None:
    assert osc9("hello", {"TMUX": "/tmp/x,1,0"}) == "\x1bPtmux;\x1b\x1b]9;hello\x07\x1b\\"


@pytest.mark.parametrize(
    ("by", "start"), [((), ""), (("bell",), "\x07"), (("osc9",), "\x1b]9;podtui: default")]
)
def test_only_enabled_notifications_are_written(by: tuple[str, ...], start: str) -> None:
    text = terminal_text(Alert("failed", "web-n1", "default", "Error"), by, {})
    assert text.startswith(start)
    assert bool(text) == bool(by)


async def test_a_program_is_notified_without_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "alerts"
    script = (
        "import os, sys; open(sys.argv[1], 'w').write("
        "sys.argv[2] + '|' + os.environ['PODTUI_ALERT_KIND'] + os.environ['PODTUI_ALERT_NAME'])"
    )
    alert = Alert("failed", "web-n1", "default", "$(touch x); `y`")
    assert await run_command((sys.executable, "-c", script, str(out)), alert) == ""
    assert out.read_text() == "default/web-n1: $(touch x); `y`|failedweb-n1"


async def test_a_failing_hanging_or_missing_program_is_reported(tmp_path: Path) -> None:
    missing = await run_command((str(tmp_path / "none"),), HOSTILE)
    assert "No such file" in missing
    assert "status 3" in await run_command((sys.executable, "-c", "raise SystemExit(3)"), HOSTILE)
    hangs = (sys.executable, "-c", "import time; time.sleep(60)")
    assert "killed" in await run_command(hangs, HOSTILE, seconds=0.1)


def test_a_starting_node_causes_no_notification() -> None:
    untold = "container runtime status check may not have completed yet"
    made = node(ready=False)
    condition = structs.replace(made.status.conditions[0], message=untold)
    starting = structs.replace(made, status=structs.replace(made.status, conditions=(condition,)))
    for first in (True, False):
        book = AlertTracker()
        assert book.observe_node(starting, 0, first=first) == []
        assert book.observe_node(node(), 1, first=False) == []
        assert len(book.observe_node(node(ready=False), 2, first=False)) == 1
