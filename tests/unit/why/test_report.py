"""Diagnoses as text and as JSON."""

from __future__ import annotations

import json

import pytest
from why_world import manifest_of, pod_text

from podtui.why import Diagnosis, Edit, Evidence, Fix, Health, Kind
from podtui.why.report import Report, render_json, render_text

TEXT = pod_text("tty: true\n")
DIAGNOSIS = Diagnosis(
    cause="Fails",
    kind=Kind.FAILURE,
    health=Health.FAILING,
    title="c fails.",
    sentences=("It said \x1b[31mno\x1b[0m.",),
    container="c",
    evidence=(
        Evidence("event", "BackOff: again", "2026-01-01T00:00:00Z", 3, True),
        Evidence("log", "a\x07b"),
    ),
    field="spec.containers[0].tty",
    position=(9, 7),
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
    (document,) = json.loads(json.dumps(render_json([report()])))
    assert (document["cause"], document["health"], document["path"]) == (
        "Fails",
        "failing",
        "/m/web.yaml",
    )
    assert (document["line"], document["column"]) == (9, 7)
    assert document["fixes"][0]["edits"] == [
        {"line": 9, "column": 12, "old": "true", "new": "false"}
    ]
    assert document["evidence"][1]["text"] == "a\x07b"


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("health", [None, *Health])
def test_a_pod_is_healthy_if_neither_it_nor_its_file_or_node_has_a_fault(
    health: Health | None, kind: Kind
) -> None:
    well = health in (None, Health.RUNNING, Health.COMPLETED, Health.TERMINATING)
    diagnosis = Diagnosis(cause="x", kind=kind, health=health, title="x")
    assert report(diagnosis).is_healthy is (well and kind is not Kind.FAILURE)


@pytest.mark.parametrize(
    ("health", "kind", "head"),
    [
        (Health.NOT_READY, Kind.FAILURE, "◐ web  not ready"),
        (Health.RUNNING, Kind.FAILURE, "▲ web  running"),
        (Health.RUNNING, Kind.NONE, "● web  running"),
        (None, Kind.FAILURE, "✖ web  Invalid"),
    ],
)
def test_the_first_line_has_the_health_of_the_pod(
    health: Health | None, kind: Kind, head: str
) -> None:
    diagnosis = Diagnosis(cause="x", kind=kind, health=health, title="x")
    manifest, _ = manifest_of("kind: [")
    text = render_text([Report("web", diagnosis, manifest)])
    assert text.splitlines()[0] == head
