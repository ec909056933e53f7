"""Write the list of columns of ``docs/screen.md`` from the declarations; ``--check`` only
compares."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from podtui.tui.screens.forwards_screen import FORWARD_COLUMNS
from podtui.tui.screens.trash_screen import TRASH_COLUMNS
from podtui.tui.views import journal
from podtui.tui.views.events import EVENT_COLUMNS
from podtui.tui.views.explain import FIELD_COLUMNS
from podtui.tui.views.node.tables import IMAGE_COLUMNS, REJECTED_COLUMNS, SHARE_COLUMNS
from podtui.tui.views.pods.rows import POD_COLUMNS
from podtui.tui.views.tree.rows import TREE_COLUMNS
from podtui.tui.widgets.cells import Column, Visibility

TARGET = Path(__file__).resolve().parent.parent / "docs" / "screen.md"
TABLES: Final[Mapping[str, Sequence[Column]]] = {
    "pods": POD_COLUMNS,
    "events": EVENT_COLUMNS,
    "tree": TREE_COLUMNS,
    "node: pods": SHARE_COLUMNS,
    "node: images": IMAGE_COLUMNS,
    "node: rejected pods": REJECTED_COLUMNS,
    "port-forwards": FORWARD_COLUMNS,
    "journal": journal.COLUMNS,
    "trash": TRASH_COLUMNS,
    "explain": FIELD_COLUMNS,
}
HEAD = "| table | columns | with `ctrl+w` | only with `W` |\n|---|---|---|---|\n"


def shown_name(column: Column) -> str:
    """Return the title, with the name for filters if it is another word."""
    name = column.key if column.key != column.title.lower() else ""
    return f"{column.title} (`{name}`)" if name else column.title


def table() -> str:
    """Return the whole table."""
    rows: list[str] = []
    for name, columns in TABLES.items():
        cells = [
            ", ".join(shown_name(column) for column in columns if column.shown is shown)
            for shown in (Visibility.ALWAYS, Visibility.WIDE, Visibility.ON_REQUEST)
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def with_table(text: str) -> str:
    """Return the document with the current table in the place of its own."""
    return re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(), text, count=1)


def main() -> int:
    before = TARGET.read_text(encoding="utf-8")
    after = with_table(before)
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(after, encoding="utf-8")
    elif before != after:
        print(f"{TARGET.name} is out of date: run scripts/columns_docs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
