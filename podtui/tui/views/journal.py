"""The journal's rows: the user's actions on the screen, and the agent's calls of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from podtui.api.engine_calls import EngineCall
from podtui.api.times import epoch
from podtui.tui.widgets.cells import Cell, Column, Kind, Row
from podtui.tui.widgets.sanitize import clean, shell_line

COLUMNS: Final = (
    Column("age", "AGE", 80, align="right", descending=True, kind=Kind.AGE),
    Column("who", "BY", 60),
    Column("pod", "POD", 70, minimum=10, maximum=32, flexible=True),
    Column("what", "WHAT", 90, maximum=20),
    Column("took", "TOOK", 30, align="right"),
    Column("line", "LINE", 100, minimum=24, maximum=4000, flexible=True, filling=True),
)
LINE: Final = 5


class JournalEntry(Struct, frozen=True):
    """An action of the user, and a command line that does the same."""

    moment: float
    what: str
    line: str
    pod: str = ""


def deed_row(number: int, deed: JournalEntry) -> Row:
    line, pod = shell_line(deed.line), clean(deed.pod)
    cells = (
        Cell("", "muted", deed.moment),
        Cell("you", "name"),
        Cell(pod, "soft"),
        Cell(deed.what, "reason"),
        Cell(""),
        Cell(line),
    )
    sort = ((deed.moment, number), "you", pod, deed.what, 0.0, line)
    values = (deed.moment, "you", pod, deed.what, "", line)
    return Row(f"deed:{number}", cells, sort, values, search=f"you {pod} {deed.what} {line}")


def call_row(call: EngineCall) -> Row:
    """Return the row of an engine call; a failed call shows its error after the command line."""
    moment = epoch(call.time)
    pod = clean(call.pod) + (f"/{clean(call.container)}" if call.container else "")
    times = f" ×{call.count:,}" if call.count > 1 else ""
    line = shell_line(call.line)
    shown = f"{line}  # {clean(call.error)}" if call.error else line
    took = f"{call.seconds:.1f}s" if call.seconds >= 0.05 else ""
    glyph, tone = ("✗ ", "error") if call.error else ("", "muted")
    cells = (
        Cell("", "muted", moment),
        Cell("agent", "muted"),
        Cell(pod, "soft"),
        Cell(f"{glyph}{call.verb}{times}", tone),
        Cell(took, "muted"),
        Cell(shown, "error" if call.error else "soft"),
    )
    sort = ((moment or 0.0, call.serial), "agent", pod, call.verb, call.seconds, line)
    values = (moment, "agent", pod, call.verb, took, line)
    key = f"call:{call.uid}:{call.line}:{call.serial if call.count == 1 else 0}:{call.error}"
    return Row(key, cells, sort, values, search=f"agent {pod} {call.verb} {shown}",
               fault=bool(call.error))  # fmt: skip


def journal_rows(
    deeds: Iterable[JournalEntry], calls: Iterable[EngineCall], pod: str = ""
) -> list[Row]:
    """Return the rows of all actions and calls. If ``pod`` is given, include only actions on that
    pod; ``calls`` are not filtered.
    """
    own = [
        deed_row(number, deed)
        for number, deed in enumerate(deeds)
        if not pod or pod in deed.pod.split(", ")
    ]
    return [*own, *map(call_row, calls)]
