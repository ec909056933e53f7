"""``podtui status`` as text: the API's own tables, laid out for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, Final

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""What to accept from the API to be given a table."""


def clean(text: str) -> str:
    """A cell without control characters: what a pod is called must not move the cursor."""
    return "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp"))


def render(table: dict[str, Any], *, namespaced: bool = False) -> str:
    """A ``meta.k8s.io/v1`` Table: the columns of priority 0, as kubectl prints them; ``namespaced``
    puts the namespaces before."""
    columns: list[dict[str, Any]] = table.get("columnDefinitions") or []
    rows: list[dict[str, Any]] = table.get("rows") or []
    shown = [i for i, column in enumerate(columns) if not column.get("priority")]
    lines: list[Sequence[str]] = [[str(columns[i]["name"]).upper() for i in shown]]
    lines += [[clean(str(row["cells"][i])) for i in shown] for row in rows]
    if namespaced:
        places = [row.get("object", {}).get("metadata", {}).get("namespace", "") for row in rows]
        heads = ["NAMESPACE", *(clean(str(place)) for place in places)]
        lines = [(head, *line) for head, line in zip(heads, lines, strict=True)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
