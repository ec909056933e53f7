"""Where a pod's fields are in its text, written small and read back."""

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


def test_every_field_has_the_place_of_its_key_and_of_its_value() -> None:
    found = places(TEXT)
    assert found["metadata", "name"] == FieldPlace((4, 3), (4, 9))
    assert found["spec", "containers", 0] == FieldPlace(None, (8, 7))
    assert found["spec", "containers", 0, "image"] == FieldPlace((9, 7), (9, 14))
    assert found["spec", "containers", 0, "ports", 0, "containerPort"].value == (11, 24)
    assert found["metadata", "labels", "app.kubernetes.io/name"].key == (5, 12)


def test_json_has_places_too() -> None:
    text = '{"apiVersion": "v1", "kind": "Pod",\n "metadata": {"name": "web"}}'
    assert places(text)["metadata", "name"] == FieldPlace((2, 15), (2, 23))


def test_a_pod_in_a_later_document_has_the_places_of_the_file() -> None:
    before = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n---\n"
    assert places(before + TEXT)["metadata", "name"].key == (9, 3)


def test_a_broken_pod_has_places_as_well() -> None:
    found = places(TEXT.replace("image:", "imago:"))
    assert found["spec", "containers", 0, "imago"].key == (9, 7)


def test_there_are_never_more_than_so_many() -> None:
    many = "".join(f"        - {{name: V{n}, value: x}}\n" for n in range(1500))
    text = TEXT.replace("      ports:", f"      env:\n{many}      ports:")
    result = read_manifest("/m/web.yaml", text.encode(), node_name="n1")
    assert result.pods
    assert len(read_places(result.places)) == MAX_PLACES


def test_keys_that_would_break_the_lines_are_left_out_with_all_below_them() -> None:
    found = places(TEXT.replace("{app.kubernetes.io/name: web}", '{"a b": x, "#1": y, c: z}'))
    assert [path[-1] for path in found if path[:2] == ("metadata", "labels")] == ["labels", "c"]


@pytest.mark.parametrize("text", ["", "x", "1 a", "1 a 1 2 3 x", "9 #0 1 1", "-1 a 1 1 1 1"])
def test_what_is_none_of_ours_is_passed_over(text: str) -> None:
    read_places(text)


@pytest.mark.parametrize(
    "text", ["spec.containers[0].image", "metadata.labels[a.b/c]", "spec.volumes[12]"]
)
def test_paths_are_written_and_read_back(text: str) -> None:
    assert field_text(field_path(text)) == text
