"""Objects as other servers write them.

Go writes ``null`` for a list or map that is empty and must be there (``status.images[].names`` of a
Node, ``volumes[].projected.sources`` of a Pod), and reads it as nothing. So do we, but strictly
first: what our own agent writes has none, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")


def decoded(body: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """Raises `msgspec.MsgspecError` for what is no such object, or no JSON."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        return converted(msgspec.json.decode(body), decoder.type)


def converted(value: Any, kind: type[T]) -> T:
    """The same of plain values. Raises `msgspec.ValidationError`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(value), kind)


def without_nulls(value: Any) -> Any:
    """Plain values without the fields that are null. Nulls in lists stay: they have a place."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value).items()
        return {name: without_nulls(field) for name, field in fields if field is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in cast("list[Any]", value)]
    return value
