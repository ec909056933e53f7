"""Nodes: clients change labels, annotations, taints and whether pods may be scheduled."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.v1 import Node, Taint
from podtui.manifest.strategies.strategy import Strategy
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    DUPLICATE,
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.metadata import label_name, object_meta

_NOT_UNIQUE: Final = "taints must be unique by key and effect pair"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _prepare_create(item: Node) -> Node:
    return structs.replace(item, spec=structs.replace(item.spec, configSource=None))


def _prepare_update(new: Node, old: Node) -> Node:
    spec = structs.replace(new.spec, configSource=old.spec.configSource and new.spec.configSource)
    return structs.replace(new, spec=spec, status=old.status)


def _prepare_status(new: Node, old: Node) -> Node:
    return structs.replace(new, spec=old.spec)


def _create_errors(item: Node) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    yield from _taint_errors(item.spec.taints, "metadata.taints")


def _update_errors(new: Node, old: Node) -> Errors:
    yield from _create_errors(new)
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(new.status.addresses):
        if (address.type, address.address) in seen:
            yield duplicate(f"status.addresses[{index}]", address)
        seen.add((address.type, address.address))
    for field, before in (("podCIDRs", old.spec.podCIDRs), ("providerID", old.spec.providerID)):
        if before and getattr(new.spec, field) != before:
            noun = field.removesuffix("s")
            why = f'node updates may not change {noun} except from "" to valid'
            yield forbidden(f"spec.{field}", why)
    if new.spec.externalID != old.spec.externalID:
        yield forbidden("spec.externalID", "may not be updated")


def _taint_errors(taints: tuple[Taint, ...], path: str) -> Errors:
    unique: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here = f"{path}[{index}]"
        yield from label_name(taint.key, f"{here}.key")
        yield from invalid_each(f"{here}.value", taint.value, formats.label_value(taint.value))
        if not taint.effect:
            yield required(f"{here}.effect")
        elif taint.effect not in _EFFECTS:
            yield not_supported(f"{here}.effect", taint.effect, _EFFECTS)
        if (taint.key, taint.effect) in unique:
            yield FieldError(here, DUPLICATE, _NOT_UNIQUE, taint)
        unique.add((taint.key, taint.effect))


NODES: Final = Strategy(
    struct=Node,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=_create_errors,
    validate_update=_update_errors,
)
STATUS: Final = replace(NODES, prepare_update=_prepare_status)
