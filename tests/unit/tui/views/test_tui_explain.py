"""The documentation of a field on the screen: by command, from a manifest line, and field by
field."""

from __future__ import annotations

import pytest
from tui_scene import manifest

from podtui.api.local import Manifest
from podtui.api.places import FieldPlace, write_places
from podtui.explain.explanation import explain
from podtui.tui.views.explain import explanation_lines, field_at, field_row
from podtui.tui.widgets.cells import line_width

TEXT = """\
kind: ConfigMap
---
kind: Pod
metadata:
  labels: {app: web}
spec:
  containers:
  - name: web
    image: nginx:1

    args: ["a"]
---
kind: ConfigMap
"""


def with_places(name: str = "web.yaml", pod_name: str = "web-n1") -> Manifest:
    """A manifest whose pod is the second of three documents."""
    import msgspec

    found: dict[tuple[str | int, ...], FieldPlace] = {
        ("kind",): FieldPlace((3, 1), (3, 7)),
        ("metadata",): FieldPlace((4, 1), (5, 3)),
        ("metadata", "labels"): FieldPlace((5, 3), (5, 11)),
        ("metadata", "labels", "app"): FieldPlace((5, 12), (5, 17)),
        ("spec",): FieldPlace((6, 1), (7, 3)),
        ("spec", "containers"): FieldPlace((7, 3), (8, 3)),
        ("spec", "containers", 0): FieldPlace(None, (8, 5)),
        ("spec", "containers", 0, "name"): FieldPlace((8, 5), (8, 11)),
        ("spec", "containers", 0, "image"): FieldPlace((9, 5), (9, 12)),
        ("spec", "containers", 0, "args"): FieldPlace((11, 5), (11, 11)),
    }
    keys = {path: place.key for path, place in found.items() if place.key is not None}
    places = write_places(keys, {path: place.value for path, place in found.items()})
    one = manifest(name, text=TEXT, pod_name=pod_name)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, places=places))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (1, ""),
        (3, "kind"),
        (5, "metadata.labels"),
        (7, "spec.containers"),
        (8, "spec.containers.name"),
        (9, "spec.containers.image"),
        (10, "spec.containers.image"),
        (11, "spec.containers.args"),
        (13, ""),
    ],
)
def test_the_field_of_a_line(line: int, path: str) -> None:
    assert field_at(with_places(), line) == path


@pytest.mark.parametrize("width", [44, 76, 116])
def test_lines_fit_and_are_complete(width: int) -> None:
    said = explain("spec.containers.ports.hostPort")
    lines = explanation_lines(said, width)
    assert all(line_width(line) <= max(width, 40) for line in lines)
    text = " ".join("".join(span.text for span in line) for line in lines)
    for words in ("Supported", "integer", "Rules", "templates/service.yaml"):
        assert words in text


def test_rows_of_fields() -> None:
    rows = {row.key: row for row in map(field_row, explain("spec.containers").fields)}
    name = rows["spec.containers.name"]
    assert [cell.text for cell in name.cells[:4]] == ["name", "string", "yes", "● supported"]
    assert rows["spec.containers.ports"].cells[0].text == "ports ›"
    assert rows["spec.containers.volumeDevices"].cells[3].text == "✖ refused"
