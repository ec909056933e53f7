"""A manifest's text with the positions of its fields, and edits that change a single field.

An edit changes only its target: comments, quotes, anchors and the order of keys stay. If a change
is not safe, no edit is returned: every position is checked against the text, so that a value from
an alias or a merge is not mistaken for text at that position.
"""

from __future__ import annotations

import json as json_text
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, cast

from podtui.api.local import Edit, Manifest
from podtui.api.places import FieldPlace, Path, Position, read_places
from podtui.editing.edits import BREAK

MAX_TEXT: Final = 256 * 1024 - 4
"""A longer text may have been truncated."""
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*[ \t]+)*")
_ANCHOR: Final = re.compile(r"&([^\s,\[\]{}]+)")
_DOUBLE: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_SINGLE: Final = re.compile(r"'(?:[^']|'')*'")
_PLAIN_END: Final = re.compile(r"\s#|:\s")
_FLOW_PLAIN_END: Final = re.compile(r"\s#|[,\[\]{}]")
_ITEM: Final = re.compile(r"( *)-[ \t]+")
_COMMA: Final = re.compile(r"\s*,\s*")


def find_place(places: Mapping[Path, FieldPlace], path: Path) -> tuple[Position | None, bool]:
    """Return the position of a field, or of its nearest ancestor in the text, and whether the field
    itself is in the text."""
    for end in range(len(path), 0, -1):
        positions = places.get(path[:end])
        if positions is not None:
            return positions.key or positions.value, end == len(path)
    return None, False


class Source:
    """``text`` as the agent read it; ``places`` are the positions of its fields, by path."""

    def __init__(self, text: str, places: Mapping[Path, FieldPlace]) -> None:
        self.text = text
        self.places = places
        self._starts = [0, *(match.end() for match in BREAK.finditer(text))]
        self._ends = [*(match.start() for match in BREAK.finditer(text)), len(text)]
        self.json = text.lstrip("\ufeff \t\r\n").startswith("{")

    @classmethod
    def of(cls, manifest: Manifest | None) -> Source | None:
        """Return None if the text is missing or incomplete."""
        if manifest is None or not manifest.spec.text or len(manifest.spec.text) > MAX_TEXT:
            return None
        return cls(manifest.spec.text, read_places(manifest.status.places))

    # --- lookup

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return a line without its line break; ``number`` counts from 1."""
        if not 1 <= number <= len(self._starts):
            return ""
        text = self.text[self._starts[number - 1] : self._ends[number - 1]]
        # The reader's columns do not count a byte-order mark.
        return text.removeprefix("\ufeff") if number == 1 else text

    def find(self, path: Path) -> tuple[Position | None, bool]:
        """See `find_place`."""
        return find_place(self.places, path)

    def is_at(self, path: Path, line: int | None, column: int | None) -> bool:
        """Return whether a field or its key is at this position."""
        positions = self.places.get(path)
        return positions is not None and (line, column) in (positions.key, positions.value)

    def scalar(self, path: Path) -> tuple[Position, str] | None:
        """Return the position and the source text, including quotes, of a scalar. Returns None for
        other values, for multi-line scalars, and for scalars that an anchor shares."""
        positions = self.places.get(path)
        if positions is None or not self._is_at_own_key(path, positions):
            return None
        number, column = positions.value
        line = self.line(number)
        properties = _PROPERTIES.match(line, column - 1)
        start = properties.end() if properties else column - 1
        anchor = _ANCHOR.search(line[column - 1 : start])
        if anchor and f"*{anchor[1]}" in self.text:
            return None
        raw = self._token(line, start, flow=self._in_flow(path))
        if raw is None or self._continues(path, number, line, start + len(raw)):
            return None
        return (number, start + 1), raw

    def _token(self, line: str, start: int, *, flow: bool) -> str | None:
        first = line[start : start + 1]
        if not first or first in "|>{[":
            return None
        pattern = {'"': _DOUBLE, "'": _SINGLE}.get(first)
        if pattern is None:
            return _plain(line, start, flow=flow)
        match = pattern.match(line, start)
        return match[0] if match else None

    def _continues(self, path: Path, number: int, line: str, end: int) -> bool:
        """Return whether the scalar continues on the next line."""
        rest = line[end:].strip()
        if rest and not rest.startswith(("#", ",", "]", "}")):
            return True
        if self._in_flow(path):
            return not rest and self.line(number + 1).strip()[:1] not in ("]", "}", '"', "'", "")
        following = self.line(number + 1)
        text = following.lstrip(" ")
        key = self.places[path].key
        indent = key[1] - 1 if key else self.places[path].value[1] - 2
        return bool(text) and not text.startswith("#") and len(following) - len(text) > indent

    def _is_at_own_key(self, path: Path, positions: FieldPlace) -> bool:
        """Return whether the field belongs to this position alone: its key is written there (the
        key of a merged field is not), and no alias shares it."""
        above = (self.places.get(path[:end]) for end in range(1, len(path)))
        if any(
            positions_above is not None and self._is_shared(positions_above)
            for positions_above in above
        ):
            return False
        if positions.key is None:
            return True
        line, column = positions.key
        raw = self.line(line)[column - 1 :]
        step = str(path[-1])
        return raw.startswith((step, f'"{step}"', f"'{step}'"))

    def _in_flow(self, path: Path) -> bool:
        return any(self._opens_flow(path[:end]) for end in range(len(path)))

    def _opens_flow(self, path: Path) -> str:
        """Return ``{`` or ``[`` if the value at a path is written in flow style, or an empty
        string."""
        if not path:
            return "{" if self.json else ""
        positions = self.places.get(path)
        if positions is None:
            return ""
        line, column = positions.value
        text = self.line(line)
        properties = _PROPERTIES.match(text, column - 1)
        start = properties.end() if properties else column - 1
        first = text[start : start + 1]
        return first if first in ("{", "[") else ""

    def _children(self, path: Path) -> list[tuple[Path, FieldPlace]]:
        size = len(path) + 1
        return [
            (child, positions)
            for child, positions in self.places.items()
            if len(child) == size and child[:-1] == path and self._is_at_own_key(child, positions)
        ]

    # --- edits

    def set(self, path: Path, value: Value, *, after: str = "") -> tuple[Edit, ...]:
        """Set a field, adding its missing ancestors; ``after`` is the sibling below which a new key
        is placed, if that exists. Returns no edits if this is not safe."""
        depth = len(path)
        while depth and path[:depth] not in self.places:
            depth -= 1
        if depth == len(path):
            edit = self.replace(path, value)
            return (edit,) if edit else ()
        steps = path[depth:]
        if any(isinstance(step, int) for step in steps):
            return ()
        inner: Value = value
        for step in reversed(steps[1:]):
            inner = {str(step): inner}
        edit = self._add(path[:depth], str(steps[0]), inner, after)
        return (edit,) if edit else ()

    def add_first(self, key: str, value: Value) -> tuple[Edit, ...]:
        """Add a field to the root object, before its other fields."""
        if (key,) in self.places:
            return ()
        if self.json:
            edit = self._add_in_flow((), key, value)
            return (edit,) if edit else ()
        first = min((p.key for path, p in self.places.items() if len(path) == 1 and p.key),
                    default=None)  # fmt: skip
        if first is None or self.line(first[0])[: first[1] - 1].strip(" -"):
            return ()
        line, column = first
        feed = f"{self._feed(line)}{' ' * (column - 1)}"
        return (Edit(line, column, "", "".join(f"{text}{feed}" for text in block(key, value))),)

    def set_raw(self, path: Path, raw: str) -> tuple[Edit, ...]:
        """Add a field whose value is written verbatim."""
        edits = self.set(path, Raw(raw))
        return edits if path not in self.places else ()

    def replace_raw(self, path: Path, raw: str) -> Edit | None:
        """Replace a scalar by a verbatim text, including its quotes."""
        scalar = self.scalar(path)
        return Edit(*scalar[0], scalar[1], raw) if scalar is not None else None

    def replace_text(self, path: Path, text: str) -> Edit | None:
        """Replace a scalar by a string, quoted if it would otherwise be read as another type."""
        scalar = self.scalar(path)
        if scalar is None:
            return None
        return Edit(*scalar[0], scalar[1], written(text, json=self.json))

    def replace(self, path: Path, value: Value) -> Edit | None:
        """Replace a scalar by another one, which is quoted if the old one is."""
        scalar = self.scalar(path)
        if scalar is None or isinstance(value, Mapping):
            return None
        (line, column), old = scalar
        new = written(value, json=self.json)
        if isinstance(value, str) and old[:1] in ("'", '"') and new[:1] not in ("'", '"'):
            new = f"{old[0]}{new}{old[0]}"
        return Edit(line, column, old, new) if new != old else None

    def replace_key(self, path: Path, new: str) -> Edit | None:
        """Rename a key."""
        positions = self.places.get(path)
        if positions is None or positions.key is None or not self._is_at_own_key(path, positions):
            return None
        line, column = positions.key
        quoted = self.line(line)[column - 1 : column] in ("'", '"')
        return Edit(line, column + quoted, str(path[-1]), new)

    def _add(self, parent: Path, key: str, value: Value, after: str) -> Edit | None:
        opening = self._opens_flow(parent)
        if opening == "[":
            return None
        if opening == "{":
            return self._add_in_flow(parent, key, value)
        above = self.places.get(parent) if parent else None
        if above is None or not self._is_at_own_key(parent, above) or self._is_shared(above):
            return None
        children = [
            (path, positions) for path, positions in self._children(parent) if positions.key
        ]
        if not children:
            return self._add_first(above, key, value)
        column = children[0][1].key[1] if children[0][1].key else 1
        whole = [path for path, _ in children if self._ends_its_line(path)]
        wanted = [path for path in whole if path[-1] == after]
        if wanted or whole:
            line = self.places[(wanted or whole)[0]].value[0]
        elif above.key is not None and above.key[0] < above.value[0]:
            line = above.key[0]
        else:
            return None
        return self._below(line, column - 1, key, value)

    def _add_first(self, above: FieldPlace, key: str, value: Value) -> Edit | None:
        """Add a field to a mapping that has its key but no fields yet."""
        if above.key is None:
            return None
        line, column = above.key
        if not re.search(r":\s*(#.*)?$", self.line(line)[column - 1 :]):
            return None
        return self._below(line, column + 1, key, value)

    def _ends_its_line(self, path: Path) -> bool:
        """Return whether a field is a scalar on its key's line, so that another field can follow
        it."""
        scalar = self.scalar(path)
        key = self.places[path].key
        return scalar is not None and key is not None and scalar[0][0] == key[0]

    def _is_shared(self, above: FieldPlace) -> bool:
        """Return whether a mapping has an anchor that is used elsewhere."""
        line, column = above.value
        anchor = _ANCHOR.match(self.line(line), column - 1)
        return anchor is not None and f"*{anchor[1]}" in self.text

    def _below(self, line: int, indent: int, key: str, value: Value) -> Edit:
        feed = self._feed(line)
        new = "".join(f"{feed}{' ' * indent}{text}" for text in block(key, value))
        return Edit(line, len(self.line(line)) + 1, "", new)

    def _feed(self, line: int) -> str:
        """Return the line break after a line, or else the first one of the text."""
        match = BREAK.match(self.text, self._ends[line - 1]) or BREAK.search(self.text)
        return match[0] if match else "\n"

    def _add_in_flow(self, parent: Path, key: str, value: Value) -> Edit | None:
        if parent:
            line, column = self.places[parent].value
        else:
            line, column = next(
                ((n, self.line(n).index("{") + 1) for n in range(1, self.line_count + 1)
                 if "{" in self.line(n)), (1, 1))  # fmt: skip
        text = self.line(line)
        if text[column - 1 : column] != "{":
            return None
        pair = flow_pair(key, value, json=self.json)
        empty = re.match(r"\s*\}", text[column:])
        return Edit(line, column + 1, "", pair if empty else f"{pair}, ")

    def prepend(self, path: Path, items: tuple[str, ...]) -> Edit | None:
        """Insert items before the first item of a list of strings."""
        first = self.scalar((*path, 0))
        if first is None:
            return None
        (line, column), _ = first
        texts = [json_text.dumps(item) for item in items]
        if self._opens_flow(path) == "[":
            return Edit(line, column, "", "".join(f"{text}, " for text in texts))
        indent = self.line(line)[: column - 1]
        if indent.strip(" ") != "-":
            return None
        feed = self._feed(line)
        return Edit(line, column, "", "".join(f"{text}{feed}{indent}" for text in texts))

    def remove(self, path: Path) -> Edit | None:
        """Remove a field with all its content; None if an alias refers to that content."""
        positions = self.places.get(path)
        if positions is None or positions.key is None:
            return None
        return next(iter(self.remove_all((path,))), None)

    def remove_all(self, paths: Iterable[Path]) -> tuple[Edit, ...]:
        """Remove fields and list items, as far as that is safe."""
        by_parent: dict[Path, list[Path]] = {}
        for path in dict.fromkeys(paths):
            if path in self.places and self._is_at_own_key(path, self.places[path]):
                by_parent.setdefault(path[:-1], []).append(path)
        edits: list[Edit] = []
        for parent, gone in by_parent.items():
            if self._in_flow(gone[0]):
                edits += self._remove_from_flow(parent, gone)
            else:
                edits += (edit for path in gone if (edit := self._remove_block(path)))
        return tuple(edit for edit in edits if not self._is_referred_to(edit.old))

    def _is_referred_to(self, text: str) -> bool:
        return any(f"*{name}" in self.text for name in _ANCHOR.findall(text))

    def _remove_block(self, path: Path) -> Edit | None:
        field_place = self.places[path]
        line, column = field_place.key or field_place.value
        before = self.line(line)[: column - 1]
        if field_place.key is None:
            item = _ITEM.fullmatch(before)
            if item is None:
                return None
            indent = len(item[1])
        elif before.strip(" "):
            return self._remove_first(path, field_place.key)
        else:
            indent = column - 1
        last = max(p.value[0] for other, p in self.places.items() if other[: len(path)] == path)
        ahead = last + 1
        while ahead <= self.line_count and self._is_deeper(ahead, indent):
            if self.line(ahead).strip():
                last = ahead
            ahead += 1
        start = self._starts[line - 1]
        end = self._starts[last] if last < len(self._starts) else len(self.text)
        return Edit(line, 1, self.text[start:end].removeprefix("\ufeff"), "")

    def _is_deeper(self, number: int, indent: int) -> bool:
        """Return whether a line is blank or has a deeper indentation."""
        line = self.line(number)
        text = line.lstrip(" ")
        return not text.strip() or len(line) - len(text) > indent

    def _remove_first(self, path: Path, key: Position) -> Edit | None:
        """Remove a field that follows a dash: its next sibling takes its place."""
        line, column = key
        if not self._ends_its_line(path):
            return None
        following = self.line(line + 1)
        indent = len(following) - len(following.lstrip(" "))
        siblings = [p.key for _, p in self._children(path[:-1]) if p.key]
        if (line + 1, column) not in siblings or indent != column - 1:
            return None
        start = self._starts[line - 1] + column - 1
        end = self._starts[line] + indent
        return Edit(line, column, self.text[start:end], "")

    def _remove_from_flow(self, parent: Path, gone: Collection[Path]) -> Iterator[Edit]:
        """Remove children of a flow collection, with the commas between them."""
        children: list[tuple[Path, int, int]] = []
        for path, positions in self._children(parent):
            value = self._offset(positions.value)
            children.append(
                (path, self._offset(positions.key or positions.value), self._flow_end(value))
            )
        children.sort(key=lambda child: child[1])
        between = [self.text[a[2] : b[1]] for a, b in pairwise(children)]
        if any(not _COMMA.fullmatch(text) for text in between):
            # The collection has children without a known position, or comments.
            return
        index = 0
        while index < len(children):
            first = index
            while index < len(children) and children[index][0] in gone:
                index += 1
            if index > first:
                start, end = children[first][1], children[index - 1][2]
                if index < len(children):
                    end = children[index][1]
                elif first:
                    start = children[first - 1][2]
                line = bisect_right(self._starts, start)
                column = start - self._starts[line - 1] + 1
                mark = line == 1 and self.text.startswith("\ufeff")
                yield Edit(line, column - mark, self.text[start:end], "")
            index += 1

    def _offset(self, position: Position) -> int:
        mark = position[0] == 1 and self.text.startswith("\ufeff")
        return self._starts[position[0] - 1] + position[1] - 1 + mark

    def _flow_end(self, start: int) -> int:
        """Return the end of a value in a flow collection: before the next comma or closing
        bracket."""
        depth, last, at_start = 0, start, True
        offset = start
        while offset < len(self.text):
            char = self.text[offset]
            quoted = {'"': _DOUBLE, "'": _SINGLE}.get(char) if at_start else None
            if quoted is not None and (match := quoted.match(self.text, offset)):
                offset = last = match.end()
                at_start = False
                continue
            if char == "#" and self.text[offset - 1].isspace():
                end = BREAK.search(self.text, offset)
                offset = end.start() if end is not None else len(self.text)
                continue
            if depth == 0 and char in ",]}":
                break
            depth += (char in "[{") - (char in "]}")
            if not char.isspace():
                at_start = char in "[{,:"
                last = offset + 1
            offset += 1
        return last


def _plain(line: str, start: int, *, flow: bool) -> str | None:
    """Return the unquoted scalar that begins at ``start``, without what follows it; None if there
    is none."""
    first = line[start]
    if first.isspace() or first in ("#,[]{}" if flow else "#"):
        return None
    match = (_FLOW_PLAIN_END if flow else _PLAIN_END).search(line, start + 1)
    end = match[0] if match else ""
    if end in ("[", "{") or end[:1] == ":":
        return None
    return line[start : match.start() if match else len(line)].rstrip()


Value = str | int | bool | Mapping[str, "Value"]

_SAFE: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._@-]*(?::[A-Za-z0-9._-]+)*|\d+(?:\.\d+)?[A-Za-z]+")
_WORDS: Final = frozenset("y yes n no true false on off null nan inf".split())


class Raw(str):
    """A scalar that is written verbatim."""

    __slots__ = ()


def written(value: str | int | bool, *, json: bool = False) -> str:
    """Format a scalar, unquoted if YAML still reads it as a string."""
    if isinstance(value, Raw):
        return value
    if not isinstance(value, str):
        return json_text.dumps(value)
    plain = not json and _SAFE.fullmatch(value) and value.lower() not in _WORDS
    return value if plain else json_text.dumps(value, ensure_ascii=False)


def block(key: str, value: Value) -> list[str]:
    """Return the lines of a key and its value in YAML block style, without indentation."""
    if not isinstance(value, Mapping):
        return [f"{key}: {written(value)}"]
    inner = cast("Mapping[str, Value]", value)
    return [f"{key}:", *(f"  {text}" for k, v in inner.items() for text in block(k, v))]


def flow_pair(key: str, value: Value, *, json: bool) -> str:
    """Format a key and its value in flow style; the key is quoted in JSON."""
    name = json_text.dumps(key) if json else key
    if not isinstance(value, Mapping):
        return f"{name}: {written(value, json=json)}"
    inner = cast("Mapping[str, Value]", value)
    return f"{name}: {{{', '.join(flow_pair(k, v, json=json) for k, v in inner.items())}}}"
