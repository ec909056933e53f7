"""Rows of the events table."""

from __future__ import annotations

from typing import Final

from podtui.api.events import event_count, event_order, last_seen
from podtui.api.times import epoch
from podtui.api.v1 import Event
from podtui.tui.model.model import event_key
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    ValueKind,
    Visibility,
    content_of,
    text_field,
)
from podtui.tui.widgets.format import natural_key
from podtui.tui.widgets.sanitize import clean

MANIFEST_KEY: Final = "manifest:"
"""The prefix of the keys of manifest rows."""


def event_object(event: Event) -> str:
    """Return the pod, with the container if the event names one; for a node, with its kind."""
    involved = event.involvedObject
    if involved.kind == "Node":
        return f"node {clean(involved.name)}"
    _, brace, rest = involved.fieldPath.partition("{")
    container = clean(rest.removesuffix("}")) if brace else ""
    return clean(involved.name) + (f"/{container}" if container else "")


def _is_warning(event: Event) -> bool:
    return event.type == "Warning"


def _seen(event: Event) -> ColumnValue:
    seen = epoch(last_seen(event)) or 0.0
    return ColumnValue(Cell("", "muted", seen), event_order(event), seen)


def _reason(event: Event) -> ColumnValue:
    reason, count = clean(event.reason), event_count(event)
    times = f" ×{count}" if count > 1 else ""
    warning = _is_warning(event)
    cell = Cell(f"{'▲' if warning else '·'} {reason}{times}", "warning" if warning else "reason")
    return ColumnValue(cell, reason, reason)


def _count(event: Event) -> ColumnValue:
    count = event_count(event)
    return ColumnValue(Cell(str(count), "muted"), count, float(count))


def _object(event: Event) -> ColumnValue:
    about = event_object(event)
    return ColumnValue(Cell(about, "muted"), natural_key(about), about)


def _source(event: Event) -> ColumnValue:
    component = clean(event.source.component if event.source else "")
    return text_field(component or clean(event.reportingComponent), "muted")


EVENT_COLUMNS: Final = (
    Column("seen", "SEEN", 80, align="right", descending=True, kind=ValueKind.AGE, of=_seen),
    Column("type", "TYPE", 40, shown=Visibility.ON_REQUEST,
           of=lambda event: text_field(clean(event.type),
                                       "warning" if _is_warning(event) else "muted")),
    Column("reason", "REASON", 90, minimum=14, maximum=32, flexible=True, of=_reason),
    Column("count", "COUNT", 35, align="right", descending=True, kind=ValueKind.COUNT,
           shown=Visibility.ON_REQUEST, of=_count),
    Column("object", "OBJECT", 60, minimum=12, maximum=34, flexible=True, of=_object),
    Column("source", "SOURCE", 30, maximum=24, shown=Visibility.WIDE, of=_source),
    Column("message", "MESSAGE", 100, minimum=16, maximum=2000, flexible=True, filling=True,
           of=lambda event: text_field(clean(event.message.strip()),
                                       "" if _is_warning(event) else "soft")),
)  # fmt: skip


def event_row(event: Event) -> Row:
    """Return the row for `EVENT_COLUMNS`."""
    reason, message = clean(event.reason), clean(event.message.strip())
    return Row(
        event_key(event),
        *content_of(EVENT_COLUMNS, event),
        search=f"{event.type} {reason} {event_object(event)} {message}",
        fault=_is_warning(event),
    )
