"""The strategic merge patch from one status to another, as a kubelet sends it.

Only fields that differ are in the patch, so that it does not undo what other components write at
the same time. Conditions are merged by their type. The other lists with a merge key are replaced
whole: their items have no owners of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from podtui.api.v1 import NodeStatus, PersistentVolumeClaimStatus, PodStatus

_CONDITIONS: Final = "conditions"
_REPLACED: Final = frozenset({"addresses", "hostIPs", "podIPs"})
"""Lists that a server would merge by a key: a directive makes it replace them."""
Tree = dict[str, Any]
Status = PodStatus | NodeStatus | PersistentVolumeClaimStatus


def status_patch(before: Status, after: Status) -> Tree:
    """Return the patch of ``status``; empty if nothing differs."""
    old, new = _tree(before), _tree(after)
    if _CONDITIONS in old:
        # Without conditions, only those that were seen are deleted.
        new.setdefault(_CONDITIONS, [])
    return _map_patch(old, new)


def _tree(status: Status) -> Tree:
    return cast("Tree", msgspec.json.decode(msgspec.json.encode(status)))


def _map_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Tree:
    patch: Tree = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        if key == _CONDITIONS:
            patch[key] = _condition_patch(old or [], value)
        elif key in _REPLACED:
            patch[key] = [*value, {"$patch": "replace"}]
        elif isinstance(old, dict) and isinstance(value, dict):
            patch[key] = _map_patch(cast("Tree", old), cast("Tree", value))
        else:
            patch[key] = value
    return patch


def _condition_patch(before: list[Tree], after: list[Tree]) -> list[Tree]:
    old = {condition["type"]: condition for condition in before}
    new = {condition["type"]: condition for condition in after}
    changed = [
        {**dict.fromkeys(old.get(name, {}).keys() - condition.keys()), **condition}
        for name, condition in new.items()
        if old.get(name) != condition
    ]
    return [*changed, *({"$patch": "delete", "type": name} for name in old.keys() - new.keys())]
