"""The writes that bring the API's objects to what the folder states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.agent.folder_plan import (
    KEPT,
    Applied,
    Desired,
    Live,
    plan_applies,
    plan_prunes,
)
from podtui.api.names import MANIFEST_PATH
from podtui.api.v1 import ConfigMap, ObjectMeta
from podtui.manifest.objects import Claim, FolderDocument

REPLICAS = {"f:spec": {"f:replicas": {}}}
KINDS = ("Namespace", "ConfigMap", "Deployment", "PersistentVolumeClaim", "Service")


def desired(kind: str = "ConfigMap", file: str = "/m/a.yaml", **spec: Any) -> Desired:
    configuration = {"kind": kind, "metadata": {"name": "a"}} | ({"spec": spec} if spec else {})
    item = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))
    return Desired(FolderDocument(item, configuration, "", (1, 1)), file)


def key(kind: str = "ConfigMap", name: str = "a") -> Claim:
    return kind, "" if kind == "Namespace" else "default", name


def live(fields: Any = REPLICAS, uid: str = "u", file: str = "/m/a.yaml") -> Live:
    return Live(uid=uid, file=file, fields=fields)


def applied(here: Desired, fields: Any = REPLICAS, uid: str = "u") -> Applied:
    [step] = plan_applies({key(): here}, {}, {})
    return Applied(step.configuration, uid, fields)


def test_a_new_document_is_applied_with_the_annotation_of_its_file() -> None:
    [step] = plan_applies({key(): desired()}, {}, {})
    assert step.configuration["metadata"]["annotations"] == {MANIFEST_PATH: "/m/a.yaml"}
    assert (step.is_new, step.recreates, step.changed) == (True, False, ())


def test_an_object_as_it_was_applied_is_left_alone() -> None:
    here = desired()
    assert plan_applies({key(): here}, {key(): live()}, {key(): applied(here)}) == []


def test_an_object_of_an_earlier_run_is_applied_once() -> None:
    [step] = plan_applies({key(): desired()}, {key(): live()}, {})
    assert step.is_new


def test_fields_that_others_changed_are_named() -> None:
    here = desired()
    there = {key(): live(fields={"f:data": {"f:a": {}}})}
    [step] = plan_applies({key(): here}, there, {key(): applied(here)})
    assert step.changed == (".spec.replicas",)
    [step] = plan_applies({key(): here}, {key(): live(fields=None)}, {key(): applied(here)})
    assert step.changed == (".spec.replicas",)


def test_a_deleted_object_is_created_again_when_it_is_gone() -> None:
    here = desired()
    leaving = replace(live(), terminating=True)
    assert plan_applies({key(): here}, {key(): leaving}, {key(): applied(here)}) == []
    [step] = plan_applies({key(): here}, {}, {key(): applied(here)})
    assert step.recreates


def test_what_others_need_is_applied_first() -> None:
    stated = {key(kind): desired(kind) for kind in reversed(KINDS)}
    kinds = [step.key[0] for step in plan_applies(stated, {}, {})]
    assert kinds == ["Namespace", "ConfigMap", "PersistentVolumeClaim", "Service", "Deployment"]


def test_replicas_are_left_to_an_autoscaler_that_has_set_them() -> None:
    at = key("Deployment")
    here = desired("Deployment", replicas=3, paused=False)
    scaled = {at: live(fields={"f:spec": {"f:paused": {}}})}
    [step] = plan_applies({at: here}, scaled, {}, {at})
    assert step.configuration["spec"] == {"paused": False}
    [step] = plan_applies({at: here}, scaled, {}, ())
    assert step.configuration["spec"] == {"replicas": 3, "paused": False}
    [step] = plan_applies({at: here}, {at: live()}, {}, {at})
    assert step.configuration["spec"] == {"replicas": 3, "paused": False}


def test_a_finished_job_is_not_deleted_so_that_it_does_not_run_again() -> None:
    at = key("Job")
    here = desired("Job", ttlSecondsAfterFinished=5, parallelism=1)
    [step] = plan_applies({at: here}, {}, {})
    assert step.configuration["spec"] == {"parallelism": 1}


def test_only_what_the_folder_applied_is_pruned() -> None:
    there = {
        key(name="gone"): live(),
        key(name="copied"): live(fields=None),
        key(name="other"): live(file=""),
        key(name="kept"): live(),
        key(name="unknown"): live(file="/m/broken.yaml"),
        key("PersistentVolumeClaim"): live(),
        key("Namespace"): live(),
    }
    prunes = plan_prunes({key(name="kept")}, there, {"/m/broken.yaml"})
    assert [step.key for step in prunes] == [key(name="gone")]


# --- any history ends with what the folder states


texts = st.dictionaries(
    st.tuples(st.sampled_from(KINDS), st.sampled_from("ab")),
    st.tuples(st.integers(0, 2), st.sampled_from(("/m/a.yaml", "/m/b.yaml"))),
    max_size=6,
)
steps = st.one_of(
    st.tuples(st.just("folder"), texts),
    st.tuples(st.just("delete"), st.sampled_from(KINDS), st.sampled_from("ab")),
    st.tuples(st.just("change"), st.sampled_from(KINDS), st.sampled_from("ab")),
    st.tuples(st.just("create"), st.sampled_from(KINDS), st.sampled_from("ab")),
    st.tuples(st.just("restart")),
)


class World:
    """An API that stores a value for each object, and the managers of that value."""

    def __init__(self) -> None:
        self.objects: dict[Claim, tuple[Live, int]] = {}
        self.applied: dict[Claim, Applied] = {}
        self.uids = 0

    def put(self, at: Claim, value: int, fields: Any, file: str) -> None:
        before = self.objects.get(at)
        if before is None:
            self.uids += 1
        uid = before[0].uid if before is not None else f"u{self.uids}"
        self.objects[at] = Live(uid=uid, file=file, fields=fields), value

    def sync(self, stated: Mapping[Claim, Desired]) -> int:
        """Write what the plan says; return the number of writes."""
        seen = {at: item for at, (item, _) in self.objects.items()}
        applies = plan_applies(stated, seen, self.applied)
        for step in applies:
            value = step.configuration["spec"]["replicas"]
            self.put(step.key, value, REPLICAS, step.desired.file)
            uid = self.objects[step.key][0].uid
            self.applied[step.key] = Applied(step.configuration, uid, REPLICAS)
        seen = {at: item for at, (item, _) in self.objects.items()}
        prunes = plan_prunes(stated, seen, ())
        for prune in prunes:
            del self.objects[prune.key]
        for at in self.applied.keys() - stated.keys():
            del self.applied[at]
        return len(applies) + len(prunes)


@given(st.lists(steps, max_size=30))
@examples(300)
def test_every_history_converges_and_then_rests(history: list[Any]) -> None:
    world, stated = World(), dict[Claim, Desired]()
    foreign: set[Claim] = set()
    for step in history:
        match step:
            case ("folder", documents):
                stated = {
                    key(kind, name): desired(kind, file, replicas=value)
                    for (kind, name), (value, file) in documents.items()
                }
            case ("delete", kind, name):
                world.objects.pop(key(kind, name), None)
            case ("change", kind, name) if key(kind, name) in world.objects:
                before, _ = world.objects[key(kind, name)]
                world.put(key(kind, name), 99, None, before.file)
            case ("create", kind, name):
                if key(kind, name) not in world.objects:
                    world.put(key(kind, name), 50, None, "")
            case ("restart",):
                world.applied = {}
            case _:
                pass
        world.sync(stated)
        assert world.sync(stated) == 0
        foreign |= {at for at, (item, _) in world.objects.items() if item.fields is None}
        for at, here in stated.items():
            item, value = world.objects[at]
            assert value == here.document.configuration["spec"]["replicas"]
            assert (item.fields, item.file) == (REPLICAS, here.file)
        for at in world.objects.keys() - stated.keys():
            assert at in foreign or at[0] in KEPT
