"""``metadata.managedFields`` of objects that the agent's own parts write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from podtui.api.fields import types
from podtui.api.objects import Object, T
from podtui.api.v1 import ManagedFieldsEntry
from podtui.manifest.strategies.strategy import with_meta
from podtui.patching.server_side_apply import apply, update_managers
from podtui.server.encoding.decoding import Tree

API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
"""The component of a cluster that does what the agent's controllers do."""
_EMPTY: Final[tuple[object, ...]] = (None, "", {})


def managed(new: T, old: T | None, *, manager: str, now: str, subresource: str = "") -> T:
    """Return the object as ``manager`` created it or changed it from ``old``. The status has
    managers of its own, those of the subresource ``status``."""
    kind = type(new).__name__
    document = _document(new, subresource)
    live = None if old is None else _document(old, subresource)
    entries = update_managers(
        kind, live, document, manager=manager, time=now, subresource=subresource
    )
    managers = msgspec.convert(entries, tuple[ManagedFieldsEntry, ...])
    return with_meta(new, managedFields=managers)


def applied(item: T, fields: Mapping[str, object], *, manager: str, now: str) -> T:
    """Return the object after ``manager`` applied some fields, whoever managed them before."""
    kind = type(item).__name__
    head = {"apiVersion": types()[kind].version, "kind": kind}
    plain: Tree = msgspec.json.decode(msgspec.json.encode(fields))
    configuration = {**head, "metadata": {"name": item.metadata.name}, **plain}
    live = {**_document(item), **head}
    document = apply(kind, live, configuration, manager=manager, time=now, force=True)
    return msgspec.convert({**document, "apiVersion": "", "kind": ""}, type(item))


def _document(item: Object, subresource: str = "") -> Tree:
    """Return the JSON form, without fields that are always written: no manager sets them."""
    tree: Tree = msgspec.json.decode(msgspec.json.encode(item))
    if subresource != "status":
        tree.pop("status", None)
    document = {name: value for name, value in tree.items() if value not in _EMPTY}
    return {**document, "kind": type(item).__name__}
