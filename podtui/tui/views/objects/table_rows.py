"""Rows of the objects of a kind, with the columns of the server's Table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podtui.api.times import epoch
from podtui.client.any_kind import TableColumn, TableRow
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    ValueKind,
    Visibility,
    in_columns,
    text_field,
)
from podtui.tui.widgets.filters import parse_duration
from podtui.tui.widgets.format import natural_key
from podtui.tui.widgets.sanitize import clean

_SHARE: Final = re.compile(r"(\d+)/(\d+)")
_DURATION: Final = re.compile(r"(\d+[smhdy])+")
_TIMES: Final = frozenset({"Last Schedule", "Last Seen", "First Seen"})
"""Columns with the time since a moment. The server writes it once; the screen lets it advance."""
_TONES: Final[Mapping[str, str]] = {
    "Active": "running", "Available": "running", "Bound": "running", "Ready": "running",
    "Running": "running", "Complete": "completed", "Pending": "pending", "Released": "warning",
    "Suspended": "warning", "Terminating": "terminating", "Failed": "error", "Lost": "error",
    "NotReady": "error", "Unknown": "error",
}  # fmt: skip
"""The tones of the texts in a column STATUS."""
NAMESPACE: Final = "namespace"


def table_columns(rows: Sequence[TableRow]) -> tuple[Column, ...]:
    """Return the columns for some rows: the namespace, then those of the Table. Wide columns are
    shown as far as they fit.
    """
    # A definition does not say whether a text is a number or a share: the first row does.
    sample = rows[0]
    columns = [Column(NAMESPACE, "NAMESPACE", 72, maximum=32, shown=Visibility.ON_REQUEST)]
    last = max(n for n, column in enumerate(sample.columns) if not column.priority)
    for number, (column, cell) in enumerate(zip(sample.columns, sample.cells, strict=False)):
        kind = _kind(column, cell)
        is_text = kind is ValueKind.TEXT
        columns.append(
            Column(
                clean(column.name).lower().replace(" ", "-"),
                clean(column.name).upper(),
                _rank(column, number),
                minimum=12 if column.name == "Name" else 8,
                maximum=200 if number == last else 60,
                align="right" if kind in (ValueKind.AGE, ValueKind.COUNT) else "left",
                flexible=is_text,
                middle_cut=column.name == "Name",
                kind=kind,
                shown=Visibility.WIDE if column.priority else Visibility.ALWAYS,
            )
        )
    return tuple(columns)


def _rank(column: TableColumn, number: int) -> int:
    if column.name == "Name":
        return 100
    if column.name == "Age":
        return 80
    return max(1, (40 if column.priority else 79) - number)


def _kind(column: TableColumn, cell: Any) -> ValueKind:
    if column.name == "Age" or column.name in _TIMES:
        return ValueKind.AGE
    if isinstance(cell, int) and not isinstance(cell, bool):
        return ValueKind.COUNT
    return ValueKind.SHARE if _SHARE.fullmatch(str(cell)) else ValueKind.TEXT


def table_row(row: TableRow, columns: Sequence[Column], now: float) -> Row:
    """Return the row of an object for `table_columns`; ``now`` is the time of the answer."""
    meta = row.metadata
    named = {column.name: cell for column, cell in zip(row.columns, row.cells, strict=False)}
    fields = [text_field(clean(meta.namespace), "muted")]
    for column, cell, shown in zip(row.columns, row.cells, columns[1:], strict=False):
        fields.append(_field(row, named, column.name, cell, shown, now))
    texts = (clean(str(cell)) for cell in row.cells)
    return Row(
        meta.uid or f"{meta.namespace}/{meta.name}",
        *in_columns(fields),
        search=f"{clean(meta.namespace)} {' '.join(texts)}",
        labels=meta.labels,
        identity=f"{meta.namespace}/{meta.name}",
        fault=_is_faulty(named),
        markable=True,
    )


def _field(
    row: TableRow, named: Mapping[str, Any], name: str, cell: Any, shown: Column, now: float
) -> ColumnValue:
    text = clean(str(cell)) if cell is not None else ""
    if name == "Name":
        return ColumnValue(Cell(text, "name"), natural_key(text), text)
    since = _since(row, named, name, text, now)
    if since is not None:
        return ColumnValue(Cell("", "muted", since), -since, since)
    if shown.kind is ValueKind.AGE:
        return ColumnValue(Cell(text, "muted"), 0.0, None)
    if shown.kind is ValueKind.COUNT:
        number = float(cell) if isinstance(cell, int) else None
        return ColumnValue(Cell(text, "" if number else "muted"), number or 0.0, number)
    if shown.kind is ValueKind.SHARE:
        share = _share(text)
        tone = "warning" if name == "Ready" and share is not None and share < 1 else ""
        return ColumnValue(Cell(text, tone), share or 0.0, share)
    tone = "muted" if shown.shown is Visibility.WIDE or text in ("<none>", "<unset>") else ""
    tone = _TONES.get(text, tone) if name == "Status" else tone
    return ColumnValue(Cell(text, tone), natural_key(text), text)


def _since(
    row: TableRow, named: Mapping[str, Any], name: str, text: str, now: float
) -> float | None:
    """Return the moment of a cell with a time that advances."""
    if name == "Age":
        return epoch(row.metadata.creationTimestamp)
    advances = name in _TIMES or (name == "Duration" and named.get("Status") == "Running")
    return now - parse_duration(text) if advances and _DURATION.fullmatch(text) else None


def _share(text: str) -> float | None:
    share = _SHARE.fullmatch(text)
    if share is None:
        return None
    part, whole = map(int, share.groups())
    return part / whole if whole else 1.0


def _is_faulty(named: Mapping[str, Any]) -> bool:
    """Return whether the columns say that the object is not as it should be."""
    ready, desired = named.get("Ready"), named.get("Desired")
    share = _share(str(ready))
    if share is not None and share < 1:
        return True
    if isinstance(ready, int) and isinstance(desired, int) and ready < desired:
        return True
    return _TONES.get(str(named.get("Status"))) in ("error", "pending")
