"""Files whose pods cannot start while the node is not ready."""

from __future__ import annotations

from msgspec.structs import replace
from tui_scene import manifest, node, pod

from podtui.api.local import Manifest
from podtui.api.v1 import Node, Pod
from podtui.client.protocol import Changed, Synced
from podtui.tui.model.model import Model
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
    assert waiting.update(model.take()) == {"b.yaml"}
    assert waiting.reason_of("b.yaml") == DOWN
    assert waiting.reason_of("a.yaml") == ""
    model.fold(Node, Changed((node(),)))
    assert waiting.update(model.take()) == {"b.yaml"}
    assert waiting.reason_of("b.yaml") == ""


def test_a_new_reason_to_wait_is_reported() -> None:
    model, waiting = waiting_model()
    waiting.update(model.take())
    condition = replace(node(ready=False).status.conditions[0], message="PLEG is not healthy")
    now = replace(node(), status=replace(node().status, conditions=(condition,)))
    model.fold(Node, Changed((now,)))
    assert waiting.update(model.take()) == {"b.yaml"}
    assert waiting.reason_of("b.yaml") == "PLEG is not healthy"


def test_nothing_is_recomputed_without_changes() -> None:
    model, waiting = waiting_model()
    waiting.update(model.take())
    assert waiting.update(model.take()) == frozenset()
    model.fold(Pod, Changed((pod("b"),)))
    assert waiting.update(model.take()) == {"b.yaml"}
    assert waiting.names == frozenset()
