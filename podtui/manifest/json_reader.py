"""A JSON reader that records positions and limits size and depth."""

from __future__ import annotations

import bisect
import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, cast

from podtui.api.local import Severity
from podtui.api.shape import Form, Shape, StructField, fields, shape_at
from podtui.api.v1 import Pod
from podtui.manifest.document import (
    MAX_DEPTH,
    MAX_NODES,
    Document,
    Path,
    Position,
    Problem,
    UnreadableText,
    quoted,
)
from podtui.text.json_text import valid_text

# The standard library's scanner of one string; missing in its type stubs.
_scan: Final[Callable[[str, int, bool], tuple[str, int]]] = vars(json.decoder)["scanstring"]
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<float>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_WORDS: Final = (("true", True), ("false", False), ("null", None))
_LONGEST_INTEGER: Final = 70


class _Reader:
    def __init__(self, text: str, *, last_wins: bool) -> None:
        self.text = text
        self.last_wins = last_wins
        self.starts = [0] + [m.end() for m in re.finditer("\r\n|[\n\r]", text)]
        self.keys: dict[Path, Position] = {}
        self.values: dict[Path, Position] = {}
        self.raw: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self.overwritten: list[tuple[Path, Any]] = []
        self.nodes = 0

    def position(self, offset: int) -> Position:
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def refuse(
        self, message: str, offset: int, fix: str = "", code: str = "InvalidJSON"
    ) -> NoReturn:
        raise UnreadableText(
            Problem(code=code, message=message, position=self.position(offset), fix=fix)
        )

    def skip(self, offset: int) -> int:
        match = _BLANK.match(self.text, offset)
        return match.end() if match else offset

    def value(self, offset: int, path: Path) -> tuple[Any, int]:
        """Read the value at ``offset``; return it and the offset after it."""
        self.values[path] = self.position(offset)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.refuse(f"more than {MAX_NODES} values", offset, code="TooLarge")
        if len(path) > MAX_DEPTH:
            self.refuse(f"nested deeper than {MAX_DEPTH} levels", offset, code="TooDeep")
        char = self.text[offset : offset + 1]
        if char == '"':
            return self.string(offset)
        if char == "{":
            return self.object(offset, path)
        if char == "[":
            return self.array(offset, path)
        for word, meaning in _WORDS:
            if self.text.startswith(word, offset):
                return meaning, offset + len(word)
        return self.number(offset, path)

    def string(self, offset: int) -> tuple[str, int]:
        try:
            text, end = _scan(self.text, offset + 1, True)
        except json.JSONDecodeError as error:
            error_text = error.msg[0].lower() + error.msg[1:].removesuffix(" starting at")
            self.refuse(error_text, min(error.pos, len(self.text)))
        # A lone surrogate is not a character; a kubelet too reads the replacement character.
        return valid_text(text), end

    def number(self, offset: int, path: Path) -> tuple[int | float, int]:
        match = _NUMBER.match(self.text, offset)
        if match is None:
            if offset >= len(self.text):
                self.refuse("the text ends where a value is expected", offset)
            self.refuse(f"a value is expected, found {quoted(self.text[offset])}", offset)
        if not match["float"] and len(match[0]) < _LONGEST_INTEGER:
            return int(match[0]), match.end()
        self.raw[path] = match[0]
        # A number with a point or an exponent is not an integer to the API, not even 1.0.
        return float(match[0]), match.end()

    def array(self, offset: int, path: Path) -> tuple[list[Any], int]:
        items: list[Any] = []
        here = self.skip(offset + 1)
        if self.text.startswith("]", here):
            return items, here + 1
        while True:
            item, here = self.value(here, (*path, len(items)))
            items.append(item)
            here = self.skip(here)
            if self.text.startswith("]", here):
                return items, here + 1
            here = self.comma(here, "]")

    def object(self, offset: int, path: Path) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        repeated: dict[str, list[Any]] = {}
        here = self.skip(offset + 1)
        if self.text.startswith("}", here):
            return members, here + 1
        while True:
            if not self.text.startswith('"', here):
                self.refuse("a key in double quotes is expected", here)
            start = here
            key, here = self.string(here)
            here = self.skip(here)
            if not self.text.startswith(":", here):
                self.refuse("':' is expected after a key", here)
            child = (*path, key)
            here = self.skip(here + 1)
            if key in members:
                self.problems.append(
                    Problem(
                        code="DuplicateKey",
                        message=f"the key {quoted(key)} is already defined on line"
                        f" {self.keys[child][0]}",
                        path=child,
                        position=self.position(start),
                        fix="keep one of the two",
                        severity=Severity.WARNING if self.last_wins else Severity.ERROR,
                    )
                )
            if key in members and not self.last_wins:
                # Parse the value only to skip it, under a path that cannot occur otherwise.
                count = len(self.problems)
                _, here = self.value(here, (*path, f"{key}\0"))
                del self.problems[count:]
            else:
                self.keys[child] = self.position(start)
                value, here = self.value(here, child)
                if key in members:
                    repeated.setdefault(key, [members[key]]).append(value)
                else:
                    members[key] = value
            here = self.skip(here)
            if self.text.startswith("}", here):
                for key, given in repeated.items():
                    child = (*path, key)
                    self.overwritten += ((child, value) for value in given[:-1])
                    members[key] = _merged(child, given)
                return members, here + 1
            here = self.comma(here, "}")

    def comma(self, offset: int, closing: str) -> int:
        if not self.text.startswith(",", offset):
            self.refuse(f"',' or '{closing}' is expected", offset)
        return self.skip(offset + 1)


def read_json(text: str, *, last_wins: bool = False) -> Document:
    """Read a text of one JSON value. Raises `UnreadableText` for invalid JSON or exceeded limits.

    With ``last_wins`` the values of duplicate keys of a Pod are merged as Go does, with a warning;
    otherwise the first one counts, with an error.
    """
    reader = _Reader(text, last_wins=last_wins)
    value, end = reader.value(reader.skip(0), ())
    end = reader.skip(end)
    if end < len(text):
        reader.refuse("there is text after the object", end, "remove it")
    return Document(
        value,
        reader.keys,
        reader.values,
        tuple(reader.problems),
        reader.raw,
        is_json=True,
        overwritten=tuple(reader.overwritten),
    )


def _merged(path: Path, given: list[Any]) -> Any:
    """Return the result of Go's decoder for the values of duplicate keys of a Pod."""
    around = shape_at(Pod, path[:-1])
    field = None
    if around is not None and around.struct is not None:
        field = fields(around.struct).get(str(path[-1]))
    if field is None:
        return given[-1]
    value, *rest = copy.deepcopy(given)
    for later in rest:
        value = _decoded_into(value, later, field)
    return value


def _decoded_into(earlier: Any, later: Any, field: StructField) -> Any:
    """Decode a later value of a field on top of the earlier one.

    null removes lists, maps and fields that Go holds by pointer. Objects and maps are merged; the
    items of a list are decoded into the earlier items.
    """
    if later is not None:
        return _merged_values(earlier, later, field.shape)
    removed = field.by_pointer or field.shape.form in {Form.LIST, Form.MAP}
    return None if removed else earlier


def _merged_values(earlier: Any, later: Any, shape: Shape | None) -> Any:
    if shape is None:
        return later
    if isinstance(earlier, dict) and isinstance(later, dict):
        old, new = cast("dict[str, Any]", earlier), cast("dict[str, Any]", later)
        members: Mapping[str, StructField] = {} if shape.struct is None else fields(shape.struct)
        for key, value in new.items():
            merge = key in old and key in members
            old[key] = _decoded_into(old[key], value, members[key]) if merge else value
        return old
    if isinstance(earlier, list) and isinstance(later, list):
        before, after = cast("list[Any]", earlier), cast("list[Any]", later)
        for index, old_item in enumerate(before[: len(after)]):
            if after[index] is None:
                after[index] = old_item
            else:
                after[index] = _merged_values(old_item, after[index], shape.item)
        return after
    return later
