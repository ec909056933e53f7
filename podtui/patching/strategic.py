"""Strategic merge patch: a merge patch that merges lists by the keys of their items.

A patch may contain the directives ``$patch`` (replace or delete), ``$retainKeys``,
``$setElementOrder/FIELD`` and ``$deleteFromPrimitiveList/FIELD``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

from podtui.api.fields import LIST, MAP, Field, types
from podtui.patching.errors import PatchError, go_text, go_type, same

PATCH: Final = "$patch"
RETAIN: Final = "$retainKeys"
ORDER: Final = "$setElementOrder"
DELETE: Final = "$deleteFromPrimitiveList"
Object = dict[str, Any]
Items = list[Any]


def apply(schema: str, document: Object, patch: Any) -> Object:
    """Return the patched document; the arguments stay as they are.

    ``schema`` is the name of the document's type in `podtui.api.fields`. Raises `PatchError`.
    """
    if not isinstance(patch, dict):
        kind = go_type(patch)
        message = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise PatchError(message, 400)
    # Copies, because merging takes directives out of the patch, and changes both in place.
    return _merge_map(copy.deepcopy(document), copy.deepcopy(cast(Object, patch)), schema)


def _merge_map(original: Object, patch: Object, schema: str) -> Object:
    if PATCH in patch:
        if patch[PATCH] == "replace":
            del patch[PATCH]
            return patch
        if patch[PATCH] == "delete":
            return {}
        _unknown_directive(patch)
    _retain_keys(original, patch)
    # Lists with an order come first: they are taken out of the patch.
    for key in [key for key in patch if key.startswith(ORDER)]:
        _merge_in_order(original, patch, key, schema)
    for key, value in patch.items():
        _merge_field(original, key, value, schema)
    return original


def _unknown_directive(patch: Object) -> NoReturn:
    raise PatchError(f"unknown patch type: {go_text(patch[PATCH])} in map: {go_text(patch)}", 400)


def _merge_field(original: Object, key: str, value: Any, schema: str) -> None:
    deletion = key.startswith(DELETE)
    if deletion:
        key = _suffix(key, DELETE, "primitive list")
    if value is None:
        original.pop(key, None)
        return
    present = original.get(key)
    # A value of another type replaces the present one, as in a merge patch.
    if key in original and type(present) is type(value):
        if isinstance(value, dict):
            _, strategy, child = _lookup(schema, key)
            value = cast(Object, value)
            original[key] = (
                value if strategy == "replace" else _merge_map(cast(Object, present), value, child)
            )
            return
        if isinstance(value, list):
            field, strategy, child = _lookup_list(schema, key)
            value = cast(Items, value)
            if strategy == "merge" or deletion:
                value = _merge_list(cast(Items, present), value, child, field.merge_key, deletion)
            original[key] = value
            return
    # Nothing to merge with: the value is new, but its nulls and directives are not part of it.
    if not deletion:
        _discard_nulls(value)
        kept, value = _without_directives(value)
        if kept:
            original[key] = value
        else:
            original.pop(key, None)


def _retain_keys(original: Object, patch: Object) -> None:
    if RETAIN not in patch:
        return
    wanted = patch.pop(RETAIN)
    if not isinstance(wanted, list):
        raise PatchError("invalid patch format of retainKeys", 400)
    keys = cast(Items, wanted)
    for key, value in patch.items():
        if value is not None and key not in keys and not key.startswith((DELETE, ORDER)):
            raise PatchError("invalid patch format of retainKeys", 400)
    for key in [key for key in original if key not in keys]:
        del original[key]


def _merge_in_order(original: Object, patch: Object, directive: str, schema: str) -> None:
    """Merge a list that comes with an order of its items, and take it from the patch."""
    order = _list(patch.pop(directive))
    key = _suffix(directive, ORDER, "setElementOrder list")
    live = _list(original[key]) if key in original else []
    changes = _list(patch[key]) if key in patch else []
    field, strategy, child = _lookup_list(schema, key)
    merge_key = field.merge_key
    _check_order(changes, order, merge_key)
    if key not in original and key not in patch:
        return
    # The order before the merge, for the items that the patch does not list.
    server_order = list(live)
    if key not in patch:
        merged = live
    elif key not in original:
        merged = cast(Items, _without_directives(changes)[1])
    elif strategy == "merge":
        merged = _merge_list(live, changes, child, merge_key)
    else:
        merged = changes
    of_patch, of_server = _partition(merged, order, merge_key)
    is_map = _element_type(server_order, changes) is dict
    original[key] = _in_order(of_patch, of_server, order, server_order, merge_key, is_map)
    patch.pop(key, None)


def _check_order(changes: Items, order: Items, merge_key: str) -> None:
    """Check that the items of a patch are in the given order, directives aside."""
    if not order or not changes:
        return
    items = changes
    if merge_key:
        items = [item for item in items if _object(item).get(PATCH) != "delete"]
    position = 0
    for wanted in order:
        while position < len(items) and _has_directive(items[position]):
            position += 1
        if position < len(items) and _same_key(items[position], wanted, merge_key):
            position += 1
    if position < len(items):
        raise PatchError(
            f"The order in patch list:\n{go_text(changes)}\n doesn't match {ORDER} list:\n"
            f"{go_text(order)}\n",
            400,
        )


def _merge_list(
    original: Items, patch: Items, schema: str, merge_key: str, deletion: bool = False
) -> Items:
    if not original and not patch:
        return original
    is_map = _element_type(original, patch) is dict
    if not is_map:
        if deletion:
            return [item for item in original if not _among(item, patch)]
        merged: Items = []
        for item in original + patch:
            if not _among(item, merged):
                merged.append(item)
    else:
        if not merge_key:
            raise PatchError(f"cannot merge lists without merge key for {_kind(schema)}", 400)
        original, patch = _special_items(original, patch, merge_key)
        merged = _merge_items(original, patch, merge_key, schema)
    of_patch, of_server = _partition(merged, patch, merge_key)
    return _in_order(of_patch, of_server, patch, original, merge_key, is_map)


def _special_items(original: Items, patch: Items, merge_key: str) -> tuple[Items, Items]:
    """Apply the items of a patch that are directives; return the lists without them."""
    plain: Items = []
    replace = False
    for item in map(_object, patch):
        if PATCH not in item:
            plain.append(item)
        elif item[PATCH] == "delete":
            gone = _key_of(item, merge_key)
            original = [
                o for o in original if merge_key not in _object(o) or not same(o[merge_key], gone)
            ]
        elif item[PATCH] == "replace":
            replace = True
        elif item[PATCH] == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch", 400)
        else:
            _unknown_directive(item)
    # With ``$patch: replace``, the other items of the patch are the whole list.
    return (plain, []) if replace else (original, plain)


def _merge_items(original: Items, patch: Items, merge_key: str, schema: str) -> Items:
    merged = list(original)
    for item in map(_object, patch):
        wanted = _key_of(item, merge_key)
        for position, present in enumerate(map(_object, merged)):
            if merge_key in present and same(present[merge_key], wanted):
                merged[position] = _merge_map(present, item, schema)
                break
        else:
            merged.append(item)
    return merged


def _partition(items: Items, listed: Items, merge_key: str) -> tuple[Items, Items]:
    """Return the items that are listed, and the others."""
    parts: tuple[Items, Items] = [], []
    keys = [o[merge_key] for o in map(_object, listed) if merge_key in o] if merge_key else []
    for item in items:
        is_listed = _among(_key_of(item, merge_key), keys) if merge_key else _among(item, listed)
        parts[not is_listed].append(item)
    return parts


def _in_order(
    of_patch: Items,
    of_server: Items,
    order: Items,
    server_order: Items,
    merge_key: str,
    is_map: bool,
) -> Items:
    """Merge two lists: the patch's order has precedence over the server's."""

    def value(item: Any) -> Any:
        return cast(Object, item).get(merge_key) if is_map else item

    def index(items: Items, item: Any) -> int:
        wanted = value(item)
        return next((i for i, other in enumerate(items) if same(value(other), wanted)), -1)

    if is_map:
        for item in (*of_patch, *order, *of_server, *server_order):
            _key_of(item, merge_key)
    _sort(of_patch, lambda item: index(order, item))
    _sort(of_server, lambda item: index(server_order, item))
    merged: Items = []
    left, right = list(of_server), list(of_patch)
    while left and right:
        # The next item that only the server has goes first if it preceded the patch's next item
        # before; an item that is new in the patch (-1) goes first itself.
        before, after = index(server_order, left[0]), index(server_order, right[0])
        merged.append((left if 0 <= before < after else right).pop(0))
    return merged + left + right


def _sort(items: Items, index: Callable[[Any], int]) -> None:
    """Sort by index as Go's insertion sort does with items that have none: each of these goes
    before those that precede it."""
    for end in range(1, len(items)):
        for i in range(end, 0, -1):
            position, previous = index(items[i]), index(items[i - 1])
            if 0 <= previous <= position:
                break
            items[i - 1], items[i] = items[i], items[i - 1]


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        fields = cast(Object, value)
        for key in [key for key, item in fields.items() if item is None]:
            del fields[key]
        for item in fields.values():
            _discard_nulls(item)
    elif isinstance(value, list):
        for item in cast(Items, value):
            _discard_nulls(item)


def _without_directives(value: Any) -> tuple[bool, Any]:
    """Return whether to keep a new value, and the value without items that are directives."""
    if isinstance(value, dict):
        fields = cast(Object, value)
        if PATCH in fields:
            return False, None
        cleaned = {key: _without_directives(item) for key, item in fields.items()}
        return True, {key: item for key, (kept, item) in cleaned.items() if kept}
    if isinstance(value, list):
        return True, [item for kept, item in map(_without_directives, cast(Items, value)) if kept]
    return True, value


def _element_type(*lists: Items) -> type:
    kinds: set[type] = {type(item) for items in lists for item in items}
    if list in kinds:
        raise PatchError("lists of lists are not supported", 422)
    if len(kinds) > 1:
        raise PatchError(f"list element types are not identical: {go_text(list(lists))}", 400)
    if not kinds:
        raise PatchError("no elements in any of the given slices", 400)
    return kinds.pop()


def _lookup(schema: str, key: str) -> tuple[Field, str, str]:
    """Return a field, its patch strategy besides retainKeys, and the type of its value."""
    type_facts = types().get(schema)
    if type_facts is None:
        kind = _kind(schema)
        raise PatchError(
            f"merging an object in json but data type is not struct, instead is: {kind}", 400
        )
    # Go finds fields of JSON regardless of case.
    field = type_facts.fields.get(key) or next(
        (f for name, f in type_facts.fields.items() if name.lower() == key.lower()), None
    )
    if field is None:
        name = schema.rpartition(".")[2]
        raise PatchError(
            f'unable to find api field in struct {name} for the json field "{key}"', 400
        )
    strategy = next((s for s in field.strategy.split(",") if s != "retainKeys"), "")
    return field, strategy, field.type


def _lookup_list(schema: str, key: str) -> tuple[Field, str, str]:
    field, strategy, kind = _lookup(schema, key)
    if not kind.startswith(LIST):
        raise PatchError("expected slice or array type, but got: struct", 400)
    return field, strategy, kind.removeprefix(LIST)


def _kind(schema: str) -> str:
    if schema.startswith((LIST, MAP)):
        return "slice" if schema.startswith(LIST) else "map"
    return "struct" if schema in types() or schema[0].isupper() else schema


def _suffix(key: str, prefix: str, form: str) -> str:
    head, slash, name = key.partition("/")
    if head != prefix or not slash:
        raise PatchError(f"invalid patch format of {form}", 400)
    return name


def _has_directive(item: Any) -> bool:
    return isinstance(item, dict) and PATCH in item


def _same_key(left: Any, right: Any, merge_key: str) -> bool:
    if not merge_key:
        return same(left, right)
    return same(_key_of(left, merge_key), _key_of(right, merge_key))


def _key_of(item: Any, merge_key: str) -> Any:
    fields = _object(item)
    if merge_key not in fields:
        message = f"map: {go_text(fields)} does not contain declared merge key: {merge_key}"
        raise PatchError(message, 400)
    return fields[merge_key]


def _among(item: Any, items: Items) -> bool:
    return any(same(item, other) for other in items)


def _object(item: Any) -> Object:
    if not isinstance(item, dict):
        message = f"expected a map[string]interface {{}}, but received a {go_type(item)}"
        raise PatchError(message, 400)
    return cast(Object, item)


def _list(value: Any) -> Items:
    if not isinstance(value, list):
        raise PatchError(f"expected a []interface {{}}, but received a {go_type(value)}", 400)
    return cast(Items, value)
