"""Patches compared with recorded results of the API server's Go libraries."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import raises_only

from podtui.api import fields, v1
from podtui.api.shape import fields as shapes
from podtui.patching import json_patch, merge_patch, strategic
from podtui.patching.errors import PatchError

RECORDED = [
    json.loads(line)
    for line in Path(__file__).with_name("recorded_patches.jsonl").read_text().splitlines()
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def patched(case: dict[str, Any]) -> dict[str, Any]:
    try:
        if case["op"] == "json":
            return {"result": json_patch.apply(case["doc"], case["patch"])}
        if case["op"] == "merge":
            return {"result": merge_patch.apply(case["doc"], case["patch"])}
        return {"result": strategic.apply(case["kind"], case["doc"], case["patch"])}
    except PatchError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("op", ["json", "merge", "strategic"])
def test_recorded_cases_have_the_same_result(op: str) -> None:
    cases = [case for case in RECORDED if case["op"] == op]
    assert len(cases) >= 40
    for case in cases:
        before = copy.deepcopy(case)
        expected = {key: case[key] for key in ("result", "error") if key in case}
        assert patched(case) == expected, case
        assert case == before


@given(document=OBJECT, patch=OBJECT)
def test_a_merge_patch_applied_again_soon_changes_nothing_more(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    twice = merge_patch.apply(merge_patch.apply(document, patch), patch)
    assert merge_patch.apply(twice, patch) == twice


def test_a_null_in_a_list_is_kept_only_where_the_list_replaces_an_object() -> None:
    patch = {"a": [{"b": None}]}
    once = merge_patch.apply({"a": {}}, patch)
    assert once == {"a": [{"b": None}]}
    assert merge_patch.apply(once, patch) == {"a": [{}]}


@given(document=OBJECT, patch=JSON)
def test_no_json_patch_raises_anything_but_a_patch_error(
    document: dict[str, Any], patch: Any
) -> None:
    for candidate in (patch, [{"op": "add", "path": "/a/0", "value": patch}, patch]):
        with raises_only(PatchError):
            json_patch.apply(document, candidate)


@given(document=OBJECT, patch=JSON)
def test_no_strategic_patch_raises_anything_but_a_patch_error(
    document: dict[str, Any], patch: Any
) -> None:
    names = ["metadata", "spec", "status", "finalizers", "$setElementOrder/containers", "$patch"]
    renamed = dict(zip(names, [patch, *document.values(), patch, patch, patch], strict=False))
    for candidate in (patch, renamed, {"spec": {"containers": patch}, "metadata": renamed}):
        with raises_only(PatchError):
            strategic.apply("Pod", {"spec": {"containers": [{"name": "a"}]}}, candidate)


def test_a_json_patch_with_too_many_operations_is_refused() -> None:
    operation = {"op": "test", "path": "/a", "value": None}
    with pytest.raises(PatchError, match="is 10000, got 10001") as caught:
        json_patch.apply({}, [operation] * 10_001)
    assert caught.value.code == 413


def test_an_env_variable_is_merged_by_its_name() -> None:
    pod = {"spec": {"containers": [{"name": "a", "env": [{"name": "x", "value": "1"}]}]}}
    change = {"name": "a", "env": [{"name": "y", "value": "2"}], "image": "b"}
    merged = strategic.apply("Pod", pod, {"spec": {"containers": [change]}})
    assert merged["spec"]["containers"] == [
        {
            "name": "a",
            "image": "b",
            "env": [{"name": "y", "value": "2"}, {"name": "x", "value": "1"}],
        }
    ]


def test_every_type_that_a_field_names_exists() -> None:
    known = fields.types()
    for owner in known.values():
        for name, field in owner.fields.items():
            kind = field.type.replace(fields.LIST, "").replace(fields.MAP, "")
            assert kind in known or kind in fields.SCALARS, (owner.model, name)
            if kind in known:
                assert all(key in known[kind].fields for key in field.keys), (owner.model, name)


def test_the_facts_agree_with_the_generated_types() -> None:
    shared = [name for name in fields.types() if isinstance(getattr(v1, name, None), type)]
    assert {"Pod", "Node", "Event", "ConfigMap", "Secret", "ObjectMeta"} <= set(shared)
    for name in shared:
        facts = fields.types()[name].fields
        assert set(facts) == set(shapes(getattr(v1, name))), name


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            {"spec": {"containers": [{"image": "b"}]}},
            "map: map[image:b] does not contain declared merge key: name",
        ),
        (
            {"metadata": {"$patch": "bogus"}},
            "unknown patch type: bogus in map: map[$patch:bogus]",
        ),
        (
            {"spec": {"$retainKeys": "containers"}},
            "invalid patch format of retainKeys",
        ),
    ],
)
def test_a_patch_in_a_wrong_format_is_a_bad_request(patch: dict[str, Any], message: str) -> None:
    with pytest.raises(PatchError) as caught:
        strategic.apply("Pod", {"spec": {"containers": [{"name": "a"}]}, "metadata": {}}, patch)
    assert str(caught.value) == message
    assert caught.value.code == 400
