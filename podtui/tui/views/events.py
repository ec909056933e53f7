"""Rows of the events table."""

from __future__ import annotations

from typing import Final

from podtui.api.times import epoch
from podtui.api.v1 import Event
from podtui.tui.model.model import event_key
from podtui.tui.widgets.cells import Cell, Column, Kind, Row, Visibility
from podtui.tui.widgets.format import natural_key
from podtui.tui.widgets.sanitize import clean

EVENT_COLUMNS: Final = (
    Column("seen", "SEEN", 80, align="right", descending=True, kind=Kind.AGE),
    Column("type", "TYPE", 40, shown=Visibility.ON_REQUEST),
    Column("reason", "REASON", 90, minimum=14, maximum=32, flexible=True),
    Column("count", "COUNT", 35, align="right", descending=True, kind=Kind.COUNT,
           shown=Visibility.ON_REQUEST),
    Column("object", "OBJECT", 60, minimum=12, maximum=34, flexible=True),
    Column("source", "SOURCE", 30, maximum=24, shown=Visibility.WIDE),
    Column("message", "MESSAGE", 100, minimum=16, maximum=2000, flexible=True, filling=True),
)  # fmt: skip
MANIFEST_KEY: Final = "manifest:"
"""The prefix of the keys of manifest rows."""


def last_seen(event: Event) -> float:
    """Return epoch seconds, from the most precise time of the event."""
    series = event.series.lastObservedTime if event.series else None
    for moment in (series, event.lastTimestamp, event.eventTime, event.firstTimestamp):
        found = epoch(moment)
        if found is not None:
            return found
    return epoch(event.metadata.creationTimestamp) or 0.0


def event_count(event: Event) -> int:
    return (event.series.count if event.series else None) or event.count or 1


def event_object(event: Event) -> str:
    """Return the pod, with the container if the event names one; for a node, with its kind."""
    involved = event.involvedObject
    if involved.kind == "Node":
        return f"node {clean(involved.name)}"
    _, brace, rest = involved.fieldPath.partition("{")
    container = clean(rest.removesuffix("}")) if brace else ""
    return clean(involved.name) + (f"/{container}" if container else "")


def event_row(event: Event) -> Row:
    """Return the row for `EVENT_COLUMNS`. Events of the same second keep their order of writing."""
    warning = event.type == "Warning"
    count = event_count(event)
    seen = last_seen(event)
    kind, reason, about = clean(event.type), clean(event.reason), event_object(event)
    source = clean(event.source.component if event.source else "") or clean(
        event.reportingComponent
    )
    message = clean(event.message.strip())
    version = event.metadata.resourceVersion
    order = int(version) if version.isdecimal() else 0
    tone = "warning" if warning else "muted"
    return Row(
        event_key(event),
        (
            Cell("", "muted", seen),
            Cell(kind, tone),
            Cell(
                f"{'▲' if warning else '·'} {reason}" + (f" ×{count}" if count > 1 else ""),
                "warning" if warning else "reason",
            ),
            Cell(str(count), "muted"),
            Cell(about, "muted"),
            Cell(source, "muted"),
            Cell(message, "" if warning else "soft"),
        ),
        ((seen, order), kind, reason, count, natural_key(about), source, message),
        (seen, kind, reason, float(count), about, source, message),
        search=f"{event.type} {reason} {about} {message}",
        fault=warning,
    )
