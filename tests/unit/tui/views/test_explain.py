"""The documentation of a field on the screen: by command, from a manifest line, and field by
field."""

from __future__ import annotations

import pytest
from tui_records import with_places

from podtui.explain.explanation import explain
from podtui.tui.views.explain import explanation_lines, field_at, field_row
from podtui.tui.widgets.cells import line_width


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
    explanation = explain("spec.containers.ports.hostPort")
    lines = explanation_lines(explanation, width)
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
