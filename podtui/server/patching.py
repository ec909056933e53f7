"""JSON merge patches, and strategic merge patches of lists with named items."""

from __future__ import annotations

from typing import Any, Final, cast

Tree = dict[str, Any]

_DIRECTIVE: Final = "$patch"
_DIRECTIVES: Final = "$"


def merged(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386): null removes a key, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result: Tree = dict(cast("Tree", old)) if isinstance(old, dict) else {}
    for key, value in cast("Tree", patch).items():
        if key.startswith(_DIRECTIVES):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def merged_by_name(old: list[Tree], patch: list[Tree]) -> list[Tree]:
    """Apply a strategic merge patch to a list of named items: items with the same name are merged,
    new ones are appended. Raises ValueError for an item without a name."""
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [merged({}, item) for item in patch if item.get(_DIRECTIVE) != "replace"]
    result = {str(item["name"]): item for item in old}
    for item in patch:
        name = item.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("map: does not contain declared merge key: name")
        if item.get(_DIRECTIVE) == "delete":
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), item)
    return list(result.values())
