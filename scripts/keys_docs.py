"""Write ``docs/keys.md`` from the bindings; ``--check`` only compares."""

from __future__ import annotations

import sys
from itertools import groupby

import generated

from podtui.tui.commands.key_registry import group_title, known_bindings
from podtui.tui.widgets.key_names import shown_key

TARGET = generated.DOCS / "keys.md"
HEAD = """\
# Keys

Each key can be [changed](settings.md#keys) by its id. On the screen,
`?` lists all keys, including your own.
"""


def _code(text: str) -> str:
    # A backquote needs two backquotes around it, and a bar would end the cell.
    shown = text.replace("|", "\\|")
    return f"`` {shown} ``" if "`" in text else f"`{shown}`"


def keys_document() -> str:
    """The whole document."""
    parts = [HEAD]
    for group, found in groupby(known_bindings(), key=lambda known: known.group):
        parts += [f"\n## {group_title(group)}\n", "\n| keys | | id |\n|---|---|---|\n"]
        for known in found:
            keys = " ".join(_code(shown_key(key)) for key in known.keys)
            parts.append(f"| {keys} | {known.description} | `{known.id}` |\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(generated.write_or_check(TARGET, lambda _: keys_document()))
