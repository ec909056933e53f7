"""Why on the screen: its layout, and a fix from the key to the healthy pod."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs
from tui_app import main, running, wait_for
from tui_records import HUNGRY, oom_killed_manifest, oom_killed_pod, texts
from tui_scene import FakeClient, ended, full_client, pod, status, waiting

from podtui.api.insight import PodInsight, ProbeReport
from podtui.api.kills import Kill, KillReason, with_kill
from podtui.api.local import (
    Diagnostic,
    Manifest,
    Plan,
    PlanOutcome,
    PodPlan,
    Severity,
)
from podtui.api.names import KILLS
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStatus,
    HTTPGetAction,
    ObjectMeta,
    Pod,
    Probe,
)
from podtui.client.protocol import Changed, Removed
from podtui.editing.edits import edits_between
from podtui.manifest.diagnose import read_manifest
from podtui.tui.commands import edit_manifest
from podtui.tui.commands.edit_manifest import rewrite_file
from podtui.tui.commands.fix import apply_fix
from podtui.tui.commands.manifest_file import Rewrite
from podtui.tui.commands.session import Session
from podtui.tui.screens import why_screen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.widgets.dialogs import Dialog
from podtui.tui.widgets.tones import LinesView
from podtui.why import Fix

# --- the line in the pods pane


# --- a fix in progress


AFTER = HUNGRY.replace("16Mi", "32Mi")
CHANGE = Rewrite(Path("/m/hungry.yaml"), HUNGRY.encode(), AFTER.encode(), "Double it")


@pytest.mark.parametrize("undo", [False, True])
async def test_a_fix_does_not_overwrite_a_changed_file(tmp_path: Path, undo: bool) -> None:
    path = tmp_path / "hungry.yaml"
    path.write_text(HUNGRY)
    client: FakeClient = full_client()
    client.answer_plan = PLAN
    async with running(client, (120, 36)) as (app, pilot):
        change = structs.replace(CHANGE, path=path)
        if undo:
            path.write_text(AFTER)
            app.session.undoable.append(change)
        path.write_text(path.read_text() + "# mine\n")
        original = path.read_text()

        async def apply() -> None:
            await rewrite_file(app.session, change)

        if undo:
            await pilot.press("u")
        else:
            app.session.start("Fix", apply)
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the plan is shown")
        await pilot.press("y")
        await wait_for(pilot, lambda: any("changed by another program" in n.message for n in
                       app.notices), "the notice")  # fmt: skip
        assert path.read_text() == original


PLAN = Plan(
    metadata=ObjectMeta(name="hungry.yaml"),
    path="/m/hungry.yaml",
    pods=(PodPlan(outcome=PlanOutcome.REPLACED, namespace="default", name="hungry-n1", grace=30),),
)


async def test_a_missing_path_is_corrected_in_the_editor_or_the_check_weakened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    async def edit(session: Session, words: Sequence[str]) -> None:
        opened.extend(words)

    monkeypatch.setattr(edit_manifest, "run_in_terminal", edit)
    monkeypatch.setenv("PODTUI_EDITOR", "vi")
    path = tmp_path / "web.yaml"
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
        "  - name: app\n    image: a:1\n    livenessProbe:\n"
        "      httpGet: {path: /healthz, port: 80}\n"
    )
    after = text.replace("httpGet: {path: /healthz, port: 80}", "tcpSocket: {port: 80}")
    path.write_text(text)
    client: FakeClient = full_client()
    client.answer_plan = PLAN
    probe = Probe(httpGet=HTTPGetAction(path="/healthz", port=80))
    kill = Kill(id="old", reason=KillReason.LIVENESS_PROBE, message="statuscode: 404")

    def web(uid: str, state: ContainerStatus, **notes: str) -> Pod:
        made = pod("web", state, uid=uid)
        container = Container(name="app", image="a:1", livenessProbe=probe)
        meta = structs.replace(made.metadata, annotations={**made.metadata.annotations, **notes})
        spec = structs.replace(made.spec, containers=(container,))
        return structs.replace(made, metadata=meta, spec=spec)

    def file(text: str, uid: str) -> Manifest:
        places = read_manifest(str(path), text.encode(), node_name="n1").places
        made = oom_killed_manifest(str(path), text, uid)
        state = structs.replace(made.status, podName="web-n1", places=places)
        meta = structs.replace(made.metadata, name="web.yaml")
        return structs.replace(made, metadata=meta, status=state)

    def show(*items: Pod | Manifest) -> None:
        for item in items:
            app.model.fold(type(item), Changed((item,)))
        app.publish_pending()

    looping = status("app", waiting("CrashLoopBackOff"), restarts=9, last=ended(137))
    last = structs.replace(looping.lastState.terminated, containerID="docker://old")
    looping = structs.replace(looping, lastState=ContainerState(terminated=last))
    async with running(client, (120, 36)) as (app, pilot):
        broken = web("uid-web", looping, **{KILLS: with_kill({}, "app", kill)})
        show(broken, file(text, "uid-web"))
        await pilot.pause()
        main(app).pods.table.select("uid-web")
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen is open")

        def why_text() -> str:
            return "\n".join(texts(app.screen.query_one("#why-text", LinesView).lines))

        await wait_for(pilot, lambda: "Correct the path" in why_text(), "the fix is shown")
        await pilot.press("f")
        await wait_for(pilot, lambda: bool(opened), "the editor is open")
        assert opened[:2] == ["vi", "+9"]
        assert "/healthz" in text.splitlines()[8]
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "it was closed")
        await pilot.press("n")
        await wait_for(pilot, lambda: "Weaken the check" in why_text(), "the next fix is shown")
        await pilot.press("f")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the plan is shown")
        await pilot.press("y")
        await wait_for(pilot, lambda: path.read_text() == after, "the fix is written")
        app.model.fold(Pod, Removed((broken,)))
        show(web("uid-new", status("app")), file(after, "uid-new"))
        await wait_for(pilot, lambda: "has not passed yet" in why_text(), "it runs, not trusted")
        report = ProbeReport(container="app", probe="Liveness", last="Success", running=True)
        client.insights["web-n1"] = PodInsight(time=0.0, version="2", probes=(report,))
        await wait_for(
            pilot, lambda: "verified: the weaker check passes" in why_text(), "it passed"
        )
        again = status("app", waiting("CrashLoopBackOff"), restarts=1, last=looping.lastState)
        show(web("uid-new", again, **{KILLS: with_kill({}, "app", kill)}))
        await wait_for(
            pilot, lambda: "applied, but it failed again" in why_text(), "it failed again"
        )


async def test_a_fix_that_adds_a_finding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hungry.yaml"
    path.write_text(HUNGRY)
    client: FakeClient = full_client()
    worse = Diagnostic(
        severity=Severity.ERROR, path=str(path), code="DuplicatePod", message="it is there"
    )
    client.answer_plan = structs.replace(PLAN, diagnostics=(worse,), message="it is there already")
    async with running(client, (120, 36)) as (app, pilot):
        manifest = oom_killed_manifest(str(path))
        fix = Fix("Double it", edits_between(HUNGRY, AFTER))

        async def apply() -> None:
            assert await apply_fix(app.session, manifest, fix) is None

        app.session.start("Fix", apply)
        await wait_for(
            pilot,
            lambda: any("Not applied: it is there" in n.message for n in app.notices),
            "the refusal",
        )
        assert not isinstance(app.screen, Dialog)
        assert path.read_text() == HUNGRY


async def test_a_key_applies_a_fix_and_the_pod_becomes_healthy(tmp_path: Path) -> None:
    path = tmp_path / "hungry.yaml"
    path.write_text(HUNGRY)
    client: FakeClient = full_client()
    async with running(client, (120, 36)) as (app, pilot):
        app.model.fold(Pod, Changed((oom_killed_pod(),)))
        app.model.fold(Manifest, Changed((oom_killed_manifest(str(path)),)))
        app.publish_pending()
        await pilot.pause()
        main(app).pods.table.select("uid-hungry")
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen is open")

        def why_text() -> str:
            return "\n".join(texts(app.screen.query_one("#why-text", LinesView).lines))

        await wait_for(pilot, lambda: "memory: 32Mi" in why_text(), "the fix is shown")
        assert "limit of 16Mi" in why_text()
        client.answer_plan = PLAN
        await pilot.press("f")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the plan is shown")
        plan = "\n".join(texts(app.screen.query_one(LinesView).lines))
        assert "-         memory: 16Mi" in plan
        assert "+         memory: 32Mi" in plan
        assert "hungry-n1 is replaced" in plan
        assert path.read_text() == HUNGRY, "nothing is written before the answer"
        await pilot.press("n")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "cancelled")
        assert path.read_text() == HUNGRY
        await pilot.press("f")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the plan is shown again")
        await pilot.press("y")
        await wait_for(pilot, lambda: "agent to read the file" in why_text(), "the fix is written")
        assert path.read_text() == AFTER
        app.model.fold(Manifest, Changed((oom_killed_manifest(str(path), AFTER, "uid-new"),)))
        app.publish_pending()
        await wait_for(pilot, lambda: "to be replaced" in why_text(), "the file is read")
        app.model.fold(Pod, Removed((oom_killed_pod(),)))
        app.model.fold(Pod, Changed((oom_killed_pod("uid-new", "32Mi", well=True),)))
        app.publish_pending()
        await wait_for(pilot, lambda: "applied and verified" in why_text(), "the pod is well")
        await pilot.press("u")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the plan of the undo")
        await pilot.press("y")
        await wait_for(pilot, lambda: path.read_text() == HUNGRY, "the fix is undone")
        await wait_for(pilot, lambda: "verified" not in why_text(), "no fix is followed any more")
        await pilot.press("escape")
        assert app.screen is main(app)


async def test_a_failed_log_request_is_retried_and_its_lines_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(why_screen, "AGAIN_SECONDS", 0.05)
    client: FakeClient = full_client()
    client.log_errors["app"] = "the engine does not answer"
    client.log_lines["app"] = [b"2026-11-21T12:00:00Z panic: " + b"x" * 1_000_000]
    async with running(client, (120, 36)) as (app, pilot):
        main(app).pods.table.select("uid-crash-loop")
        await pilot.press("X")

        def why_text() -> str:
            return "\n".join(texts(app.screen.query_one("#why-text", LinesView).lines))

        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen is open")
        await wait_for(pilot, lambda: "engine does not answer" in why_text(), "why there is none")
        del client.log_errors["app"]
        await wait_for(pilot, lambda: "panic:" in why_text(), "the log")
        assert "x…" in why_text()
        assert why_text().count("x") < 2 * why_screen.LONGEST_LINE, (
            "once as the cause, once as evidence"
        )
