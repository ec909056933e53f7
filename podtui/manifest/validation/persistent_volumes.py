"""The API server's rules for a PersistentVolume.

The details of the sources of storage systems that podtui cannot mount are not checked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from podtui.api.quantity import Quantity
from podtui.api.v1 import (
    HostPathVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
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
from podtui.manifest.validation.metadata import object_meta
from podtui.manifest.validation.resources import quantity
from podtui.manifest.validation.scheduling import node_selector
from podtui.manifest.validation.spec_diff import spec_diff
from podtui.manifest.validation.volume_claims import VOLUME_MODES, access_modes
from podtui.manifest.validation.volumes import host_path, nfs

SOURCES: Final = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
"""The sources in the API server's order."""
RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_SHOWN: Final = {"cephfs": "cephFS"}
_ONE_SOURCE: Final = "may not specify more than 1 volume type"
_DEPRECATED: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_WARNED_AS: Final = {"storageos": "storageOS"}
_RECYCLE: Final = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the"
    " recommended approach is to use dynamic provisioning."
)


def validate_volume(item: PersistentVolume) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    yield from volume_spec(item.spec)


def volume_spec(spec: PersistentVolumeSpec) -> Errors:
    if not spec.accessModes:
        yield required("spec.accessModes")
    yield from access_modes(spec.accessModes, "spec.accessModes")
    yield from _capacity(spec.capacity)
    policy = spec.persistentVolumeReclaimPolicy
    if policy and policy not in RECLAIM_POLICIES:
        yield not_supported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES)
    if spec.nodeAffinity is not None:
        yield from _node_affinity(spec.nodeAffinity)
    yield from _source(spec)
    host = spec.hostPath
    if host is not None and posixpath.normpath(host.path or "x") == "/" and policy == "Recycle":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden("spec.persistentVolumeReclaimPolicy", why)
    if spec.storageClassName:
        problems = formats.dns_subdomain(spec.storageClassName)
        yield from invalid_each("spec.storageClassName", spec.storageClassName, problems)
    if spec.volumeMode and spec.volumeMode not in VOLUME_MODES:
        yield not_supported("spec.volumeMode", spec.volumeMode, VOLUME_MODES)
    if name := spec.volumeAttributesClassName:
        problems = formats.dns_subdomain(name)
        yield from invalid_each("spec.volumeAttributesClassName", name, problems)
        if spec.csi is None:
            why = "has to be specified when using volumeAttributesClassName"
            yield required("spec.csi", why)


def _capacity(capacity: Mapping[str, str]) -> Errors:
    path = "spec.capacity"
    if not capacity:
        yield required(path)
    if "storage" not in capacity or len(capacity) > 1:
        yield not_supported(path, dict(sorted(capacity.items())) or None, ("storage",))
    for name, text in capacity.items():
        size = quantity(text)
        if size is None:
            yield invalid(f"{path}[{name}]", text, "must be a valid resource quantity")
            continue
        if size < Quantity(0):
            yield invalid(f"{path}[{name}]", size.value(), "must be a valid resource quantity")
        if size <= Quantity(0):
            yield invalid(f"{path}[{name}]", str(size), "must be greater than zero")


def _node_affinity(affinity: VolumeNodeAffinity) -> Errors:
    path = "spec.nodeAffinity.required"
    if affinity.required is None:
        yield required(path, "must specify required node constraints")
    else:
        yield from node_selector(affinity.required, path)


def _source(spec: PersistentVolumeSpec) -> Errors:
    given = [name for name in SOURCES if getattr(spec, name) is not None]
    if not given:
        yield required("spec", "must specify a volume type")
        return
    for name in given[1:]:
        yield forbidden(f"spec.{_SHOWN.get(name, name)}", _ONE_SOURCE)
    first = given[0]
    if (rule := _RULES.get(first)) is not None:
        yield from rule(getattr(spec, first), f"spec.{first}")
    if first == "local" and spec.nodeAffinity is None:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")


def _host_path(source: HostPathVolumeSource, path: str) -> Errors:
    yield from host_path(source, path)


def _local(source: LocalVolumeSource, path: str) -> Errors:
    if not source.path:
        yield required(f"{path}.path")
    else:
        yield from formats.no_backsteps(source.path, f"{path}.path")


_RULES: Final[Mapping[str, Callable[[Any, str], Errors]]] = {
    "hostPath": _host_path,
    "local": _local,
    "nfs": nfs,
}


def volume_update(new: PersistentVolume, old: PersistentVolume) -> Errors:
    yield from volume_spec(new.spec)
    before, after = _sources_of(old.spec), _sources_of(new.spec)
    if before != after:
        diff = spec_diff(before, after)
        why = f"spec.persistentvolumesource is immutable after creation\n{diff}"
        yield forbidden("spec.persistentvolumesource", why)
    if new.spec.volumeMode != old.spec.volumeMode:
        yield invalid("volumeMode", GoText(new.spec.volumeMode), "field is immutable")
    if new.spec.nodeAffinity != old.spec.nodeAffinity and old.spec.nodeAffinity is not None:
        why = "field is immutable, except for updating from beta label to GA"
        yield invalid("nodeAffinity", new.spec.nodeAffinity, why)
    if old.spec.volumeAttributesClassName and not new.spec.volumeAttributesClassName:
        why = "update from non-nil value to nil is forbidden"
        yield forbidden("spec.volumeAttributesClassName", why)


def _sources_of(spec: PersistentVolumeSpec) -> PersistentVolumeSpec:
    """Return a spec with nothing but the sources."""
    return PersistentVolumeSpec(**{name: getattr(spec, name) for name in SOURCES})


def volume_warnings(item: PersistentVolume) -> Iterator[str]:
    """Warn about reclaim policies and sources that Kubernetes has deprecated."""
    if item.spec.persistentVolumeReclaimPolicy == "Recycle":
        yield _RECYCLE
    for name, why in _DEPRECATED.items():
        if getattr(item.spec, name) is not None:
            yield f"spec.{_WARNED_AS.get(name, name)}: {why}"
