"""The managers of ``replicas``, in the ``scale`` subresource and in the object that is scaled.

An entry of the object becomes an entry of the Scale if it has ``spec.replicas``. After a change of
the Scale, managers that lost the field there lose it in the object, and new ones get an entry.
"""

from __future__ import annotations

from typing import Any, Final

from podtui.api.fields import types
from podtui.patching.field_set import field_set
from podtui.patching.managed_fields import (
    Entry,
    Managers,
    Object,
    decode_managers,
    encode_managers,
)

_REPLICAS: Final = field_set("spec.replicas")


def scale_entries(entries: Any, version: str) -> list[Object]:
    """Return the ``managedFields`` of a Scale from those of an object, whose API version is
    ``version``. Raises `PatchError`."""
    scale = types()["Scale"].version
    managers: Managers = {
        manager: Entry(_REPLICAS, scale, entry.time)
        for manager, entry in decode_managers(entries).items()
        if entry.version == version and entry.fields & _REPLICAS
    }
    return encode_managers(managers)


def object_entries(entries: Any, of_scale: Any, version: str) -> list[Object]:
    """Return the ``managedFields`` of an object from those it had, and from those of its changed
    Scale. Raises `PatchError`."""
    scaling = decode_managers(of_scale)
    managers: Managers = {}
    before = decode_managers(entries)
    for manager, entry in before.items():
        if entry.version != version:
            continue
        if scaling.pop(manager, None) is None and entry.fields & _REPLICAS:
            entry = Entry(entry.fields - _REPLICAS, entry.version, entry.time)
        if entry.fields:
            managers[manager] = entry
    for manager, entry in scaling.items():
        if entry.fields & _REPLICAS:
            time = before[manager].time if manager in before else None
            managers[manager] = Entry(_REPLICAS, version, time)
    return encode_managers(managers)
