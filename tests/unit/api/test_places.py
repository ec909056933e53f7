"""Positions of a pod's fields in its text, in their compact form and read back."""

from __future__ import annotations

import pytest

from podtui.api.places import MAX_PLACES, FieldPlace, field_path, field_text, read_places
from podtui.manifest.diagnose import read_manifest

TEXT = """\
apiVersion: v1
kind: Pod
metadata:
  name: web   # the name
  labels: {app.kubernetes.io/name: web}
spec:
  containers:
    - name: c
      image: busybox:1.36
      ports:
      - containerPort: 80
"""


def places(text: str) -> dict[tuple[str | int, ...], FieldPlace]:
    result = read_manifest("/m/web.yaml", text.encode(), node_name="n1")
    return read_places(result.places)


def test_every_field_has_the_position_of_its_key_and_value() -> None:
    found = places(TEXT)
    assert found["metadata", "name"] == FieldPlace((4, 3), (4, 9))
    assert found["spec", "containers", 0] == FieldPlace(None, (8, 7))
    assert found["spec", "containers", 0, "image"] == FieldPlace((9, 7), (9, 14))
    assert found["spec", "containers", 0, "ports", 0, "containerPort"].value == (11, 24)
    assert found["metadata", "labels", "app.kubernetes.io/name"].key == (5, 12)


def test_json_has_positions() -> None:
    text = '{"apiVersion": "v1", "kind": "Pod",\n "metadata": {"name": "web"}}'
    assert places(text)["metadata", "name"] == FieldPlace((2, 15), (2, 23))


def test_a_pod_in_a_later_document_has_positions_in_the_file() -> None:
    before = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n---\n"
    assert places(before + TEXT)["metadata", "name"].key == (9, 3)


def test_an_invalid_pod_has_positions() -> None:
    found = places(TEXT.replace("image:", "imago:"))
    assert found["spec", "containers", 0, "imago"].key == (9, 7)


def test_the_number_of_positions_is_limited() -> None:
    many = "".join(f"        - {{name: V{n}, value: x}}\n" for n in range(1500))
    text = TEXT.replace("      ports:", f"      env:\n{many}      ports:")
    result = read_manifest("/m/web.yaml", text.encode(), node_name="n1")
    assert result.pods
    assert len(read_places(result.places)) == MAX_PLACES


def test_keys_with_line_breaks_are_left_out_with_their_subtree() -> None:
    found = places(TEXT.replace("{app.kubernetes.io/name: web}", '{"a b": x, "#1": y, c: z}'))
    assert [path[-1] for path in found if path[:2] == ("metadata", "labels")] == ["labels", "c"]


@pytest.mark.parametrize("text", ["", "x", "1 a", "1 a 1 2 3 x", "9", "1 #x 1 1"])
def test_foreign_lines_are_ignored(text: str) -> None:
    line = "1 kind 2 3 2 9"
    assert read_places(f"{text}\n{line}") == read_places(line)
    assert read_places(line)


@pytest.mark.parametrize("text", ["9 #0 1 1", "-1 a 1 1 1 1"])
def test_a_wrong_depth_is_no_error(text: str) -> None:
    assert len(read_places(text)) == 1


@pytest.mark.parametrize(
    "text", ["spec.containers[0].image", "metadata.labels[a.b/c]", "spec.volumes[12]"]
)
def test_paths_round_trip(text: str) -> None:
    assert field_text(field_path(text)) == text
