from __future__ import annotations

import pytest
from msgspec import structs
from tui_scene import broken, event, gallery, node, pod, status, usage

from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.names import MANIFEST_PATH
from podtui.api.v1 import Event, Node, ObjectMeta, Pod
from podtui.client.protocol import Changed, Lost, Removed, Synced
from podtui.tui.model.model import AT_ONCE, LinkState, Model
from podtui.tui.views.logs.target import default_container


def test_applies_lists_and_changes() -> None:
    model = Model()
    a, b = pod("a", status()), pod("b", status())
    model.fold(Pod, Synced((a, b)))
    assert model.link is LinkState.CONNECTED
    assert model.take().pods == {"uid-a", "uid-b"}
    model.fold(Pod, Synced((a,)))
    assert model.take().pods == {"uid-b"}, "a list again: only what differs"
    assert set(model.pods) == {"uid-a"}
    changed = pod("a", status(ready=False))
    model.fold(Pod, Changed((changed,)))
    model.fold(Pod, Removed((b,)))
    assert model.take().pods == {"uid-a"}
    assert model.pods["uid-a"] is changed
    assert not model.take()


def test_a_lost_connection_keeps_the_records() -> None:
    model = Model()
    model.fold(Node, Lost("no agent is running"))
    assert model.link is LinkState.STARTING
    model.fold(Node, Synced((node(),)))
    model.fold(Node, Lost("gone"))
    assert (model.link, model.lost_reason) == (LinkState.LOST, "gone")
    assert model.node is not None
    assert model.take().link


def test_usage_updates_only_its_pods() -> None:
    model = Model()
    model.fold(Pod, Synced(gallery()))
    model.take()
    model.set_usage((usage("web", "85m", "1Mi"),), None)
    assert model.take().pods == {"uid-web"}
    model.set_usage((usage("web", "85m", "1Mi"),), None)
    assert not model.take()


def test_usage_of_many_pods_is_returned_in_batches() -> None:
    model = Model()
    names = [f"p{number}" for number in range(2 * AT_ONCE + 5)]
    model.fold(Pod, Synced(tuple(pod(name, status()) for name in names)))
    model.take()
    model.set_usage([usage(name, "85m", "1Mi") for name in names], None)
    model.fold(Pod, Changed((pod("p0", status(ready=False)),)))
    parts: list[frozenset[str]] = []
    while model.waits:
        parts.append(model.take().pods)
    assert [len(part) for part in parts] == [AT_ONCE + 1, AT_ONCE, 4]
    assert set().union(*parts) == set(model.pods), "each once, none forgotten"
    assert not model.take()


def test_manifest_and_events_of_a_pod() -> None:
    model = Model()
    hello = pod("hello", status())
    model.fold(Pod, Synced((hello,)))
    model.fold(Manifest, Synced((broken(),)))
    model.fold(Event, Synced((event("hello", "A", ""), event("other", "B", ""))))
    found = model.manifest_of(hello)
    assert found is not None
    assert found.metadata.name == "hello.yaml"
    assert [e.reason for e in model.events_of(hello)] == ["A"]


@pytest.mark.parametrize("annotated", [True, False])
def test_the_pods_file_is_found_among_equal_names(annotated: bool) -> None:
    """Delete, edit and fix act on the file."""
    model = Model()
    twin = pod("twin", status(), uid="own")
    if annotated:
        annotations = {MANIFEST_PATH: "/m/b.yaml"}
        meta = structs.replace(twin.metadata, annotations=annotations)
        twin = structs.replace(twin, metadata=meta)
    name, namespace = twin.metadata.name, twin.metadata.namespace

    def file(letter: str, uid: str) -> Manifest:
        found = ManifestStatus(
            state=ManifestState.ACCEPTED, podName=name, podNamespace=namespace, podUID=uid
        )
        spec = ManifestSpec(path=f"/m/{letter}.yaml")
        return Manifest(metadata=ObjectMeta(name=f"{letter}.yaml"), spec=spec, status=found)

    own = "" if annotated else "own"
    model.fold(Manifest, Synced((file("a", "other"), file("b", own), file("c", "third"))))
    found = model.manifest_of(twin)
    assert found is not None
    assert found.metadata.name == "b.yaml"


def test_a_failing_container_is_shown_first() -> None:
    by_name = {p.metadata.name: default_container(p) for p in gallery()}
    assert by_name["web-n1"] == "nginx"
    assert by_name["pipeline-n1"] == "unpack"
    assert by_name["crash-loop-n1"] == "app"
