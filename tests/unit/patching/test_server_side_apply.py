"""Server-side apply compared with histories recorded from the API server's Go packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api import v1
from podtui.patching import server_side_apply
from podtui.patching.errors import ApplyConflict, PatchError
from podtui.patching.field_set import FieldSet, decode, path_text
from podtui.patching.managed_fields import MOST_UPDATERS

RECORDED = [
    json.loads(line)
    for line in Path(__file__).with_name("recorded_applies.jsonl").read_text().splitlines()
]
Document = dict[str, Any]


def stored(kind: str, document: Document) -> Document:
    """Return a document as the store returns it: through its type, with a UID."""
    struct = getattr(v1, kind)
    typed = json.loads(msgspec.json.encode(msgspec.convert(document, struct)))
    metadata = {**typed.get("metadata", {}), "uid": "u"}
    return {**typed, "apiVersion": "v1", "kind": kind, "metadata": metadata}


def comparable(document: Document) -> Document:
    """Return a document without times, ids and empty parts; its managers sorted by name."""
    found = json.loads(json.dumps(document))
    metadata = found.setdefault("metadata", {})
    metadata.pop("uid", None)
    metadata.pop("creationTimestamp", None)
    for entry in metadata.get("managedFields", []):
        entry.pop("time", None)
    if "managedFields" in metadata:
        metadata["managedFields"].sort(
            key=lambda entry: [entry["manager"], entry["operation"], entry.get("subresource", "")]
        )
    return {key: value for key, value in found.items() if value != {} or key == "metadata"}


def updated(kind: str, live: Document | None, new: Document, **who: Any) -> Document:
    """Return a created or updated document with its managers."""
    entries = server_side_apply.update_managers(kind, live, new, **who)
    metadata = {name: value for name, value in new["metadata"].items() if name != "managedFields"}
    return {**new, "metadata": metadata | ({"managedFields": entries} if entries else {})}


def replay(case: dict[str, Any]) -> list[Document]:
    kind, live = case["kind"], None
    results: list[Document] = []
    for number, step in enumerate(case["steps"]):
        time = f"2024-01-01T00:00:{number:02}Z"
        who = {"manager": step["manager"], "time": time, "subresource": step["subresource"]}
        try:
            if step["op"] == "apply":
                after = server_side_apply.apply(
                    kind, live, step["object"], force=step["force"], **who
                )
            else:
                new = step["object"]
                if live is not None:
                    new = {**new, "metadata": {**new["metadata"], "uid": "u"}}
                after = updated(kind, live, new, **who)
        except (PatchError, ApplyConflict) as error:
            results.append({"error": str(error)})
            continue
        live = stored(kind, after)
        results.append(comparable(live))
    return results


def test_recorded_histories_end_the_same() -> None:
    assert len(RECORDED) >= 50
    for case in RECORDED:
        assert replay(case) == case["results"], case


def config_map(**data: str) -> Document:
    filled = {"data": data} if data else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **filled}


def applied(live: Document | None, document: Document, manager: str, **options: Any) -> Document:
    return server_side_apply.apply(
        "ConfigMap", live, document, manager=manager, time="2024-01-01T00:00:00Z", **options
    )


def test_a_conflict_names_the_manager_and_the_field() -> None:
    live = applied(None, config_map(x="1", y="1"), "one")
    with pytest.raises(ApplyConflict) as caught:
        applied(live, config_map(x="2", y="2"), "two")
    assert str(caught.value) == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.x\n- .data.y'
    )
    assert [(c.manager, c.field) for c in caught.value.conflicts] == [
        ('"one"', ".data.x"),
        ('"one"', ".data.y"),
    ]
    forced = applied(live, config_map(x="2"), "two", force=True)
    assert forced["data"] == {"x": "2", "y": "1"}


def test_a_field_that_is_no_longer_applied_is_removed() -> None:
    live = applied(None, config_map(x="1", y="1"), "one")
    assert applied(live, config_map(x="1"), "one")["data"] == {"x": "1"}


def test_a_field_that_another_manager_shares_stays() -> None:
    live = applied(applied(None, config_map(x="1"), "one"), config_map(x="1"), "two")
    live = applied(live, config_map(), "one")
    assert live["data"] == {"x": "1"}
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["two"]


def test_applying_the_same_again_changes_nothing() -> None:
    live = applied(None, config_map(x="1"), "one")
    again = server_side_apply.apply(
        "ConfigMap", live, config_map(x="1"), manager="one", time="2030-01-01T00:00:00Z"
    )
    assert again == live


def test_kubectl_takes_over_what_client_side_apply_set() -> None:
    last = json.dumps(config_map(x="1"))
    annotations = {server_side_apply.LAST_APPLIED: last}
    created = {**config_map(x="1"), "metadata": {"name": "a", "annotations": annotations}}
    live = updated(
        "ConfigMap", None, created, manager="kubectl-client-side-apply", time="2024-01-01T00:00:00Z"
    )
    with pytest.raises(ApplyConflict, match=r'"kubectl-client-side-apply" using v1: \.data\.x'):
        applied(live, config_map(x="2"), "other")
    after = applied(live, config_map(x="2"), "kubectl")
    assert after["data"] == {"x": "2"}
    annotation = after["metadata"]["annotations"][server_side_apply.LAST_APPLIED]
    assert json.loads(annotation) == config_map(x="2")


def test_a_template_that_is_held_by_value_is_owned_only_below() -> None:
    template = {"spec": {"restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"template": template},
    }

    def entries(new: Document) -> list[Document]:
        return server_side_apply.update_managers(
            "Job", None, new, manager="one", time="2024-01-01T00:00:00Z"
        )

    [entry] = entries(job)
    assert entry["fieldsV1"] == {"f:spec": {"f:template": {"f:spec": {"f:restartPolicy": {}}}}}
    labelled = {**template, "metadata": {"labels": {"a": "b"}}}
    [entry] = entries({**job, "spec": {"template": labelled}})
    metadata = entry["fieldsV1"]["f:spec"]["f:template"]["f:metadata"]
    assert metadata == {"f:labels": {".": {}, "f:a": {}}}


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(
        PatchError, match=r"\(/a; /v1, Kind=ConfigMap\): .bogus: field not declared"
    ):
        applied(None, {**config_map(), "bogus": 1}, "one")


def test_the_oldest_updaters_are_merged() -> None:
    live: Document | None = None
    data: dict[str, str] = {}
    for number in range(MOST_UPDATERS + 3):
        data[f"k{number}"] = "1"
        managers = {} if live is None else {"managedFields": live["metadata"]["managedFields"]}
        new = {**config_map(**data), "metadata": {"name": "a", "uid": "u", **managers}}
        live = updated(
            "ConfigMap", live, new, manager=f"m{number:02}", time=f"2024-01-01T00:00:{number:02}Z"
        )
    assert live is not None
    entries = live["metadata"]["managedFields"]
    assert len(entries) == MOST_UPDATERS
    ancient = next(entry for entry in entries if entry["manager"] == "ancient-changes")
    assert {"f:k0", "f:k1", "f:k2", "f:k3"} <= set(ancient["fieldsV1"]["f:data"])


def test_an_empty_list_of_managers_resets_them() -> None:
    live = applied(None, config_map(x="1"), "one")
    new = {**live, "metadata": {**live["metadata"], "managedFields": [{}]}}
    after = updated("ConfigMap", live, new, manager="two", time="2024-01-01T00:00:01Z")
    assert "managedFields" not in after["metadata"]


STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "v:1", "i:0"])
PATHS = st.lists(st.lists(STEPS, min_size=1, max_size=3).map(tuple), max_size=6)


def set_of(paths: list[tuple[str, ...]]) -> FieldSet:
    found = FieldSet()
    for path in paths:
        found.add(path)
    return found


@given(PATHS, PATHS)
def test_field_sets_behave_as_sets_of_paths(
    left: list[tuple[str, ...]], right: list[tuple[str, ...]]
) -> None:
    ours, theirs = set_of(left), set_of(right)
    assert set(ours) == set(left)
    assert set(ours | theirs) == set(left) | set(right)
    assert set(ours & theirs) == set(left) & set(right)
    assert set(ours - theirs) == set(left) - set(right)
    assert all(path in ours for path in left)
    assert set(decode(ours.encode())) == set(left)


def test_a_path_is_shown_as_in_messages() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"x"', "i:2")
    assert path_text(path) == '.spec[containerPort=80,protocol="TCP"][="x"][2]'
