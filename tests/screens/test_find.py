"""``/`` on every screen: tables are filtered, texts are searched."""

from __future__ import annotations

from typing import Any

import pytest
from picture_scenes import FULL_SCREENS
from pictures import played
from textual.pilot import Pilot
from textual.widgets import Input
from tui_app import bar_text, main, notified, running, screen_text, table_text, wait_for
from tui_scene import FakeClient, broken, event, full_client, node, pod, status, waiting

from podtui.tui.app import PodtuiApp
from podtui.tui.screens.main.main_screen import MainScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.views.events import ROUTINE_KEY

SCENES = {
    name: scene
    for name, scene in FULL_SCREENS.items()
    # Its text field takes every key.
    if name != "node-what-if"
}


@pytest.mark.parametrize("name", SCENES)
async def test_every_screen_has_a_search(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with played(SCENES[name], monkeypatch) as (app, pilot):
        screen = app.screen
        await pilot.press("slash")
        assert isinstance(app.focused, Input), f"nothing asks on {screen}"
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(app.focused, Input), "the end of the search")
        assert app.screen is screen


def shows_pod(app: PodtuiApp) -> bool:
    return isinstance(app.screen, PodScreen) and app.screen.find_target is not None


async def find(pilot: Pilot[Any], text: str) -> None:
    await pilot.press("slash", *text, "enter")


async def test_a_search_is_shown_beside_a_long_name() -> None:
    name = "worker-" * 12 + "1"
    client = FakeClient()
    client.fill([pod(name, status())], nodes=[node()])
    async with running(client, size=(80, 24)) as (app, pilot):
        main(app).open_pod(f"uid-{name}")
        await wait_for(pilot, lambda: shows_pod(app), "the pod")
        await find(pilot, "image")
        await wait_for(
            pilot, lambda: screen_text(app).splitlines()[0].endswith("esc"), "the search"
        )
        assert "/image" in screen_text(app).splitlines()[0]


async def test_a_text_is_searched_and_esc_ends_the_search() -> None:
    async with running() as (app, pilot):
        main(app).open_pod("uid-web")
        await wait_for(pilot, lambda: shows_pod(app), "the pod")
        await find(pilot, "image")
        await wait_for(pilot, lambda: "/image" in bar_text(app, "header"), "the search")
        view = app.screen.find_target
        assert "matches · esc" in bar_text(app, "header")
        first = view._match
        assert first in view.matches
        await pilot.press("n")
        assert view._match == view.matches[view.matches.index(first) + 1]
        await pilot.press("N")
        assert view._match == first
        # Without a text, the search goes on.
        await pilot.press("slash", "enter")
        assert view._match != first
        await pilot.press("escape")
        assert isinstance(app.screen, PodScreen)
        assert not view.pattern
        await pilot.press("escape")
        assert isinstance(app.screen, MainScreen)


async def test_the_events_of_a_pod_are_filtered() -> None:
    async with running() as (app, pilot):
        main(app).open_pod("uid-web")
        await wait_for(pilot, lambda: shows_pod(app), "the pod")
        await pilot.press("3")
        await find(pilot, "nothing")
        await wait_for(pilot, lambda: "No row matches the filter." in screen_text(app), "that")
        await find(pilot, "Pulled")
        await wait_for(pilot, lambda: "/Pulled 1 of 3" in bar_text(app, "header"), "the filter")
        await pilot.press("escape")
        await wait_for(pilot, lambda: "/Pulled" not in bar_text(app, "header"), "all events")
        assert "/Pulled" not in bar_text(app, "header")


async def test_the_pane_of_the_node_is_searched() -> None:
    async with running() as (app, pilot):
        view = main(app).node.view
        await pilot.press("4")
        await find(pilot, "memory")
        await wait_for(pilot, lambda: view.pattern == "memory", "the search")
        assert view.matches
        await find(pilot, "nowhere")
        await notified(app, pilot, "No match for nowhere")
        await pilot.press("escape")
        assert not view.pattern


def in_namespaces() -> FakeClient:
    client = FakeClient()
    web, other = pod("web", status()), pod("api", status())
    client.fill([web, in_team(other)], nodes=[node()])
    return client


def in_team(made: Any) -> Any:
    from msgspec.structs import replace

    return replace(made, metadata=replace(made.metadata, namespace="team"))


async def test_a_second_namespace_has_a_column_and_can_be_selected() -> None:
    client = in_namespaces()
    async with running(client) as (app, pilot):
        table = main(app).pods.table
        assert "NAMESPACE" in table_text(app)[0]
        assert any(line.split()[:2] == ["▌team", "api-n1"] for line in table_text(app))
        await command(pilot, "ns team")
        await wait_for(pilot, lambda: table.set.order == ["uid-api"], "its pod")
        assert "· 1 of 2 · namespace team" in str(main(app).pods.border_title)
        # The filter narrows the namespace further, and esc clears only the filter.
        await find(pilot, "web")
        await wait_for(pilot, lambda: not table.set.order, "no pod")
        await pilot.press("escape")
        await wait_for(pilot, lambda: table.set.order == ["uid-api"], "its pod again")
        await command(pilot, "ns nowhere")
        await notified(
            app, pilot, "No pod is in the namespace nowhere; choose from all, default, team"
        )
        await command(pilot, "ns")
        await wait_for(pilot, lambda: "3 team     1 pod" in screen_text(app), "the picker")
        await pilot.press("1")
        await wait_for(pilot, lambda: len(table.set) == 2, "all pods")
        client.remove(in_team(pod("api", status())))
        await wait_for(pilot, lambda: "NAMESPACE" not in table_text(app)[0], "one namespace")


async def test_all_counts_are_those_of_the_shown_namespace() -> None:
    client = in_namespaces()
    there = [
        event("api-n1", "BackOff", "Back-off", warning=True),
        event("api-n1", "Pulled", "pulled", version=2),
        event("api-n1", "Started", "started", version=3),
    ]
    client.fill(
        [pod("web", status()), in_team(pod("api", status()))],
        [
            *(about_team(one) for one in there),
            event("web-n1", "Pulled", "pulled", version=4),
            event("web-n1", "BackOff", "Back-off", warning=True, version=5),
        ],
        manifests=[broken("bad.yaml")],
        nodes=[node()],
    )
    async with running(client) as (app, pilot):
        screen = main(app)
        await wait_for(pilot, lambda: "● 2" in bar_text(app, "header"), "both pods")
        assert "· all · 5" in str(screen.events.border_title)
        await command(pilot, "ns team")
        await wait_for(pilot, lambda: "team ● 1" in bar_text(app, "header"), "its pod")
        assert "▲ 1 file hidden" in str(screen.pods.border_title)
        assert "Events · 3 · namespace team" in str(screen.events.border_title)
        rows = screen.events.table.set
        assert len(rows.order) == 2
        assert rows.rows[ROUTINE_KEY].tail is not None
        assert "2 events of normal starts" in rows.rows[ROUTINE_KEY].tail.text
        await command(pilot, "ns all")
        await wait_for(pilot, lambda: "· all · 5" in str(screen.events.border_title), "all events")
        assert "hidden" not in str(screen.pods.border_title)


def about_team(made: Any) -> Any:
    from msgspec.structs import replace

    return replace(made, involvedObject=replace(made.involvedObject, namespace="team"))


async def test_without_space_for_a_column_names_tell_the_namespace() -> None:
    async with running(in_namespaces(), size=(50, 20)) as (app, _):
        assert "NAMESPACE" not in table_text(app)[0]
        assert any("team/api-n1" in line for line in table_text(app))


async def test_names_differ_although_they_are_cut_and_omit_the_only_namespace() -> None:
    client = in_namespaces()
    names = [f"a-name-that-is-too-long-for-the-column-{n}" for n in range(2)]
    client.change(
        *(in_team(pod(name, status("app", waiting("CrashLoopBackOff")))) for name in names)
    )
    async with running(client, size=(60, 20)) as (app, pilot):
        cut = [line for line in table_text(app) if "…" in line]
        assert [name for name in names if any(f"{name[-1]}-n1 " in line for line in cut)] == names
        await command(pilot, "ns team")
        await wait_for(pilot, lambda: len(main(app).pods.table.set.order) == 3, "its pods")
        assert not any("team/" in line for line in table_text(app))
        await command(pilot, "ns all")
        await wait_for(pilot, lambda: any("team/" in line for line in table_text(app)), "all")


async def command(pilot: Pilot[Any], text: str) -> None:
    await pilot.press("colon", *("space" if letter == " " else letter for letter in text), "enter")


@pytest.mark.parametrize("key", ["r", "s", "ctrl+k"])
async def test_an_action_on_an_invalid_file_says_why_not(key: str) -> None:
    async with running(full_client()) as (app, pilot):
        main(app).pods.table.select("manifest:hello.yaml")
        await pilot.press(key)
        await notified(app, pilot, 'hello.yaml has no pod: it is invalid: unknown field "imago"')
        assert app.screen is main(app), "no dialog"


async def test_c_copies_an_event_as_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(PodtuiApp, "copy_to_clipboard", lambda _, text: copied.append(text))
    async with running() as (app, pilot):
        main(app).events.table.select("default/slow-start.Unhealthy.21")
        await pilot.press("2", "c")
        message = "Readiness probe failed: HTTP probe failed with statuscode: 503"
        assert copied == [f"Warning Unhealthy slow-start-n1/app: {message}"]


@pytest.mark.parametrize("height", [16, 20])
async def test_a_dialog_leaves_no_fragments_of_the_keys_beside_it(height: int) -> None:
    async with running(size=(80, height)) as (app, pilot):
        main(app).pods.table.select("uid-web")
        hints = main(app).query_one("#hints")
        assert "Filter" in hints.render_line(0).text
        await pilot.press("r")
        await wait_for(pilot, lambda: not hints.render_line(0).text.strip(), "no keys")
        await pilot.press("escape")
        await wait_for(pilot, lambda: "Filter" in hints.render_line(0).text, "the keys")


@pytest.mark.parametrize("height", range(21, 61))
def test_from_a_certain_height_no_dialog_reaches_the_keys(height: int) -> None:
    tallest = int(height * 0.9)
    bottom = (height - tallest) // 2 + tallest
    assert bottom <= height - 2
