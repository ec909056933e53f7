"""The tree: its items, which of them are visible, and the screen that folds it."""

from __future__ import annotations

from typing import Any

import pytest
from tree_scene import rich
from tui_scene import gallery, node, now, pod, status

from podtui.api.v1 import Node, Pod
from podtui.client.protocol import Changed, Removed, Synced
from podtui.tui.model.model import Changes, Model
from podtui.tui.views.tree import TREE_COLUMNS, TreeView, pod_items, tree_row, visible_rows
from podtui.tui.widgets.filters import ALL, parse_filter

# --- what is in it


def test_a_pod_with_all_its_items() -> None:
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
         "http :http/healthz, every 10s, timeout 1s, failure threshold 3"),
    ]  # fmt: skip


def test_values_of_variables_are_not_shown() -> None:
    assert not any("hunter2" in item.label + item.detail for item in pod_items(rich(), "n1", 0.0))


def test_states_and_restarts_of_containers() -> None:
    found = {item.label: item for p in gallery() for item in pod_items(p, "n1", 0.0)}
    assert found["crash-loop-n1"].restarts == 4
    assert found["crash-loop-n1"].fault
    assert found["unpack (init)"].state == "◐ NotReady"
    assert found["fetch (init)"].state == "✔ Completed"
    assert found["main"].state == "○ PodInitializing"


def test_hostile_texts_are_stripped() -> None:
    bad = pod("a\x1b[31m", status("c\x07", image="i\u202e"))
    for item in pod_items(bad, "n1", 0.0):
        for text in (item.label, item.state, item.detail):
            assert not any(c in text for c in "\x1b\x07\u202e")


# --- what is in sight


def labels(items: Any, folds: dict[str, bool], text: str = "") -> list[str]:
    wanted = parse_filter(text, TREE_COLUMNS)
    return [item.label for item, _ in visible_rows(items, folds, wanted, now(), tree_row)]


def test_pods_are_folded_initially() -> None:
    items = pod_items(rich(), "n1", 0.0)
    head = items[0]
    assert labels(items, {}) == ["shop-n1"]
    assert len(labels(items, {head.path: False})) == len(items)
    app = next(item for item in items if item.label == "app")
    shown = labels(items, {head.path: False, app.path: True})
    assert shown == ["shop-n1", "fetch (init)", "proxy (sidecar)", "app"]


def test_a_match_is_shown_with_its_ancestors() -> None:
    items = pod_items(rich(), "n1", 0.0)
    assert labels(items, {}, "hello") == ["shop-n1", "app", "env ConfigMap words"]
    assert labels(items, {}, "nowhere") == []
    # A pod that matches keeps its folding.
    assert labels(items, {}, "^shop-n1") == ["shop-n1"]
    assert labels(items, {items[0].path: False}, "^shop-n1") == [item.label for item in items]
    # Items that the user folds stay folded.
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


def test_a_change_of_one_pod_rebuilds_only_its_rows() -> None:
    model = model_of(*gallery(), rich())
    view = TreeView(model)
    view.all(now())
    model.fold(Pod, Changed((pod("web", status("nginx", restarts=7), uid="uid-web"),)))
    rows, gone = view.update(model.take(), now())
    assert {row.key for row in rows} == {"pod:uid-web", "node:n1"}
    assert not gone


def test_removed_pods_lose_their_rows() -> None:
    model = model_of(rich())
    view = TreeView(model)
    view.all(now())
    view.fold("pod:uid-shop", False)
    rows, _ = view.update(Changes(frozenset({"uid-shop"})), now())
    assert len(rows) > 10
    model.fold(Pod, Removed((rich(),)))
    _, gone = view.update(model.take(), now())
    assert {row.key for row in rows} - {"node:n1"} == set(gone)


def test_a_replaced_pod_keeps_its_folding() -> None:
    model = model_of(rich())
    view = TreeView(model)
    view.all(now())
    view.fold("pod:uid-shop", False)
    model.fold(Pod, Synced((rich(uid="uid-other"),)))
    view.update(model.take(), now())
    assert "pod:uid-other/app" in view.shown


def test_items_of_folded_pods_are_not_built() -> None:
    pods = [rich(f"p{n}", f"u{n}") for n in range(100)]
    view = TreeView(model_of(*pods))
    assert len(view.all(now())) == 101
    view.filter = parse_filter("hello", TREE_COLUMNS)
    assert len(view.all(now())) == 301
    view.filter = ALL
    view.fold_all(False)
    assert len(view.all(now())) == 1 + 14 * 100
