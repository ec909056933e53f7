"""Diagnoses as text and as JSON."""

from __future__ import annotations

import json

from why_world import manifest_of, one

from podtui.why import Diagnosis, Edit, Evidence, Fix, Health
from podtui.why.report import Report, render_json, render_text

TEXT = one("tty: true\n")
DIAGNOSIS = Diagnosis(
    cause="Fails",
    health=Health.FAILING,
    title="c fails.",
    sentences=("It said \x1b[31mno\x1b[0m.",),
    container="c",
    evidence=(
        Evidence("event", "BackOff: again", "2026-01-01T00:00:00Z", 3, True),
        Evidence("log", "a\x07b"),
    ),
    field="spec.containers[0].tty",
    place=(9, 7),
    fixes=(Fix("Say false", (Edit(9, 12, "true", "false"),)),),
    advice="Look.",
    docs="https://kubernetes.io/docs/",
)


def report(diagnosis: Diagnosis = DIAGNOSIS) -> Report:
    return Report("web-n1", diagnosis, manifest_of(TEXT)[0])


def test_a_block_has_cause_evidence_position_and_fix() -> None:
    assert render_text([report()]).splitlines() == [
        "✖ web-n1  failing",
        "  c fails.",
        "  It said no.",
        "    2026-01-01T00:00:00Z BackOff: again (x3)",
        "    | a␇b",
        "  /m/web.yaml:9:7: spec.containers[0].tty",
        "  Fix: Say false",
        "         - name: c",
        "           image: busybox:1",
        "    -      tty: true",
        "    +      tty: false",
        "     ",
        "  Alternative: Look.",
        "  https://kubernetes.io/docs/",
    ]


def test_a_fix_for_another_text_is_named_without_its_diff() -> None:
    other = Report("web-n1", DIAGNOSIS, manifest_of(TEXT.replace("tty: true", "tty: no"))[0])
    assert "    -      tty: true" not in render_text([other]).splitlines()


def test_blocks_are_separated() -> None:
    assert render_text([report(), report()]).count("\n\n✖") == 1
    assert render_text([]) == ""


def test_json_contains_everything_to_apply_a_fix() -> None:
    (found,) = json.loads(json.dumps(render_json([report()])))
    assert (found["cause"], found["health"], found["path"]) == ("Fails", "failing", "/m/web.yaml")
    assert (found["line"], found["column"]) == (9, 7)
    assert found["fixes"][0]["edits"] == [{"line": 9, "column": 12, "old": "true", "new": "false"}]
    assert found["evidence"][1]["text"] == "a\x07b"


def test_failing_and_waiting_pods_are_not_healthy() -> None:
    for health in Health:
        diagnosis = Diagnosis(cause="x", health=health, title="x")
        assert report(diagnosis).is_healthy is (health not in (Health.FAILING, Health.WAITING))
