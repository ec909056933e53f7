"""Controller revisions: their names, their numbers, and which of them are deleted."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.apps import ControllerRevision, StatefulSet
from podtui.api.v1 import ObjectMeta
from podtui.controllers.history import (
    HASH_LABEL,
    equal_revisions,
    in_order,
    new_revision,
    next_number,
    revision_data,
    revision_hash,
    superfluous,
    template_of,
)
from podtui.errors import PodtuiError

# As a real cluster has recorded it, with the name db-d5fbf79fb.
TEMPLATE = """{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"command":["sh","-c",
"mkdir -p /www; echo page > /www/index.html; echo started; exec httpd -f -p 8080 -h /www"],
"image":"docker.io/library/busybox:1.36","imagePullPolicy":"Never","name":"c","readinessProbe":
{"failureThreshold":3,"httpGet":{"path":"/","port":8080,"scheme":"HTTP"},"periodSeconds":1,
"successThreshold":1,"timeoutSeconds":1},"resources":{},"terminationMessagePath":
"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst",
"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},
"terminationGracePeriodSeconds":0}}"""


def the_set(name: str = "db") -> StatefulSet:
    meta = {"name": name, "namespace": "wl", "uid": "u", "annotations": {"a": "b"}}
    return msgspec.convert(
        {"metadata": meta, "spec": {"template": json.loads(TEMPLATE)}}, StatefulSet
    )


def revision(number: int, name: str = "", data: dict[str, Any] | None = None) -> ControllerRevision:
    meta = ObjectMeta(name=name or f"r{number}")
    return ControllerRevision(metadata=meta, revision=number, data=data)


def test_a_revision_has_the_name_and_the_labels_of_a_real_one() -> None:
    made = new_revision(the_set(), 1, 0, HASH_LABEL)
    assert made.metadata.name == "db-d5fbf79fb"
    assert made.metadata.labels == {"app": "db", HASH_LABEL: "d5fbf79fb"}
    assert made.metadata.annotations == {"a": "b"}
    assert [owner.name for owner in made.metadata.ownerReferences] == ["db"]


def test_the_keys_of_a_revision_are_sorted_as_go_writes_them() -> None:
    data = new_revision(the_set(), 1, 0, HASH_LABEL).data
    assert msgspec.json.encode(data) == msgspec.json.encode(data, order="sorted")


def test_a_collision_changes_the_name() -> None:
    data = revision_data(the_set().spec.template)
    hashes = {revision_hash(data, collisions) for collisions in (None, 0, 1, 2)}
    assert len(hashes) == 4


def test_a_long_name_is_cut() -> None:
    assert len(new_revision(the_set("n" * 250), 1, 0, HASH_LABEL).metadata.name) <= 253


def test_a_revision_restores_its_template() -> None:
    template = the_set().spec.template
    data = revision_data(template)
    assert data["spec"]["template"]["$patch"] == "replace"
    stored = json.loads(json.dumps(data))
    assert template_of(revision(1, data=stored)) == template
    assert equal_revisions([revision(1, data=stored), revision(2, data={})], template) == [
        revision(1, data=stored)
    ]


@pytest.mark.parametrize("data", [None, {}, {"spec": {"template": 1}}, {"spec": []}])
def test_a_revision_without_a_template_is_an_error(data: Any) -> None:
    with pytest.raises(PodtuiError, match="controller revision r1 has no valid template"):
        template_of(revision(1, data=data))


def test_the_next_number_is_above_all() -> None:
    assert next_number([]) == 1
    assert next_number([revision(7), revision(3)]) == 8
    ordered = in_order([revision(2, "b"), revision(1, "c"), revision(2, "a")])
    assert [item.metadata.name for item in ordered] == ["c", "a", "b"]


@given(
    numbers=st.sets(st.integers(1, 30), max_size=15),
    live=st.sets(st.integers(1, 30)),
    limit=st.integers(-1, 15),
)
@examples(100)
def test_the_oldest_unused_revisions_beyond_the_limit_are_deleted(
    numbers: set[int], live: set[int], limit: int
) -> None:
    old = [revision(number) for number in sorted(numbers)]
    deleted = superfluous(old, {f"r{number}" for number in live}, limit)
    numbers_deleted = [item.revision for item in deleted]
    unused = sorted(numbers - live)
    assert numbers_deleted == unused[: len(numbers_deleted)]
    left = len(unused) - len(deleted)
    assert left == (len(unused) if limit < 0 else min(limit, len(unused)))
