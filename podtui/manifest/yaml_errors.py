"""What libyaml says of a text that is not YAML, with its place and how to mend it."""

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
    """Line and column of one of libyaml's marks, from 1."""
    return (mark.line + 1, mark.column + 1)


def _within(place: Place, lines: list[str]) -> Place:
    """The place, or the end of the text where it lies in the blank lines behind that."""
    last = next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip()), 1)
    return place if place[0] <= last else (last, len(lines[last - 1]) + 1)


def syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    """The error as a problem of the text that it was met in."""
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
