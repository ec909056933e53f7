"""Decode request bodies in Kubernetes' protobuf encoding, which Go's typed clients send.

A body is ``k8s\\0`` and a ``runtime.Unknown`` message that names the kind and holds the object. The
numbers of the fields are in `podtui.api.fields`.
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from podtui.api.fields import LIST, MAP, Field, name_of_kind, types
from podtui.text.json_text import read_json
from podtui.wire.protobuf import (
    ProtobufError,
    Raw,
    as_bytes,
    as_integer,
    as_text,
    raw_fields,
    read_varint,
)

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
PREFIX: Final = b"k8s\x00"
_MOST_LEVELS: Final = 100
_INTEGERS: Final = frozenset({"int32", "int64"})
_LAST_SECOND: Final = 253_402_300_799
_ZERO_TIME: Final = -62_135_596_800


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in its JSON form, with ``apiVersion`` and ``kind``.

    Empty values are left out where Go cannot distinguish them from absent ones. Raises
    `ProtobufError`.
    """
    if not body.startswith(PREFIX):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    unknown = dict(raw_fields(memoryview(body)[len(PREFIX) :]))
    header = dict(raw_fields(as_bytes(unknown.get(1, b""))))
    api_version, kind = as_text(header.get(1, b"")), as_text(header.get(2, b""))
    if unknown.get(3) or (unknown.get(4) and as_text(unknown[4]) != MEDIA_TYPE):
        raise ProtobufError("unsupported encoding inside of the protobuf message")
    # Options have the version of the resource that they are sent to.
    name = name_of_kind("v1" if kind == "DeleteOptions" else api_version, kind)
    if name is None:
        group, _, version = api_version.rpartition("/")
        raise ProtobufError(f'no kind "{kind}" is registered for version "{group}/{version}"')
    fields = _message(name, as_bytes(unknown.get(2, b"")), _MOST_LEVELS)
    return {**fields, "apiVersion": api_version, "kind": kind}


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
    for number, raw in raw_fields(data):
        entry = numbers.get(number)
        if entry is None:
            continue
        if isinstance(entry, Mapping):
            _read(entry, as_bytes(raw), levels - 1, fields)
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


def _items(kind: str, raw: Raw, levels: int) -> list[Any]:
    item = kind.removeprefix(LIST)
    if item in _INTEGERS and not isinstance(raw, int):
        packed, at = as_bytes(raw), 0
        values: list[Any] = []
        while at < len(packed):
            value, at = read_varint(packed, at)
            values.append(as_integer(value))
        return values
    return [_value(item, raw, levels)]


def _entry(kind: str, raw: Raw, levels: int) -> tuple[str, Any]:
    item = kind.removeprefix(MAP)
    parts = dict(raw_fields(as_bytes(raw)))
    key, value = as_text(parts.get(1, b"")), parts.get(2, b"")
    if item.startswith(LIST):
        # A list as the value of a map is in a message of its own.
        return key, [
            _value(item.removeprefix(LIST), raw, levels) for _, raw in raw_fields(as_bytes(value))
        ]
    return key, _value(item, value, levels)


def _value(kind: str, raw: Raw, levels: int) -> Any:
    if kind in ("string", "Quantity", "IntOrString"):
        return _scalar_text(kind, raw)
    if kind in _INTEGERS:
        return as_integer(raw)
    if kind == "bool":
        return as_integer(raw) != 0
    if kind == "double":
        data = as_bytes(raw)
        if len(data) != 8:
            raise ProtobufError("wrong wire type")
        return struct.unpack("<d", data)[0]
    if kind == "bytes":
        return base64.b64encode(as_bytes(raw)).decode()
    if kind in ("Time", "MicroTime"):
        return _time(as_bytes(raw), micro=kind == "MicroTime")
    if kind in ("FieldsV1", "any"):
        return _json(dict(raw_fields(as_bytes(raw))).get(1, b"{}"))
    return _message(kind, as_bytes(raw), levels)


def _scalar_text(kind: str, raw: Raw) -> Any:
    if kind == "string":
        return as_text(raw)
    parts = dict(raw_fields(as_bytes(raw)))
    if kind == "Quantity":
        return as_text(parts.get(1, b"")) or "0"
    if as_integer(parts.get(1, 0)):
        return as_text(parts.get(3, b""))
    return as_integer(parts.get(2, 0))


def _time(data: memoryview, *, micro: bool) -> str | None:
    """Return an RFC 3339 time; None for the zero time."""
    parts = dict(raw_fields(data))
    seconds, nanoseconds = as_integer(parts.get(1, 0)), as_integer(parts.get(2, 0))
    if (not parts or seconds == _ZERO_TIME) and not nanoseconds:
        return None
    if not _ZERO_TIME <= seconds <= _LAST_SECOND or not 0 <= nanoseconds < 1_000_000_000:
        raise ProtobufError("a time is out of range")
    days, rest = divmod(seconds, 86_400)
    day = date.fromordinal(days + date(1970, 1, 1).toordinal())
    text = f"{day.isoformat()}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{text}.{nanoseconds // 1000:06}Z" if micro else f"{text}Z"


def _json(raw: Raw) -> Any:
    try:
        return read_json(bytes(as_bytes(raw)).decode())
    except (ValueError, RecursionError) as error:
        raise ProtobufError("a raw field contains invalid JSON") from error
