"""The tabs of the pod screen that query the agent, and those with events and texts of the pod."""

from __future__ import annotations

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import ContentSwitcher
from timeline_builders import USUAL
from tui_app import main, running, wait_for
from tui_scene import FakeClient, full_client
from usage_builders import series

from podtui.api.insight import InsightPart, PodInsight, ProbeReport
from podtui.tui.app import PodtuiApp
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.pods.tabs import PodEvents, YamlView
from podtui.tui.screens.text_screens import EventScreen
from podtui.tui.widgets.bars import key_hints
from podtui.tui.widgets.tones import LinesView


def client_with_insights() -> FakeClient:
    client = full_client()
    client.insights["crash-loop-n1"] = PodInsight(
        time=0.0,
        version="1",
        starts=(USUAL, structs.replace(USUAL, cause="the sandbox was recreated")),
        probes=(ProbeReport(container="app", probe="Readiness", result="Failure", nextIn=3.0),),
        usage=(series("app"),),
    )
    return client


def lines_of(app: PodtuiApp, tab: str) -> str:
    view = app.screen.query_one(f"#{tab}", LinesView)
    return "\n".join("".join(span.text for span in line) for line in view.lines)


async def opened(app: PodtuiApp, pilot: Pilot[None], name: str) -> None:
    main(app).pods.table.select(f"uid-{name}")
    await pilot.press("enter")
    await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")


async def test_a_tab_queries_the_agent_when_opened() -> None:
    client = client_with_insights()
    async with running(client) as (app, pilot):
        await opened(app, pilot, "crash-loop")
        await pilot.press("2")
        await wait_for(pilot, lambda: "pull app:1.2" in lines_of(app, "timeline"), "the start")
        await pilot.press("left_square_bracket")
        await wait_for(pilot, lambda: "recreated" in lines_of(app, "timeline"), "the one before")
        await pilot.press("7")
        await wait_for(pilot, lambda: "20m now" in lines_of(app, "resources"), "the usage")
        await pilot.press("8")
        await wait_for(pilot, lambda: "app readiness" in lines_of(app, "probes"), "the probe")
        await pilot.press("r")
        await wait_for(pilot, lambda: "asked by hand" in lines_of(app, "probes"), "the answer")
        assert client.probed == [("crash-loop-n1", "app", "Readiness")]
        assert not client.retried, "r is the probe's here"


async def test_run_now_is_offered_where_there_is_a_probe() -> None:
    client = client_with_insights()
    client.insights["web-n1"] = PodInsight(time=0.0, version="1")
    async with running(client) as (app, pilot):
        for name, words, offered in (("web", "has a probe", False), ("crash-loop", "app r", True)):
            await opened(app, pilot, name)
            await pilot.press("8")
            await wait_for(pilot, lambda w=words: w in lines_of(app, "probes"), "the tab")
            await wait_for(
                pilot,
                lambda o=offered: ("probes.run" in {h.id for h in key_hints(app.screen)}) is o,
                "the hint",
            )
            await pilot.press("r")
            await pilot.pause()
            if not offered:
                assert not client.probed
                assert isinstance(app.screen, PodScreen), "r does not restart the pod here"
                assert any("no probe to run" in note.message for note in app.notices)
            await pilot.press("escape")


async def test_an_answer_to_a_screen_that_is_closing_is_dropped() -> None:
    """The widgets of a screen are removed before its workers end."""
    client = client_with_insights()
    async with running(client) as (app, pilot):
        await opened(app, pilot, "crash-loop")
        await pilot.press("7")
        await wait_for(pilot, lambda: "20m now" in lines_of(app, "resources"), "the usage")
        await wait_for(pilot, lambda: len(client.insight_queries) == 2, "the next question")
        await app.screen.query_one(ContentSwitcher).remove()
        known = client.insights["crash-loop-n1"]
        client.insights["crash-loop-n1"] = structs.replace(known, version="2")
        client.insight_changed.set()
        (worker,) = [worker for worker in app.workers if worker.name == "ask"]
        await wait_for(
            pilot, lambda: worker.is_finished or len(client.insight_queries) == 3, "one more"
        )
        assert worker.error is None


async def test_the_next_query_waits_for_a_newer_version() -> None:
    client = client_with_insights()
    async with running(client) as (app, pilot):
        await opened(app, pilot, "crash-loop")
        await pilot.press("7")
        await wait_for(pilot, lambda: "20m now" in lines_of(app, "resources"), "the usage")
        await wait_for(pilot, lambda: len(client.insight_queries) > 1, "the next query")
        first, second = client.insight_queries
        assert (first.part, first.seen, first.wait) == (InsightPart.USAGE, "", 0)
        assert (second.seen, second.span) == ("1", 3600)
        assert second.wait > 10
        known = client.insights["crash-loop-n1"]
        client.insights["crash-loop-n1"] = structs.replace(
            known, version="2", usage=(series("app", 300.0),)
        )
        client.insight_changed.set()
        await wait_for(pilot, lambda: "300m" in lines_of(app, "resources"), "the news")


async def test_keys_select_the_time_range() -> None:
    client = client_with_insights()
    async with running(client) as (app, pilot):
        await opened(app, pilot, "crash-loop")
        await pilot.press("7")
        await wait_for(pilot, lambda: "up to 1h" in lines_of(app, "resources"), "the usage")
        await pilot.press("right_square_bracket", "right_square_bracket")
        await wait_for(pilot, lambda: "up to 24h" in lines_of(app, "resources"), "a day")
        await wait_for(pilot, lambda: client.insight_queries[-1].span == 86400, "the question")
        await pilot.press(*["right_square_bracket"] * 9)
        await wait_for(pilot, lambda: "up to 7d" in lines_of(app, "resources"), "a week")
        await pilot.press(*["left_square_bracket"] * 9)
        await wait_for(pilot, lambda: "up to 15m" in lines_of(app, "resources"), "the least")
        assert client.insight_queries[-1].span == 900


async def test_a_pod_unknown_to_the_agent_says_so() -> None:
    async with running() as (app, pilot):
        await opened(app, pilot, "web")
        await pilot.press("2")
        await wait_for(
            pilot, lambda: "No start of this pod is recorded" in lines_of(app, "timeline"), "that"
        )
        await pilot.press("7")
        await wait_for(pilot, lambda: "No measurements" in lines_of(app, "resources"), "that")
        assert "No measurements" in lines_of(app, "resources")


async def test_the_events_of_one_pod_and_its_two_texts() -> None:
    async with running() as (app, pilot):
        await opened(app, pilot, "crash-loop")
        await pilot.press("3")
        table = app.screen.query_one(PodEvents)
        await wait_for(pilot, lambda: len(table.set) > 0, "the events")
        about = {app.model.events[key].involvedObject.name for key in table.set.order}
        assert about == {"crash-loop-n1"}
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, EventScreen), "the event in full")
        await pilot.press("escape", "y")
        view = app.screen.query_one(YamlView)
        await wait_for(pilot, lambda: view.rows and view.rows[1].text == "kind: Pod", "the object")
        await pilot.press("o")
        await wait_for(pilot, lambda: any("imago" in row.text for row in view.rows), "its manifest")


async def test_the_app_may_close_while_a_screen_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (app, pilot):
        await wait_for(pilot, lambda: "uid-web" in app.model.pods, "the pods")
        monkeypatch.setattr(PodtuiApp, "is_running", False)
        screen = PodScreen("uid-web", "overview")
        await app.push_screen(screen)
        assert not screen.opened
        monkeypatch.undo()
