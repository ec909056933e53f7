"""Which names in the folder are manifests (reference §1.1, departure 2)."""

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
    """Whether the name is never looked at, as the kubelet has it."""
    return name.startswith(".")


def ignore_reason(name: str, *, strict: bool = False) -> str:
    """Why a file of this name is not read; empty when it is. ``strict`` reads all but hidden."""
    if is_hidden(name):
        return "its name begins with a dot"
    if not strict:
        for pattern, reason in _DROPPINGS:
            if fnmatchcase(name, pattern):
                return reason
    return ""


def edit_signs(name: str) -> frozenset[str]:
    """Names beside it that an editor gives to files of its own while it has this one in hand."""
    return frozenset({f"{name}~", f"{name}.bak", f"{name}.tmp", f"#{name}#", f".#{name}", "4913"})


def being_edited(name: str, others: Iterable[str]) -> bool:
    """Whether a name beside it says that an editor has this file in hand.

    Editors put a new version in place by way of a backup or trial file, and for a moment the
    manifest itself is not there.
    """
    signs, start = edit_signs(name), f".{name}"
    return any(other in signs or other.startswith(start) for other in others)
