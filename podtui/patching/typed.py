"""Operations on documents with a schema, as server-side apply needs them: validate, merge, compare,
list the fields, remove fields.

Lists are merged by keys or as sets where the schema says so; other lists, and maps that are marked
atomic, are replaced as a whole. An absent value differs from null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast

import msgspec

from podtui.api.fields import LIST, MAP, Field, types
from podtui.patching.errors import PatchError, go_text, same
from podtui.patching.field_set import (
    FieldSet,
    Path,
    field_step,
    key_step,
    path_text,
    value_step,
)

# Each operation is one walk over a document and its schema. A path is a tuple of steps, written as
# in managedFields: ``f:NAME`` is a field, ``k:KEYS`` an item of an associative list, ``v:VALUE`` an
# item of a set; ``i:INDEX`` occurs in messages only. Results and error texts follow
# structured-merge-diff, the library of the API server, also where it is surprising.
ABSENT: Final = msgspec.UNSET
Object = dict[str, Any]
Items = list[Any]


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """The schema of a value. ``fields`` are those of a struct; ``element`` is the type of other
    entries of a map, or of a list's items. An associative list has ``keys`` or is a set."""

    kind: str
    atomic: bool = False
    keys: tuple[str, ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict[str, Field])
    element: str = ""

    def entry(self, name: str) -> TypeSchema:
        field = self.fields.get(name)
        return _shape(self.element) if field is None else shape_of_field(field)

    @property
    def item(self) -> TypeSchema:
        return _shape(self.element)


def shape(schema: str) -> TypeSchema:
    """Return the shape of a type in `podtui.api.fields`."""
    return _shape(schema)


@cache
def _shape(
    name: str, keys: tuple[str, ...] = (), kind: str = "", atomic: bool = False
) -> TypeSchema:
    if name.startswith(LIST):
        return TypeSchema("list", kind not in ("map", "set"), keys, element=name.removeprefix(LIST))
    if name.startswith(MAP):
        return TypeSchema("map", atomic, element=name.removeprefix(MAP))
    type_facts = types().get(name)
    if type_facts is not None:
        return TypeSchema("map", atomic or type_facts.map == "atomic", fields=type_facts.fields)
    if name == "FieldsV1":
        return TypeSchema("map", True)
    scalar = {"string": "string", "bytes": "string", "bool": "boolean"}.get(name)
    if scalar is None:
        scalar = "numeric" if name in ("int32", "int64", "double") else "untyped"
    return TypeSchema(scalar)


def shape_of_field(field: Field) -> TypeSchema:
    return _shape(field.type, field.keys, field.list, field.map == "atomic")


def _map(value: Any) -> Object:
    return cast(Object, value) if isinstance(value, dict) else {}


def _items(value: Any) -> Items:
    return cast(Items, value) if isinstance(value, list) else []


def step_of_item(of: TypeSchema, item: Any) -> str:
    """Return the step to an item of an associative list. Raises `PatchError`."""
    if not of.keys:
        if isinstance(item, dict):
            raise PatchError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise PatchError("not supported: associative list with lists as elements")
        if item is None:
            raise PatchError("associative list without keys has an element that's an explicit null")
        return value_step(item)
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise PatchError(f"associative list with keys may not have {kind}")
    key_values: Object = {}
    for name in of.keys:
        default = of.item.fields[name].default
        if name in item:
            key_values[name] = item[name]
        elif default is not ABSENT:
            key_values[name] = default
    if not key_values:
        keys = " ".join(f'"{key}"' for key in of.keys)
        raise PatchError(
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_step(key_values)


# --- validation


def validate(schema: str, value: Any, *, duplicates: bool = False) -> None:
    """Raises `PatchError` with all problems; ``duplicates`` allows repeated items of lists."""
    problems = list(_problems(shape(schema), value, (), duplicates))
    if len(problems) == 1:
        raise PatchError(problems[0])
    if problems:
        raise PatchError("\n".join(["errors:", *(f"  {problem}" for problem in problems)]))


def _problems(of: TypeSchema, value: Any, path: Path, duplicates: bool) -> Iterator[str]:
    if value is None:
        return
    if of.kind == "map":
        yield from _map_problems(of, value, path, duplicates)
    elif of.kind == "list":
        yield from _list_problems(of, value, path, duplicates)
    elif (problem := _scalar_problem(of.kind, value)) is not None:
        yield _located(path, problem)


def _located(path: Path, problem: str) -> str:
    return f"{path_text(path)}: {problem}" if path else problem


def _scalar_problem(kind: str, value: Any) -> str | None:
    if kind == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{go_text(value)}}}"
    if kind == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{go_text(value)}}}"
    if kind == "numeric" and (isinstance(value, bool) or not isinstance(value, int | float)):
        names = {str: "string", bool: "bool", dict: "map[string]interface {}"}
        got = next(
            (name for python_type, name in names.items() if isinstance(value, python_type)), "list"
        )
        return f"expected numeric (int or float), got {got}"
    if kind == "untyped" and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{go_text(value)}}}"
    return None


def _map_problems(of: TypeSchema, value: Any, path: Path, duplicates: bool) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _located(path, f"expected map, got &{{{go_text(value)}}}")
        return
    for name, item in cast(Object, value).items():
        below = (*path, field_step(name))
        if name not in of.fields and not of.element:
            # A type with neither fields nor elements accepts any field (FieldsV1).
            if not of.fields:
                continue
            yield _located(below, "field not declared in schema")
            return
        yield from _problems(of.entry(name), item, below, duplicates)


def _list_problems(of: TypeSchema, value: Any, path: Path, duplicates: bool) -> Iterator[str]:
    if not isinstance(value, list):
        yield _located(path, f"expected list, got &{{{go_text(value)}}}")
        return
    seen: set[str] = set()
    for index, item in enumerate(cast(Items, value)):
        step = f"i:{index}"
        if not of.atomic:
            try:
                step = step_of_item(of, item)
            except PatchError as error:
                yield _located(path, f"element {index}: {error}")
                return
            if step in seen and not duplicates:
                yield _located(path, f"duplicate entries for key {path_text((step,))}")
            seen.add(step)
        yield from _problems(of.item, item, (*path, step), duplicates)


# --- merge


def merge(of: TypeSchema, left: Any, right: Any) -> Any:
    """Return ``left`` with the changes of ``right``; either may be `ABSENT`."""
    is_list = of.kind == "list"
    whole = of.atomic or of.kind not in ("list", "map")
    empty = not (_items(left) or _items(right)) if is_list else not (_map(left) or _map(right))
    # Two empty collections are not merged, because null, an empty collection and an absent one
    # differ: ``right`` counts, if it is there.
    if whole or empty:
        return left if right is ABSENT else right
    if is_list:
        return _merge_lists(of, _items(left), _items(right)) or ABSENT
    left_map, right_map = _map(left), _map(right)
    merged: Object = {}
    for name in {**left_map, **right_map}:
        out = merge(of.entry(name), left_map.get(name, ABSENT), right_map.get(name, ABSENT))
        if out is not ABSENT:
            merged[name] = out
    return merged or ABSENT


def _merge_lists(of: TypeSchema, left: Items, right: Items) -> Items:
    """Merge by keys. The items of ``right`` keep their order, and so do the other items of
    ``left``."""
    left_steps = [step_of_item(of, item) for item in left]
    right_steps = [step_of_item(of, item) for item in right]
    of_left: dict[str, Any] = {}
    for step, item in zip(left_steps, left, strict=True):
        # Items that ``left`` repeats are not merged: one item of ``right`` replaces all of them.
        of_left[step] = None if step in of_left else item
    of_right = dict(zip(right_steps, right, strict=True))
    shared = iter([step for step in right_steps if step in of_left])
    next_shared = next(shared, None)
    merged: Items = []
    done: set[str] = set()

    def put(left_item: Any, right_item: Any) -> None:
        out = merge(of.item, left_item, right_item)
        if out is not ABSENT:
            merged.append(out)

    # Walk over both lists at once. `next_shared` is the next item of ``right`` that ``left`` has as
    # well. A shared item of ``left`` that is not the next one is skipped here, because the order of
    # ``right`` decides where it goes. Items of ``left`` alone keep their places between the shared
    # ones.
    i = j = 0
    while i < len(left_steps) or j < len(right_steps):
        if i < len(left_steps) and j < len(right_steps):
            step = left_steps[i]
            if step == right_steps[j]:
                done.add(step)
                put(of_left[step], of_right[step])
                i, j = i + 1, j + 1
                next_shared = next(shared, None)
                continue
            if step in of_right and next_shared is not None and next_shared != step:
                # Shared, but not the next one.
                i += 1
                continue
        if i < len(left_steps):
            step = left_steps[i]
            if step not in of_right:
                put(left[i], ABSENT)
                i += 1
                continue
            if step in done:
                i += 1
        if j < len(right_steps):
            step = right_steps[j]
            done.add(step)
            put(of_left.get(step, ABSENT), of_right[step])
            j += 1
            if next_shared == step:
                next_shared = next(shared, None)
    return merged


# --- comparison


@dataclass(slots=True)
class Comparison:
    removed: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    added: FieldSet = field(default_factory=FieldSet)

    def without(self, ignored: FieldSet) -> Comparison:
        return Comparison(
            self.removed.without(ignored),
            self.modified.without(ignored),
            self.added.without(ignored),
        )


def compare(schema: str, left: Any, right: Any) -> Comparison:
    """Return the differences from ``left`` to ``right``."""
    result = Comparison()
    _compare(shape(schema), left, right, (), result)
    return result


def _compare(of: TypeSchema, left: Any, right: Any, path: Path, result: Comparison) -> None:
    # Most of an object is unchanged, and this comparison is quick. That True equals 1 here does not
    # matter: no type has fields that may be both.
    if left is not ABSENT and left == right:
        return
    is_list = of.kind == "list"
    whole = of.atomic or of.kind not in ("list", "map")
    empty = not (_items(left) or _items(right)) if is_list else not (_map(left) or _map(right))
    if not whole and not empty:
        if is_list:
            _compare_lists(of, _items(left), _items(right), path, result)
        else:
            left_map, right_map = _map(left), _map(right)
            for name in {**left_map, **right_map}:
                below = (*path, field_step(name))
                value, other = left_map.get(name, ABSENT), right_map.get(name, ABSENT)
                _compare(of.entry(name), value, other, below, result)
    # A collection that is added or removed is itself part of the result, beside all of its fields.
    if left is ABSENT:
        result.added.add(path)
    elif right is ABSENT:
        result.removed.add(path)
    elif (whole or empty) and not equal(left, right):
        result.modified.add(path)


def _compare_lists(
    of: TypeSchema, left: Items, right: Items, path: Path, result: Comparison
) -> None:
    left_groups, right_groups = _grouped(of, left), _grouped(of, right)
    for step in {**left_groups, **right_groups}:
        items, other_items = left_groups.get(step, []), right_groups.get(step, [])
        below = (*path, step)
        # Repeated items cannot be told apart: they are compared as one value, and a change to or
        # from a single item is a removal and an addition.
        if len(items) <= 1 and len(other_items) <= 1:
            _compare(of.item, (items or [ABSENT])[0], (other_items or [ABSENT])[0], below, result)
        elif len(items) > 1 and len(other_items) > 1:
            if not equal(items, other_items):
                result.modified.add(below)
        elif len(items) > 1:
            if other_items:
                _compare(of.item, ABSENT, other_items[0], below, result)
            result.removed.add(below)
        else:
            if items:
                _compare(of.item, items[0], ABSENT, below, result)
            result.added.add(below)


def _grouped(of: TypeSchema, items: Items) -> dict[str, Items]:
    groups: dict[str, Items] = {}
    for item in items:
        groups.setdefault(step_of_item(of, item), []).append(item)
    return groups


def equal(left: Any, right: Any) -> bool:
    """Compare two documents; numbers are equal by value."""
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if numbers and not isinstance(left, bool) and not isinstance(right, bool):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        items, others = cast(Items, left), cast(Items, right)
        return len(items) == len(others) and all(map(equal, items, others))
    if isinstance(left, dict) and isinstance(right, dict):
        first, second = cast(Object, left), cast(Object, right)
        return first.keys() == second.keys() and all(
            equal(first[key], second[key]) for key in first
        )
    return same(left, right)


# --- the fields of a document


def fields_of(schema: str, value: Any) -> FieldSet:
    """Return the set of all fields of a document."""
    result = FieldSet()
    _add_fields(shape(schema), value, (), result)
    return result


def _add_fields(of: TypeSchema, value: Any, path: Path, result: FieldSet) -> None:
    if of.atomic or of.kind not in ("list", "map"):
        result.add(path)
    elif of.kind == "list":
        for step, items in _grouped(of, _items(value)).items():
            if len(items) == 1:
                _add_fields(of.item, items[0], (*path, step), result)
            result.add((*path, step))
    else:
        for name, item in _map(value).items():
            below = (*path, field_step(name))
            _add_fields(of.entry(name), item, below, result)
            # A field of a struct is implied by the fields below it. The key of a map is not, and an
            # empty value has no fields below it.
            if item is None or item == {} or name not in of.fields:
                result.add(below)


def with_named_fields(of: TypeSchema, fields: FieldSet) -> FieldSet:
    """Return the set with the structs' fields that lead to its fields."""
    result = FieldSet()
    result.members = set(fields.members)
    for step, below in fields.children.items():
        kind, _, name = step.partition(":")
        child = TypeSchema("untyped")
        if kind == "f" and of.kind == "map":
            if name in of.fields:
                result.members.add(step)
            if name in of.fields or of.element:
                child = of.entry(name)
        elif kind == "k" and of.kind == "list":
            child = of.item
        result.children[step] = with_named_fields(child, below)
    return result


# --- removal


def remove(of: TypeSchema, value: Any, fields: FieldSet) -> Any:
    """Return a value without the given fields; None for a collection that is empty already."""
    if of.kind == "list":
        return _remove_items(of, value, fields)
    if of.kind != "map":
        return value
    if of.atomic or not isinstance(value, dict) or not value:
        return None
    kept: Object = {}
    matched = False
    for name, item in cast(Object, value).items():
        step = field_step(name)
        if step in fields.members:
            continue
        if below := fields.children.get(step):
            matched = True
            item = _removed_within(of.entry(name), item, below)
        kept[name] = item
    return kept if kept or matched else None


def _remove_items(of: TypeSchema, value: Any, fields: FieldSet) -> Any:
    if of.atomic or not isinstance(value, list) or not value:
        return None
    kept: Items = []
    matched = False
    for item in cast(Items, value):
        step = step_of_item(of, item)
        if step in fields.members:
            continue
        if below := fields.children.get(step):
            matched = True
            item = _removed_within(of.item, item, below)
        kept.append(item)
    return kept if kept or matched else None


def _removed_within(of: TypeSchema, value: Any, fields: FieldSet) -> Any:
    # A collection that loses its last field stays, as an empty one: only the given fields go.
    out = remove(of, value, fields)
    if out is None and isinstance(value, dict):
        return {}
    return [] if out is None and isinstance(value, list) else out
