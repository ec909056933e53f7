"""The protobuf encoding: the fields of any message, and messages that are declared as structs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from msgspec import Struct

from podtui.errors import PodtuiError
from podtui.wire.varint import encode_varint

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MASK = 0xFFFF_FFFF_FFFF_FFFF
Raw = int | bytes | memoryview


class ProtobufError(PodtuiError):
    """Raised for bytes that are not a valid encoding of the message."""


def raw_fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Iterate over the numbers and raw values of a message. Raises `ProtobufError`."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise ProtobufError("illegal tag 0")
        if wire == _VARINT:
            value, at = read_varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = read_varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"illegal wire type {wire}")
        if size > len(data) - at:
            raise ProtobufError("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return (number, end offset). Raises `ProtobufError`."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
    raise ProtobufError("integer overflow")


def as_bytes(value: Raw) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("wrong wire type")
    return memoryview(value)


def as_text(value: Raw) -> str:
    try:
        return bytes(as_bytes(value)).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("string field contains invalid UTF-8") from error


def as_integer(value: Raw) -> int:
    if not isinstance(value, int):
        raise ProtobufError("wrong wire type")
    return value - (1 << 64) if value >> 63 else value


# --- messages as structs


class Message(Struct, frozen=True):
    """A message. Each field has its number: ``name: Annotated[str, 1] = ""``.

    A field is a string, an integer, a boolean, another message or None, a map of strings, or a
    tuple of strings or messages.
    """


_Message = TypeVar("_Message", bound=Message)


@functools.cache
def _numbers(kind: type[Message]) -> dict[int, tuple[str, Any]]:
    """Return name and type of the fields by number."""
    hints = get_type_hints(kind, include_extras=True)
    declared = {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}
    return {get_args(hint)[1]: (name, get_args(hint)[0]) for name, hint in declared.items()}


def encode_message(message: Message) -> bytes:
    """Encode a message; fields with empty values are left out."""
    encoded = bytearray()
    for number, (name, _) in sorted(_numbers(type(message)).items()):
        value: Any = getattr(message, name)
        if isinstance(value, Mapping):
            for key, text in sorted(cast("Mapping[str, str]", value).items()):
                encoded += _delimited(number, _value(1, key) + _value(2, text))
        elif isinstance(value, tuple):
            for item in cast("tuple[str | Message, ...]", value):
                data = item.encode() if isinstance(item, str) else encode_message(item)
                encoded += _delimited(number, data)
        elif value is not None:
            encoded += _value(number, value)
    return bytes(encoded)


def _value(number: int, value: str | int | Message) -> bytes:
    if isinstance(value, Message):
        return _delimited(number, encode_message(value))
    if not value:
        return b""
    if isinstance(value, str):
        return _delimited(number, value.encode())
    return encode_varint(number << 3) + encode_varint(int(value) & _MASK)


def _delimited(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(data)) + data


def decode_message(data: bytes | memoryview, kind: type[_Message]) -> _Message:
    """Decode a message; fields with unknown numbers are ignored. Raises `ProtobufError`."""
    numbers = _numbers(kind)
    values: dict[str, Any] = {}
    lists: dict[str, list[object]] = {}
    for number, raw in raw_fields(memoryview(data)):
        if number not in numbers:
            continue
        name, declared = numbers[number]
        arguments = get_args(declared)
        if get_origin(declared) is tuple:
            lists.setdefault(name, []).append(_decoded(raw, arguments[0]))
        elif arguments and isinstance(arguments[0], type) and issubclass(arguments[0], Message):
            values[name] = decode_message(as_bytes(raw), arguments[0])
        elif arguments:
            pair = dict(raw_fields(as_bytes(raw)))
            values.setdefault(name, {})[as_text(pair.get(1, b""))] = as_text(pair.get(2, b""))
        else:
            values[name] = _decoded(raw, declared)
    for name, items in lists.items():
        values[name] = tuple(items)
    return kind(**values)


def _decoded(raw: Raw, kind: type[object]) -> object:
    if kind is str:
        return as_text(raw)
    if kind is bool:
        return as_integer(raw) != 0
    if kind is int:
        return as_integer(raw)
    if issubclass(kind, Message):
        return decode_message(as_bytes(raw), kind)
    raise TypeError(kind)
