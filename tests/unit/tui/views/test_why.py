"""Why on the screen: its layout, and a fix from the key to the healthy pod."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec import structs
from pod_builders import ctr, make_pod
from tui_records import HUNGRY, oom_killed_manifest, oom_killed_pod, texts
from tui_scene import NOW, broken

from podtui.api.local import Manifest, ManifestState
from podtui.api.v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from podtui.client.protocol import Changed
from podtui.tui.commands.fix import Applied, outcome, outcome_line
from podtui.tui.commands.manifest_file import Rewrite
from podtui.tui.model.model import Model
from podtui.tui.views.why import (
    Explanations,
    WhyView,
    brief_cause,
    diff_rows,
    excerpt,
    explain_manifest,
    facts_of,
    titled_explanation,
    why_lines,
)
from podtui.tui.widgets.cells import line_width
from podtui.why import Diagnosis, Edit, Evidence, Facts, Fix, Health, Kind, diagnose
from podtui.why.trial import Trial

LIMIT = "spec.containers[0].resources.limits.memory"
FIX = Fix("Double it", (Edit(11, 17, "16Mi", "32Mi"),), "A note.")
DIAGNOSIS = Diagnosis(
    cause="OutOfMemory",
    kind=Kind.FAILURE,
    health=Health.FAILING,
    title="app was killed for its memory.",
    sentences=("It is restarted.",),
    container="app",
    evidence=(
        *(Evidence("event", f"BackOff: number {n}", "", 1, True) for n in range(6)),
        *(Evidence("log", f"line {n}") for n in range(8)),
    ),
    field=LIMIT,
    position=(11, 9),
    written=True,
    fixes=(FIX, Fix("Another", FIX.edits)),
    advice="Use less.",
    docs="https://kubernetes.io/docs/x",
    wants_log=True,
)


def view(diagnosis: Diagnosis = DIAGNOSIS, **more: object) -> WhyView:
    return WhyView(diagnosis, oom_killed_manifest(), NOW.timestamp(), **more)  # type: ignore[arg-type]


# --- lines


def test_the_cause_comes_first_and_the_fix_with_its_diff_last() -> None:
    lines = texts(why_lines(view(), 100))
    assert lines[:2] == ["✖ app was killed for its memory.", "  It is restarted."]
    place = lines.index(f"hungry.yaml:11  {LIMIT}")
    assert lines[place + 3] == "▶ 11         memory: 16Mi  # tight"
    fix = lines.index("Fix 1 of 2  Double it")
    assert lines[fix + 4 : fix + 6] == [
        "  -         memory: 16Mi  # tight",
        "  +         memory: 32Mi  # tight",
    ]
    assert lines[-1] == "Read  https://kubernetes.io/docs/x"


@pytest.mark.parametrize("width", [20, 40, 78, 118, 130, 198])
def test_no_row_is_wider_than_the_screen(width: int) -> None:
    assert all(line_width(line) <= width for line in why_lines(view(), width))


@pytest.mark.parametrize(("width", "height"), [(76, 20), (116, 32), (196, 56)])
def test_cause_and_fix_are_visible_at_every_size(width: int, height: int) -> None:
    lines = texts(why_lines(view(), width, height))
    assert len(lines) <= height
    joined = "\n".join(lines)
    assert "killed for its memory" in joined
    assert "+         memory: 32Mi" in joined
    assert "line 7" in joined
    assert "f shows the plan, then applies it" in joined


def test_outside_text_draws_no_control_sequences() -> None:
    evil = Evidence("log", "\x1b[2Jgone\x07")
    lines = texts(
        why_lines(view(dataclasses.replace(DIAGNOSIS, evidence=(evil,), title="a\x1b[31mb")), 80)
    )
    assert not any("\x1b" in line or "\x07" in line for line in lines)


def test_a_read_only_session_cannot_apply_fixes() -> None:
    assert any("read-only" in line for line in texts(why_lines(view(readonly=True), 80)))


def test_withheld_text_is_not_drawn() -> None:
    bare = oom_killed_manifest(text="")
    lines = texts(why_lines(WhyView(DIAGNOSIS, bare, 0.0), 80))
    assert "  The text may contain a Secret and is not shown." in lines


def test_an_excerpt_at_the_end_of_a_file_and_of_long_lines() -> None:
    assert len(excerpt("a\nb\nc", 3, 1, 40)) == 3
    assert texts(excerpt("y" * 100, 1, 1, 40))[-1].endswith("…"), "a long line is truncated"
    long = texts(excerpt("x" * 500 + "HERE", 1, 501, 40))
    assert "HERE" in long[0]


def test_the_diff_of_a_fix_is_complete_at_any_width() -> None:
    text = f"command: [{'a long one ' * 5}]\nnote: {'a long one ' * 5}\n"
    fix = Fix("Let a shell read it", (Edit(1, 10, "[", "[sh, -c, "),))
    assert texts(diff_rows(text, fix, 40, 1)) == [
        "  - command: [a long one a long one a",
        "      long one a long one a long one ]",
        "  + command: [sh, -c, a long one a long",
        "      one a long one a long one a long",
        "      one ]",
        "    note: a long one a long one a long …",
    ]


# --- the line in the pods pane


def model_of(*items: Pod | Manifest) -> Model:
    model = Model()
    for item in items:
        model.fold(type(item), Changed((item,)))
    return model


def test_one_line_shows_the_cause_and_the_key() -> None:
    model = model_of(oom_killed_pod(), oom_killed_manifest())
    _, line = titled_explanation(facts_of(model, oom_killed_pod(), NOW.timestamp()))
    assert "".join(span.text for span in line) == (
        "app was killed for using more memory than its limit of 16Mi."
        "  X Double the memory limit to 32Mi"
    )


def crash_looping(*names: str) -> Pod:
    """Return a pod with these containers, of which the first has exited with code 3."""
    crashed = ContainerStatus(
        name=names[0],
        image="a:1",
        imageID="",
        ready=False,
        restartCount=2,
        state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff")),
        lastState=ContainerState(terminated=ContainerStateTerminated(exitCode=3)),
    )
    made = make_pod(*(ctr(name) for name in names))
    return structs.replace(made, status=PodStatus(phase="Running", containerStatuses=(crashed,)))


def test_a_brief_cause_begins_with_the_fact() -> None:
    now = NOW.timestamp()
    assert brief_cause(Facts(pod=crash_looping("app"), now=now)) == "exit code 3"
    assert brief_cause(Facts(pod=oom_killed_pod(), now=now)) == "out of memory: limit 16Mi"


def test_a_brief_cause_names_the_container_only_if_there_are_several() -> None:
    facts = Facts(pod=crash_looping("app", "side"), now=NOW.timestamp())
    assert brief_cause(facts) == "exit code 3 (app)"


def test_a_pending_pod_has_a_brief_cause_only_if_something_failed() -> None:
    now = NOW.timestamp()
    unscheduled = PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable",
        message="0/1 nodes are available: 1 Insufficient cpu.",
    )  # fmt: skip
    waits = PodStatus(phase="Pending", conditions=(unscheduled,))
    pending = structs.replace(make_pod(static=False, nodeName=""), status=waits)
    assert brief_cause(Facts(pod=pending, now=now)) == "Insufficient cpu"
    several = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
    unscheduled = structs.replace(unscheduled, message=several)
    pending = structs.replace(pending, status=structs.replace(waits, conditions=(unscheduled,)))
    reasons = "1 Insufficient cpu, 2 node(s) were unschedulable"
    assert brief_cause(Facts(pod=pending, now=now)) == reasons
    starting = structs.replace(make_pod(), status=PodStatus(phase="Pending"))
    assert brief_cause(Facts(pod=starting, now=now)) == ""


def test_a_healthy_pod_shows_what_it_runs() -> None:
    _, line = titled_explanation(facts_of(model_of(), oom_killed_pod(well=True), NOW.timestamp()))
    assert texts([line]) == ["app busybox:1.36"]


def test_a_line_is_recomputed_only_after_changes() -> None:
    model = model_of(oom_killed_pod(), oom_killed_manifest())
    kept = Explanations(model)
    now = NOW.timestamp()
    first = kept.of(oom_killed_pod(), now)
    assert kept.of(oom_killed_pod(), now) is first
    assert kept.of(oom_killed_pod(well=True), now) != first
    assert kept.of(oom_killed_pod(), now) == first


# --- a fix on its way


AFTER = HUNGRY.replace("16Mi", "32Mi")
CHANGE = Rewrite(Path("/m/hungry.yaml"), HUNGRY.encode(), AFTER.encode(), "Double it")
APPLIED = Applied(CHANGE, Trial("OutOfMemory", "app", "uid-hungry", "docker://old", "", 3.0))


@pytest.mark.parametrize(
    ("text", "uid", "found", "words"),
    [
        (
            HUNGRY,
            "uid-new",
            (Kind.FAILURE, "OutOfMemory"),
            "waiting for the agent to read the file",
        ),
        (AFTER, "other", (Kind.FAILURE, "OutOfMemory"), "waiting for the pod to be replaced"),
        (AFTER, "uid-new", (Kind.WAIT, "Creating"), "not verified yet: waiting for the pod"),
        (AFTER, "uid-new", (Kind.NONE, "Healthy"), "and verified: app has run for"),
        (AFTER, "uid-new", (Kind.FAILURE, "OutOfMemory"), "but it failed again"),
        (AFTER, "uid-new", (Kind.FAILURE, "Fails"), "but there is a different cause now"),
    ],
)
def test_an_applied_fix_is_followed(
    text: str, uid: str, found: tuple[Kind, str], words: str
) -> None:
    diagnosis = Diagnosis(cause=found[1], kind=found[0], title="x", container="app")
    pod = oom_killed_pod("uid-new", well=True)
    facts = facts_of(model_of(pod), pod, NOW.timestamp())
    found = outcome(
        APPLIED, oom_killed_manifest(text=text, uid=uid), facts, diagnosis, liveness_passed=False
    )
    line = texts([outcome_line(APPLIED, found)])[0]
    assert words in line
    assert line.endswith("(Double it)  u undoes it")


def test_an_invalid_file_is_explained_by_its_error_once() -> None:
    file = broken()
    repeated = 'line 9: unknown field "imago" (spec.containers[0].imago)'
    for state, message, more in (
        (ManifestState.INVALID, repeated, ""),
        (ManifestState.LAST_GOOD, "the previous version keeps running", "  the previous version"),
    ):
        status = structs.replace(file.status, state=state, message=message)
        line = texts([explain_manifest(structs.replace(file, status=status))])[0]
        expected = 'unknown field "imago" → image · spec.containers[0].imago  hello.yaml:9:7'
        assert line.startswith(expected + more)
        assert repeated not in line


def test_the_scene_matches_the_rules() -> None:
    diagnosis = diagnose(
        facts_of(
            model_of(oom_killed_pod(), oom_killed_manifest()), oom_killed_pod(), NOW.timestamp()
        )
    )
    assert (diagnosis.cause, diagnosis.field, diagnosis.position) == ("OutOfMemory", LIMIT, (11, 9))
