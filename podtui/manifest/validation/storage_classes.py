"""The API server's rules for a StorageClass."""

from __future__ import annotations

from typing import Final

from podtui.api.storage import StorageClass, TopologySelectorLabelRequirement
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    GoText,
    duplicate,
    invalid,
    invalid_each,
    not_supported,
    required,
    too_long,
)
from podtui.manifest.validation.metadata import label_name, object_meta

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
RECLAIM_POLICIES: Final = ("Delete", "Retain")
BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_MAX_PARAMETERS: Final = 512
_MAX_BYTES: Final = 256 * 1024
_IMMUTABLE: Final = "field is immutable"


def is_default_class(item: StorageClass) -> bool:
    annotations = item.metadata.annotations
    return any(annotations.get(name) == "true" for name in (DEFAULT_CLASS, BETA_DEFAULT_CLASS))


def validate_storage_class(item: StorageClass) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    yield from _fields(item)


def _fields(item: StorageClass) -> Errors:
    if not item.provisioner:
        yield required("provisioner")
    else:
        name = item.provisioner.lower()
        yield from invalid_each("provisioner", name, formats.qualified_name(name))
    if len(item.parameters) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
    else:
        if "" in item.parameters:
            yield invalid("parameters", "", "field can not be empty.")
        pairs = item.parameters.items()
        if sum(formats.size(key) + formats.size(value) for key, value in pairs) > _MAX_BYTES:
            yield too_long("parameters", _MAX_BYTES)
    if item.reclaimPolicy and item.reclaimPolicy not in RECLAIM_POLICIES:
        yield not_supported("reclaimPolicy", item.reclaimPolicy, RECLAIM_POLICIES)
    if item.volumeBindingMode not in BINDING_MODES:
        yield not_supported("volumeBindingMode", item.volumeBindingMode, BINDING_MODES)
    for index, term in enumerate(item.allowedTopologies):
        seen = set[str]()
        for position, each in enumerate(term.matchLabelExpressions):
            path = f"allowedTopologies[{index}].matchLabelExpressions[{position}]"
            yield from _topology(each, path)
            if each.key in seen:
                yield duplicate(f"{path}.key", each.key)
            seen.add(each.key)


def _topology(requirement: TopologySelectorLabelRequirement, path: str) -> Errors:
    if not requirement.values:
        yield required(f"{path}.values")
    seen = set[str]()
    for index, value in enumerate(requirement.values):
        if value in seen:
            yield duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    yield from label_name(requirement.key, f"{path}.key")


def storage_class_update(new: StorageClass, old: StorageClass) -> Errors:
    yield from _fields(new)
    if new.parameters != old.parameters:
        yield invalid("parameters", new.parameters, _IMMUTABLE)
    if new.provisioner != old.provisioner:
        yield invalid("provisioner", new.provisioner, _IMMUTABLE)
    for name in ("reclaimPolicy", "volumeBindingMode"):
        value: str = getattr(new, name)
        if value != getattr(old, name):
            yield invalid(name, GoText(value), _IMMUTABLE)
