"""The tree: what is in it, what of that is in sight, and the screen that folds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from tree_scene import rich
from tui_app import running, wait_for
from tui_scene import FakeClient, full_client, gallery, node, now, pod, status

from podtui.api.v1 import Node, Pod
from podtui.client.protocol import Changed, Removed, Synced
from podtui.tui.app import PodtuiApp
from podtui.tui.model.model import Changes, Model
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.text_screens import ManifestScreen
from podtui.tui.screens.tree_screen import TreeScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.tree.rows import TREE_COLUMNS, TreeView, rows_in_sight, tree_row
from podtui.tui.views.tree.tree import pod_items
from podtui.tui.widgets.dialogs import Dialog
from podtui.tui.widgets.filters import ALL, parse_filter

# --- what is in it


def test_a_pod_with_all_that_is_below_it() -> None:
    items = pod_items(rich(), "n1", 0.0)
    assert [("  " * (item.depth - 1) + item.label, item.detail) for item in items] == [
        ("shop-n1", "2/2 · 172.17.0.2"),
        ("  fetch (init)", "fetch:1"),
        ("  proxy (sidecar)", "proxy:1"),
        ("  app", "shop:2"),
        ("    port 8080/TCP http", "← node 80"),
        ("    port 9090/TCP", ""),
        ("    mount /data", "← data: emptyDir 1Gi in memory"),
        ("    mount /keys", "← keys: Secret login (read-only)"),
        ("    mount /conf", "← conf/sub: ConfigMap words"),
        ("    env ConfigMap all-of-it", "→ *"),
        ("    env values", "PASSWORD"),
        ("    env Secret login", "token → TOKEN"),
        ("    env ConfigMap words", "hello → GREETING"),
        ("    probe liveness",
         "http :http/healthz, every 10s, time-out 1s, fails at 3"),
    ]  # fmt: skip


def test_no_value_of_a_variable_is_told() -> None:
    assert not any("hunter2" in item.label + item.detail for item in pod_items(rich(), "n1", 0.0))


def test_states_and_restarts_of_containers() -> None:
    found = {item.label: item for p in gallery() for item in pod_items(p, "n1", 0.0)}
    assert found["crash-loop-n1"].restarts == 4
    assert found["crash-loop-n1"].fault
    assert found["unpack (init)"].state == "◐ NotReady"
    assert found["fetch (init)"].state == "✔ Completed"
    assert found["main"].state == "○ PodInitializing"


def test_hostile_texts_are_clean() -> None:
    bad = pod("a\x1b[31m", status("c\x07", image="i\u202e"))
    for item in pod_items(bad, "n1", 0.0):
        for text in (item.label, item.state, item.detail):
            assert not any(c in text for c in "\x1b\x07\u202e")


# --- what is in sight


def labels(items: Any, folds: dict[str, bool], text: str = "") -> list[str]:
    wanted = parse_filter(text, TREE_COLUMNS)
    return [item.label for item, _ in rows_in_sight(items, folds, wanted, now(), tree_row)]


def test_a_pod_is_folded_until_somebody_opens_it() -> None:
    items = pod_items(rich(), "n1", 0.0)
    head = items[0]
    assert labels(items, {}) == ["shop-n1"]
    assert len(labels(items, {head.path: False})) == len(items)
    app = next(item for item in items if item.label == "app")
    shown = labels(items, {head.path: False, app.path: True})
    assert shown == ["shop-n1", "fetch (init)", "proxy (sidecar)", "app"]


def test_a_match_is_shown_with_what_is_above_it() -> None:
    items = pod_items(rich(), "n1", 0.0)
    assert labels(items, {}, "hello") == ["shop-n1", "app", "env ConfigMap words"]
    assert labels(items, {}, "nowhere") == []
    # A pod that matches stays as it is folded.
    assert labels(items, {}, "^shop-n1") == ["shop-n1"]
    assert labels(items, {items[0].path: False}, "^shop-n1") == [item.label for item in items]
    # What one folds on purpose stays folded.
    assert labels(items, {items[0].path: True}, "hello") == ["shop-n1"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("restarts>3", {"crash-loop-n1", "app"}),
        ("status=CrashLoopBackOff", {"crash-loop-n1", "app"}),
        ("-l app=web", {"web-n1"}),
        ("-f crlp", {"crash-loop-n1", "app"}),
    ],
)
def test_the_filter_of_tables(text: str, found: set[str]) -> None:
    shown = {label for p in gallery() for label in labels(pod_items(p, "n1", 0.0), {}, text)}
    assert found <= shown
    assert "batch-n1" not in shown


# --- what changes


def model_of(*pods: Pod) -> Model:
    model = Model()
    model.fold(Node, Synced((node(),)))
    model.fold(Pod, Synced(pods))
    model.take()
    return model


def test_a_change_of_one_pod_makes_rows_of_that_pod_alone() -> None:
    model = model_of(*gallery(), rich())
    view = TreeView(model)
    view.all(now())
    model.fold(Pod, Changed((pod("web", status("nginx", restarts=7), uid="uid-web"),)))
    rows, gone = view.update(model.take(), now())
    assert {row.key for row in rows} == {"pod:uid-web", "node:n1"}
    assert not gone


def test_what_goes_takes_its_rows_with_it() -> None:
    model = model_of(rich())
    view = TreeView(model)
    view.all(now())
    view.fold("pod:uid-shop", False)
    rows, _ = view.update(Changes(frozenset({"uid-shop"})), now())
    assert len(rows) > 10
    model.fold(Pod, Removed((rich(),)))
    _, gone = view.update(model.take(), now())
    assert {row.key for row in rows} - {"node:n1"} == set(gone)


def test_a_pod_that_takes_its_place_is_as_open_as_it_was() -> None:
    model = model_of(rich())
    view = TreeView(model)
    view.all(now())
    view.fold("pod:uid-shop", False)
    model.fold(Pod, Synced((rich(uid="uid-other"),)))
    view.update(model.take(), now())
    assert "pod:uid-other/app" in view.shown


def test_nothing_is_made_of_what_is_below_folded_pods() -> None:
    pods = [rich(f"p{n}", f"u{n}") for n in range(1000)]
    view = TreeView(model_of(*pods))
    assert len(view.all(now())) == 1001
    view.filter = parse_filter("hello", TREE_COLUMNS)
    assert len(view.all(now())) == 3001
    view.filter = ALL
    view.fold_all(False)
    assert len(view.all(now())) == 1 + 14 * 1000


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


@pytest.mark.screen
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


@pytest.mark.screen
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


@pytest.mark.screen
async def test_titles_do_not_sort() -> None:
    async with opened() as (_, pilot, screen):
        before = names(screen)
        await pilot.click(screen.table, offset=(6, 1))
        await pilot.press("O")
        assert names(screen) == before


@pytest.mark.screen
async def test_live_changes_leave_cursor_and_folds() -> None:
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


@pytest.mark.screen
async def test_filter_by_key_and_back() -> None:
    async with opened() as (app, pilot, screen):
        await pilot.press("slash", *"exporter", "enter")
        await wait_for(pilot, lambda: "exporter" in names(screen), "the match")
        assert names(screen)[:3] == ["n1", "web-n1", "exporter"]
        await pilot.press("escape")
        await wait_for(pilot, lambda: "batch-n1" in names(screen), "all of it")
        assert app.screen is screen


@pytest.mark.screen
async def test_the_command_filters() -> None:
    async with opened(text="xray exporter") as (_, _pilot, screen):
        assert names(screen)[:3] == ["n1", "web-n1", "exporter"]


@pytest.mark.screen
@pytest.mark.parametrize(("key", "kind"), [("d", PodScreen), ("l", PodScreen), ("X", WhyScreen)])
async def test_keys_of_a_pod_work_on_its_containers(key: str, kind: type) -> None:
    async with opened() as (app, pilot, screen):
        screen.table.select("pod:uid-crash-loop")
        await pilot.press("space", "down")
        assert screen.item is not None
        assert screen.item.label == "app"
        await pilot.press(key)
        await wait_for(pilot, lambda: isinstance(app.screen, kind), "what it opens")


@pytest.mark.screen
async def test_delete_asks_about_the_pod_of_a_row() -> None:
    async with opened() as (app, pilot, screen):
        screen.table.select("pod:uid-web")
        await pilot.press("space", "down", "ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        await pilot.press("escape")


@pytest.mark.screen
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


@pytest.mark.screen
async def test_only_what_is_in_sight_is_drawn() -> None:
    pods = [rich(f"p{n}", f"u{n}") for n in range(1000)]
    async with opened(*pods, size=(80, 24)) as (_, pilot, screen):
        await pilot.pause()
        before = screen.table.repaints
        await pilot.press("plus")
        await wait_for(pilot, lambda: len(screen.table.set) > 10_000, "all is open")
        await pilot.pause()
        # A few whole pictures at most, each of some twenty lines.
        assert screen.table.repaints - before < 200
