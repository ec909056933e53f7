"""JSON merge patch (RFC 7386) with the semantics of the API server's library.

It differs from the RFC in one point: nulls inside of lists' objects are removed as well, except
where the list replaces an object.
"""

from __future__ import annotations

from typing import Any, cast

from podtui.patching.errors import PatchError


def apply(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the patched document; the arguments stay as they are. Raises `PatchError`.

    It shares what is unchanged with ``document``: to copy a pod takes longer than to patch it.
    """
    if not isinstance(patch, dict):
        raise PatchError("Invalid JSON Patch", 400)
    return _merge(document, cast("dict[str, Any]", patch))


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = {**target}
    for key, value in patch.items():
        present = target.get(key)
        if value is None:
            merged.pop(key, None)
        elif not isinstance(present, dict):
            merged[key] = _without_nulls(value)
        elif isinstance(value, dict):
            merged[key] = _merge(cast("dict[str, Any]", present), cast("dict[str, Any]", value))
        else:
            merged[key] = value
    return merged


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _without_nulls(item) for key, item in items if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[Any]", value)]
    return value
