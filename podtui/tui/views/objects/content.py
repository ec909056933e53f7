"""The content of an object: as YAML, as its data with values, and as the difference of two."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from msgspec import Struct

from podtui.client.any_kind import AnyObject
from podtui.text.terminal_text import plural
from podtui.tui.views.yaml_text import yaml_text
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    ValueKind,
    content_of,
    text_field,
)
from podtui.tui.widgets.format import size
from podtui.tui.widgets.sanitize import clean

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
HIDDEN: Final = "•••"
_SET_BY_SERVER: Final = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
)  # fmt: skip


def object_yaml(item: AnyObject) -> str:
    """Return an object as YAML, without the values of a Secret."""
    return yaml_text(masked(item.content))


def manifest_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as a client would write it: without its status and what the server set."""
    meta: dict[str, Any] = content["metadata"]
    kept = {name: value for name, value in meta.items() if name not in _SET_BY_SERVER}
    return {name: value for name, value in content.items() if name != "status"} | {"metadata": kept}


def masked(content: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an object without the values of a Secret: each is replaced by its size. A value that
    differs from that of ``other`` says so.
    """
    if content.get("kind") != "Secret":
        return dict(content)
    hidden = deepcopy(dict(content))
    for part in ("data", "stringData"):
        values: Mapping[str, Any] = content.get(part) or {}
        others: Mapping[str, Any] = (other or {}).get(part) or {}
        if values:
            hidden[part] = {
                key: _hidden(value, changed=other is not None and others.get(key) != value)
                for key, value in values.items()
            }
    annotations: dict[str, str] | None = hidden["metadata"].get("annotations")
    if annotations and LAST_APPLIED in annotations:
        # It repeats the values.
        annotations[LAST_APPLIED] = HIDDEN
    return hidden


def _hidden(value: Any, *, changed: bool) -> str:
    decoded = _decoded(str(value))
    length = plural(len(decoded), "byte") if decoded is not None else "not base64"
    return f"{HIDDEN} ({length}{', changed' if changed else ''})"


def _decoded(value: str) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return None


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch from one document to another."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = merge_patch(old, value)  # pyright: ignore[reportUnknownArgumentType]
            if inner:
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch


# --- the data of a ConfigMap or a Secret


class Entry(Struct, frozen=True):
    """A key with its value. ``text`` is None if the value is not text; ``is_secret`` values are
    hidden until the user asks for them."""

    key: str
    value: bytes
    text: str | None
    is_secret: bool


def entries(item: AnyObject) -> list[Entry]:
    """Return the data of a ConfigMap or a Secret."""
    content, result = item.content, list[Entry]()
    is_secret = content.get("kind") == "Secret"
    data: Mapping[str, str] = content.get("data") or {}
    binary: Mapping[str, str] = content.get("binaryData") or {}
    for key, value in data.items():
        decoded = _decoded(value) if is_secret else value.encode()
        result.append(_entry(key, decoded or b"", is_secret=is_secret))
    for key, value in binary.items():
        result.append(_entry(key, _decoded(value) or b"", is_secret=False))
    return result


def _entry(key: str, value: bytes, *, is_secret: bool) -> Entry:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = None
    return Entry(key, value, text, is_secret)


class _Shown(Struct, frozen=True):
    entry: Entry
    revealed: bool


def _value(shown: _Shown) -> ColumnValue:
    entry = shown.entry
    if entry.is_secret and not shown.revealed:
        # The value is in no cell: a filter does not find it, and nothing copies it.
        return text_field(HIDDEN, "muted")
    if entry.text is None:
        return text_field("binary data", "muted")
    lines = entry.text.splitlines() or [""]
    more = f"  … {plural(len(lines) - 1, 'more line')}" if len(lines) > 1 else ""
    return text_field(clean(lines[0]) + more)


DATA_COLUMNS: Final = (
    Column("key", "KEY", 100, minimum=12, maximum=60, flexible=True,
           of=lambda shown: text_field(clean(shown.entry.key), "name")),
    Column("size", "SIZE", 60, align="right", descending=True, kind=ValueKind.BYTES,
           of=lambda shown: ColumnValue(Cell(size(len(shown.entry.value)), "muted"),
                                        len(shown.entry.value), float(len(shown.entry.value)))),
    Column("value", "VALUE", 80, minimum=12, maximum=2000, flexible=True, filling=True, of=_value),
)  # fmt: skip


def data_row(entry: Entry, *, revealed: bool) -> Row:
    fields = content_of(DATA_COLUMNS, _Shown(entry, revealed))
    return Row(entry.key, *fields, search=f"{clean(entry.key)} {fields[0][2].text}")
