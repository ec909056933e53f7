"""Write ``docs/keys.md`` from the bindings; ``--check`` only checks that it is up to date."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from podtui.tui.commands.key_registry import group_title, known_bindings
from podtui.tui.widgets.key_names import shown_key

TARGET = Path(__file__).resolve().parent.parent / "docs" / "keys.md"
HEAD = """\
# Keys

Each can be [changed](settings.md#keys) under its id. On the screen `?` lists them, yours included.
"""


def _code(text: str) -> str:
    # A backquote needs two around it, and a bar would end the cell.
    shown = text.replace("|", "\\|")
    return f"`` {shown} ``" if "`" in text else f"`{shown}`"


def keys_document() -> str:
    """Return the whole document."""
    parts = [HEAD]
    for group, found in groupby(known_bindings(), key=lambda known: known.group):
        parts += [f"\n## {group_title(group)}\n", "\n| keys | | id |\n|---|---|---|\n"]
        for known in found:
            keys = " ".join(_code(shown_key(key)) for key in known.keys)
            parts.append(f"| {keys} | {known.words} | `{known.id}` |\n")
    return "".join(parts)


def main() -> int:
    fresh = keys_document()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(fresh, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == fresh:
        return 0
    print(f"{TARGET.name} is not as the bindings say: run scripts/keys_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
