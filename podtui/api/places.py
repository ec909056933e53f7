"""Positions of a pod's fields in the text of its manifest, in a compact text encoding.

Paths are tuples of keys and list indexes; positions are (line, column), both from 1. Each line of
the encoding is one field, parents before their children::

    DEPTH STEP KEY-LINE KEY-COLUMN VALUE-LINE VALUE-COLUMN

``STEP`` is a key, or ``#`` and an index; an index has no key position.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Path = tuple[str | int, ...]
Position = tuple[int, int]

MAX_PLACES: Final = 2_000
"""Further fields are left out. A typical hand-written manifest has about forty."""
_KEY: Final = re.compile(r"[^\s#\x00-\x1f\x7f][^\s\x00-\x1f\x7f]{0,127}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """``key`` is None for a list item."""

    key: Position | None
    value: Position


def write_places(keys: Mapping[Path, Position], values: Mapping[Path, Position]) -> str:
    """Encode the positions that a reader found; ``values`` has parents before their children."""
    lines: list[str] = []
    for path, value in values.items():
        if not path or not all(map(_writable, path)):
            continue
        if len(lines) == MAX_PLACES:
            break
        step, key = path[-1], keys.get(path)
        if isinstance(step, int):
            lines.append(f"{len(path)} #{step} {value[0]} {value[1]}")
        elif key is not None:
            lines.append(f"{len(path)} {step} {key[0]} {key[1]} {value[0]} {value[1]}")
    return "\n".join(lines)


def _writable(step: str | int) -> bool:
    return isinstance(step, int) or (_KEY.fullmatch(step) is not None and step != "<<")


def read_places(text: str) -> dict[Path, FieldPlace]:
    """Decode the output of `write_places`; malformed lines are skipped."""
    positions: dict[Path, FieldPlace] = {}
    here: list[str | int] = []
    for line in text.split("\n"):
        try:
            depth, step, *numbers = line.split(" ")
            places = [int(number) for number in numbers]
            del here[int(depth) - 1 :]
            if step.startswith("#"):
                here.append(int(step[1:]))
                positions[tuple(here)] = FieldPlace(None, (places[0], places[1]))
            else:
                here.append(step)
                positions[tuple(here)] = FieldPlace((places[0], places[1]), (places[2], places[3]))
        except (ValueError, IndexError):
            continue
    return positions


def field_text(path: Path) -> str:
    """Format a path in the API server's notation: ``spec.containers[0].image``."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{step}]")
    return "".join(parts)


def field_path(text: str) -> Path:
    """Parse the output of `field_text`, or a path from the API server, which puts map keys in
    brackets (``limits[cpu]``)."""
    steps: list[str | int] = []
    for match in _STEP.finditer(text):
        name, index = match.groups()
        if name is not None:
            steps.append(name)
        else:
            steps.append(int(index) if index.isdecimal() and len(index) < 10 else index)
    return tuple(steps)
