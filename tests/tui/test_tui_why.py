"""Why, on the screen: what is shown in how much room, and a fix from the key to the healthy pod."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from msgspec import structs
from tui_app import main, running, wait_for
from tui_scene import NOW, FakeClient, ended, full_client, manifest, pod, status, waiting

from podtui.api.local import Manifest, ManifestState
from podtui.api.v1 import Container, Pod, ResourceRequirements
from podtui.client.protocol import Changed, Removed
from podtui.manifest.diagnose import read_manifest
from podtui.tui.actions.manifest_file import ManifestChanged
from podtui.tui.model import Model
from podtui.tui.why import why_screen
from podtui.tui.why.why import Explanations, explain_pod, facts_of
from podtui.tui.why.why_follow import Applied, apply_fix, progress
from podtui.tui.why.why_lines import WhyView, diff_rows, excerpt, why_lines
from podtui.tui.why.why_screen import WhyScreen
from podtui.tui.widgets.cells import Line, line_width
from podtui.tui.widgets.tones import LinesView
from podtui.why import Diagnosis, Edit, Evidence, Fix, Health, diagnose

TEXT = """\
apiVersion: v1
kind: Pod
metadata:
  name: hungry
spec:
  containers:
  - name: app
    image: busybox:1.36
    resources:
      limits:
        memory: 16Mi  # tight
"""
LIMIT = "spec.containers[0].resources.limits.memory"
FIX = Fix("Double it", (Edit(11, 17, "16Mi", "32Mi"),), "A note.")
SAID = Diagnosis(
    cause="OutOfMemory",
    health=Health.BROKEN,
    title="app was killed for its memory.",
    sentences=("It is started anew.",),
    container="app",
    evidence=(
        *(Evidence("event", f"BackOff: number {n}", "", 1, True) for n in range(6)),
        *(Evidence("log", f"line {n}") for n in range(8)),
    ),
    field=LIMIT,
    place=(11, 9),
    written=True,
    fixes=(FIX, Fix("Another", FIX.edits)),
    advice="Use less.",
    docs="https://kubernetes.io/docs/x",
    wants_log=True,
)


def record(path: str = "/m/hungry.yaml", text: str = TEXT, uid: str = "uid-hungry") -> Manifest:
    places = read_manifest(path, text.encode(), node_name="n1").places
    made = manifest("hungry.yaml", text=text, pod_name="hungry")
    state = structs.replace(
        made.status,
        state=ManifestState.ACCEPTED, podNamespace="default", podName="hungry-n1", podUID=uid,
        places=places, diagnostics=(),
    )  # fmt: skip
    return structs.replace(made, spec=structs.replace(made.spec, path=path), status=state)


def texts(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in lines]


def view(said: Diagnosis = SAID, **more: object) -> WhyView:
    return WhyView(said, record(), NOW.timestamp(), **more)  # type: ignore[arg-type]


# --- lines


def test_the_cause_comes_first_and_the_fix_with_its_diff_last() -> None:
    lines = texts(why_lines(view(), 100))
    assert lines[:2] == ["✖ app was killed for its memory.", "  It is started anew."]
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
def test_cause_and_fix_are_in_sight_on_every_screen(width: int, height: int) -> None:
    lines = texts(why_lines(view(), width, height))
    assert len(lines) <= height
    joined = "\n".join(lines)
    assert "killed for its memory" in joined
    assert "+         memory: 32Mi" in joined
    assert "line 7" in joined
    assert "f writes it into the file" in joined


def test_what_came_from_outside_draws_nothing_but_itself() -> None:
    evil = Evidence("log", "\x1b[2Jgone\x07")
    lines = texts(
        why_lines(view(dataclasses.replace(SAID, evidence=(evil,), title="a\x1b[31mb")), 80)
    )
    assert not any("\x1b" in line or "\x07" in line for line in lines)


def test_a_read_only_session_is_told_that_nothing_can_be_applied() -> None:
    assert any("read-only" in line for line in texts(why_lines(view(readonly=True), 80)))


def test_a_text_that_is_withheld_is_not_drawn() -> None:
    bare = record(text="")
    lines = texts(why_lines(WhyView(SAID, bare, 0.0), 80))
    assert "  The text may hold a Secret and is not shown." in lines


def test_an_excerpt_at_the_end_of_a_file_and_of_long_lines() -> None:
    assert len(excerpt("a\nb\nc", 3, 1, 40)) == 3
    long = texts(excerpt("x" * 500 + "HERE", 1, 501, 40))
    assert "HERE" in long[0]


def test_what_a_fix_changes_is_read_whole_at_any_width() -> None:
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


def hungry(uid: str = "uid-hungry", limit: str = "16Mi", *, well: bool = False) -> Pod:
    state = status("app") if well else status(
        "app", waiting("CrashLoopBackOff", "back-off"), restarts=2, last=ended(137, "OOMKilled")
    )  # fmt: skip
    made = pod("hungry", state, uid=uid)
    container = Container(
        name="app", image="busybox:1.36", resources=ResourceRequirements(limits={"memory": limit})
    )
    return structs.replace(made, spec=structs.replace(made.spec, containers=(container,)))


def model_of(*items: Pod | Manifest) -> Model:
    model = Model()
    for item in items:
        model.fold(type(item), Changed((item,)))
    return model


def test_one_line_says_the_cause_and_what_the_key_does() -> None:
    model = model_of(hungry(), record())
    line = explain_pod(facts_of(model, hungry(), NOW.timestamp()))
    assert "".join(span.text for span in line) == (
        "app was killed for using more memory than its limit of 16Mi."
        "  X Double the memory limit to 32Mi"
    )


def test_a_pod_that_is_well_says_what_it_runs() -> None:
    line = explain_pod(facts_of(model_of(), hungry(well=True), NOW.timestamp()))
    assert texts([line]) == ["app busybox:1.36"]


def test_a_line_is_made_anew_only_when_something_may_have_changed() -> None:
    model = model_of(hungry(), record())
    kept = Explanations(model)
    now = NOW.timestamp()
    first = kept.of(hungry(), now)
    assert kept.of(hungry(), now) is first
    assert kept.of(hungry(well=True), now) != first
    assert kept.of(hungry(), now) == first


# --- a fix on its way


async def test_a_fix_is_written_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "hungry.yaml"
    path.write_text(TEXT)
    path.chmod(0o640)
    assert await apply_fix(record(str(path)), FIX) == path.read_text()
    assert path.read_text() == TEXT.replace("16Mi", "32Mi")
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["hungry.yaml"]


async def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hungry.yaml"
    path.write_text(TEXT + "# mine\n")
    with pytest.raises(ManifestChanged):
        await apply_fix(record(str(path)), FIX)
    assert path.read_text() == TEXT + "# mine\n"


AFTER = TEXT.replace("16Mi", "32Mi")
APPLIED = Applied("Double it", "OutOfMemory", AFTER)


@pytest.mark.parametrize(
    ("text", "uid", "health", "cause", "words"),
    [
        (TEXT, "uid-hungry", Health.BROKEN, "OutOfMemory", "for the agent to read it"),
        (AFTER, "new", Health.BROKEN, "OutOfMemory", "for the pod to be replaced"),
        (AFTER, "uid-hungry", Health.WAITING, "Creating", "for the pod to be well"),
        (AFTER, "uid-hungry", Health.HEALTHY, "Healthy", "it helped"),
        (AFTER, "uid-hungry", Health.BROKEN, "OutOfMemory", "the cause is still there"),
        (AFTER, "uid-hungry", Health.BROKEN, "Fails", "this is next"),
    ],
)
def test_an_applied_fix_is_followed(
    text: str, uid: str, health: Health, cause: str, words: str
) -> None:
    said = Diagnosis(cause=cause, health=health, title="x")
    line = progress(APPLIED, record(text=text, uid=uid), hungry(), said)
    assert words in texts([line])[0]


async def test_from_the_key_to_the_pod_that_is_well(tmp_path: Path) -> None:
    path = tmp_path / "hungry.yaml"
    path.write_text(TEXT)
    client: FakeClient = full_client()
    async with running(client, (120, 36)) as (app, pilot):
        app.model.fold(Pod, Changed((hungry(),)))
        app.model.fold(Manifest, Changed((record(str(path)),)))
        app._publish()
        await pilot.pause()
        main(app).pods.table.select("uid-hungry")
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen is open")

        def shown() -> str:
            return "\n".join(texts(app.screen.query_one("#why-text", LinesView).lines))

        await wait_for(pilot, lambda: "memory: 32Mi" in shown(), "the fix is shown")
        assert "limit of 16Mi" in shown()
        await pilot.press("f")
        await wait_for(pilot, lambda: "agent to read it" in shown(), "the fix is written")
        assert path.read_text() == AFTER
        app.model.fold(Manifest, Changed((record(str(path), AFTER, "uid-new"),)))
        app._publish()
        await wait_for(pilot, lambda: "to be replaced" in shown(), "the file is read")
        app.model.fold(Pod, Removed((hungry(),)))
        app.model.fold(Pod, Changed((hungry("uid-new", "32Mi", well=True),)))
        app._publish()
        await wait_for(pilot, lambda: "it helped" in shown(), "the pod is well")
        await pilot.press("escape")
        assert app.screen is main(app)


async def test_a_log_that_failed_is_asked_for_again_and_its_lines_are_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(why_screen, "AGAIN_SECONDS", 0.05)
    client: FakeClient = full_client()
    client.log_errors["app"] = "the engine does not answer"
    client.log_lines["app"] = [b"2026-11-21T12:00:00Z panic: " + b"x" * 1_000_000]
    async with running(client, (120, 36)) as (app, pilot):
        main(app).pods.table.select("uid-crash-loop")
        await pilot.press("X")

        def shown() -> str:
            return "\n".join(texts(app.screen.query_one("#why-text", LinesView).lines))

        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen is open")
        await wait_for(pilot, lambda: "engine does not answer" in shown(), "why there is none")
        del client.log_errors["app"]
        await wait_for(pilot, lambda: "panic:" in shown(), "the log")
        assert "x…" in shown()
        assert shown().count("x") < 2 * why_screen.LONGEST_LINE, "it is said and quoted"


def test_the_scene_is_what_the_rules_say_of_it() -> None:
    said = diagnose(facts_of(model_of(hungry(), record()), hungry(), NOW.timestamp()))
    assert (said.cause, said.field, said.place) == ("OutOfMemory", LIMIT, (11, 9))
