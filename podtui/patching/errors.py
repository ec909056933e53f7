"""The errors of patches, and the values that their texts show in Go's notation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from podtui.errors import PodtuiError


class PatchError(PodtuiError):
    """Raised when a patch cannot be applied; the text is the API server's. ``code`` is 400 for a
    patch in a wrong format (the API server answers 500 to some), 413 for one that is too large and
    422 otherwise."""

    def __init__(self, message: str, code: int = 422) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that another manager owns; ``manager`` is as messages name it, and ``field`` a path
    such as ``.spec.containers[name="a"].image``."""

    manager: str
    field: str


class ApplyConflict(PodtuiError):
    """Raised when an applied configuration changes fields of other managers."""

    def __init__(self, message: str, conflicts: Sequence[Conflict]) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)


def go_text(value: Any) -> str:
    """Format a value as Go's ``%v`` does."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        items = sorted(cast("dict[str, Any]", value).items())
        return f"map[{' '.join(f'{key}:{go_text(item)}' for key, item in items)}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, cast('list[Any]', value)))}]"
    return format(value, "g") if isinstance(value, float) else str(value)


def go_type(value: Any) -> str:
    """Return Go's name for the type of a decoded value."""
    names = {
        "str": "string",
        "bool": "bool",
        "int": "int64",
        "float": "float64",
        "dict": "map[string]interface {}",
        "list": "[]interface {}",
    }
    return names.get(cast(object, value).__class__.__name__, "%!s(<nil>)")


def same(left: Any, right: Any) -> bool:
    """Compare as JSON values: 1, 1.0 and true are different."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        first, second = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(left, list):
        items, other_items = cast("list[Any]", left), cast("list[Any]", right)
        return len(items) == len(other_items) and all(map(same, items, other_items))
    return left == right
