"""``podtui status`` as text: the API's tables, formatted for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from podtui.api.health import pod_health
from podtui.api.reading import converted
from podtui.api.v1 import Pod
from podtui.client.answers import read_by
from podtui.terminal_text import cells, one_line

HEALTH: Final = "HEALTH"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""The Accept header that requests a table from the API."""


def render(
    table: dict[str, Any], *, namespaced: bool = False, health: Sequence[str] | None = None
) -> str:
    """Format a ``meta.k8s.io/v1`` Table: the columns of priority 0, as kubectl prints them.
    ``namespaced`` adds a namespace column in front, ``health`` (by row) a column at the end."""
    columns: list[dict[str, Any]] = table.get("columnDefinitions") or []
    rows: list[dict[str, Any]] = table.get("rows") or []
    shown = [i for i, column in enumerate(columns) if not column.get("priority")]
    lines: list[Sequence[str]] = [[one_line(str(columns[i]["name"])).upper() for i in shown]]
    lines += [[one_line(str(row["cells"][i])) for i in shown] for row in rows]
    if namespaced:
        places = [row.get("object", {}).get("metadata", {}).get("namespace", "") for row in rows]
        heads = ["NAMESPACE", *(one_line(str(place)) for place in places)]
        lines = [(head, *line) for head, line in zip(heads, lines, strict=True)]
    if health is not None:
        lines = [(*line, word) for line, word in zip(lines, (HEALTH, *health), strict=True)]
    widths = [max(cells(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("   ".join(map(_padded, line, widths)).rstrip() for line in lines)


def health_words(table: dict[str, Any], now: float) -> list[str]:
    """Return the health of each pod in a table; unknown if a row does not include its object.
    Raises `ApiError`."""
    rows: list[dict[str, Any]] = table.get("rows") or []
    items = [row.get("object", {}) for row in rows]
    words: list[str] = []
    for item in items:
        if "status" not in item:
            words.append("<unknown>")
            continue
        pod = read_by("pods", lambda item=item: converted(item, Pod))
        words.append(str(pod_health(pod, now).health))
    return words


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cells(cell))
