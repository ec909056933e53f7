"""Formatting of values for a manifest's text."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Mapping
from typing import Final, cast

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
