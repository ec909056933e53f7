"""Probes as text."""

from __future__ import annotations

import pytest
from msgspec import structs
from tui_records import text_of
from tui_scene import NOW, ago, pod, status

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.v1 import ExecAction, Pod, Probe
from podtui.tui.views.pods.probes import next_text, probe_lines, streak_text
from podtui.tui.widgets.cells import line_width

AT = NOW.timestamp()


def probed() -> Pod:
    made = pod("web", status("app"))
    probe = Probe(exec=ExecAction(command=("check", "me")), periodSeconds=7)
    app = structs.replace(made.spec.containers[0], readinessProbe=probe)
    return structs.replace(made, spec=structs.replace(made.spec, containers=(app,)))


def run(verdict: str = "failure", output: str = "") -> ProbeRun:
    return ProbeRun(time=ago(seconds=3), verdict=verdict, seconds=0.25, output=output)


def report(**fields: object) -> ProbeReport:
    base: dict[str, object] = {
        "container": "app", "probe": "Readiness", "result": "Failure", "last": "Failure",
        "inRow": 2, "threshold": 3, "nextIn": 5.4,
        "history": (run("success"), run("warning"), run("error"), run(output="no\nroute")),
    }  # fmt: skip
    return ProbeReport(**{**base, **fields})  # type: ignore[arg-type]


def shown(*reports: ProbeReport, width: int = 100, **more: object) -> str:
    lines, _ = probe_lines(
        probed(), reports, ("app", "Readiness"), more.get("answers", {}),  # type: ignore[arg-type]
        now=AT, elapsed=1.0, width=width,
    )  # fmt: skip
    return text_of(lines)


def test_a_probe_shows_its_action_next_run_and_last_result() -> None:
    output = shown(report())
    for words in ("▸ ✖ fails", "app readiness", "exec check me, every 7s", "in 4s",
                  "2 failures in a row, threshold 3", "✔▲?✖", "✖ failure in 250ms, 3s ago",
                  "no\n", "route"):  # fmt: skip
        assert words in output


def test_a_manual_run_is_shown_beside_the_kubelets() -> None:
    answers = {("app", "Readiness"): run("success")}
    output = shown(report(), answers=answers)
    assert "asked ✔ success" in output
    assert "manual run; the result does not count" in output


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"nextIn": None, "state": "passed"}, "passed: it is not run again"),
     ({"nextIn": None, "state": "waits for startup"}, "waiting for the startup probe to pass"),
     ({"nextIn": 30.0, "state": "initial delay"}, "in 29s (initial delay)"),
     ({"nextIn": 0.2}, "in 0s"), ({"running": True}, "running now")],
)  # fmt: skip
def test_when_it_runs_next(fields: dict[str, object], words: str) -> None:
    assert next_text(report(**fields), 1.0) == words


def test_streaks() -> None:
    assert streak_text(report(last="", inRow=0)) == ""
    assert streak_text(report(last="Success", inRow=1, threshold=1)) == "1 success in a row"
    assert streak_text(report(last="Success", inRow=17, threshold=1)) == "17 successes in a row"


def test_a_pod_without_probes_explains_them() -> None:
    lines, places = probe_lines(pod("web", status("app")), (), ("", ""), {}, now=AT, elapsed=0,
                                width=80)  # fmt: skip
    assert "No container of this pod has a probe" in text_of(lines)
    assert places == {}
    assert "not running" in shown()


@pytest.mark.parametrize("width", [40, 78, 198])
def test_hostile_output_is_plain_text_and_fits(width: int) -> None:
    nasty = run(output="\x1b]0;owned\x07\x1b[2J" + "漢" * 400 + "\r\n\x9b31mx")
    lines, _ = probe_lines(probed(), (report(history=(nasty,)),), ("app", "Readiness"), {},
                           now=AT, elapsed=0, width=width)  # fmt: skip
    for line in lines:
        assert line_width(line) <= width
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text_of([line]))
