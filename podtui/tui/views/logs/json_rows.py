"""Pretty-print a JSON log line over several rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, cast

MOST_ROWS: Final = 500
MOST_BYTES: Final = 256 * 1024
MOST_LEVELS: Final = 200
"""Maximum nesting of lists and objects; a deeper document would be unreadable anyway."""
INDENT: Final = "  "

Piece = tuple[str, str]
"""A text and its kind: ``key``, ``string``, ``number``, ``word`` or empty."""
JsonRow = tuple[Piece, ...]


def parse_json(line: bytes) -> dict[str, Any] | list[Any] | None:
    """Parse a line that is an object or a list, or that ends with an object after other text.

    Returns None if there is no JSON, or if it is too long or too deeply nested.
    """
    if len(line) > MOST_BYTES:
        return None
    text = line.strip()
    if not text.endswith((b"}", b"]")):
        return None
    start = text.find(b"{") if text.endswith(b"}") else 0
    try:
        value = json.loads(text[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)) or _is_deeper(value, MOST_LEVELS):
        return None
    return cast("dict[str, Any] | list[Any]", value)


def _is_deeper(value: Any, levels: int) -> bool:
    """Check the nesting depth; the parser's own limit differs between Python versions."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in cast("Any", item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def row_count(line: bytes) -> int:
    """Return the number of rows of `pretty`."""
    value = parse_json(line)
    return 0 if value is None else min(_count(value), MOST_ROWS)


def _count(value: Any) -> int:
    waiting, count = [value], 0
    while waiting and count <= MOST_ROWS:
        item = waiting.pop()
        if isinstance(item, (dict, list)) and item:
            count += 2
            inside = cast("Any", item.values() if isinstance(item, dict) else item)
            waiting.extend(inside)
        else:
            count += 1
    # Each waiting item takes at least one row.
    return count + len(waiting)


def pretty(line: bytes) -> list[JsonRow]:
    """Return the rows of the JSON in a line; empty if it contains none.

    At most `MOST_ROWS` rows: if there are more, the last row is an ellipsis.
    """
    value = parse_json(line)
    if value is None:
        return []
    rows: list[JsonRow] = []
    for row in _rows(value, "", ()):
        if len(rows) == MOST_ROWS:
            rows[-1] = (("…", ""),)
            break
        rows.append(row)
    return rows


def _rows(value: Any, margin: str, key: JsonRow, comma: str = "") -> Iterator[JsonRow]:
    head: JsonRow = ((margin, ""), *key)
    if not isinstance(value, (dict, list)) or not value:
        yield (*head, _scalar(value), (comma, ""))
        return
    left, right = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield (*head, (left, ""))
    last = len(cast("Any", value)) - 1
    inside = margin + INDENT
    for number, item in enumerate(cast("Any", value)):
        mark = "," if number < last else ""
        if isinstance(value, dict):
            name: JsonRow = ((json.dumps(item, ensure_ascii=False), "key"), (": ", ""))
            yield from _rows(value[item], inside, name, mark)
        else:
            yield from _rows(item, inside, (), mark)
    yield ((margin, ""), (right + comma, ""))


def _scalar(value: Any) -> Piece:
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return text, "string"
    if isinstance(value, (dict, list)):
        return text, ""
    return text, "word" if value is None or isinstance(value, bool) else "number"
