"""The revisions of a Deployment: templates, numbers, names, and which ones are deleted."""

from __future__ import annotations

import pytest
from deployment_world import deployment, replica_set, template
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, structs

from podtui.api.apps import Deployment, ReplicaSet
from podtui.api.v1 import PodTemplateSpec
from podtui.controllers.revisions import (
    HASH_LABEL,
    HISTORY,
    REVISION,
    new_and_old,
    new_replica_set,
    next_revision,
    revision_annotations,
    revision_of,
    same_template,
    superfluous,
    template_hash,
)


def pod_template(image: str, **labels: str) -> PodTemplateSpec:
    return convert(template(image, **labels), PodTemplateSpec)


def with_annotations(item: Deployment, **annotations: str) -> Deployment:
    return structs.replace(item, metadata=structs.replace(item.metadata, annotations=annotations))


def test_the_hash_depends_on_the_template_and_on_collisions() -> None:
    first = template_hash(pod_template("a"), None)
    assert first == template_hash(pod_template("a"), None)
    others = {template_hash(pod_template("b"), None), template_hash(pod_template("a"), 1)}
    assert len({first, *others}) == 3
    assert set(first) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_templates_are_compared_without_the_label_of_the_hash() -> None:
    labeled = pod_template("a", **{HASH_LABEL: "x"})
    assert same_template(labeled, pod_template("a"))
    assert not same_template(labeled, pod_template("b"))
    assert not same_template(labeled, pod_template("a", more="x"))


def test_the_oldest_set_with_the_template_is_the_new_one() -> None:
    item = deployment(image="b")
    sets = [replica_set("c", 1, age=1), replica_set("a", 1, age=5), replica_set("b", 1, age=3)]
    new, old = new_and_old(item, sets)
    assert new is not None
    assert [new.metadata.name, *(each.metadata.name for each in old)] == ["b", "a", "c"]
    twin = structs.replace(sets[2], metadata=replica_set("b2", 1, age=9).metadata)
    assert new_and_old(item, [*sets, twin])[0] == twin
    assert new_and_old(item, sets[:2])[0] is None


def test_a_new_set_has_the_hash_in_name_labels_and_selector() -> None:
    item = with_annotations(deployment(minReadySeconds=5), cause="first")
    made = new_replica_set(item, 3)
    value = template_hash(item.spec.template, None)
    assert made.metadata.name == f"web-{value}"
    labels = {"app": "web", HASH_LABEL: value}
    assert made.metadata.labels == made.spec.template.metadata.labels == labels
    assert made.spec.selector is not None
    assert made.spec.selector.matchLabels == labels
    assert made.spec.minReadySeconds == 5
    assert made.metadata.annotations == {"cause": "first", REVISION: "3"}
    [owner] = made.metadata.ownerReferences
    assert (owner.kind, owner.uid, owner.controller) == ("Deployment", "d1", True)


def test_a_long_name_is_cut() -> None:
    item = deployment()
    item = structs.replace(item, metadata=structs.replace(item.metadata, name="x" * 253))
    name = new_replica_set(item, 1).metadata.name
    assert len(name) == 253
    assert name.endswith(template_hash(item.spec.template, None))


def test_annotations_are_copied_except_those_of_the_controller_and_of_apply() -> None:
    item = with_annotations(
        deployment(),
        **{
            "kubernetes.io/change-cause": "second",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            REVISION: "9",
        },
    )
    assert revision_annotations(item, {"kept": "x", "kubernetes.io/change-cause": "first"}, 2) == {
        "kept": "x",
        "kubernetes.io/change-cause": "second",
        REVISION: "2",
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({REVISION: "2"}, {REVISION: "5", HISTORY: "2"}),
        ({REVISION: "4", HISTORY: "1,2"}, {REVISION: "5", HISTORY: "1,2,4"}),
        ({REVISION: "5"}, {REVISION: "5"}),
        ({REVISION: "7"}, {REVISION: "7"}),  # A later revision was deleted.
        ({REVISION: "x"}, {REVISION: "x"}),
    ],
)
def test_an_undo_renumbers_and_remembers(before: dict[str, str], after: dict[str, str]) -> None:
    assert revision_annotations(deployment(), before, 5) == after


@examples(200)
@given(number=st.integers(1, 10**9), count=st.integers(0, 400))
def test_the_history_stays_short(number: int, count: int) -> None:
    before = ",".join(str(number + i) for i in range(count))[:2000].rstrip(",")
    annotations = {REVISION: str(number), **({HISTORY: before} if before else {})}
    history = revision_annotations(deployment(), annotations, number + 1)[HISTORY]
    assert len(history) <= 2000
    assert history.split(",")[-1] == str(number)


def test_the_next_number_follows_the_highest_of_the_old_ones() -> None:
    assert next_revision([]) == 1
    sets = [replica_set("a", 0, revision="3"), replica_set("b", 0, revision="x")]
    assert next_revision(sets) == 4
    assert [revision_of(item) for item in sets] == [3, None]
    assert revision_of(replica_set("c", 0)) == 0


def old_sets() -> list[ReplicaSet]:
    return [replica_set(f"r{i}", 0, age=i, revision=str(i)) for i in (3, 1, 4, 2)]


def test_the_lowest_revisions_beyond_the_limit_are_deleted() -> None:
    def names(limit: int | None, *old: ReplicaSet) -> list[str]:
        item = deployment(revisionHistoryLimit=limit)
        return [each.metadata.name for each in superfluous(item, [*old, *old_sets()])]

    assert names(2) == ["r1", "r2"]
    assert names(4) == []
    assert names(0) == ["r1", "r2", "r3", "r4"]
    assert names(None) == names(2**31 - 1) == []
    # It has pods, so it stays; it counts nevertheless.
    assert names(4, replica_set("r0", 1)) == []
    leaving = replica_set("r0", 0)
    meta = structs.replace(leaving.metadata, deletionTimestamp="2026-01-01T00:00:00Z")
    assert names(3, structs.replace(leaving, metadata=meta)) == ["r1"]
    unseen = structs.replace(leaving, metadata=structs.replace(leaving.metadata, generation=2))
    assert names(4, unseen) == []
