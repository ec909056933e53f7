"""A manifest's text as a tree of plain values with known positions.

Paths are tuples of keys and list indexes; positions are (line, column), both from 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from podtui.api.local import Severity

Path = tuple[str | int, ...]
Position = tuple[int, int]
_Found = TypeVar("_Found")

MAX_BYTES: Final = 10 * 1024 * 1024
MAX_DEPTH: Final = 100
MAX_NODES: Final = 100_000
FURTHER_DOCUMENT: Final = "FurtherDocument"
"""The code of problems about text that is not read, and about pods in it that do not run."""
OTHER_OBJECT: Final = "OtherObject"
"""The code of problems about objects that no pod needs to run, and that are not read."""
NOT_ENFORCED: Final = "NotEnforced"
"""The code of warnings that nothing acts on objects of a kind, whatever they state."""
MAX_CHARACTERS: Final = 2 * MAX_BYTES

_UTF_16: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
# The line breaks of YAML 1.1, as libyaml counts them.
_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# The characters that YAML does not allow.
_UNPRINTABLE: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem at one path, not yet assigned to a file.

    ``position`` overrides the position of the path; a problem with neither is about the whole file.
    """

    code: str
    message: str
    path: Path = ()
    position: Position | None = None
    fix: str = ""
    severity: Severity = Severity.ERROR
    at_key: bool = False
    """Point at the key instead of its value."""
    remove: tuple[Path, ...] = ()
    """The fields and items whose removal is the fix."""
    stands_for: Path = ()
    """The field that was probably meant; no problem is reported because it is missing."""


class UnreadableText(Exception):
    """Raised if a text yields no tree at all; ``problem`` has the reason and the position."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a manifest: its value, the positions of its parts, and its problems."""

    value: Any
    keys: Mapping[Path, Position] = field(default_factory=dict[Path, Position])
    values: Mapping[Path, Position] = field(default_factory=dict[Path, Position])
    problems: tuple[Problem, ...] = ()
    raw: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """The spelling of scalars that are not strings (``yes``, ``0644``)."""
    is_json: bool = False
    overwritten: tuple[tuple[Path, Any], ...] = ()
    """The earlier values of duplicate keys, if the later ones count."""

    @property
    def cut_off(self) -> bool:
        """True if unread text follows the document."""
        return any(problem.code == FURTHER_DOCUMENT for problem in self.problems)

    def position(self, path: Path, *, at_key: bool = False) -> Position | None:
        """Return the position of ``path``, or of its nearest ancestor in the text."""
        exact = self.keys if at_key else self.values
        if path in exact:
            return exact[path]
        for end in range(len(path), -1, -1):
            position = self.keys.get(path[:end]) or self.values.get(path[:end])
            if position is not None:
                return position
        return None


def within(document: Document, path: Path) -> Document:
    """Return the value at ``path`` as a document; the problems are not copied."""
    value = document.value
    for step in path:
        value = value[step]
    return Document(
        value,
        _below(document.keys, path),
        _below(document.values, path),
        (),
        _below(document.raw, path),
        document.is_json,
    )


def _below(table: Mapping[Path, _Found], path: Path) -> dict[Path, _Found]:
    return {steps[len(path) :]: what for steps, what in table.items() if steps[: len(path)] == path}


class MapKey(str):
    """A path step that is a key of a free-form map (a label, a resource): shown in brackets."""

    __slots__ = ()


def path_text(path: Path) -> str:
    """Format a path in the API server's notation: ``spec.containers[0].env[2].name``."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step) and not isinstance(step, MapKey):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{printable(step, 80)}]")
    return "".join(parts)


def printable(text: str, limit: int = 200) -> str:
    """Make a text safe to show: control characters escaped, cut at ``limit`` characters."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(
        char
        if char.isprintable()
        else (f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")
        for char in cut.replace("\n", "\\n").replace("\t", "\\t")
    )


def quoted(value: object, limit: int = 120) -> str:
    """Format a value for a message: strings in double quotes, other values as YAML writes them."""
    if isinstance(value, str):
        escaped = printable(value.replace("\\", "\\\\").replace('"', '\\"'), limit)
        return f'"{escaped}"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return printable(str(value), limit)


def source_lines(text: str) -> list[str]:
    """Split a text into lines, counted as the readers count them."""
    return _BREAK.split(text)


def position_at(text: str, offset: int) -> Position:
    """Return the line and column of a character offset."""
    line, start = 1, 0
    for match in _BREAK.finditer(text, 0, offset):
        line, start = line + 1, match.end()
    return line, offset - start + 1


def as_utf8(data: bytes, errors: str = "strict") -> bytes:
    """Re-encode UTF-16 with a byte-order mark as UTF-8 with one; return other bytes unchanged.

    Raises UnicodeDecodeError for broken UTF-16, unless ``errors`` says otherwise.
    """
    codec = _UTF_16.get(data[:2])
    return data if codec is None else data.decode(codec, errors).encode()


def decode_text(data: bytes) -> str:
    """Decode the text of a file. Raises `UnreadableText` if it is too large or not text."""
    if len(data) > MAX_BYTES:
        raise UnreadableText(
            Problem(
                code="FileTooLarge",
                message=f"the file has {len(data)} bytes; at most {MAX_BYTES} are allowed",
            )
        )
    try:
        data = as_utf8(data)
    except UnicodeDecodeError:
        message = "the file begins with a UTF-16 byte order mark, but is not UTF-16 text"
        raise UnreadableText(
            Problem(code="NotText", message=message, fix="save it as UTF-8")
        ) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The error offset counts from after the byte-order mark, if there is one.
        body = data.removeprefix(b"\xef\xbb\xbf")
        before = body[: error.start].decode("utf-8", "replace")
        raise UnreadableText(
            Problem(
                code="NotText",
                message=f"byte 0x{body[error.start]:02x} is not UTF-8 text",
                position=position_at(before, len(before)),
                fix="save the file as UTF-8; a manifest is a text file",
            )
        ) from None
    return text


def require_yaml_characters(text: str) -> None:
    """Raises `UnreadableText` for a character that YAML does not allow; JSON allows more."""
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        raise UnreadableText(
            Problem(
                code="ControlCharacter",
                message=f"control character U+{ord(bad[0]):04X} is not allowed",
                position=position_at(text, bad.start()),
                fix="remove the character, or escape it in double quotes",
            )
        )
