"""Write a generated document, or with ``--check`` only compare it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def write_or_check(target: Path, fresh: Callable[[str], str]) -> int:
    """Replace the text of a document by ``fresh`` of it. Return the exit status: 1 if a check finds
    a difference."""
    before = target.read_text(encoding="utf-8")
    after = fresh(before)
    if "--check" not in sys.argv[1:]:
        target.write_text(after, encoding="utf-8")
    elif before != after:
        print(f"{target.name} is out of date: run {sys.argv[0]}", file=sys.stderr)
        return 1
    return 0


def with_table(text: str, head: str, table: str) -> str:
    """Replace the table that begins with the lines ``head``."""
    return re.sub(re.escape(head) + r"(?:\|.*\n)*", lambda _: table, text, count=1)
