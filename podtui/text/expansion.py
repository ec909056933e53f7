"""Expansion of ``$(NAME)`` in values, commands and paths (kubelet.md §10.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` by its value; leave unknown names unchanged. See `expand_by`."""
    return expand_by(text, lambda name: variables.get(name, f"$({name})"))


def expand_by(text: str, value: Callable[[str], str]) -> str:
    """Replace each ``$(NAME)`` by the result of ``value(NAME)``.

    ``$$`` becomes ``$``. An unclosed ``$(``, and a ``$`` before any other character, stay
    unchanged.
    """
    pieces: list[str] = []
    at = 0
    while (dollar := text.find("$", at)) >= 0 and dollar + 1 < len(text):
        pieces.append(text[at:dollar])
        following = text[dollar + 1]
        close = text.find(")", dollar + 2) if following == "(" else -1
        if following == "$":
            pieces.append("$")
            at = dollar + 2
        elif following == "(" and close >= 0:
            pieces.append(value(text[dollar + 2 : close]))
            at = close + 1
        elif following == "(":
            pieces.append("$(")
            at = dollar + 2
        else:
            pieces.append(f"${following}")
            at = dollar + 2
    pieces.append(text[at:])
    return "".join(pieces)
