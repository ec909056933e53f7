"""``metadata.managedFields``: which manager set which fields, by which operation, and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from podtui.patching.errors import PatchError
from podtui.patching.field_set import FieldSet, decode

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MOST_UPDATERS: Final = 10
ANCIENT: Final = "ancient-changes"
_MAX_CACHED_SETS: Final = 32
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldManager:
    """``version`` is empty for an applier, which keeps its identity over versions."""

    name: str
    operation: str
    version: str = ""
    subresource: str = ""

    @property
    def text(self) -> str:
        """Return the manager as conflicts name it."""
        text = json.dumps(self.name, ensure_ascii=False)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource, ensure_ascii=False)}"
        return f"{text} using {self.version}" if self.operation == UPDATE else text

    @property
    def order(self) -> str:
        """Return the sort key: Go sorts by the identifier in JSON."""
        parts = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.version,
            "subresource": self.subresource,
        }
        stated = {key: value for key, value in parts.items() if value}
        return json.dumps(stated, separators=(",", ":"), ensure_ascii=False)


@dataclass(slots=True)
class Entry:
    fields: FieldSet
    version: str
    time: str | None


Managers = dict[FieldManager, Entry]


def decode_managers(entries: Any) -> Managers:
    """Raises `PatchError` for invalid entries."""
    managers: Managers = {}
    listed = cast("list[Any]", entries) if isinstance(entries, list) else []
    for index, item in enumerate(listed):
        entry = cast(Object, item) if isinstance(item, dict) else {}
        operation, version = _text(entry, "operation"), _text(entry, "apiVersion")
        if operation not in (APPLY, UPDATE):
            raise PatchError("operation must be `Apply` or `Update`")
        if not version:
            raise PatchError("apiVersion must not be empty")
        kind = _text(entry, "fieldsType")
        if kind != "FieldsV1":
            problem = f'invalid fieldsType "{kind}"' if kind else "missing fieldsType"
            raise PatchError(f"{problem} in managed fields entry {index}")
        manager = FieldManager(
            _text(entry, "manager"),
            operation,
            version if operation == UPDATE else "",
            _text(entry, "subresource"),
        )
        time = _text(entry, "time") or None
        managers[manager] = Entry(
            _decoded(msgspec.json.encode(entry.get("fieldsV1"))), version, time
        )
    return managers


# Most sets of an update are those of the update before, and many objects of a kind have the same
# ones: these functions return the same objects for equal sets, which saves time and memory.


@lru_cache(maxsize=_MAX_CACHED_SETS)
def _decoded(fields: bytes) -> FieldSet:
    """Decode ``FieldsV1``. Raises `PatchError`."""
    return decode(msgspec.json.decode(fields) or {})


@lru_cache(maxsize=_MAX_CACHED_SETS)
def _encoded(fields: FieldSet) -> Object:
    return shared_fields(fields)


def shared_fields(fields: FieldSet) -> Object:
    """Encode as ``FieldsV1``. The result is shared: callers must not change it."""
    return _shared(msgspec.json.encode(fields.encode()))


@lru_cache(maxsize=_MAX_CACHED_SETS)
def _shared(fields: bytes) -> Object:
    tree = msgspec.json.decode(fields, type=dict[str, Object])
    # The statuses of pods differ by their addresses, which are keys; the other parts are equal.
    return {
        step: {below: _shared_part(msgspec.json.encode(part)) for below, part in parts.items()}
        for step, parts in tree.items()
    }


@lru_cache(maxsize=_MAX_CACHED_SETS)
def _shared_part(fields: bytes) -> Object:
    return msgspec.json.decode(fields, type=Object)


def _text(entry: Object, name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def is_reset(entries: Any) -> bool:
    """Return whether a request removes all managers: an empty list, or one empty entry."""
    return entries == [] or entries == [{}]


def encode_managers(managers: Mapping[FieldManager, Entry]) -> list[Object]:
    entries: list[Object] = []
    for manager, entry in sorted(managers.items(), key=_encoding_order):
        encoded: Object = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": entry.version,
            "time": entry.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _encoded(entry.fields),
            "subresource": manager.subresource,
        }
        entries.append({key: value for key, value in encoded.items() if value not in ("", None)})
    return entries


def _encoding_order(item: tuple[FieldManager, Entry]) -> tuple[str, float, str, str, str]:
    manager, entry = item
    seconds = _seconds(entry.time)
    return manager.operation, seconds, manager.name, entry.version, manager.subresource


def _seconds(time: str | None) -> float:
    try:
        return datetime.fromisoformat(time).timestamp() // 1 if time else 0.0
    except ValueError:
        return 0.0


def merge_oldest_updaters(managers: Managers) -> None:
    """Keep at most `MOST_UPDATERS` entries of updates: merge the oldest ones of a version."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    too_many = len(updaters) - MOST_UPDATERS
    if too_many <= 0:
        return
    updaters.sort(key=lambda manager: (_seconds(managers[manager].time), manager.order))
    first: dict[str, FieldManager] = {}
    for manager in updaters:
        if too_many <= 0:
            return
        entry = managers[manager]
        bucket = FieldManager(ANCIENT, UPDATE, entry.version)
        if entry.version not in first:
            first[entry.version] = manager
            continue
        if bucket not in managers:
            managers[bucket] = managers.pop(first[entry.version])
        merged = managers[bucket].fields | entry.fields
        del managers[manager]
        managers[bucket] = Entry(merged, entry.version, entry.time)
        too_many -= 1
