"""The journal's rows: the user's actions on the screen, and the agent's calls of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from podtui.api.local import EngineCall
from podtui.api.times import epoch
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    ValueKind,
    content_of,
    text_field,
)
from podtui.tui.widgets.sanitize import clean, shell_line


class JournalEntry(Struct, frozen=True):
    """An action of the user, and a command line that does the same."""

    moment: float
    what: str
    line: str
    pod: str = ""


class _Entry(Struct, frozen=True):
    """One row: an action or a call. ``line`` is the command line, ``shown`` with its error."""

    moment: float | None
    serial: int
    who: Cell
    pod: str
    what: Cell
    verb: str
    seconds: float
    line: str
    shown: Cell

    @property
    def took(self) -> str:
        return f"{self.seconds:.1f}s" if self.seconds >= 0.05 else ""


COLUMNS: Final = (
    Column("age", "AGE", 80, align="right", descending=True, kind=ValueKind.AGE,
           of=lambda entry: ColumnValue(
               Cell("", "muted", entry.moment), (entry.moment or 0.0, entry.serial), entry.moment)),
    Column("by", "BY", 60, of=lambda entry: ColumnValue(entry.who, entry.who.text, entry.who.text)),
    Column("pod", "POD", 70, minimum=10, maximum=32, flexible=True,
           of=lambda entry: text_field(entry.pod, "soft")),
    Column("what", "WHAT", 90, maximum=20,
           of=lambda entry: ColumnValue(entry.what, entry.verb, entry.verb)),
    Column("took", "TOOK", 30, align="right",
           of=lambda entry: ColumnValue(Cell(entry.took, "muted"), entry.seconds, entry.took)),
    Column("line", "LINE", 100, minimum=24, maximum=4000, flexible=True, filling=True,
           of=lambda entry: ColumnValue(entry.shown, entry.line, entry.line)),
)  # fmt: skip
LINE: Final = next(n for n, column in enumerate(COLUMNS) if column.key == "line")


def _row(key: str, entry: _Entry, *, fault: bool = False) -> Row:
    search = f"{entry.who.text} {entry.pod} {entry.verb} {entry.shown.text}"
    return Row(key, *content_of(COLUMNS, entry), search=search, fault=fault)


def action_row(number: int, action: JournalEntry) -> Row:
    line = shell_line(action.line)
    entry = _Entry(
        moment=action.moment,
        serial=number,
        who=Cell("you", "name"),
        pod=clean(action.pod),
        what=Cell(action.what, "reason"),
        verb=action.what,
        seconds=0.0,
        line=line,
        shown=Cell(line),
    )
    return _row(f"action:{number}", entry)


def call_row(call: EngineCall) -> Row:
    """Return the row of an engine call; a failed call shows its error after the command line."""
    line = shell_line(call.line)
    glyph, tone = ("✗ ", "error") if call.error else ("", "muted")
    times = f" ×{call.count:,}" if call.count > 1 else ""
    entry = _Entry(
        moment=epoch(call.time),
        serial=call.serial,
        who=Cell("agent", "muted"),
        pod=clean(call.pod) + (f"/{clean(call.container)}" if call.container else ""),
        what=Cell(f"{glyph}{call.verb}{times}", tone),
        verb=call.verb,
        seconds=call.seconds,
        line=line,
        shown=Cell(f"{line}  # {clean(call.error)}", "error") if call.error else Cell(line, "soft"),
    )
    key = f"call:{call.uid}:{call.line}:{call.serial if call.count == 1 else 0}:{call.error}"
    return _row(key, entry, fault=bool(call.error))


def journal_rows(
    entries: Iterable[JournalEntry], calls: Iterable[EngineCall], pod: str = ""
) -> list[Row]:
    """Return the rows of all actions and calls. If ``pod`` is given, include only actions on that
    pod; ``calls`` are not filtered.
    """
    actions = [
        action_row(number, entry)
        for number, entry in enumerate(entries)
        if not pod or pod in entry.pod.split(", ")
    ]
    return [*actions, *map(call_row, calls)]
