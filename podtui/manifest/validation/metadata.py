"""Rules for metadata: names, labels, annotations, owners, finalizers; label selectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podtui.api.v1 import (
    LabelSelector,
    LabelSelectorRequirement,
    ManagedFieldsEntry,
    ObjectMeta,
    OwnerReference,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    GoText,
    forbidden,
    invalid,
    invalid_each,
    required,
    too_long,
)

ANNOTATIONS_LIMIT: Final = 256 * 1024
_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
_IMMUTABLE: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_STANDARD_FINALIZERS: Final = ("kubernetes", _ORPHAN, _FOREGROUND)


def label_name(name: str, path: str, *, at: str = "") -> Errors:
    yield from invalid_each(path, name, formats.qualified_name(name), at=at)


def labels(entries: Mapping[str, str], path: str) -> Errors:
    """The API server's path is that of the map; the exact path is that of the entry."""
    for key, value in entries.items():
        at = f"{path}[{key}]"
        yield from label_name(key, path, at=at)
        yield from invalid_each(path, value, formats.label_value(value), at=at)


def annotation_map(entries: Mapping[str, str], path: str) -> Errors:
    for key in entries:
        problems = formats.qualified_name(key.lower())
        yield from invalid_each(path, key, problems, at=f"{path}[{key}]")
    yield from annotations_size(entries, path)


def annotations_size(entries: Mapping[str, str], path: str) -> Errors:
    total = sum(formats.size(key) + formats.size(value) for key, value in entries.items())
    if total > ANNOTATIONS_LIMIT:
        yield too_long(path, ANNOTATIONS_LIMIT)


def label_selector(selector: LabelSelector | None, path: str) -> Errors:
    if selector is None:
        return
    yield from labels(selector.matchLabels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.matchExpressions):
        yield from _label_requirement(requirement, f"{path}.matchExpressions[{index}]")


def set_operator(operator: str, values: tuple[str, ...], path: str) -> Errors:
    """Check that the operator is one of the four set operators and has the right number of
    values."""
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(
                f"{path}.values",
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )
    else:
        yield invalid(f"{path}.operator", GoText(operator), "not a valid selector operator")


def label_values(values: tuple[str, ...], path: str) -> Errors:
    for index, value in enumerate(values):
        yield from invalid_each(f"{path}[{index}]", value, formats.label_value(value))


def _label_requirement(requirement: LabelSelectorRequirement, path: str) -> Errors:
    yield from set_operator(requirement.operator, requirement.values, path)
    yield from label_name(requirement.key, f"{path}.key")
    yield from label_values(requirement.values, f"{path}.values")


def object_meta(
    meta: ObjectMeta,
    path: str,
    *,
    namespaced: bool = True,
    name_rule: Callable[[str], list[str]] = formats.dns_subdomain,
) -> Errors:
    """Check the metadata of an object whose name was already generated."""
    if meta.generateName:
        problems = formats.name_prefix(meta.generateName)
        yield from invalid_each(f"{path}.generateName", meta.generateName, problems)
    if meta.name:
        yield from invalid_each(f"{path}.name", meta.name, name_rule(meta.name))
    else:
        yield required(f"{path}.name", "name or generateName is required")
    if namespaced and not meta.namespace:
        yield required(f"{path}.namespace")
    elif namespaced:
        problems = formats.dns_label(meta.namespace)
        yield from invalid_each(f"{path}.namespace", meta.namespace, problems)
    elif meta.namespace:
        yield forbidden(f"{path}.namespace", "not allowed on this type")
    if (meta.generation or 0) < 0:
        yield invalid(f"{path}.generation", meta.generation, "must be greater than or equal to 0")
    yield from labels(meta.labels, f"{path}.labels")
    yield from annotation_map(meta.annotations, f"{path}.annotations")
    yield from _owners(meta.ownerReferences, f"{path}.ownerReferences")
    yield from _finalizers(meta.finalizers, f"{path}.finalizers")
    yield from _managed_fields(meta.managedFields, f"{path}.managedFields")
    for index, name in enumerate(meta.finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{path}.finalizers[{index}]", name, why)


def object_meta_update(new: ObjectMeta, old: ObjectMeta, path: str) -> Errors:
    """Check what an update may not change in the metadata."""
    yield from _finalizers(new.finalizers, f"{path}.finalizers")
    added = sorted(set(new.finalizers) - set(old.finalizers))
    if old.deletionTimestamp is not None and added:
        names = ", ".join(f'"{name}"' for name in added)
        yield forbidden(
            f"{path}.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers"
            f" []string{{{names}}}",
        )
    if (new.generation or 0) < (old.generation or 0):
        yield invalid(f"{path}.generation", new.generation or 0, "must not be decremented")
    for name in _IMMUTABLE:
        value = getattr(new, name)
        if value != getattr(old, name):
            yield invalid(f"{path}.{name}", value, "field is immutable")
    yield from labels(new.labels, f"{path}.labels")
    yield from annotation_map(new.annotations, f"{path}.annotations")
    yield from _owners(new.ownerReferences, f"{path}.ownerReferences")
    yield from _managed_fields(new.managedFields, f"{path}.managedFields")


def _owners(owners: tuple[OwnerReference, ...], path: str) -> Errors:
    controller = ""
    for index, owner in enumerate(owners):
        here = f"{path}[{index}]"
        version = owner.apiVersion.rpartition("/")[2]
        # With more than one slash it is not a group and version at all.
        if not version or owner.apiVersion.count("/") > 1:
            yield invalid(
                f"{path}.apiVersion",
                owner.apiVersion,
                "version must not be empty",
                at=f"{here}.apiVersion",
            )
        for name, text in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not text:
                yield invalid(f"{path}.{name}", text, "must not be empty", at=f"{here}.{name}")
        if (owner.apiVersion, owner.kind) == ("v1", "Event"):
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner", at=here)
        if owner.controller:
            this = f"{owner.kind}/{owner.name}"
            if controller:
                yield invalid(
                    path,
                    owners,
                    "Only one reference can have Controller set to true."
                    f' Found "true" in references for {controller} and {this}',
                    at=here,
                )
            else:
                controller = this


def _finalizers(finalizers: tuple[str, ...], path: str) -> Errors:
    for index, name in enumerate(finalizers):
        yield from label_name(name, path, at=f"{path}[{index}]")
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        yield invalid(path, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set")


def _managed_fields(entries: tuple[ManagedFieldsEntry, ...], path: str) -> Errors:
    for index, entry in enumerate(entries):
        here = f"{path}[{index}]"
        if entry.operation not in ("Apply", "Update"):
            operation = GoText(entry.operation)
            yield invalid(f"{here}.operation", operation, "must be `Apply` or `Update`")
        if entry.fieldsType not in ("", "FieldsV1"):
            yield invalid(f"{here}.fieldsType", entry.fieldsType, "must be `FieldsV1`")
        if formats.size(entry.manager) > 128:
            yield too_long(f"{here}.manager", 128)
        position = 0
        for char in entry.manager:
            if not char.isprintable():
                yield invalid(
                    f"{here}.manager",
                    entry.manager,
                    f"invalid character U+{ord(char):04X} (at position {position})",
                )
            position += formats.size(char)
        if formats.size(entry.subresource) > 256:
            yield too_long(f"{here}.subresource", 256)
