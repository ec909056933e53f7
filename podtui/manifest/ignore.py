"""Rules for which names in the folder are manifests (reference §1.1, departure 2)."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

_DROPPINGS: Final = (
    ("*~", "an editor's backup"),
    ("*.bak", "a backup"),
    ("*.swp", "an editor's swap file"),
    ("*.swx", "an editor's swap file"),
    ("#*#", "an editor's autosave"),
    ("*.tmp", "a temporary file"),
    ("4913", "an editor's trial file"),
)


def is_hidden(name: str) -> bool:
    """Return whether the name is hidden; a kubelet never reads hidden files."""
    return name.startswith(".")


def ignore_reason(name: str, *, strict: bool = False) -> str:
    """Return why a file of this name is not read; empty if it is. ``strict`` reads all but
    hidden."""
    if is_hidden(name):
        return "its name begins with a dot"
    if not strict:
        for pattern, reason in _DROPPINGS:
            if fnmatchcase(name, pattern):
                return reason
    return ""


def edit_signs(name: str) -> frozenset[str]:
    """Return the names of the backup, temporary and lock files that editors create beside a
    file."""
    return frozenset({f"{name}~", f"{name}.bak", f"{name}.tmp", f"#{name}#", f".#{name}", "4913"})


def being_edited(name: str, others: Iterable[str]) -> bool:
    """Return whether such a file beside it shows that an editor is saving this file.

    Editors replace a file via a backup or temporary file, and for a moment the file itself is
    missing.
    """
    signs, start = edit_signs(name), f".{name}"
    return any(other in signs or other.startswith(start) for other in others)
