"""Rows, revisions, rollout texts and content of objects of any kind."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from picture_objects import DEPLOYMENTS, served
from tui_scene import now, pod, status

from podtui.api.v1 import ObjectMeta, OwnerReference, PersistentVolumeClaimVolumeSource, Volume
from podtui.client.any_kind import AnyObject, TableColumn, TableRow
from podtui.tui.views.objects.content import entries, manifest_of, masked, merge_patch, object_yaml
from podtui.tui.views.objects.table_rows import table_columns, table_row
from podtui.tui.views.objects.workloads import pods_of, revisions, rollout_text
from podtui.tui.widgets.cells import ValueKind, Visibility


def row(**cells: Any) -> TableRow:
    columns = tuple(TableColumn(name.replace("_", " ")) for name in cells)
    return TableRow(ObjectMeta(name="x", namespace="default"), tuple(cells.values()), columns)


def cells_of(shown: TableRow) -> dict[str, str]:
    columns = table_columns([shown])
    drawn = table_row(shown, columns, now())
    return {
        column.key: cell.shown(now() + 60)
        for column, cell in zip(columns, drawn.cells, strict=True)
    }


def test_columns_know_their_values() -> None:
    rows, _ = served()[DEPLOYMENTS]
    columns = {column.title: column for column in table_columns(rows)}
    assert columns["READY"].kind is ValueKind.SHARE
    assert columns["UP-TO-DATE"].kind is ValueKind.COUNT
    assert columns["AGE"].kind is ValueKind.AGE
    assert columns["SELECTOR"].shown is Visibility.WIDE
    assert table_row(rows[0], table_columns(rows), now()).fault
    assert not table_row(rows[1], table_columns(rows), now()).fault


def test_times_advance_without_another_answer() -> None:
    assert cells_of(row(Name="x", Last_Schedule="30s"))["last-schedule"] == "90s"
    assert cells_of(row(Name="x", Last_Schedule="<none>"))["last-schedule"] == "<none>"
    assert cells_of(row(Name="x", Status="Running", Duration="30s"))["duration"] == "90s"
    assert cells_of(row(Name="x", Status="Complete", Duration="30s"))["duration"] == "30s"


def test_cells_are_clean() -> None:
    assert "\x1b" not in cells_of(row(Name="a\x1b[31mb", Status="\x1b]0;x\x07y"))["status"]


# --- workloads


def item(kind: str, name: str = "web", *, owner: str = "", **parts: Any) -> AnyObject:
    owners = (OwnerReference(apiVersion="v1", kind="X", name=owner, uid=f"uid-{owner}",
                             controller=True),) if owner else ()  # fmt: skip
    annotations = parts.pop("annotations", {})
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", ownerReferences=owners,
                      annotations=annotations)  # fmt: skip
    content = {"kind": kind, "metadata": {"name": name, "generation": 2}, **parts}
    return AnyObject(meta, content)


def owned_pod(name: str, owner: str) -> Any:
    from msgspec import structs

    made = pod(name, status())
    owners = (OwnerReference(apiVersion="v1", kind="X", name=owner, uid=f"uid-{owner}",
                             controller=True),)  # fmt: skip
    return structs.replace(made, metadata=structs.replace(made.metadata, ownerReferences=owners))


def test_pods_of_a_workload_are_those_that_it_owns() -> None:
    pods = [owned_pod("a", "web-1"), owned_pod("b", "other"), owned_pod("c", "web"), pod("d")]
    between = [item("ReplicaSet", "web-1", owner="web"), item("ReplicaSet", "other", owner="api")]
    found = pods_of(item("Deployment"), between, pods)
    assert [each.metadata.name for each in found] == ["a-n1", "c-n1"]


def test_pods_of_a_service_are_those_that_it_selects() -> None:
    pods = [pod("web"), pod("api")]
    chosen = item("Service", spec={"selector": {"app": "web"}})
    assert [each.metadata.name for each in pods_of(chosen, (), pods)] == ["web-n1"]
    assert pods_of(item("Service", spec={}), (), pods) == []


def test_pods_of_a_claim_are_those_that_use_it() -> None:
    from msgspec import structs

    made = pod("db")
    volume = Volume(
        name="data", persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName="data")
    )
    using = structs.replace(made, spec=structs.replace(made.spec, volumes=(volume,)))
    found = pods_of(item("PersistentVolumeClaim", "data"), (), [using, pod("web")])
    assert [each.metadata.name for each in found] == ["db-n1"]


def test_revisions_of_a_stateful_set() -> None:
    owner = item("StatefulSet", status={"updateRevision": "web-a"})
    template = {"$patch": "replace", "spec": {"containers": [{"name": "c", "image": "db:1"}]}}
    history = [
        item("ControllerRevision", name, owner="web", revision=number,
             data={"spec": {"template": template}})
        for name, number in (("web-a", 2), ("web-b", 1))
    ]  # fmt: skip
    newest, oldest = revisions(owner, history)
    assert (newest.number, newest.current, newest.images) == (2, True, ["db:1"])
    assert not oldest.current
    patch = oldest.rollback()
    assert patch["spec"]["template"]["$patch"] == "replace"


DEPLOYED = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
STATEFUL = {"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 3,
            "currentReplicas": 3, "updateRevision": "r2", "currentRevision": "r2"}  # fmt: skip
DAEMONS = {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
           "numberAvailable": 3}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        ("Deployment", {}, "Waiting for deployment spec update to be observed..."),
        ("Deployment", DEPLOYED, 'deployment "web" successfully rolled out'),
        ("Deployment", DEPLOYED | {"updatedReplicas": 1},
         ('Waiting for deployment "web" rollout to finish: 1 out of 3 new replicas have been'
          " updated...")),
        ("Deployment", DEPLOYED | {"replicas": 4},
         ('Waiting for deployment "web" rollout to finish: 1 old replicas are pending'
          " termination...")),
        ("Deployment", DEPLOYED | {"availableReplicas": 2},
         ('Waiting for deployment "web" rollout to finish: 2 of 3 updated replicas are'
          " available...")),
        ("Deployment", DEPLOYED | {"conditions": [{"reason": "ProgressDeadlineExceeded"}]},
         'deployment "web" exceeded its progress deadline'),
        ("StatefulSet", STATEFUL, "statefulset rolling update complete 3 pods at revision r2..."),
        ("StatefulSet", STATEFUL | {"readyReplicas": 1}, "Waiting for 2 pods to be ready..."),
        ("StatefulSet", STATEFUL | {"currentRevision": "r1", "updatedReplicas": 1},
         "waiting for statefulset rolling update to complete 1 pods at revision r2..."),
        ("DaemonSet", DAEMONS, 'daemon set "web" successfully rolled out'),
        ("DaemonSet", DAEMONS | {"numberAvailable": 1},
         'Waiting for daemon set "web" rollout to finish: 1 of 3 updated pods are available...'),
    ],
)  # fmt: skip
def test_the_rollout_is_described_as_by_kubectl(
    kind: str, status: dict[str, Any], text: str
) -> None:
    assert rollout_text(item(kind, spec={"replicas": 3}, status=status))[0] == text


# --- content


def secret(value: bytes, **annotations: str) -> dict[str, Any]:
    data = {"key": base64.b64encode(value).decode()}
    meta = {"name": "login", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


def test_a_secret_keeps_its_values_hidden() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"key":"b3Blbg=="}}'}
    content = secret(b"open", **applied)
    text = object_yaml(AnyObject(ObjectMeta(name="login"), content))
    assert "(4 bytes)" in text
    assert "b3Blbg==" not in text
    assert content["data"]["key"] == "b3Blbg=="  # only the text is without it
    assert masked(secret(b"new"), secret(b"old"))["data"]["key"].endswith("(3 bytes, changed)")
    assert masked(secret(b"old"), secret(b"old"))["data"]["key"].endswith("(3 bytes)")


def test_entries_are_decoded() -> None:
    (text,) = entries(AnyObject(ObjectMeta(), secret("grün".encode())))
    (binary,) = entries(AnyObject(ObjectMeta(), secret(b"\xff\x00")))
    assert (text.text, binary.text, binary.value) == ("grün", None, b"\xff\x00")
    plain = {"kind": "ConfigMap", "data": {"a": "b"}, "binaryData": {"c": "AA=="}}
    assert [each.value for each in entries(AnyObject(ObjectMeta(), plain))] == [b"b", b"\x00"]


def test_a_manifest_has_nothing_of_the_server() -> None:
    meta = {"name": "a", "uid": "1", "resourceVersion": "2", "labels": {"b": "c"}}
    content = {"kind": "X", "metadata": meta, "spec": {}, "status": {"ready": True}}
    assert manifest_of(content) == {
        "kind": "X", "metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {},
    }  # fmt: skip


def applied(patch: Any, target: Any) -> Any:
    """Apply a JSON merge patch, as RFC 7386 defines it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(value, result.get(name))
    return result


VALUES = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@examples(200)
@given(before=DOCUMENTS, after=DOCUMENTS)
def test_a_merge_patch_leads_from_one_document_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert applied(merge_patch(before, after), before) == after
    assert merge_patch(after, after) == {}
