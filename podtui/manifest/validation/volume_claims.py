"""Rules for the claim template of an ephemeral volume."""

from __future__ import annotations

from typing import Final

from podtui.api.quantity import Quantity
from podtui.api.v1 import (
    ObjectMeta,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.metadata import annotation_map, label_selector, labels
from podtui.manifest.validation.resources import quantity

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")
# A template may only have labels and annotations; the other metadata is generated.
_NOT_IN_TEMPLATES: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def claim_template(template: PersistentVolumeClaimTemplate, path: str) -> Errors:
    if template.metadata is not None:
        yield from _template_meta(template.metadata, path)
    yield from claim_spec(template.spec, f"{path}.spec")


def _template_meta(meta: ObjectMeta, path: str) -> Errors:
    here = f"{path}.metadata"
    yield from annotation_map(meta.annotations, f"{here}.annotations")
    yield from labels(meta.labels, f"{here}.labels")
    for name in _NOT_IN_TEMPLATES:
        if getattr(meta, name):
            shown_as = "uID" if name == "uid" else name
            at = f"{here}.{name}"
            yield forbidden(f"{here}.{shown_as}", "cannot be set", at=at)


def claim_spec(spec: PersistentVolumeClaimSpec, path: str) -> Errors:
    here, modes = f"{path}.accessModes", spec.accessModes
    if not modes:
        yield required(here, "at least 1 access mode is required")
    yield from label_selector(spec.selector, f"{path}.selector")
    for index, mode in enumerate(modes):
        if mode not in ACCESS_MODES:
            yield not_supported(here, mode, ACCESS_MODES, at=f"{here}[{index}]")
    others = [mode for mode in modes if mode in ACCESS_MODES and mode != "ReadWriteOncePod"]
    if "ReadWriteOncePod" in modes and others:
        yield forbidden(here, "may not use ReadWriteOncePod with other access modes")
    yield from _storage(spec, path)
    for field, name in (
        ("storageClassName", spec.storageClassName),
        ("volumeAttributesClassName", spec.volumeAttributesClassName),
    ):
        if name:
            yield from invalid_each(f"{path}.{field}", name, formats.dns_subdomain(name))
    if spec.volumeMode and spec.volumeMode not in VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", spec.volumeMode, VOLUME_MODES)
    yield from _data(spec, path)


def _storage(spec: PersistentVolumeClaimSpec, path: str) -> Errors:
    shown_as, at = f"{path}.resources[storage]", f"{path}.resources.requests[storage]"
    requested = spec.resources.requests if spec.resources is not None else {}
    if "storage" not in requested:
        yield required(shown_as, at=at)
        return
    size = quantity(requested["storage"])
    if size is None:
        yield invalid(shown_as, requested["storage"], "must be a valid resource quantity", at=at)
    elif size <= Quantity(0):
        yield invalid(shown_as, str(size), "must be greater than zero", at=at)


def _data(spec: PersistentVolumeClaimSpec, path: str) -> Errors:
    source, ref = spec.dataSource, spec.dataSourceRef
    if source is not None:
        yield from _data_source(source, f"{path}.dataSource")
    if ref is not None:
        yield from _data_source(ref, f"{path}.dataSourceRef")
        if ref.namespace:
            here = f"{path}.dataSourceRef.namespace"
            yield from invalid_each(here, ref.namespace, formats.dns_label(ref.namespace))
    if source is None or ref is None:
        return
    at = f"{path}.dataSource"
    # The API server prints an empty object instead of the value.
    if ref.namespace:
        why = "may not be specified when dataSourceRef.namespace is specified"
        yield invalid(path, {}, why, at=at)
    elif (source.apiGroup, source.kind, source.name) != (ref.apiGroup, ref.kind, ref.name):
        yield invalid(path, {}, "must match dataSourceRef", at=at)


def _data_source(source: TypedLocalObjectReference | TypedObjectReference, path: str) -> Errors:
    if not source.name:
        yield required(f"{path}.name")
    if not source.kind:
        yield required(f"{path}.kind")
    if source.apiGroup:
        problems = formats.dns_subdomain(source.apiGroup)
        yield from invalid_each(f"{path}.apiGroup", source.apiGroup, problems)
    elif source.kind != "PersistentVolumeClaim":
        yield invalid(
            path,
            source.kind,
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        )
