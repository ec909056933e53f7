"""``podtui status`` as text: the API's own tables, laid out for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from podtui.terminal_text import cells, one_line

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""What to accept from the API to be given a table."""


def render(table: dict[str, Any], *, namespaced: bool = False) -> str:
    """A ``meta.k8s.io/v1`` Table: the columns of priority 0, as kubectl prints them; ``namespaced``
    puts the namespaces before."""
    columns: list[dict[str, Any]] = table.get("columnDefinitions") or []
    rows: list[dict[str, Any]] = table.get("rows") or []
    shown = [i for i, column in enumerate(columns) if not column.get("priority")]
    lines: list[Sequence[str]] = [[one_line(str(columns[i]["name"])).upper() for i in shown]]
    lines += [[one_line(str(row["cells"][i])) for i in shown] for row in rows]
    if namespaced:
        places = [row.get("object", {}).get("metadata", {}).get("namespace", "") for row in rows]
        heads = ["NAMESPACE", *(one_line(str(place)) for place in places)]
        lines = [(head, *line) for head, line in zip(heads, lines, strict=True)]
    widths = [max(cells(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("   ".join(map(_padded, line, widths)).rstrip() for line in lines)


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cells(cell))
