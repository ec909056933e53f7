"""The way from keys and clicks to actions that other tests cover."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from action_scene import WEB, open_dialog, plan, running_app
from tui_app import main, notified, running, wait_for

from podtui.api.local import PlanOutcome
from podtui.client.copying import CopyResult
from podtui.client.protocol import AttachQuery
from podtui.tui.commands import shell
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.tab_bar import TabBar
from podtui.tui.widgets.dialogs import Buttons, TextDialog


async def test_a_key_attaches_to_the_main_process_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[tuple[str, str, AttachQuery]] = []
    session = object()
    attached: list[object] = []

    @asynccontextmanager
    async def attach(namespace: str, pod: str, query: AttachQuery) -> AsyncIterator[object]:
        queries.append((namespace, pod, query))
        yield session

    async def talk(session: object, **_: object) -> bool:
        attached.append(session)
        return False

    monkeypatch.setattr(shell, "run_session", talk)
    monkeypatch.setattr(shell, "print_line", lambda text: None)
    async with running_app(tmp_path) as (_, pilot, client):
        client.attach = attach  # type: ignore[attr-defined]
        await pilot.press("a")
        await wait_for(pilot, lambda: attached == [session], "the session")
        ((namespace, pod, query),) = queries
        assert (namespace, pod, query.container) == ("default", "web-n1", "app")
        assert (query.stdin, query.tty) == (False, False), "the container has neither"


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        (":/etc/hosts copied", ("copy_from", "/etc/hosts", "copied")),
        ("site :/www", ("copy_to", "site", "/www")),
    ],
)
async def test_a_key_copies_files_out_and_in(
    tmp_path: Path, typed: str, called: tuple[str, str, str]
) -> None:
    calls: list[tuple[str, ...]] = []

    def copying(name: str):
        async def copy(namespace: str, pod: str, container: str, source: object, target: object):
            assert (namespace, pod, container) == ("default", "web-n1", "app")
            calls.append((name, str(source), str(target)))
            return CopyResult(files=2, bytes=2048, skipped=0)

        return copy

    async with running_app(tmp_path) as (app, pilot, client):
        for name in ("copy_from", "copy_to"):
            setattr(client, name, copying(name))
        await pilot.press("t")
        await wait_for(pilot, lambda: isinstance(app.screen, TextDialog), "from where to where")
        assert isinstance(app.screen, TextDialog)
        app.screen.input.value = typed
        await pilot.press("enter")
        await notified(app, pilot, "Copied: 2 files, 2Ki")
        assert calls == [called]


async def test_a_key_saves_a_picture_of_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running() as (app, pilot):
        await pilot.press("ctrl+x")
        await wait_for(pilot, lambda: list(tmp_path.glob("*.svg")), "the file")
        (path,) = tmp_path.glob("*.svg")  # noqa: ASYNC240
        await wait_for(pilot, lambda: any(path.name in n.message for n in app.notices), "its name")
        drawn = "".join(ElementTree.fromstring(path.read_text("utf-8")).itertext())
        assert "crash-loop-n1" in drawn


async def test_tabs_are_opened_by_a_click() -> None:
    async with running() as (app, pilot):
        main(app).pods.table.select("uid-web")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
        await pilot.pause()
        tabs = app.screen.query_one(TabBar)
        place = tabs.render_line(0).text.index("YAML")
        assert not app.screen.query_one("#yaml").has_focus
        await pilot.click(tabs, offset=(place + 1, 0))
        await wait_for(pilot, lambda: app.screen.query_one("#yaml").has_focus, "the tab")


async def test_buttons_are_pressed_by_a_click(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (app, pilot, client):
        client.answer_plan = plan(PlanOutcome.REMOVED)
        await pilot.press("ctrl+d")
        for word, stays in (("Cancel", True), ("Delete", False)):
            dialog = await open_dialog(app, pilot)
            await pilot.pause()
            buttons = dialog.query_one(Buttons)
            place = buttons.render_line(0).text.index(word)
            await pilot.click(buttons, offset=(place + 1, 0))
            await wait_for(pilot, lambda dialog=dialog: app.screen is not dialog, "the answer")
            if stays:
                assert (tmp_path / "web.yaml").read_bytes() == WEB
                await pilot.press("ctrl+d")
        await notified(app, pilot, "web.yaml moved to the trash")
        assert not (tmp_path / "web.yaml").exists()
