"""The API server's rules for a PersistentVolumeClaim, and for the claim template of an ephemeral
volume."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    TypedLocalObjectReference,
    TypedObjectReference,
    VolumeResourceRequirements,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    GoText,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.metadata import (
    annotation_map,
    label_selector,
    labels,
    object_meta,
)
from podtui.manifest.validation.resources import quantity
from podtui.manifest.validation.spec_diff import spec_diff

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
"""The class of a claim before the field existed."""
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for"
    " bound claims"
)
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


def validate_claim(item: PersistentVolumeClaim) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from claim_spec(item.spec, "spec")


def claim_update(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> Errors:
    """Check a changed claim. Its class may be set once, and its volume by the controller; a bound
    claim may ask for another size."""
    yield from claim_spec(new.spec, "spec")
    annotation, before = new.metadata.annotations, old.metadata.annotations
    if annotation.get(CLASS_ANNOTATION) != before.get(CLASS_ANNOTATION):
        path = f"metadata.annotations.{CLASS_ANNOTATION}"
        yield invalid(path, annotation.get(CLASS_ANNOTATION, ""), "field is immutable")
    if (changed := _without_allowed_changes(new, old)) != old.spec:
        yield forbidden("spec", f"{_IMMUTABLE}\n{spec_diff(old.spec, changed)}")
    size, former = requested_storage(new), requested_storage(old)
    held = old.status.capacity.get("storage", "0")
    if size < former and size <= parse_quantity(held):
        path = "spec.resources.requests.storage"
        yield forbidden(path, "field can not be less than status.capacity")
    if new.spec.volumeMode != old.spec.volumeMode:
        yield invalid("volumeMode", GoText(new.spec.volumeMode), "field is immutable")


def _without_allowed_changes(
    new: PersistentVolumeClaim, old: PersistentVolumeClaim
) -> PersistentVolumeClaimSpec:
    """Return the new spec with the old values of the fields that may change."""
    spec, before = new.spec, old.spec
    if not before.volumeName:
        spec = structs.replace(spec, volumeName="")
    named = old.metadata.annotations.get(CLASS_ANNOTATION, spec.storageClassName)
    if before.storageClassName is None and spec.storageClassName == named:
        spec = structs.replace(spec, storageClassName=None)
    if old.status.phase == "Bound":
        resources = spec.resources or VolumeResourceRequirements()
        former = before.resources or VolumeResourceRequirements()
        requests = dict(resources.requests)
        if requests and "storage" in former.requests:
            requests["storage"] = former.requests["storage"]
        spec = structs.replace(
            spec,
            volumeAttributesClassName=before.volumeAttributesClassName,
            resources=structs.replace(resources, requests=requests),
        )
    return spec


def requested_storage(item: PersistentVolumeClaim) -> Quantity:
    """Return the size that a claim asks for; 0 if it names none."""
    resources = item.spec.resources
    requests = {} if resources is None else resources.requests
    return quantity(requests.get("storage", "0")) or Quantity(0)


def class_of_claim(item: PersistentVolumeClaim) -> str | None:
    """Return the name of a claim's class; empty for no class, None if the claim does not say."""
    return item.metadata.annotations.get(CLASS_ANNOTATION, item.spec.storageClassName)


def class_of_volume(item: PersistentVolume) -> str:
    return item.metadata.annotations.get(CLASS_ANNOTATION, item.spec.storageClassName)


def claim_status_update(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> Errors:
    for name, text in new.status.capacity.items():
        size = quantity(text)
        if size is None or size < Quantity(0):
            shown = text if size is None else size.value()
            why = "must be a valid resource quantity"
            yield invalid(f"status.capacity[{name}]", shown, why)


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
    yield from access_modes(modes, here)
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


def access_modes(modes: tuple[str, ...], path: str) -> Errors:
    for index, mode in enumerate(modes):
        if mode not in ACCESS_MODES:
            yield not_supported(path, mode, ACCESS_MODES, at=f"{path}[{index}]")
    others = [mode for mode in modes if mode in ACCESS_MODES and mode != "ReadWriteOncePod"]
    if "ReadWriteOncePod" in modes and others:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


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
