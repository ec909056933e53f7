"""Files whose pods cannot begin while the node is not ready."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tui_app import bar_text, running, table_text, wait_for
from tui_scene import FakeClient, manifest, node, pod

from podtui.api.local import Manifest
from podtui.api.v1 import Node, Pod
from podtui.client.protocol import Changed, Synced
from podtui.tui.model.model import Model
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.waiting import Waiting

DOWN = "container runtime is down: Cannot connect to the Docker daemon"


def waiting_model() -> tuple[Model, Waiting]:
    model = Model()
    files = (manifest("a.yaml", pod_name="a-n1"), manifest("b.yaml", pod_name="b-n1"))
    model.fold(Manifest, Synced(files))
    model.fold(Node, Synced((node(ready=False),)))
    model.fold(Pod, Synced((pod("a"),)))
    return model, Waiting(model)


def test_files_without_pods_wait_until_their_node_is_ready() -> None:
    model, waiting = waiting_model()
    assert waiting.look(model.take()) == {"b.yaml"}
    assert waiting.reason_of("b.yaml") == DOWN
    assert waiting.reason_of("a.yaml") == ""
    model.fold(Node, Changed((node(),)))
    assert waiting.look(model.take()) == {"b.yaml"}
    assert waiting.reason_of("b.yaml") == ""


def test_who_waits_for_something_else_is_told_of_again() -> None:
    model, waiting = waiting_model()
    waiting.look(model.take())
    condition = replace(node(ready=False).status.conditions[0], message="PLEG is not healthy")
    now = replace(node(), status=replace(node().status, conditions=(condition,)))
    model.fold(Node, Changed((now,)))
    assert waiting.look(model.take()) == {"b.yaml"}
    assert waiting.reason_of("b.yaml") == "PLEG is not healthy"


def test_nobody_looks_again_where_nothing_changed() -> None:
    model, waiting = waiting_model()
    waiting.look(model.take())
    assert waiting.look(model.take()) == frozenset()
    model.fold(Pod, Changed((pod("b"),)))
    assert waiting.look(model.take()) == {"b.yaml"}
    assert waiting.names == frozenset()


@pytest.mark.screen
async def test_a_node_that_is_not_ready_hides_no_file() -> None:
    client = FakeClient()
    client.fill((), (), (manifest("web.yaml", pod_name="web-n1"),), (node(ready=False),))
    async with running(client) as (app, pilot):
        await wait_for(pilot, lambda: "Waiting" in "\n".join(table_text(app)), "the file")
        assert any("web.yaml" in row and DOWN[:20] in row for row in table_text(app))
        await pilot.press("X")
        assert isinstance(app.screen, WhyScreen)
        assert "waiting" in bar_text(app, "header")
        await pilot.press("escape")
        client.change(node())
        client.change(pod("web"))
        await wait_for(pilot, lambda: "web-n1" in "\n".join(table_text(app)), "its pod")
        assert "Waiting" not in "\n".join(table_text(app))
