"""Sets of field paths, and their encoding in ``managedFields`` (``FieldsV1``).

A step of a path is a string as in that encoding: ``f:NAME`` (a field), ``k:{…}`` (an item of a list
by its keys), ``v:VALUE`` (an item of a set) or ``i:INDEX``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from podtui.patching.errors import PatchError
from podtui.text.json_text import read_json

Path = tuple[str, ...]
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_KINDS: Final = "fkvi"
_NO_FIELDS: Final[dict[str, Any]] = {}
"""Below each step without children: all encoded sets share it, because most steps have none."""
_MAX_CACHED_STEPS: Final = 4096
"""Objects of a kind have the same steps: they share the texts, which are also compared faster."""


@lru_cache(maxsize=_MAX_CACHED_STEPS)
def field_step(name: str) -> str:
    return f"f:{name}"


def key_step(keys: Mapping[str, Any]) -> str:
    return f"k:{_json(dict(sorted(keys.items())))}"


def value_step(value: Any) -> str:
    return f"v:{_json(value)}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES)


def path_text(path: Path) -> str:
    """Format a path as messages show it: ``.spec.containers[name="a"].image``."""
    return "".join(map(_step_text, path))


def _step_text(step: str) -> str:
    kind, _, content = step.partition(":")
    if kind == "f":
        return f".{content}"
    if kind == "i":
        return f"[{content}]"
    value = read_json(content)
    if kind == "v":
        return f"[={_json(value)}]"
    return f"[{','.join(f'{key}={_json(item)}' for key, item in value.items())}]"


@lru_cache(maxsize=_MAX_CACHED_STEPS)
def _order(step: str) -> tuple[int, Any]:
    """Return the sort key of a step: fields, then items by key, by value, by index."""
    kind, _, content = step.partition(":")
    rank = _KINDS.index(kind)
    if kind == "f":
        return rank, content
    value = read_json(content)
    if kind == "k":
        return rank, [(name, *_value_order(item)) for name, item in value.items()]
    return rank, _value_order(value)


def _value_order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, _json(value))


class FieldSet:
    """``members`` are the steps that lead to fields of the set; ``children`` are the sets below a
    step, which need not be a member itself."""

    __slots__ = ("children", "members")

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.children: dict[str, FieldSet] = {}

    def __bool__(self) -> bool:
        return bool(self.members) or any(self.children.values())

    def __contains__(self, path: Path) -> bool:
        here: FieldSet | None = self
        for step in path[:-1]:
            here = here.children.get(step) if here is not None else None
        return here is not None and bool(path) and path[-1] in here.members

    def __iter__(self) -> Iterator[Path]:
        """Iterate over the paths: at each level the members, then what is below them."""
        for step in sorted(self.members, key=_order):
            yield (step,)
        for step in sorted(self.children, key=_order):
            for path in self.children[step]:
                yield (step, *path)

    def __or__(self, other: FieldSet) -> FieldSet:
        result = FieldSet()
        result.members = self.members | other.members
        result.children = {**self.children, **other.children}
        for step in self.children.keys() & other.children.keys():
            result.children[step] = self.children[step] | other.children[step]
        return result

    def __and__(self, other: FieldSet) -> FieldSet:
        result = FieldSet()
        result.members = self.members & other.members
        for step in self.children.keys() & other.children.keys():
            if below := self.children[step] & other.children[step]:
                result.children[step] = below
        return result

    def __sub__(self, other: FieldSet) -> FieldSet:
        result = FieldSet()
        result.members = self.members - other.members
        for step, child in self.children.items():
            below = child - other.children[step] if step in other.children else child
            if below:
                result.children[step] = below
        return result

    def without(self, other: FieldSet) -> FieldSet:
        """Remove the fields of a set together with all that is below them."""
        result = FieldSet()
        result.members = self.members - other.members
        for step, child in self.children.items():
            if step in other.members:
                continue
            below = child.without(other.children[step]) if step in other.children else child
            if below:
                result.children[step] = below
        return result

    def add(self, path: Path) -> None:
        """Add a field; the path of the whole object is never part of a set."""
        if not path:
            return
        here = self
        for step in path[:-1]:
            here = here.children.setdefault(step, FieldSet())
        here.members.add(path[-1])

    def encode(self) -> dict[str, Any]:
        """Encode as ``FieldsV1``."""
        encoded: dict[str, Any] = {}
        for step in sorted(self.members | self.children.keys(), key=_order):
            below = self.children[step].encode() if step in self.children else _NO_FIELDS
            encoded[step] = {".": {}, **below} if below and step in self.members else below
        return encoded


def decode(fields: Any) -> FieldSet:
    """Decode ``FieldsV1``. Raises `PatchError`."""
    result = FieldSet()
    if not isinstance(fields, dict):
        raise PatchError("error decoding set: expected an object")
    for text, below in cast("dict[str, Any]", fields).items():
        if text == ".":
            continue
        step = _canonical(text)
        child = decode(below)
        if not below or "." in below:
            result.members.add(step)
        if child:
            result.children[step] = child
    return result


@lru_cache(maxsize=_MAX_CACHED_STEPS)
def _canonical(text: str) -> str:
    kind, colon, content = text.partition(":")
    try:
        if kind == "f" and colon:
            return text
        if kind == "i" and colon:
            return f"i:{int(content)}"
        if kind in ("k", "v") and colon:
            value = read_json(content)
            if kind == "v":
                return value_step(value)
            if isinstance(value, dict):
                return key_step(cast("dict[str, Any]", value))
    except ValueError:
        pass
    raise PatchError(f"error decoding set: unknown path element {text!r}")


def field_set(*paths: str) -> FieldSet:
    """Return the set of fields named by paths such as ``metadata.name``."""
    result = FieldSet()
    for path in paths:
        result.add(tuple(map(field_step, path.split("."))))
    return result
