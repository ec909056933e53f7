"""Who connects to whom, as rows of a table: the Services that manifests name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtui.tui.views.labels import name_label
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    ValueKind,
    content_of,
    text_field,
)
from podtui.tui.widgets.sanitize import clean
from podtui.why.connections import Connection
from podtui.why.inventory import object_name

GUESS: Final = "guess"


def source_name(edge: Connection) -> str:
    """Return ``deploy/web``, with the namespace unless that is "default"."""
    meta = edge.item.metadata
    return name_label(meta.namespace, object_name(edge.item))


def _target(edge: Connection) -> ColumnValue:
    name = name_label(edge.namespace, edge.name)
    return text_field(name, "name" if edge.service is not None else "error")


def _port(edge: Connection) -> ColumnValue:
    if not edge.port:
        return ColumnValue(Cell("-", "muted"), 0, None)
    return ColumnValue(Cell(str(edge.port)), edge.port, float(edge.port))


def _state(edge: Connection) -> ColumnValue:
    if edge.problem:
        return text_field("✖ broken" if edge.is_sure else "▲ broken?",
                          "error" if edge.is_sure else "warning")  # fmt: skip
    return text_field("● ok", "running")


def _problem(edge: Connection) -> ColumnValue:
    hint = f"; perhaps {edge.near} is meant" if edge.near else ""
    guess = "" if edge.is_sure else f"({GUESS}) "
    text = f"{guess}{edge.problem}{hint}" if edge.problem else guess.strip()
    return text_field(clean(text), "soft" if edge.problem else "muted")


def _source(edge: Connection) -> ColumnValue:
    container = f"{edge.container}: " if edge.container else ""
    return text_field(clean(f"{container}{edge.source}"), "muted")


MAP_COLUMNS: Final = (
    Column("from", "FROM", 100, minimum=12, maximum=50, flexible=True, middle_cut=True,
           of=lambda edge: text_field(source_name(edge), "name")),
    Column("to", "TO", 95, minimum=10, maximum=50, flexible=True, middle_cut=True, of=_target),
    Column("port", "PORT", 80, align="right", kind=ValueKind.COUNT, of=_port),
    Column("state", "STATE", 90, minimum=9, maximum=9, of=_state),
    Column("source", "NAMED IN", 70, minimum=14, maximum=60, flexible=True, of=_source),
    Column("problem", "PROBLEM", 75, minimum=30, maximum=400, flexible=True, filling=True,
           of=_problem),
)  # fmt: skip


def map_rows(edges: Sequence[Connection]) -> dict[str, tuple[Connection, Row]]:
    """Return the connections with their rows, by the keys of the rows."""
    result: dict[str, tuple[Connection, Row]] = {}
    for edge in edges:
        target = f"{edge.namespace}/{edge.name}:{edge.port}"
        key = f"{edge.item.metadata.uid}/{edge.container}>{target}/{edge.source}"
        while key in result:
            key += "+"
        search = " ".join(
            map(clean, (source_name(edge), edge.host, target, edge.source, edge.problem))
        )
        row = Row(key, *content_of(MAP_COLUMNS, edge), search=search, fault=bool(edge.problem))
        result[key] = (edge, row)
    return result
