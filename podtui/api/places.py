"""Where the fields of a pod are in the text of its manifest, as one compact text.

Paths are tuples of keys and list indexes; places are (line, column), both from 1. One line of the
compact text is one field, parents before their children::

    DEPTH STEP KEY-LINE KEY-COLUMN VALUE-LINE VALUE-COLUMN

``STEP`` is a key, or ``#`` and an index, which has no key's place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Path = tuple[str | int, ...]
Place = tuple[int, int]

MAX_PLACES: Final = 2_000
"""Fields beyond these are left out: what a person wrote has some forty."""
_KEY: Final = re.compile(r"[^\s#\x00-\x1f\x7f][^\s\x00-\x1f\x7f]{0,127}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """``key`` is None for an item of a list."""

    key: Place | None
    value: Place


def write_places(keys: Mapping[Path, Place], values: Mapping[Path, Place]) -> str:
    """The compact text of what a reader found; ``values`` has parents before their children."""
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
    """What `write_places` wrote; lines that are none of its are passed over."""
    found: dict[Path, FieldPlace] = {}
    here: list[str | int] = []
    for line in text.split("\n"):
        try:
            depth, step, *numbers = line.split(" ")
            places = [int(number) for number in numbers]
            del here[int(depth) - 1 :]
            if step.startswith("#"):
                here.append(int(step[1:]))
                found[tuple(here)] = FieldPlace(None, (places[0], places[1]))
            else:
                here.append(step)
                found[tuple(here)] = FieldPlace((places[0], places[1]), (places[2], places[3]))
        except (ValueError, IndexError):
            continue
    return found


def field_text(path: Path) -> str:
    """The path as the API server writes it: ``spec.containers[0].image``."""
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
    """The path that a text names: `field_text` wrote it, or the API server, whose map keys stand in
    brackets (``limits[cpu]``)."""
    steps: list[str | int] = []
    for match in _STEP.finditer(text):
        name, index = match.groups()
        if name is not None:
            steps.append(name)
        else:
            steps.append(int(index) if index.isdecimal() and len(index) < 10 else index)
    return tuple(steps)
