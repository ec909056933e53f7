"""Conversion of libyaml's syntax errors to problems with a position and a fix."""

from __future__ import annotations

from typing import Any, Final

import yaml

from podtui.manifest.document import Place, Problem, printable, source_lines

_FIXES: Final = (
    ("mapping values are not allowed", "check the indentation here, or put the text in quotes"),
    ("did not find expected key", "check the indentation of this line and of the one before it"),
    ("did not find expected '-'", "check the indentation of this line and of the one before it"),
    ("could not find expected ':'", "end the key with ':' and a space"),
    ("did not find expected ',' or '}'", "close the map with '}'"),
    ("did not find expected ',' or ']'", "close the list with ']'"),
    ("found unexpected end of stream", "close the quotes"),
    ("did not find expected node content", "write a value here"),
    ("cannot start any token", "put the text in quotes"),
    ("found unexpected ':'", "put the text in quotes"),
)


def place_of(mark: Any) -> Place:
    """Return line and column of a libyaml mark, from 1."""
    return (mark.line + 1, mark.column + 1)


def _within(place: Place, lines: list[str]) -> Place:
    """Return the place, moved to the end of the text if it is in the blank lines after it."""
    last = next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip()), 1)
    return place if place[0] <= last else (last, len(lines[last - 1]) + 1)


def syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    """Return a problem for a syntax error in the text."""
    mark: Any = getattr(error, "problem_mark", None)
    said: str = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
    lines = source_lines(text)
    place = _within(place_of(mark), lines) if mark is not None else (1, 1)
    fix = next((fix for start, fix in _FIXES if start in said), "")
    if "tab character" in said:
        said, fix = "a tab cannot indent YAML", "indent with spaces"
    elif "cannot start any token" in said:
        line = lines[place[0] - 1] if place[0] <= len(lines) else ""
        if "\t" in line[: place[1]]:
            said, fix = "a tab cannot indent YAML", "indent with spaces"
    context: str | None = getattr(error, "context", None)
    begin: Any = getattr(error, "context_mark", None)
    if context and begin is not None and begin.line + 1 != place[0]:
        said += f" ({context} that begins on line {begin.line + 1})"
    elif context:
        said += f" ({context})"
    return Problem(code="InvalidYAML", message=printable(said), place=place, fix=fix)
