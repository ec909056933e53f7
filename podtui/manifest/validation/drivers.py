"""Rules for the volume sources of storage systems, most of them legacy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from podtui.api.v1 import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CinderVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GitRepoVolumeSource,
    ISCSIVolumeSource,
    LocalObjectReference,
    QuobyteVolumeSource,
    StorageOSVolumeSource,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    invalid,
    invalid_each,
    not_supported,
    required,
)

_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[a-zA-Z0-9.-]+:[^,;*&$|\t\n\f\r ]+\Z"),
    "eui": re.compile(r"eui.[a-zA-Z0-9]{16}\Z"),
    "naa": re.compile(r"naa.[a-zA-Z0-9]{32}\Z"),
}
CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_URI: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute"
    "/disks/{disk-id}"
)
BLOB_URI: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_REGISTRY_WORDS: Final = "must be a host:port pair or multiple pairs separated by commas"


def all_given(source: object, names: tuple[str, ...], path: str) -> Errors:
    """Report each required field of a source that is missing."""
    for name in names:
        if not getattr(source, name):
            yield required(f"{path}.{name}")


def needs(*names: str) -> Callable[[Any, str], Errors]:
    """Return the rule of a source whose only rule is that these fields are required."""

    def rule(source: object, path: str) -> Errors:
        return all_given(source, names, path)

    return rule


def _partition(number: int | None, path: str) -> Errors:
    if not 0 <= (number or 0) <= 255:
        yield invalid(f"{path}.partition", number, formats.between(1, 255))


def gce_disk(source: GCEPersistentDiskVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("pdName",), path)
    yield from _partition(source.partition, path)


def aws_disk(source: AWSElasticBlockStoreVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("volumeID",), path)
    yield from _partition(source.partition, path)


def git_repo(source: GitRepoVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("repository",), path)
    yield from formats.descending(source.directory, f"{path}.directory")


def iscsi(source: ISCSIVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("targetPortal", "iqn"), path)
    if source.iqn:
        yield from _initiator(source.iqn, f"{path}.iqn")
    yield from invalid_each(f"{path}.lun", source.lun, formats.in_range(source.lun, 0, 255))
    if (source.chapAuthDiscovery or source.chapAuthSession) and source.secretRef is None:
        yield required(f"{path}.secretRef")
    if source.initiatorName:
        at = f"{path}.initiatorName"
        yield from _initiator(source.initiatorName, f"{path}.initiatorname", at=at)


def _initiator(name: str, path: str, *, at: str = "") -> Errors:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        yield invalid(path, name, "must be valid format starting with iqn, eui, or naa", at=at)
    # The iqn pattern may match anywhere in the text, the other two must match all of it.
    elif not (pattern.search(name) if name.startswith("iqn") else pattern.match(name)):
        yield invalid(path, name, "must be valid format", at=at)


def flocker(source: FlockerVolumeSource, path: str) -> Errors:
    if not source.datasetName and not source.datasetUUID:
        yield required(path, "one of datasetName and datasetUUID is required")
    if source.datasetName and source.datasetUUID:
        why = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(path, "resource", why)
    if "/" in source.datasetName:
        yield invalid(f"{path}.datasetName", source.datasetName, "must not contain '/'")


def _secret_ref(ref: LocalObjectReference | None, path: str) -> Errors:
    if ref is not None and not ref.name:
        yield required(f"{path}.secretRef.name")


def cinder(source: CinderVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("volumeID",), path)
    yield from _secret_ref(source.secretRef, path)


def quobyte(source: QuobyteVolumeSource, path: str) -> Errors:
    if not source.registry:
        yield required(f"{path}.registry", _REGISTRY_WORDS)
    elif formats.size(source.tenant) > 64:
        why = "must be a UUID and may not exceed a length of 64 characters"
        yield required(f"{path}.tenant", why)
    else:
        for pair in source.registry.split(","):
            if re.fullmatch(r"(\[[^\[\]]*\]|[^\[\]:]*):[^\[\]:]*", pair) is None:
                yield invalid(f"{path}.registry", source.registry, _REGISTRY_WORDS)
    yield from all_given(source, ("volume",), path)


def fibre_channel(source: FCVolumeSource, path: str) -> Errors:
    if not source.targetWWNs and not source.wwids:
        yield required(
            f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"
        )
    if source.targetWWNs and source.wwids:
        why = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(f"{path}.targetWWNs", source.targetWWNs, why)
    if source.targetWWNs:
        if source.lun is None:
            yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
        else:
            problems = formats.in_range(source.lun, 0, 255)
            yield from invalid_each(f"{path}.lun", source.lun, problems)


def flex(source: FlexVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("driver",), path)
    for key in source.options:
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            why = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{path}.options[{key}]", key, why)


def azure_disk(source: AzureDiskVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("diskName", "diskURI"), path)
    if source.cachingMode and source.cachingMode not in CACHING_MODES:
        yield not_supported(f"{path}.cachingMode", source.cachingMode, CACHING_MODES)
    if source.kind and source.kind not in DISK_KINDS:
        yield not_supported(f"{path}.kind", source.kind, DISK_KINDS)
    if source.kind == "Managed" and not source.diskURI.startswith("/subscriptions/"):
        yield not_supported(f"{path}.diskURI", source.diskURI, (_MANAGED_URI,), plain=True)
    if source.kind not in ("", "Managed") and not source.diskURI.startswith("https://"):
        yield not_supported(f"{path}.diskURI", source.diskURI, (BLOB_URI,), plain=True)


def storage_os(source: StorageOSVolumeSource, path: str) -> Errors:
    yield from all_given(source, ("volumeName",), path)
    for field, name in (
        ("volumeName", source.volumeName),
        ("volumeNamespace", source.volumeNamespace),
    ):
        problems = formats.dns_label(name) if name else []
        yield from invalid_each(f"{path}.{field}", name, problems)
    yield from _secret_ref(source.secretRef, path)
