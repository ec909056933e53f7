"""Facts about the fields of the API's types: wire numbers, patch strategies, kinds of lists.

`fields.json` is written by ``scripts/generate_fields.py`` and is read when first needed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

LIST: Final = "[]"
MAP: Final = "{}"
SCALARS: Final = frozenset(
    {
        "string",
        "bytes",
        "bool",
        "int32",
        "int64",
        "double",
        "any",
        "Quantity",
        "IntOrString",
        "Time",
        "MicroTime",
        "FieldsV1",
    }
)
"""The types that are one JSON value; `FieldsV1` and `any` may be an object."""


class Field(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One field of a type. ``type`` is one of `SCALARS` or the name of a type, after ``[]`` for
    each list and ``{}`` for each map around it.

    ``at`` is the number in the protobuf message; a second number is that in a nested message whose
    fields JSON shows inline. ``pointer`` is True if Go distinguishes an absent value from an empty
    one. ``values`` are those of an enumeration. ``list`` and ``keys`` are the kind of a list for
    server-side apply; ``strategy`` and ``merge_key`` steer a strategic merge patch.
    """

    type: str
    at: tuple[int, ...] = ()
    required: bool = False
    pointer: bool = False
    default: Any = msgspec.UNSET
    values: tuple[str, ...] = ()
    list: Literal["", "atomic", "set", "map"] = ""
    keys: tuple[str, ...] = ()
    map: Literal["", "atomic", "granular"] = ""
    strategy: str = ""
    merge_key: str = ""


class Type(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A type with its fields by wire name. ``model`` is its full name in an OpenAPI document;
    ``version`` is the API version of a type that is a kind of its own."""

    model: str
    fields: Mapping[str, Field]
    version: str = ""
    map: Literal["", "atomic", "granular"] = ""


@functools.cache
def types() -> Mapping[str, Type]:
    """Return every type by its short name; that of another group than core's has the group before
    it if core has the same name (``events.Event``)."""
    body = Path(__file__).with_name("fields.json").read_bytes()
    return msgspec.json.decode(body, type=dict[str, Type])


@functools.cache
def _kinds() -> Mapping[tuple[str, str], str]:
    return {
        (facts.version, name.rpartition(".")[2]): name
        for name, facts in types().items()
        if facts.version
    }


def name_of_kind(api_version: str, kind: str) -> str | None:
    """Return the name of a kind's type; None if it is unknown."""
    return _kinds().get((api_version, kind))
