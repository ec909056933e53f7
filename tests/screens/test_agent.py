"""A lost agent, and one that watches another folder than the requested one."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from tui_app import bar_text, running, screen_text, table_text, wait_for
from tui_scene import FakeClient, full_client, gallery, node, now

from podtui.api.names import STATIC_POD_PATH
from podtui.api.v1 import Node
from podtui.errors import PodtuiError
from podtui.resources import WEB_TERMINAL
from podtui.settings import Resolved, resolve
from podtui.tui.run import asks_to_switch, compares_folder
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.widgets.bars import key_hints
from podtui.tui.widgets.dialogs import Dialog


class FakeAgent:
    def __init__(self) -> None:
        self.problem = ""
        self.crashed = False
        self.restarted: list[str] = []
        self.failure = ""

    def restart(self, folder: str = "") -> None:
        self.restarted.append(folder)
        if self.failure:
            raise PodtuiError(self.failure)


class Clock:
    def __init__(self) -> None:
        self.seconds = now()

    def __call__(self) -> float:
        return self.seconds


def watching(folder: Path) -> Node:
    found = node()
    meta = structs.replace(found.metadata, annotations={STATIC_POD_PATH: str(folder)})
    return structs.replace(found, metadata=meta)


async def test_a_lost_agent_marks_every_screen_as_stale_and_stops_the_ages() -> None:
    client, clock = full_client(), Clock()
    async with running(client, size=(80, 24), now=clock, agent=FakeAgent()) as (app, pilot):
        before = table_text(app)
        clock.seconds += 2
        client.disconnect("the agent closed the connection")
        await wait_for(pilot, lambda: "STALE since" in bar_text(app, "header"), "the mark")
        clock.seconds += 3600
        await wait_for(pilot, lambda: "(60m ago)" in bar_text(app, "header"), "how long ago")
        assert "^t restarts the agent" in bar_text(app, "header")
        assert table_text(app) == before, "ages do not go on"
        await app.push_screen(PodScreen("uid-web", "overview"))
        await wait_for(pilot, lambda: "STALE since" in bar_text(app, "header"), "on all screens")
        client.fill(gallery(), (), (), (node(),))
        await wait_for(pilot, lambda: "STALE" not in bar_text(app, "header"), "the agent is back")
        app.pop_screen()
        await wait_for(pilot, lambda: table_text(app) != before, "ages go on")


async def test_a_key_restarts_a_lost_agent() -> None:
    client, agent = full_client(), FakeAgent()
    async with running(client, agent=agent) as (app, pilot):
        assert "app.agent" not in {hint.id for hint in key_hints(app.screen)}
        await pilot.press("ctrl+t")
        assert agent.restarted == [], "nothing is to be done"
        client.disconnect("the agent closed the connection")
        await wait_for(pilot, lambda: "STALE" in bar_text(app, "header"), "the mark")
        agent.failure = "no room on the disk"
        await pilot.press("ctrl+t")
        await wait_for(pilot, lambda: agent.restarted == [""], "the restart")
        await wait_for(
            pilot, lambda: any("no room" in n.message for n in app.notices), "the failure"
        )


async def test_an_agent_started_by_the_screen_is_restarted_with_back_off() -> None:
    client, clock, agent = full_client(), Clock(), FakeAgent()
    async with running(client, now=clock, agent=agent) as (app, pilot):
        agent.crashed = True
        app.tick()
        assert agent.restarted == [], "it answers"
        client.disconnect("the agent closed the connection")
        await wait_for(pilot, lambda: agent.restarted == [""], "the restart")
        for seconds, count in ((1, 1), (2, 2), (3, 2), (2, 3)):
            clock.seconds += seconds
            app.tick()
            await pilot.pause()
            assert len(agent.restarted) == count
        agent.crashed = False
        clock.seconds += 1000
        app.tick()
        await pilot.pause()
        assert len(agent.restarted) == 3, "one that was stopped stays stopped"


async def test_a_read_only_screen_offers_no_restart() -> None:
    client = full_client()
    async with running(client, agent=FakeAgent(), readonly=True) as (app, pilot):
        client.disconnect("the agent closed the connection")
        await wait_for(pilot, lambda: "STALE" in bar_text(app, "header"), "the mark")
        assert "restarts" not in bar_text(app, "header")
        await pilot.press("ctrl+t")
        await wait_for(
            pilot, lambda: any("read-only" in n.message for n in app.notices), "the refusal"
        )


async def test_shows_the_agents_folder_and_offers_another(tmp_path: Path) -> None:
    client, agent = FakeClient(), FakeAgent()
    client.fill(gallery()[:2], (), (), (watching(tmp_path / "m"),))
    async with running(client, agent=agent, requested_path=tmp_path / "wild") as (app, pilot):
        await wait_for(pilot, lambda: "▲ not" in bar_text(app, "status"), "the other folder")
        shown = bar_text(app, "status")
        assert str(tmp_path / "m") in shown or "/m" in shown
        assert "wild" in shown
        assert app.session.manifest_folder == tmp_path / "m", "new pods go to the agent's folder"
        assert not isinstance(app.screen, Dialog), "the folder was not given on the command line"
        assert "app.agent" in {hint.id for hint in key_hints(app.screen)}
        for answer, restarts in (("enter", []), ("y", [str(tmp_path / "wild")])):
            await pilot.press("ctrl+t")
            await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
            assert isinstance(app.screen, Dialog)
            assert "web-n1  terminates (up to 30 s)" in screen_text(app)
            await pilot.press(answer)
            await wait_for(pilot, lambda: not app.session.asking, "the answer is taken")
            await wait_for(pilot, lambda r=restarts: agent.restarted == r, "what follows")


@pytest.mark.parametrize("readonly", [False, True])
async def test_offers_the_folder_of_the_command_line_at_start(
    tmp_path: Path, readonly: bool
) -> None:
    client = FakeClient()
    client.fill(gallery()[:2], (), (), (watching(tmp_path / "m"),))
    async with running(
        client, agent=FakeAgent(), requested_path=tmp_path / "wild", asks_to_switch=True,
        readonly=readonly,
    ) as (app, pilot):  # fmt: skip
        await wait_for(pilot, lambda: app.supervisor.other_folder, "the comparison")
        await pilot.pause()
        assert isinstance(app.screen, Dialog) is not readonly


async def test_a_link_to_the_agents_folder_is_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "m")
    client = FakeClient()
    client.fill((), (), (), (watching(tmp_path / "m"),))
    async with running(client, agent=FakeAgent(), requested_path=tmp_path / "link") as (app, _):
        app.tick()
        assert app.supervisor.compared_folder
        assert app.supervisor.other_folder == ""


async def test_the_default_folder_is_not_compared(tmp_path: Path) -> None:
    client = FakeClient()
    client.fill((), (), (), (watching(tmp_path / "m"),))
    async with running(
        client, agent=FakeAgent(), requested_path=tmp_path / "wild", compares_folder=False
    ) as (app, _):
        app.tick()
        assert app.supervisor.compared_folder
        assert app.supervisor.other_folder == ""
        assert "▲ not" not in bar_text(app, "status")


def test_asks_about_a_folder_only_if_the_user_named_it(tmp_path: Path) -> None:
    (tmp_path / "static_pods").mkdir()
    page, terminal = {"TERM_PROGRAM": WEB_TERMINAL}, {"TERM_PROGRAM": "xterm"}

    def resolved(working: Path, flag: str | None = None, **environ: str) -> Resolved:
        environ["HOME"] = str(tmp_path)
        return resolve({"staticPodPath": flag}, environ=environ, working=working)

    named = resolved(tmp_path, str(tmp_path / "wild"))
    assert asks_to_switch(named, terminal)
    assert not asks_to_switch(named, page), "all tabs share the agent"
    here, elsewhere = resolved(tmp_path), resolved(tmp_path / "static_pods")
    by_setting = resolved(tmp_path / "static_pods", PODTUI_STATIC_POD_PATH="/mine")
    assert compares_folder(named, tmp_path)
    assert compares_folder(by_setting, tmp_path)
    assert compares_folder(here, tmp_path), "static_pods/ here is what one expects to see"
    assert not compares_folder(elsewhere, tmp_path / "static_pods")
