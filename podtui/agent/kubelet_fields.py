"""``metadata.managedFields`` of what the kubelet writes, as an API server would record them.

The kubelet writes a status often, and mostly with the same fields. The set of its fields is
computed only if a status has other fields than before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import structs

from podtui.api.pods import is_mirror
from podtui.api.v1 import ManagedFieldsEntry, Node, Pod
from podtui.patching.managed_fields import UPDATE, shared_fields
from podtui.patching.typed import fields_of
from podtui.server.resources.field_managers import managed

MANAGER: Final = "kubelet"
_STATUS: Final = "status"
_VERSION: Final = "v1"
_CONDITIONS: Final = frozenset(
    {
        "ContainersReady",
        "Initialized",
        "PodReadyToStartContainers",
        "PodResizeInProgress",
        "PodResizePending",
        "Ready",
    }
)
"""The conditions of an API pod that its kubelet sets."""
_ATOMIC: Final = frozenset(
    {
        "containerStatuses",
        "ephemeralContainerStatuses",
        "hostIPs",
        "images",
        "initContainerStatuses",
    }
)
"""Parts of a status whose fields have no managers of their own."""
_KEYS: Final = ("type", "ip", "name")
T = TypeVar("T", Pod, Node)


def as_created(item: T, now: str) -> T:
    """Return a new object, all of whose fields the kubelet manages."""
    item = managed(item, None, manager=MANAGER, now=now)
    return with_status(item, structs.replace(item, status=type(item.status)()), now)


def with_status(new: T, old: T, now: str) -> T:
    """Return an object whose status the kubelet wrote."""
    if new.status == old.status:
        return new
    before, after = _owned(old), _owned(new)
    entry = next(filter(_is_status, new.metadata.managedFields), None)
    if entry is None or _outline(before) != _outline(after):
        fields = shared_fields(fields_of(type(new).__name__, {_STATUS: after}))
        entry = ManagedFieldsEntry(
            manager=MANAGER,
            operation=UPDATE,
            apiVersion=_VERSION,
            fieldsType="FieldsV1",
            fieldsV1=fields,
            subresource=_STATUS,
        )
    others = (other for other in new.metadata.managedFields if not _is_status(other))
    return _with_managers(new, (*others, structs.replace(entry, time=now)))


def _with_managers(item: T, managers: Iterable[ManagedFieldsEntry]) -> T:
    metadata = structs.replace(item.metadata, managedFields=tuple(managers))
    return structs.replace(item, metadata=metadata)


def _tree(item: msgspec.Struct) -> Any:
    """Return the JSON form; ``msgspec.to_builtins`` keeps tuples."""
    return msgspec.json.decode(msgspec.json.encode(item))


def _is_status(entry: ManagedFieldsEntry) -> bool:
    owner = (entry.manager, entry.operation, entry.subresource)
    return owner == (MANAGER, UPDATE, _STATUS)


def _owned(item: Pod | Node) -> dict[str, Any]:
    """Return the part of the status that the kubelet sets."""
    tree: dict[str, Any] = _tree(item.status)
    if isinstance(item, Pod) and not is_mirror(item):
        # The API server set the class when the pod was created.
        tree.pop("qosClass", None)
        conditions = tree.get("conditions", ())
        tree["conditions"] = [item for item in conditions if item["type"] in _CONDITIONS]
    return tree


def _outline(value: Any, name: str = "") -> Any:
    """Return which fields a value has, without their values."""
    if name in _ATOMIC:
        return None
    if isinstance(value, dict):
        tree = cast("dict[str, Any]", value)
        return {key: _outline(item, key) for key, item in tree.items()}
    if isinstance(value, list):
        return list(map(_outlined_item, cast("list[Any]", value)))
    return None


def _outlined_item(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    tree = cast("dict[str, Any]", item)
    return [tree.get(key) for key in _KEYS], _outline(tree)
