"""Rows of the events table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from podtui.api.events import event_count, event_order, last_seen
from podtui.api.times import epoch
from podtui.api.v1 import Event
from podtui.text.terminal_text import plural
from podtui.tui.model.model import event_key
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    Span,
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
    """Return the pod, with its namespace unless that is "default", and with the container if the
    event names one; for a node, with its kind.
    """
    involved = event.involvedObject
    if involved.kind == "Node":
        return f"node {clean(involved.name)}"
    _, brace, rest = involved.fieldPath.partition("{")
    container = clean(rest.removesuffix("}")) if brace else ""
    namespace = involved.namespace if involved.namespace not in ("", "default") else ""
    about = f"{clean(namespace)}/{clean(involved.name)}" if namespace else clean(involved.name)
    return about + (f"/{container}" if container else "")


def is_warning(event: Event) -> bool:
    return event.type == "Warning"


ROUTINE: Final = ("Scheduled", "Pulling", "Pulled", "Created", "Started")
"""Reasons of the events of a normal start, in their order."""


def is_routine(event: Event) -> bool:
    """Return whether an event only reports a step of a normal start."""
    return event.involvedObject.kind == "Pod" and not is_warning(event) and event.reason in ROUTINE


def _seen(event: Event) -> ColumnValue:
    seen = epoch(last_seen(event)) or 0.0
    return ColumnValue(Cell("", "muted", seen), event_order(event), seen)


def _reason(event: Event) -> ColumnValue:
    reason, count = clean(event.reason), event_count(event)
    times = f" ×{count}" if count > 1 else ""
    warning = is_warning(event)
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
                                       "warning" if is_warning(event) else "muted")),
    Column("reason", "REASON", 90, minimum=14, maximum=32, flexible=True, of=_reason),
    Column("count", "COUNT", 35, align="right", descending=True, kind=ValueKind.COUNT,
           shown=Visibility.ON_REQUEST, of=_count),
    Column("object", "OBJECT", 60, minimum=12, maximum=34, flexible=True, of=_object),
    Column("namespace", "NAMESPACE", 45, maximum=32, shown=Visibility.ON_REQUEST,
           of=lambda event: text_field(clean(event.involvedObject.namespace), "muted")),
    Column("source", "SOURCE", 30, maximum=24, shown=Visibility.WIDE, of=_source),
    Column("message", "MESSAGE", 100, minimum=16, maximum=2000, flexible=True, filling=True,
           of=lambda event: text_field(clean(event.message.strip()),
                                       "" if is_warning(event) else "soft")),
)  # fmt: skip


def event_row(event: Event) -> Row:
    """Return the row for `EVENT_COLUMNS`."""
    reason, message = clean(event.reason), clean(event.message.strip())
    return Row(
        event_key(event),
        *content_of(EVENT_COLUMNS, event),
        search=f"{event.type} {reason} {event_object(event)} {message}",
        fault=is_warning(event),
        summary=f"{event.type} {reason} {event_object(event)}: {message}",
    )


ROUTINE_KEY: Final = "routine"
"""The key of the row that stands for all routine events."""


def routine_row(events: Sequence[Event], *, expanded: bool) -> Row:
    """Return the row that stands for routine events; ``expanded``: they are listed, too."""
    reasons = Counter(event.reason for event in events)
    counts = ", ".join(f"{reason} ×{reasons[reason]}" for reason in ROUTINE if reasons[reason])
    sign, verb = ("▾", "folds") if expanded else ("▸", "lists")
    text = f"{sign} {plural(len(events), 'event')} of normal starts, enter {verb} them: {counts}"
    newest = event_row(max(events, key=event_order))
    return replace(
        newest,
        key=ROUTINE_KEY,
        search=counts,
        pin=1,
        tail=Span(text, "muted"),
        tail_from=REASON,
        summary=text,
    )


REASON: Final = next(n for n, column in enumerate(EVENT_COLUMNS) if column.key == "reason")
