"""Every action that ends or loses something asks for confirmation: press every key of every
screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from picture_scenes import CONTEXTS, FULL_SCREENS, OVERVIEW, SCAN, WEB, cluster
from picture_world import forwards, images
from pictures import Scene, played
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from tui_app import main, running, wait_for
from tui_scene import FakeClient

from podtui.client.protocol import CopyResult
from podtui.errors import ApiError
from podtui.tui.app import PodtuiApp
from podtui.tui.commands import delete, edit_manifest, shell
from podtui.tui.commands.copy_files import Transfer, replaced_by
from podtui.tui.commands.custom_commands import CommandTarget
from podtui.tui.commands.manifest_file import ManifestFileError
from podtui.tui.commands.session import Draft, RunningForward
from podtui.tui.screens import output_screen
from podtui.tui.screens.forwards_screen import ForwardsScreen
from podtui.tui.screens.main.main_screen import MainScreen
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.output_screen import OutputScreen
from podtui.tui.widgets.cells import Span, line_width
from podtui.tui.widgets.dialogs import Dialog, TextDialog, confirmation

PANES = {
    f"pane-{name}": Scene(shows=MainScreen, text="CrashLoopBackOff", keys=(key,))
    for key, name in (("2", "events"), ("3", "logs"), ("4", "node"))
}
SCENES = {
    "overview": OVERVIEW[120, 36],
    "chosen-web": Scene(shows=MainScreen, text="nginx", select=WEB),
    "cluster": FULL_SCREENS["overview-cluster"],
    **PANES,
    # One scene of each screen and tab.
    **{f"{scene.shows.__name__}-{scene.tab}": scene for scene in FULL_SCREENS.values()
       if scene.shows is not MainScreen},
}  # fmt: skip


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ended or lost things."""
    found: list[str] = []

    def note(name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **more: Any) -> Any:
            found.append(name)
            raise ApiError(500, "InternalError", name)

        return call

    for name in ("restart", "delete_pod", "remove_image", "prune_images"):
        monkeypatch.setattr(FakeClient, name, note(name), raising=False)

    def throw(*arguments: Any) -> None:
        found.append("throw away")
        raise ManifestFileError("not here")

    monkeypatch.setattr(delete, "move_to_trash", throw)
    monkeypatch.setattr(edit_manifest, "write_manifest_file", lambda *a, **m: found.append("write"))
    monkeypatch.setattr(
        RunningForward, "stop", lambda self: found.append("stop") if not self.failed else None
    )

    async def refuse(*arguments: Any, **more: Any) -> None:
        raise ApiError(500, "InternalError", "not here")

    for module, name in (
        (edit_manifest, "run_in_terminal"),
        (shell, "open_shell"),
        (shell, "attach_to"),
    ):
        monkeypatch.setattr(module, name, refuse)
    for name in ("debug", "exec", "attach", "port_forward", "pull_image", "copy_from", "copy_to"):
        monkeypatch.setattr(FakeClient, name, refuse, raising=False)
    return found


async def back_to(app: PodtuiApp, pilot: Pilot[Any], screen: Screen[Any]) -> None:
    """Answer every confirmation with no, and close opened screens."""
    for _ in range(20):
        if app.screen is screen:
            return
        top = app.screen
        if isinstance(top, ModalScreen):
            await pilot.press("escape")
        else:
            app.pop_screen()
        await wait_for(pilot, lambda top=top: app.screen is not top, f"{top} goes")
    pytest.fail(f"{app.screen} stays")


LEAVING = {"app.quit", "app.interrupt", "app.command", "screen.back", "main.back",
           "app.screenshot", "logs.save", "logs.save-all", "logs.pager", "table.save"}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
async def test_no_key_ends_or_loses_anything_without_confirmation(
    name: str, monkeypatch: pytest.MonkeyPatch, done: list[str]
) -> None:
    async with played(SCENES[name], monkeypatch) as (app, pilot):
        screen = app.screen
        keys = {
            active.binding.id: key
            for key, active in screen.active_bindings.items()
            if active.enabled and active.binding.id not in LEAVING
        }
        for id_, key in keys.items():
            await pilot.press(key)
            await pilot.pause()
            await wait_for(
                pilot, lambda: not app.session.asking or app.screen is not screen, f"{id_} goes on"
            )
            await back_to(app, pilot, screen)
            await wait_for(pilot, lambda: not app.session.asking, f"the end of {id_}")
            assert done == [], f"{key} ({id_}) did not ask"


async def open_dialog(app: PodtuiApp, pilot: Pilot[Any]) -> Dialog:
    await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
    assert isinstance(app.screen, Dialog)
    assert app.screen.buttons.options[0].label == "Cancel"
    return app.screen


@pytest.mark.parametrize("cells", [40, 200])
async def test_a_long_text_is_not_covered_by_the_scrollbar(cells: int) -> None:
    async with running(size=(80, 24)) as (app, pilot):
        line = "x" * (cells - 4) + " end"
        dialog = confirmation("Fix 2 errors?", [(Span(line),)] * 30, "Apply")
        app.push_screen(dialog)
        await wait_for(pilot, lambda: dialog.view.size.height, "the dialog")
        await pilot.pause()
        view = dialog.view
        assert view.show_vertical_scrollbar
        assert max(map(line_width, view.lines)) <= view.scrollable_content_region.width
        assert dialog.box.size.width <= 80
        assert view.render_line(0).text.rstrip() == "".join(span.text for span in view.lines[0])


ENDING = [
    ("overview", "r", "restart"),
    ("pane-node", "r", "restart"),
    ("PodScreen-overview", "r", "restart"),
    ("overview", "ctrl+k", "restart"),
    ("chosen-web", "ctrl+d", "throw away"),
    ("cluster", "ctrl+d", "delete_pod"),
    ("NodeScreen-images", "ctrl+d", "remove_image"),
    ("NodeScreen-images", "P", "prune_images"),
    ("ForwardsScreen-", "x", "stop"),
]


@pytest.mark.parametrize(("name", "key", "what"), ENDING)
async def test_destructive_actions_run_after_confirmation(
    name: str, key: str, what: str, monkeypatch: pytest.MonkeyPatch, done: list[str]
) -> None:
    async with played(SCENES[name], monkeypatch) as (app, pilot):
        screen = app.screen
        if isinstance(screen, NodeScreen):
            assert screen.images.select(images()[3].id)
        if isinstance(screen, ForwardsScreen):
            kept = next(one for one in app.session.forwards if not one.failed)
            assert screen.table.select(f"forward:{id(kept)}")
        for answer in ("enter", "y"):
            await pilot.press(key)
            await open_dialog(app, pilot)
            assert done == []
            await pilot.press(answer)
            await wait_for(pilot, lambda: app.screen is screen, "the answer is taken")
            await wait_for(pilot, lambda: not app.session.asking, "the end")
        assert done == [what]


def exits(app: PodtuiApp, patch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    patch.setattr(app, "exit", lambda *a, **m: found.append(1))
    return found


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit_asks_if_drafts_or_forwards_would_be_lost(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running() as (app, pilot):
        left = exits(app, monkeypatch)
        app.session.drafts[Path("/m/web.yaml")] = Draft(None, b"mine")
        app.session.forwards.append(next(one for one in forwards() if not one.failed))
        await pilot.press(key)
        text = "".join(span.text for line in (await open_dialog(app, pilot))._text for span in line)
        assert "unsaved edit of web.yaml" in text
        assert "port-forward 127.0.0.1" in text
        await pilot.press("enter")
        await pilot.pause()
        assert not left
        await pilot.press(key)
        await open_dialog(app, pilot)
        await pilot.press("ctrl+c")
        await wait_for(pilot, lambda: left, "the second request ends the app")
        app.session.forwards.clear()
    async with running() as (app, pilot):
        left = exits(app, monkeypatch)
        await pilot.press(key)
        await wait_for(pilot, lambda: left, "no dialog, because nothing is lost")


async def test_switching_the_context_asks_if_a_draft_would_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(cluster(), server=CONTEXTS) as (app, pilot):
        left = exits(app, monkeypatch)
        app.session.drafts[Path("/m/web.yaml")] = Draft(None, b"mine")
        app.run_command("context staging")
        await open_dialog(app, pilot)
        assert not left
        await pilot.press("y")
        await wait_for(pilot, lambda: left, "the other context")
        assert app.next_context == "staging"


async def test_leaving_a_running_command_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def run(*arguments: Any, **more: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    monkeypatch.setattr(output_screen, "run_program", run)
    async with running() as (app, pilot):
        app.push_screen(OutputScreen(SCAN, [CommandTarget("web-n1/nginx", {})]))
        await wait_for(pilot, lambda: app.session.running == ["scan web-n1/nginx"], "it runs")
        await pilot.press("escape")
        await open_dialog(app, pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert not ended
        await pilot.press("escape")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await wait_for(pilot, lambda: ended, "its end")
        await wait_for(pilot, lambda: not app.session.running, "nothing runs")
        assert not isinstance(app.screen, OutputScreen)


@pytest.mark.parametrize("key", ["escape", "q", "n", "enter"])
async def test_keys_that_cancel(key: str) -> None:
    answers: list[str | None] = []
    async with running() as (app, pilot):
        app.push_screen(confirmation("Delete?", [], "Delete"), answers.append)
        await open_dialog(app, pilot)
        await pilot.press(key)
        await wait_for(pilot, lambda: bool(answers), "an answer")
    assert answers == ["cancel"]


def test_a_copy_names_the_files_that_it_overwrites(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("mine")
    there, new = Transfer(True, tmp_path / "hosts", "/etc/hosts"), tmp_path / "new"
    assert replaced_by(there) == tmp_path / "hosts"
    assert replaced_by(Transfer(True, tmp_path, "/etc/hosts")) == tmp_path / "hosts"
    assert replaced_by(Transfer(True, tmp_path, "/etc/passwd")) is None
    assert replaced_by(Transfer(True, new, "/etc/hosts")) is None
    assert replaced_by(Transfer(False, tmp_path / "hosts", "/etc/hosts")) is None
    assert replaced_by(Transfer(True, tmp_path, "/")) == tmp_path


async def test_a_copy_asks_before_overwriting_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts").write_text("mine")
    copied: list[str] = []

    async def copy_from(self: FakeClient, *arguments: Any) -> CopyResult:
        copied.append("copied")
        return CopyResult(files=1, bytes=2, skipped=0)

    monkeypatch.setattr(FakeClient, "copy_from", copy_from, raising=False)
    async with running() as (app, pilot):
        main(app).pods.table.select("uid-counter")
        for answer, count in (("enter", 0), ("y", 1)):
            await pilot.press("t")
            await wait_for(pilot, lambda: isinstance(app.screen, TextDialog), "the paths")
            assert isinstance(app.screen, TextDialog)
            app.screen.input.value = f":/etc/hosts {tmp_path / 'hosts'}"
            await pilot.press("enter")
            await open_dialog(app, pilot)
            await pilot.press(answer)
            await wait_for(pilot, lambda: not app.session.asking, "the answer is taken")
            await wait_for(pilot, lambda count=count: len(copied) == count, "the copy")
