"""Lenient decoding of objects from other API servers.

Go writes ``null`` for an empty list or map that is required (``status.images[].names`` of a Node,
``volumes[].projected.sources`` of a Pod), and reads ``null`` as empty. These functions accept it
too, but decode strictly first: our own agent never writes nulls, so its objects need only one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")


def lenient_decode(body: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a JSON object. Raises `msgspec.MsgspecError` for invalid JSON or another kind of
    object."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        return lenient_convert(msgspec.json.decode(body), decoder.type)


def lenient_convert(value: Any, kind: type[T]) -> T:
    """Convert plain values, as `lenient_decode` does. Raises `msgspec.ValidationError`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(value), kind)


def without_nulls(value: Any) -> Any:
    """Drop all fields that are null. Nulls in lists stay, because they have a position."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value).items()
        return {name: without_nulls(field) for name, field in fields if field is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in cast("list[Any]", value)]
    return value
