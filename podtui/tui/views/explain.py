"""The documentation of a field as lines and table rows, and the field at a line of a manifest."""

from __future__ import annotations

from itertools import islice
from typing import Final

from podtui.api.local import Manifest
from podtui.api.places import read_places
from podtui.explain.explanation import Child, Explanation
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Line,
    Row,
    Span,
    content_of,
    text_field,
    wrap,
)

FIELD_COLUMNS: Final = (
    Column("field", "FIELD", 100, minimum=20, maximum=50, flexible=True,
           of=lambda child: ColumnValue(
               Cell(child.name + (" ›" if child.has_fields else ""), "name"),
               child.name, child.name)),
    Column("type", "TYPE", 50, maximum=22, of=lambda child: text_field(child.type, "muted")),
    Column("required", "REQUIRED", 60,
           of=lambda child: (text_field("yes", "warning") if child.required
                             else text_field("-", "muted"))),
    Column("support", "SUPPORT", 80, of=lambda child: text_field(*SUPPORT_CELLS[child.support])),
    Column("description", "DESCRIPTION", 90, minimum=32, maximum=400, flexible=True, filling=True,
           of=lambda child: text_field(child.description, "soft")),
)  # fmt: skip
SUPPORT_CELLS: Final = {
    "honoured": ("● supported", "running"),
    "no-effect": ("▲ no effect", "warning"),
    "refused": ("✖ refused", "error"),
    "mixed": ("◐ partly", "unready"),
    "": ("-", "muted"),
}
KEY: Final = 9
_SEPARATOR: Final = "---"


def explanation_lines(explanation: Explanation, width: int) -> list[Line]:
    """Return the documentation of a field without its children, at most ``width`` cells wide."""
    lines: list[Line] = [
        (
            Span(explanation.path or "Pod", "name"),
            Span(f"  {explanation.type}", "key"),
            Span("  required" if explanation.required else "", "warning"),
        )
    ]
    if explanation.description:
        lines += wrap((Span(explanation.description),), width)
    pairs = (
        ("default", explanation.default, ""),
        ("values", ", ".join(value or '""' for value in explanation.values), ""),
    )
    if explanation.support:
        glyph, tone = SUPPORT_CELLS[explanation.support]
        text = f"{glyph[:2]}{explanation.support_text}"
        lines += wrap((Span(f"{'here':<{KEY}} ", "key"), Span(text, tone)), width, indent=KEY + 1)
    for key, text, tone in pairs:
        if text:
            lines += wrap((Span(f"{key:<{KEY}} ", "key"), Span(text, tone)), width, indent=KEY + 1)
    lines += _several("Rules", explanation.rules, width)
    lines += _several("Unlike the kubelet", explanation.departures, width)
    if explanation.example is not None:
        example = explanation.example
        lines += [
            (),
            (Span("Example", "heading"), Span(f"  {example.file}:{example.line}", "muted")),
        ]
        lines += [(Span(f"  {line}", "soft"),) for line in example.text.splitlines()]
    return lines


def _several(title: str, texts: tuple[str, ...], width: int) -> list[Line]:
    if not texts:
        return []
    lines: list[Line] = [(), (Span(title, "heading"),)]
    for text in texts:
        lines += wrap((Span("  · ", "muted"), Span(text, "soft")), width, indent=4)
    return lines


def field_row(child: Child) -> Row:
    """Return the row for `FIELD_COLUMNS`."""
    fields = content_of(FIELD_COLUMNS, child)
    return Row(child.path, *fields, search=f"{child.name} {child.description}")


def field_at(manifest: Manifest, line: int) -> str:
    """Return the path, without indexes, of the field that a line (from 1) of a manifest defines or
    continues; empty if it belongs to no field of the pod.
    """
    name, above = "", 0
    for path, position in read_places(manifest.status.places).items():
        if position.key is None or position.key[0] > line:
            continue
        # Take the first field of a line, and the last line at which a field begins.
        if position.key[0] > above:
            name, above = ".".join(step for step in path if isinstance(step, str)), position.key[0]
    between = islice(manifest.spec.text.splitlines(), above, line)
    return "" if any(text.startswith(_SEPARATOR) for text in between) else name
