"""Namespaces. Their content is deleted first: see `podtui.server.resources.namespace_care`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.v1 import Namespace
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy, with_meta
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import Errors, invalid, invalid_each
from podtui.manifest.validation.metadata import object_meta

NAME_LABEL: Final = "kubernetes.io/metadata.name"
FINALIZER: Final = "kubernetes"
ACTIVE: Final = "Active"
TERMINATING: Final = "Terminating"


def _defaults(tree: Tree) -> None:
    metadata: Tree = tree.setdefault("metadata", {})
    if metadata.get("name"):
        metadata.setdefault("labels", {})[NAME_LABEL] = metadata["name"]


def new_namespace(item: Namespace) -> Namespace:
    """Return the namespace as it is stored when it is created."""
    finalizers = item.spec.finalizers
    if FINALIZER not in finalizers:
        finalizers = (*finalizers, FINALIZER)
    return _labelled(
        structs.replace(
            item,
            spec=structs.replace(item.spec, finalizers=finalizers),
            status=structs.replace(item.status, phase=ACTIVE, conditions=()),
        )
    )


def _held(item: Namespace) -> bool:
    return bool(item.metadata.finalizers or item.spec.finalizers)


def _terminate(item: Namespace) -> Namespace:
    item = with_meta(item, deletionGracePeriodSeconds=None)
    return structs.replace(item, status=structs.replace(item.status, phase=TERMINATING))


def _labelled(item: Namespace) -> Namespace:
    labels = item.metadata.labels
    return with_meta(item, labels={**labels, NAME_LABEL: item.metadata.name})


def _prepare_update(new: Namespace, old: Namespace) -> Namespace:
    return _labelled(structs.replace(new, spec=old.spec, status=old.status))


def _prepare_status(new: Namespace, old: Namespace) -> Namespace:
    return _labelled(structs.replace(new, spec=old.spec))


def _prepare_finalize(new: Namespace, old: Namespace) -> Namespace:
    return _labelled(structs.replace(new, status=old.status))


def _create_errors(item: Namespace) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False, name_rule=formats.dns_label)
    yield from _finalizer_errors(item)


def _status_errors(new: Namespace, old: Namespace) -> Errors:
    phase = TERMINATING if new.metadata.deletionTimestamp is not None else ACTIVE
    if new.status.phase != phase:
        empty = "is not empty" if phase == TERMINATING else "is empty"
        why = f"may only be '{phase}' if `deletionTimestamp` {empty}"
        yield invalid("status.Phase", new.status.phase, why)


def _finalize_errors(new: Namespace, old: Namespace) -> Errors:
    yield from _finalizer_errors(new)


def _finalizer_errors(item: Namespace) -> Errors:
    for index, name in enumerate(item.spec.finalizers):
        path = f"spec.finalizers[{index}]"
        yield from invalid_each(path, name, formats.qualified_name(name))
        if "/" not in name and name != FINALIZER:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(path, name, why)


NAMESPACES: Final = Strategy(
    struct=Namespace,
    defaults=_defaults,
    prepare_create=new_namespace,
    prepare_update=_prepare_update,
    validate_create=_create_errors,
    held=_held,
    terminate=_terminate,
)
STATUS: Final = replace(NAMESPACES, prepare_update=_prepare_status, validate_update=_status_errors)
FINALIZE: Final = replace(
    NAMESPACES, prepare_update=_prepare_finalize, validate_update=_finalize_errors
)
