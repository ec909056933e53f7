"""Decode request bodies in Kubernetes' protobuf encoding, which Go's typed clients send.

A body is ``k8s\\0`` and a ``runtime.Unknown`` message that names the kind and holds the object. The
numbers of the fields are in `podtui.api.fields`.
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from podtui.api.fields import LIST, MAP, Field, name_of_kind, types
from podtui.errors import PodtuiError
from podtui.text.json_text import read_json

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
PREFIX: Final = b"k8s\x00"
_MOST_LEVELS: Final = 100
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INTEGERS: Final = frozenset({"int32", "int64"})
_LAST_SECOND: Final = 253_402_300_799
_ZERO_TIME: Final = -62_135_596_800
Raw = int | bytes


class ProtobufError(PodtuiError):
    """Raised for a body that is not a valid protobuf encoding of a known kind."""


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in its JSON form, with ``apiVersion`` and ``kind``.

    Empty values are left out where Go cannot distinguish them from absent ones. Raises
    `ProtobufError`.
    """
    if not body.startswith(PREFIX):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    unknown = dict(_fields(memoryview(body)[len(PREFIX) :]))
    header = dict(_fields(_bytes(unknown.get(1, b""))))
    api_version, kind = _text(header.get(1, b"")), _text(header.get(2, b""))
    if unknown.get(3) or (unknown.get(4) and _text(unknown[4]) != MEDIA_TYPE):
        raise ProtobufError("unsupported encoding inside of the protobuf message")
    # Options have the version of the resource that they are sent to.
    name = name_of_kind("v1" if kind == "DeleteOptions" else api_version, kind)
    if name is None:
        group, _, version = api_version.rpartition("/")
        raise ProtobufError(f'no kind "{kind}" is registered for version "{group}/{version}"')
    fields = _message(name, _bytes(unknown.get(2, b"")), _MOST_LEVELS)
    return {**fields, "apiVersion": api_version, "kind": kind}


def _fields(data: memoryview) -> Iterator[tuple[int, Raw | memoryview]]:
    """Iterate over the numbers and raw values of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise ProtobufError("illegal tag 0")
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"illegal wire type {wire}")
        if size > len(data) - at:
            raise ProtobufError("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ProtobufError("integer overflow")


def _bytes(value: Raw | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("wrong wire type")
    return memoryview(value)


def _text(value: Raw | memoryview) -> str:
    try:
        return bytes(_bytes(value)).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("string field contains invalid UTF-8") from error


def _integer(value: Raw | memoryview) -> int:
    if not isinstance(value, int):
        raise ProtobufError("wrong wire type")
    return value - (1 << 64) if value >> 63 else value


Numbers = Mapping[int, "tuple[str, Field] | Numbers"]


@functools.cache
def _numbers(name: str) -> Numbers:
    """Return the fields of a type by number; fields of a nested message are in a table of their
    own."""
    numbers: dict[int, Any] = {}
    for wire_name, field in types()[name].fields.items():
        if field.at:
            table = numbers if len(field.at) == 1 else numbers.setdefault(field.at[0], {})
            table[field.at[-1]] = (wire_name, field)
    return numbers


def _message(name: str, data: memoryview, levels: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    _read(_numbers(name), data, levels, fields)
    return fields


def _read(numbers: Numbers, data: memoryview, levels: int, fields: dict[str, Any]) -> None:
    if not levels:
        raise ProtobufError("the message is nested too deeply")
    for number, raw in _fields(data):
        entry = numbers.get(number)
        if entry is None:
            continue
        if isinstance(entry, Mapping):
            _read(entry, _bytes(raw), levels - 1, fields)
            continue
        name, field = entry
        if field.type.startswith(LIST):
            fields.setdefault(name, []).extend(_items(field.type, raw, levels - 1))
        elif field.type.startswith(MAP):
            key, value = _entry(field.type, raw, levels - 1)
            fields.setdefault(name, {})[key] = value
        else:
            value = _value(field.type, raw, levels - 1)
            if value is None or (not value and not _is_kept(field, value)):
                fields.pop(name, None)
            else:
                fields[name] = value


def _is_kept(field: Field, empty: Any) -> bool:
    return field.pointer or field.required or isinstance(empty, dict) or field.type == "IntOrString"


def _items(kind: str, raw: Raw | memoryview, levels: int) -> list[Any]:
    item = kind.removeprefix(LIST)
    if item in _INTEGERS and not isinstance(raw, int):
        packed, at = _bytes(raw), 0
        values: list[Any] = []
        while at < len(packed):
            value, at = _varint(packed, at)
            values.append(_integer(value))
        return values
    return [_value(item, raw, levels)]


def _entry(kind: str, raw: Raw | memoryview, levels: int) -> tuple[str, Any]:
    item = kind.removeprefix(MAP)
    parts = dict(_fields(_bytes(raw)))
    key, value = _text(parts.get(1, b"")), parts.get(2, b"")
    if item.startswith(LIST):
        # A list as the value of a map is in a message of its own.
        return key, [
            _value(item.removeprefix(LIST), raw, levels) for _, raw in _fields(_bytes(value))
        ]
    return key, _value(item, value, levels)


def _value(kind: str, raw: Raw | memoryview, levels: int) -> Any:
    if kind in ("string", "Quantity", "IntOrString"):
        return _scalar_text(kind, raw)
    if kind in _INTEGERS:
        return _integer(raw)
    if kind == "bool":
        return _integer(raw) != 0
    if kind == "double":
        data = _bytes(raw)
        if len(data) != 8:
            raise ProtobufError("wrong wire type")
        return struct.unpack("<d", data)[0]
    if kind == "bytes":
        return base64.b64encode(_bytes(raw)).decode()
    if kind in ("Time", "MicroTime"):
        return _time(_bytes(raw), micro=kind == "MicroTime")
    if kind in ("FieldsV1", "any"):
        return _json(dict(_fields(_bytes(raw))).get(1, b"{}"))
    return _message(kind, _bytes(raw), levels)


def _scalar_text(kind: str, raw: Raw | memoryview) -> Any:
    if kind == "string":
        return _text(raw)
    parts = dict(_fields(_bytes(raw)))
    if kind == "Quantity":
        return _text(parts.get(1, b"")) or "0"
    if _integer(parts.get(1, 0)):
        return _text(parts.get(3, b""))
    return _integer(parts.get(2, 0))


def _time(data: memoryview, *, micro: bool) -> str | None:
    """Return an RFC 3339 time; None for the zero time."""
    parts = dict(_fields(data))
    seconds, nanoseconds = _integer(parts.get(1, 0)), _integer(parts.get(2, 0))
    if (not parts or seconds == _ZERO_TIME) and not nanoseconds:
        return None
    if not _ZERO_TIME <= seconds <= _LAST_SECOND or not 0 <= nanoseconds < 1_000_000_000:
        raise ProtobufError("a time is out of range")
    days, rest = divmod(seconds, 86_400)
    day = date.fromordinal(days + date(1970, 1, 1).toordinal())
    text = f"{day.isoformat()}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{text}.{nanoseconds // 1000:06}Z" if micro else f"{text}Z"


def _json(raw: Raw | memoryview) -> Any:
    try:
        return read_json(bytes(_bytes(raw)).decode())
    except (ValueError, RecursionError) as error:
        raise ProtobufError("a raw field contains invalid JSON") from error
