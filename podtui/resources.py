"""Where the files that ship with podtui lie: in the wheel, or at the root of a checkout."""

from __future__ import annotations

from pathlib import Path


def shipped(name: str) -> Path:
    """The folder ``themes``, ``static_pods`` or ``templates``. Raises FileNotFoundError."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "_data" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name}: not in this installation of podtui")
