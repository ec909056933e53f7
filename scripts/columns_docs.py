"""Write the list of columns of ``docs/screen.md`` from the declarations; ``--check`` only
compares."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import generated

from podtui.tui.screens.forwards_screen import FORWARD_COLUMNS
from podtui.tui.screens.objects.kinds_screen import KIND_COLUMNS
from podtui.tui.screens.trash_screen import TRASH_COLUMNS
from podtui.tui.views import journal
from podtui.tui.views.events import EVENT_COLUMNS
from podtui.tui.views.explain import FIELD_COLUMNS
from podtui.tui.views.map import MAP_COLUMNS
from podtui.tui.views.node.tables import IMAGE_COLUMNS, REJECTED_COLUMNS, SHARE_COLUMNS
from podtui.tui.views.objects.content import DATA_COLUMNS
from podtui.tui.views.objects.network import NETWORK_COLUMNS
from podtui.tui.views.objects.workloads import REVISION_COLUMNS
from podtui.tui.views.pods.rows import POD_COLUMNS
from podtui.tui.views.tree import TREE_COLUMNS
from podtui.tui.widgets.cells import Column, Visibility

TARGET = generated.DOCS / "screen.md"
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
    "kinds": KIND_COLUMNS,
    "revisions": REVISION_COLUMNS,
    "data": DATA_COLUMNS,
    "network": NETWORK_COLUMNS,
    "map": MAP_COLUMNS,
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
    return generated.with_table(text, HEAD, table())


if __name__ == "__main__":
    sys.exit(generated.write_or_check(TARGET, with_table))
