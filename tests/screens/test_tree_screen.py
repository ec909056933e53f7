"""The tree: its items, which of them are visible, and the screen that folds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from recorded_calls import record_calls
from textual.pilot import Pilot
from tree_scene import rich
from tui_app import running, wait_for
from tui_scene import FakeClient, full_client, node, pod, status

from podtui.api.v1 import Pod
from podtui.tui.app import PodtuiApp
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.text_screens import ManifestScreen
from podtui.tui.screens.tree_screen import TreeScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.widgets.dialogs import Dialog
from podtui.tui.widgets.table import Table

# --- the screen


@asynccontextmanager
async def opened(
    *pods: Pod,
    size: tuple[int, int] = (120, 36),
    text: str = "tree",
    client: FakeClient | None = None,
) -> AsyncGenerator[tuple[PodtuiApp, Pilot[None], TreeScreen]]:
    client = full_client()
    if pods:
        client = FakeClient()
        client.fill(pods, (), (), (node(),))
    async with running(client, size=size) as (app, pilot):
        app.run_command(text)
        await wait_for(pilot, lambda: isinstance(app.screen, TreeScreen), "the tree")
        screen = app.screen
        assert isinstance(screen, TreeScreen)
        await wait_for(pilot, lambda: len(screen.table.set) > 1, "the rows")
        yield app, pilot, screen


def names(screen: TreeScreen) -> list[str]:
    return [str(screen.table.set.rows[key].values[0]) for key in screen.table.set.order]


async def test_folding_by_keys() -> None:
    async with opened(rich()) as (_, pilot, screen):
        assert names(screen) == ["n1", "shop-n1"]
        screen.table.select("pod:uid-shop")
        await pilot.press("right")
        await wait_for(pilot, lambda: len(screen.table.set) == 15, "it is open")
        await pilot.press("right", "down", "down")
        assert screen.table.cursor_key == "pod:uid-shop/app"
        await pilot.press("space")
        await wait_for(pilot, lambda: len(screen.table.set) == 5, "the container is folded")
        assert screen.table.cursor_key == "pod:uid-shop/app"
        await pilot.press("left")
        assert screen.table.cursor_key == "pod:uid-shop"
        await pilot.press("left")
        await wait_for(pilot, lambda: len(screen.table.set) == 2, "the pod is folded")
        await pilot.press("plus")
        await wait_for(pilot, lambda: len(screen.table.set) == 15, "all is open")
        await pilot.press("end", "minus")
        await wait_for(pilot, lambda: len(screen.table.set) == 2, "all is folded")
        assert screen.table.cursor_key == "pod:uid-shop"


async def test_folding_by_mouse() -> None:
    async with opened(rich()) as (_, pilot, screen):
        line = screen.table.set.index["pod:uid-shop"] + 2
        # Border, padding, gutter, the indent of a pod.
        await pilot.click(screen.table, offset=(2 + 1 + 2, line))
        await wait_for(pilot, lambda: len(screen.table.set) == 15, "a click on the sign opens")
        await pilot.click(screen.table, offset=(10, line))
        await pilot.pause()
        assert len(screen.table.set) == 15
        await pilot.click(screen.table, offset=(5, line))
        await wait_for(pilot, lambda: len(screen.table.set) == 2, "and folds")


async def test_titles_do_not_sort() -> None:
    async with opened() as (_, pilot, screen):
        before = names(screen)
        await pilot.click(screen.table, offset=(6, 1))
        await pilot.press("O")
        assert names(screen) == before


async def test_live_changes_keep_cursor_and_folds() -> None:
    async with opened() as (app, pilot, screen):
        client = app.client
        assert isinstance(client, FakeClient)
        screen.table.select("pod:uid-pipeline")
        await pilot.press("space", "down", "down")
        assert screen.table.cursor_key == "pod:uid-pipeline/unpack"
        client.change(pod("aaa", status("app")))
        await wait_for(pilot, lambda: "aaa-n1" in names(screen), "the new pod")
        assert screen.table.cursor_key == "pod:uid-pipeline/unpack"
        assert "fetch (init)" in names(screen)
        client.remove(pod("aaa", status("app")))
        await wait_for(pilot, lambda: "aaa-n1" not in names(screen), "it goes")
        assert screen.table.cursor_key == "pod:uid-pipeline/unpack"


async def test_a_key_filters_and_another_clears_the_filter() -> None:
    async with opened() as (app, pilot, screen):
        await pilot.press("slash", *"exporter", "enter")
        await wait_for(pilot, lambda: "exporter" in names(screen), "the match")
        assert names(screen)[:3] == ["n1", "web-n1", "exporter"]
        await pilot.press("escape")
        await wait_for(pilot, lambda: "batch-n1" in names(screen), "all of it")
        assert app.screen is screen


async def test_the_command_filters() -> None:
    async with opened(text="xray exporter") as (_, _pilot, screen):
        assert names(screen)[:3] == ["n1", "web-n1", "exporter"]


@pytest.mark.parametrize(("key", "kind"), [("d", PodScreen), ("l", PodScreen), ("X", WhyScreen)])
async def test_keys_of_a_pod_work_on_its_containers(key: str, kind: type) -> None:
    async with opened() as (app, pilot, screen):
        screen.table.select("pod:uid-crash-loop")
        await pilot.press("space", "down")
        assert screen.item is not None
        assert screen.item.label == "app"
        await pilot.press(key)
        await wait_for(pilot, lambda: isinstance(app.screen, kind), "what it opens")


async def test_delete_asks_for_confirmation_of_the_pod_of_a_row() -> None:
    async with opened() as (app, pilot, screen):
        screen.table.select("pod:uid-web")
        await pilot.press("space", "down", "ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        assert app.screen is not screen
        await pilot.press("escape")


async def test_enter_opens_files_and_the_node_by_d() -> None:
    async with opened() as (app, pilot, screen):
        await pilot.press("plus")
        await wait_for(pilot, lambda: "hello.yaml" in names(screen), "the files")
        screen.table.select("files:hello.yaml")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, ManifestScreen), "the file")
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.screen is screen, "back")
        screen.table.select("node:n1")
        await pilot.press("d")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the node")
        assert isinstance(app.screen, NodeScreen)


async def test_only_visible_rows_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [rich(f"p{n}", f"u{n}") for n in range(1000)]
    async with opened(*pods, size=(80, 24)) as (_, pilot, screen):
        await pilot.pause()
        drawn = record_calls(monkeypatch, Table, "render_line")
        await pilot.press("plus")
        await wait_for(pilot, lambda: len(screen.table.set) > 10_000, "all is open")
        await pilot.pause()
        # A few complete repaints at most, each of about twenty lines.
        assert 0 < drawn.count(screen.table) < 200
