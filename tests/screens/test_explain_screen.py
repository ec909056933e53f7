"""The documentation of a field on the screen: by command, from a manifest line, and field by
field."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot
from tui_app import main, running, wait_for
from tui_records import with_places
from tui_scene import FakeClient, manifest, node, pod, status

from podtui.tui.app import PodtuiApp
from podtui.tui.screens.explain_screen import ExplainScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.widgets.text_view import ManifestText


async def opened(app: PodtuiApp, pilot: Pilot[Any], path: str) -> ExplainScreen:
    await wait_for(
        pilot,
        lambda: isinstance(app.screen, ExplainScreen) and app.screen.pod_field.text == path,
        f"the meaning of {path}",
    )
    screen = app.screen
    assert isinstance(screen, ExplainScreen)
    return screen


async def test_navigates_into_fields_up_and_back() -> None:
    async with running() as (app, pilot):
        app.run_command("ex spec.containers.livenessProbe")
        screen = await opened(app, pilot, "spec.containers.livenessProbe")
        await wait_for(pilot, lambda: len(screen.fields.set) == 10, "its fields")
        screen.fields.select("spec.containers.livenessProbe.httpGet")
        await pilot.press("enter")
        await opened(app, pilot, "spec.containers.livenessProbe.httpGet")
        await pilot.press("left", "left")
        await opened(app, pilot, "spec.containers")
        assert screen.fields.cursor_key == "spec.containers.livenessProbe"
        await pilot.press("escape", "escape")
        await opened(app, pilot, "spec.containers.livenessProbe.httpGet")
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: app.screen is main(app), "all the way back")


async def test_a_field_without_subfields_scrolls() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        app.run_command("explain metadata.annotations")
        screen = await opened(app, pilot, "metadata.annotations")
        assert not screen.fields.display
        assert screen.text.has_focus


async def test_a_key_explains_the_field_of_a_manifest_line() -> None:
    client = FakeClient()
    client.fill((pod("web", status("app")),), (), (with_places(),), (node(),))
    async with running(client) as (app, pilot):
        await app.push_screen(PodScreen("uid-web", "manifest"))
        view = app.screen.query_one(ManifestText)
        await wait_for(pilot, lambda: len(view.rows) == 13, "the text")
        await pilot.press(*["down"] * 8)
        assert view.line == 9
        await pilot.press("x")
        await opened(app, pilot, "spec.containers.image")
        await pilot.press("escape")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "back")
        await pilot.click(view, offset=(8, 5))
        await pilot.press("x")
        await opened(app, pilot, "metadata.labels")
        await pilot.press("escape", "home", "x")
        await wait_for(pilot, lambda: notice_count(app), "the notice that there is none")
        assert isinstance(app.screen, PodScreen)


async def test_the_cursor_of_a_manifest_stays_visible() -> None:
    client = FakeClient()
    long = manifest("web.yaml", text="a: 1\n" * 100, pod_name="web-n1")
    client.fill((pod("web", status("app")),), (), (long,), (node(),))
    async with running(client, size=(80, 24)) as (app, pilot):
        await app.push_screen(PodScreen("uid-web", "manifest"))
        view = app.screen.query_one(ManifestText)
        await wait_for(pilot, lambda: len(view.rows) == 100, "the text")

        def is_visible() -> bool:
            return 0 <= view.cursor - round(view.scroll_y) < view.size.height

        for keys in (["end"], ["pageup"], ["home"], ["pagedown"], ["up"]):
            await pilot.press(*keys)
            await wait_for(pilot, is_visible, f"the cursor after {keys}")
        await pilot.press("end")
        assert view.line == 100


async def test_an_unknown_field_is_reported() -> None:
    async with running() as (app, pilot):
        app.run_command("explain spec.contaners")
        await wait_for(pilot, lambda: notice_count(app), "what it may have been")
        assert app.screen is main(app)


async def test_the_command_completes_fields() -> None:
    async with running() as (app, _pilot):
        assert "explain spec.containers.livenessProbe" in app.command_words()


def notice_count(app: PodtuiApp) -> int:
    return len(app.notices)


async def test_fields_of_other_kinds_are_explained_too() -> None:
    async with running() as (app, pilot):
        app.run_command("explain svc.spec.ports")
        screen = await opened(app, pilot, "service.spec.ports")
        await wait_for(pilot, lambda: "service.spec.ports.nodePort" in screen.fields.set.rows,
                       "its fields")  # fmt: skip
        screen.fields.select("service.spec.ports.nodePort")
        await pilot.press("enter")
        await opened(app, pilot, "service.spec.ports.nodePort")
        await pilot.press("left", "left", "left")
        await opened(app, pilot, "service")
        assert screen.fields.cursor_key == "service.spec"
