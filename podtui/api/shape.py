"""The shapes of the API's types, read once from the generated structs.

The structs' annotations are strings such as ``tuple[EnvVar, ...]`` or ``dict[str, Quantity]``. They
still distinguish a quantity or a time from a plain string, which the resolved types do not.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from podtui.api import v1


class Form(Enum):
    """The forms of a field's value; each text is the wording used in messages."""

    TEXT = "a string"
    INTEGER = "an integer"
    BOOLEAN = "a boolean"
    QUANTITY = "a quantity such as 100m or 1Gi"
    TIME = "a time such as 2024-01-31T12:00:00Z"
    PORT = "a number or a name"
    ANY = "anything"
    OBJECT = "a map"
    LIST = "a list"
    MAP = "a map of strings"


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one value: its form, its items (of a list or map), its struct (of an object)."""

    form: Form
    item: Shape | None = None
    struct: type[v1.Struct] | None = None


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    shape: Shape
    required: bool
    by_pointer: bool
    """True if Go holds the object by pointer; always False for other values."""


_SCALARS: Final = {
    "str": Form.TEXT,
    "int": Form.INTEGER,
    "bool": Form.BOOLEAN,
    "Quantity": Form.QUANTITY,
    "Time": Form.TIME,
    "IntOrString": Form.PORT,
    "Any": Form.ANY,
}
_LIST: Final = re.compile(r"tuple\[(.+), \.\.\.\]")
_MAP: Final = re.compile(r"dict\[str, (.+)\]")
# Required by the schema, but the API treats an absent one as empty.
_MAY_BE_ABSENT: Final = frozenset(
    {
        ("HTTPHeader", "value"),
        ("ISCSIVolumeSource", "lun"),
        ("PreferredSchedulingTerm", "preference"),
        ("ScaleIOVolumeSource", "secretRef"),
        ("SleepAction", "seconds"),
        ("Sysctl", "value"),
    }
)
# Objects for which the schema does not say whether Go holds them by pointer.
_OPTIONAL_BY_VALUE: Final = frozenset(
    {("PersistentVolumeClaimSpec", "resources"), ("PersistentVolumeClaimTemplate", "metadata")}
)
_REQUIRED_BY_POINTER: Final = frozenset({("ScaleIOVolumeSource", "secretRef")})


def _shape(annotation: str, names: Mapping[str, Any]) -> Shape:
    """``names`` are those of the module with the annotation."""
    text = annotation.removesuffix(" | None")
    if text in _SCALARS:
        return Shape(_SCALARS[text])
    if (match := _LIST.fullmatch(text)) is not None:
        return Shape(Form.LIST, item=_shape(match[1], names))
    if (match := _MAP.fullmatch(text)) is not None:
        return Shape(Form.MAP, item=_shape(match[1], names))
    struct: type[v1.Struct] = names[text]
    return Shape(Form.OBJECT, struct=struct)


@functools.cache
def fields(struct: type[v1.Struct]) -> Mapping[str, StructField]:
    """Return the fields of a struct by wire name."""
    annotations: dict[str, str] = struct.__annotations__
    names = vars(sys.modules[struct.__module__])
    by_name: dict[str, StructField] = {}
    for info in msgspec.structs.fields(struct):
        annotation, key = annotations[info.name], (struct.__name__, info.name)
        shape = _shape(annotation, names)
        optional = annotation.endswith("| None") and key not in _OPTIONAL_BY_VALUE
        by_name[info.encode_name] = StructField(
            info.encode_name,
            shape,
            info.required and key not in _MAY_BE_ABSENT,
            shape.form is Form.OBJECT and (optional or key in _REQUIRED_BY_POINTER),
        )
    return by_name


def shape_at(struct: type[v1.Struct], path: Iterable[str | int]) -> Shape | None:
    """Return the shape of the value at a path below a struct; None if there is no such field."""
    shape: Shape | None = Shape(Form.OBJECT, struct=struct)
    for step in path:
        if shape is None or isinstance(step, int) != (shape.form is Form.LIST):
            return None
        if shape.struct is None:
            shape = shape.item
        else:
            field = fields(shape.struct).get(str(step))
            shape = field.shape if field is not None else None
    return shape


@functools.cache
def required_names(struct: type[v1.Struct]) -> frozenset[str]:
    """Return the names of the fields without which the struct cannot be built."""
    return frozenset(f.encode_name for f in msgspec.structs.fields(struct) if f.required)


def empty(shape: Shape) -> Any:
    """Return the value that replaces an absent one, complete enough to build the struct."""
    match shape.form:
        case Form.INTEGER | Form.PORT:
            return 0
        case Form.BOOLEAN:
            return False
        case Form.LIST:
            return []
        case Form.MAP:
            return {}
        case Form.OBJECT if shape.struct is not None:
            members = fields(shape.struct)
            return {name: empty(members[name].shape) for name in required_names(shape.struct)}
        case Form.QUANTITY:
            return "0"
        case _:
            return ""


_SKIPPED: Final = frozenset({"status", "ephemeralContainers", "managedFields"})
_DEEPEST: Final = 12
LIST_STEP: Final = "[]"


@functools.cache
def places_of_names() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Return all paths in a Pod at which a field of each name exists, nearest to the root first.

    A path is a tuple of keys, with ``[]`` for an index; a type nested in itself is skipped.
    """
    paths: dict[str, list[tuple[str, ...]]] = {}
    level: list[tuple[type[v1.Struct], tuple[str, ...], frozenset[type[v1.Struct]]]]
    level = [(v1.Pod, (), frozenset())]
    while level:
        following: list[tuple[type[v1.Struct], tuple[str, ...], frozenset[type[v1.Struct]]]] = []
        for struct, path, above in level:
            # `containers` goes first, because it is what people usually mean.
            for field in sorted(fields(struct).values(), key=lambda f: f.name != "containers"):
                if field.name in _SKIPPED:
                    continue
                paths.setdefault(field.name, []).append((*path, field.name))
                inner, step = field.shape, (*path, field.name)
                if inner.form is Form.LIST and inner.item is not None:
                    inner, step = inner.item, (*step, LIST_STEP)
                if inner.struct is None or inner.struct in above or len(step) > _DEEPEST:
                    continue
                following.append((inner.struct, step, above | {struct}))
        level = following
    return {name: tuple(places) for name, places in paths.items()}
