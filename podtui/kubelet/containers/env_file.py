"""Files of variables that containers write for each other (``fileKeyRef``, reference §10.5).

A line is ``NAME='VALUE'``: no blank before ``=``, the value in single quotes and taken literally,
line feeds included, and after it only a comment. Blank lines and lines that begin with ``#`` are
skipped. If a blank follows ``=``, the rest of the line is ignored and the value is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_BLANKS: Final = " \t"
LIMIT: Final = 1 << 20
"""Maximum size in bytes; a longer file is an error."""


class EnvFileError(ValueError):
    """Raised for text in another form. The message quotes nothing of the file."""


def env_file_value(content: bytes, key: str) -> str:
    """Return the value of the first line that defines ``key``; empty if none does.

    The text after that line is not checked. Raises `EnvFileError`.
    """
    if len(content) > LIMIT:
        raise EnvFileError(f"the file has more than {LIMIT} bytes")
    for name, value in _variables(_lines(content)):
        if name == key:
            return value
    return ""


def _lines(content: bytes) -> Iterator[tuple[int, str]]:
    text = content.decode("utf-8", "replace")
    lines = text.removesuffix("\n").split("\n") if text else []
    return ((number, line.removesuffix("\r")) for number, line in enumerate(lines, start=1))


def _variables(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    for number, line in lines:
        line = line.lstrip(_BLANKS)
        if not line or line.startswith("#"):
            continue
        name, equals, rest = line.partition("=")
        if not equals:
            raise EnvFileError(f"line {number}: missing '='")
        if not name:
            raise EnvFileError(f"line {number}: empty variable name")
        if name != name.rstrip(_BLANKS):
            raise EnvFileError(f"line {number}: whitespace before '='")
        if rest.startswith(tuple(_BLANKS)):
            yield name, ""
        elif rest.startswith("'"):
            yield name, _quoted(number, rest[1:], lines)
        else:
            raise EnvFileError(f"line {number}: the value is not in single quotes")


def _quoted(number: int, rest: str, lines: Iterator[tuple[int, str]]) -> str:
    """Return the value up to the closing quote, which may be on a later line."""
    began, value = number, ""
    while True:
        piece, quote, after = rest.partition("'")
        value += piece
        if quote:
            break
        number, rest = next(lines, (0, ""))
        if not number:
            raise EnvFileError(f"line {began}: the single quote is not closed")
        value += "\n"
    after = after.lstrip(_BLANKS)
    if after and not after.startswith("#"):
        raise EnvFileError(f"line {number}: something stands after the closing quote")
    return value
