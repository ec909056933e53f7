"""Edits of a manifest's text change only what is requested."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.places import field_path, read_places, write_places
from podtui.editing.source import Source, Value
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.reader import read_document
from podtui.why import Edit, EditError, apply_edits, diff_lines

PLAIN = """\
# what it is
apiVersion: v1
kind: Pod
metadata:
  name: web   # the name
spec:
  containers:
  - name: c  # first
    image: 'busybox:1.36'
    command: [sh, -c, "sleep 1"]
    # ports
    ports:
    - containerPort: 80
      hostPort: 8080  # outside
      name: http
    env:
    - name: TEXT
      value: |
        many
        lines

    resources: {limits: {memory: 16Mi, cpu: 1}}
    tty: true
"""
SHARED = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: &grace 5
  activeDeadlineSeconds: *grace
  containers:
  - &first
    name: a
    image: busybox:1
    resources: &small
      limits:
        memory: 16Mi
  - <<: *first
    name: b
    resources: *small
"""
C = "spec.containers[0]"


def source_of(text: str) -> Source:
    result = read_manifest("/m/x.yaml", text.encode(), node_name="n1")
    assert result.pods, result.diagnostics
    return Source(result.text, read_places(result.places))


def set_in(text: str, field: str, value: Value, after: str = "") -> str:
    return apply_edits(text, source_of(text).set(field_path(field), value, after=after))


def changed(before: str, after: str) -> list[str]:
    """Return the removed and the added lines."""
    assert after != before
    old, new = before.splitlines(), after.splitlines()
    return [f"-{line}" for line in old if line not in new] + [
        f"+{line}" for line in new if line not in old
    ]


@pytest.mark.parametrize(
    ("field", "value", "came"),
    [
        ("metadata.name", "other", "+  name: other   # the name"),
        (f"{C}.image", "a:2", "+    image: 'a:2'"),
        (f"{C}.command[2]", "exit", '+    command: [sh, -c, "exit"]'),
        (f"{C}.command[0]", "ash", '+    command: [ash, -c, "sleep 1"]'),
        (f"{C}.ports[0].hostPort", 8081, "+      hostPort: 8081  # outside"),
        (f"{C}.resources.limits.memory", "32Mi",
         "+    resources: {limits: {memory: 32Mi, cpu: 1}}"),
        (f"{C}.resources.limits.cpu", 2, "+    resources: {limits: {memory: 16Mi, cpu: 2}}"),
        (f"{C}.tty", False, "+    tty: false"),
        ("metadata.name", "yes", '+  name: "yes"   # the name'),
    ],
)  # fmt: skip
def test_a_scalar_is_replaced(field: str, value: Value, came: str) -> None:
    after = set_in(PLAIN, field, value)
    assert [line for line in changed(PLAIN, after) if line[0] == "+"] == [came]
    assert len(changed(PLAIN, after)) == 2


@pytest.mark.parametrize(
    ("field", "value", "came"),
    [
        (f"{C}.imagePullPolicy", "Never", ["+    imagePullPolicy: Never"]),
        (f"{C}.resources.requests.memory", "8Mi",
         ["-    resources: {limits: {memory: 16Mi, cpu: 1}}",
          "+    resources: {requests: {memory: 8Mi}, limits: {memory: 16Mi, cpu: 1}}"]),
        (f"{C}.securityContext.runAsUser", 65534,
         ["+    securityContext:", "+      runAsUser: 65534"]),
        ("spec.restartPolicy", "Never", ["+  restartPolicy: Never"]),
        ("metadata.labels.a", "b", ["+  labels:", "+    a: b"]),
    ],
)  # fmt: skip
def test_a_missing_field_is_added(field: str, value: Value, came: list[str]) -> None:
    assert changed(PLAIN, set_in(PLAIN, field, value)) == came


def test_a_new_field_is_added_below_its_parent() -> None:
    lines = set_in(PLAIN, f"{C}.imagePullPolicy", "Never", after="image").splitlines()
    assert lines[9:11] == ["    imagePullPolicy: Never", '    command: [sh, -c, "sleep 1"]']


@pytest.mark.parametrize(
    ("field", "gone"),
    [
        (f"{C}.tty", ["-    tty: true"]),
        (f"{C}.ports[0].hostPort", ["-      hostPort: 8080  # outside"]),
        (f"{C}.ports", ["-    ports:", "-    - containerPort: 80",
                        "-      hostPort: 8080  # outside", "-      name: http"]),
        (f"{C}.env", ["-    env:", "-    - name: TEXT", "-      value: |", "-        many",
                      "-        lines"]),
        (f"{C}.ports[0].containerPort", ["-    - containerPort: 80",
                                         "-      hostPort: 8080  # outside",
                                         "+    - hostPort: 8080  # outside"]),
        (f"{C}.resources.limits.cpu", ["-    resources: {limits: {memory: 16Mi, cpu: 1}}",
                                       "+    resources: {limits: {memory: 16Mi}}"]),
        (f"{C}.resources.limits.memory", ["-    resources: {limits: {memory: 16Mi, cpu: 1}}",
                                          "+    resources: {limits: {cpu: 1}}"]),
    ],
)  # fmt: skip
def test_a_field_is_removed_with_its_subtree(field: str, gone: list[str]) -> None:
    edit = source_of(PLAIN).remove(field_path(field))
    assert edit is not None
    after = apply_edits(PLAIN, (edit,))
    assert changed(PLAIN, after) == gone
    read_document(after.encode())


@pytest.mark.parametrize(
    "field",
    [
        "spec.terminationGracePeriodSeconds",  # an alias elsewhere would change with it
        "spec.containers[1].image",  # merged from elsewhere
        "spec.containers[1].resources.limits.memory",  # an alias
        "spec.containers[0].resources.limits",  # not a scalar
        "spec.containers[0].image",  # merged into another container
        "spec.containers[0].tty",
        "spec.containers[3].image",
    ],
)
def test_aliased_text_is_not_edited(field: str) -> None:
    assert source_of(SHARED).set(field_path(field), 7) == ()


def test_an_alias_is_replaced_by_a_value() -> None:
    after = set_in(SHARED, "spec.activeDeadlineSeconds", 7)
    assert changed(SHARED, after) == [
        "-  activeDeadlineSeconds: *grace",
        "+  activeDeadlineSeconds: 7",
    ]


def test_an_unused_anchor_is_kept() -> None:
    text = SHARED.replace("*grace", "9")
    after = set_in(text, "spec.terminationGracePeriodSeconds", 7)
    assert "terminationGracePeriodSeconds: &grace 7\n" in after


def test_json_is_edited_as_json() -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "busybox:1", "tty": True}]},
    }  # fmt: skip
    text = json.dumps(pod, indent=1)
    for field, value in ((f"{C}.image", "a:2"), (f"{C}.securityContext.runAsUser", 7),
                         ("spec.restartPolicy", "Never")):  # fmt: skip
        text = set_in(text, field, value)
    edit = source_of(text).remove(field_path(f"{C}.name"))
    assert edit is None or json.loads(apply_edits(text, (edit,)))
    spec = json.loads(text)["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["containers"][0]["image"] == "a:2"
    assert spec["containers"][0]["securityContext"] == {"runAsUser": 7}


def test_line_breaks_and_byte_order_mark_are_kept() -> None:
    text = "\ufeff" + PLAIN.replace("\n", "\r\n")
    after = set_in(set_in(text, f"{C}.imagePullPolicy", "Never"), "apiVersion", "v2")
    assert after.startswith("\ufeff# what it is\r\napiVersion: v2\r\n")
    assert "\n" not in after.replace("\r\n", "")


def test_a_last_line_without_a_line_feed_can_be_edited() -> None:
    text = PLAIN.rstrip("\n")
    assert set_in(text, f"{C}.stdin", True, after="tty").endswith("    tty: true\n    stdin: true")


def test_a_fix_can_be_written_as_a_shell_line() -> None:
    text = PLAIN.replace('[sh, -c, "sleep 1"]', '["sleep 1"]  # long')
    edit = source_of(text).prepend(field_path(f"{C}.command"), ("sh", "-c"))
    assert edit is not None
    assert 'command: ["sh", "-c", "sleep 1"]  # long' in apply_edits(text, (edit,))


def test_items_are_inserted_with_the_files_line_breaks() -> None:
    text = PLAIN.replace('[sh, -c, "sleep 1"]', "\n    - sleep 1").replace("\n", "\r\n")
    edit = source_of(text).prepend(field_path(f"{C}.command"), ("sh", "-c"))
    assert edit is not None
    after = apply_edits(text, [edit])
    assert '    - "sh"\r\n    - "-c"\r\n    - sleep 1\r\n' in after
    assert "\n" not in after.replace("\r\n", "")


@pytest.mark.parametrize("flow", [False, True])
def test_a_blank_line_is_read_once(flow: bool) -> None:
    """A search that starts again at each space would take minutes."""
    value = "a" + " " * 200_000 + "b"
    args = f"[{value}]" if flow else f"\n    - {value}"
    source = source_of(PLAIN.replace("command:", f"args: {args}\n    command:"))
    found = source.scalar(field_path(f"{C}.args[0]"))
    assert found is not None
    assert found[1] == value


def test_edits_of_another_text_are_refused() -> None:
    edits = source_of(PLAIN).set(field_path(f"{C}.image"), "a:2")
    for other in (PLAIN.replace("busybox", "busybux"), "", "a\n" * 50):
        with pytest.raises(EditError):
            apply_edits(other, edits)


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(EditError):
        apply_edits("abcdef", (Edit(1, 1, "abc", "x"), Edit(1, 2, "bcd", "y")))


def test_a_diff_shows_changes_with_context() -> None:
    edits = source_of(PLAIN).set(field_path(f"{C}.tty"), False)
    assert diff_lines(PLAIN, edits)[1:] == (
        " ",
        "     resources: {limits: {memory: 16Mi, cpu: 1}}",
        "-    tty: true",
        "+    tty: false",
        " ",
    )


@given(st.data())
def test_any_scalar_is_replaced_or_unchanged(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([PLAIN, SHARED]))
    source = source_of(text)
    path = data.draw(st.sampled_from(list(source.places)))
    edits = source.set(path, 7)
    value = read_document(apply_edits(text, edits).encode()).value
    for step in path if edits else ():
        value = value[step]
    assert not edits or value in (7, "7")


@given(st.data())
def test_any_field_is_removed_or_unchanged(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([PLAIN, SHARED]))
    source = source_of(text)
    path = data.draw(st.sampled_from(list(source.places)))
    edit = source.remove(path)
    if edit is None:
        return
    after = read_document(apply_edits(text, (edit,)).encode())
    merged = path[:3] == ("spec", "containers", 1)
    assert path not in after.values or merged
    for other in source.places:
        if other[: len(path)] != path and path[: len(other)] != other:
            assert other in after.values


@given(st.data())
def test_any_fields_and_items_are_removed_together_or_unchanged(
    data: st.DataObject,
) -> None:
    value = {
        "a": [1, {"b": "x, y", "c": [True, "}"]}, "last"],
        "d": {"e": 1, "f": "it's", "g": [1, 2, 3]},
        "h": "end",
    }
    text = data.draw(st.sampled_from([json.dumps(value), json.dumps(value, indent=2), BLOCKS]))
    source = source_of_any(text)
    paths = data.draw(st.sets(st.sampled_from(list(source.places)), min_size=1))
    gone = {path for path in paths if not any(path[:n] in paths for n in range(1, len(path)))}
    edits = source.remove_all(sorted(gone, key=str))
    left = list(scalars(read_document(apply_edits(text, edits).encode()).value))
    kept = [
        scalar
        for path, scalar in paths_of(read_document(text.encode()).value)
        if not any(path[: len(one)] == one for one in gone)
    ]
    # Fields that cannot be removed safely stay, and nothing else is removed.
    assert all(left.count(scalar) >= kept.count(scalar) for scalar in kept)
    if text != BLOCKS:
        assert sorted(map(str, left)) == sorted(map(str, kept))


BLOCKS = """a:
- 1
- b: x, y

  # about c
  c:
  - true
  - "}"
- last
d:
  e: 1
  f: |
    several

    # lines
  g: [1, 2, 3]  # a list
h: end
"""


def source_of_any(text: str) -> Source:
    document = read_document(text.encode())
    return Source(text, read_places(write_places(document.keys, document.values)))


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield each scalar with its path."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from paths_of(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from paths_of(item, (*path, index))
    elif value is not None:
        yield path, value


def scalars(value: Any) -> Iterator[Any]:
    return (scalar for _, scalar in paths_of(value))
