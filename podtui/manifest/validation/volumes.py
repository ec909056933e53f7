"""Rules for volumes: a unique name and exactly one valid source each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from podtui.api.quantity import Quantity
from podtui.api.v1 import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CinderVolumeSource,
    ConfigMapVolumeSource,
    CSIVolumeSource,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GitRepoVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    ISCSIVolumeSource,
    KeyToPath,
    LocalObjectReference,
    NFSVolumeSource,
    ObjectMeta,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    QuobyteVolumeSource,
    SecretVolumeSource,
    StorageOSVolumeSource,
    Volume,
)
from podtui.manifest.validation import formats, projected
from podtui.manifest.validation.containers import pull_policy
from podtui.manifest.validation.errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    quoted,
    reported_at,
    required,
    too_long,
)
from podtui.manifest.validation.resources import quantity
from podtui.manifest.validation.volume_claims import claim_template

HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
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


def _all_given(source: object, names: tuple[str, ...], path: str) -> Errors:
    """Report each required field of a source that is missing."""
    for name in names:
        if not getattr(source, name):
            yield required(f"{path}.{name}")


def _needs(*names: str) -> Callable[[Any, str], Errors]:
    """Return the rule of a source whose only rule is that these fields are required."""

    def rule(source: object, path: str) -> Errors:
        return _all_given(source, names, path)

    return rule


def empty_dir(source: EmptyDirVolumeSource, path: str) -> Errors:
    if not source.sizeLimit:
        return
    limit = quantity(source.sizeLimit)
    if limit is None or limit < Quantity(0):
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def host_path(source: HostPathVolumeSource, path: str) -> Errors:
    if not source.path:
        yield required(f"{path}.path")
        return
    yield from formats.no_backsteps(source.path, f"{path}.path")
    if source.type not in HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", source.type, HOST_PATH_TYPES)


def nfs(source: NFSVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("server", "path"), path)
    if not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path")


def _keys(items: tuple[KeyToPath, ...], mode: int | None, path: str) -> Errors:
    yield from formats.file_mode(mode, f"{path}.defaultMode")
    for index, item in enumerate(items):
        yield from projected.key_to_path(item, f"{path}.items[{index}]")


def secret(source: SecretVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("secretName",), path)
    yield from _keys(source.items, source.defaultMode, path)


def config_map(source: ConfigMapVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("name",), path)
    yield from _keys(source.items, source.defaultMode, path)


def downward_api(source: DownwardAPIVolumeSource, path: str) -> Errors:
    yield from formats.file_mode(source.defaultMode, f"{path}.defaultMode")
    for index, item in enumerate(source.items):
        here = f"{path}.items[{index}]"
        yield from reported_at(projected.downward_file(item, here), here, path)


def projection(source: ProjectedVolumeSource, path: str) -> Errors:
    yield from formats.file_mode(source.defaultMode, f"{path}.defaultMode")
    yield from projected.sources(source.sources, path)


def image(source: ImageVolumeSource, path: str) -> Errors:
    # A kubelet accepts a missing reference, and fails to pull it; only an API server requires one.
    yield from pull_policy(source.pullPolicy, f"{path}.pullPolicy")


def csi_driver_name(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
        return
    if formats.size(name) > 63:
        yield too_long(path, 63)
    yield from invalid_each(path, name, formats.dns_subdomain(name.lower()))


def csi(source: CSIVolumeSource, path: str) -> Errors:
    yield from csi_driver_name(source.driver, f"{path}.driver")
    secret_ref = source.nodePublishSecretRef
    if secret_ref is not None:
        at = f"{path}.nodePublishSecretRef.name"
        if not secret_ref.name:
            yield required(at)
        problems = formats.dns_subdomain(secret_ref.name) if secret_ref.name else []
        yield from invalid_each(f"{path}.name", secret_ref.name, problems, at=at)


def ephemeral(source: EphemeralVolumeSource, path: str) -> Errors:
    here = f"{path}.volumeClaimTemplate"
    if source.volumeClaimTemplate is None:
        yield required(here)
    else:
        yield from claim_template(source.volumeClaimTemplate, here)


def claim(source: PersistentVolumeClaimVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("claimName",), path)


# --- storage systems, most of them legacy


def _partition(number: int | None, path: str) -> Errors:
    if not 0 <= (number or 0) <= 255:
        yield invalid(f"{path}.partition", number, formats.between(1, 255))


def gce_disk(source: GCEPersistentDiskVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("pdName",), path)
    yield from _partition(source.partition, path)


def aws_disk(source: AWSElasticBlockStoreVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("volumeID",), path)
    yield from _partition(source.partition, path)


def git_repo(source: GitRepoVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("repository",), path)
    yield from formats.descending(source.directory, f"{path}.directory")


def iscsi(source: ISCSIVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("targetPortal", "iqn"), path)
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
    yield from _all_given(source, ("volumeID",), path)
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
    yield from _all_given(source, ("volume",), path)


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
    yield from _all_given(source, ("driver",), path)
    for key in source.options:
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            why = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{path}.options[{key}]", key, why)


def azure_disk(source: AzureDiskVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("diskName", "diskURI"), path)
    if source.cachingMode and source.cachingMode not in CACHING_MODES:
        yield not_supported(f"{path}.cachingMode", source.cachingMode, CACHING_MODES)
    if source.kind and source.kind not in DISK_KINDS:
        yield not_supported(f"{path}.kind", source.kind, DISK_KINDS)
    if source.kind == "Managed" and not source.diskURI.startswith("/subscriptions/"):
        yield not_supported(f"{path}.diskURI", source.diskURI, (_MANAGED_URI,), plain=True)
    if source.kind not in ("", "Managed") and not source.diskURI.startswith("https://"):
        yield not_supported(f"{path}.diskURI", source.diskURI, (BLOB_URI,), plain=True)


def storage_os(source: StorageOSVolumeSource, path: str) -> Errors:
    yield from _all_given(source, ("volumeName",), path)
    for field, name in (
        ("volumeName", source.volumeName),
        ("volumeNamespace", source.volumeNamespace),
    ):
        problems = formats.dns_label(name) if name else []
        yield from invalid_each(f"{path}.{field}", name, problems)
    yield from _secret_ref(source.secretRef, path)


# --- all sources


# In the API server's order: the first source found is the volume's source, each further one is an
# error. Each rule is called with a source of its own type.
_SOURCES: Final[dict[str, Callable[[Any, str], Errors]]] = {
    "emptyDir": empty_dir,
    "hostPath": host_path,
    "gitRepo": git_repo,
    "gcePersistentDisk": gce_disk,
    "awsElasticBlockStore": aws_disk,
    "secret": secret,
    "nfs": nfs,
    "iscsi": iscsi,
    "glusterfs": _needs("endpoints", "path"),
    "flocker": flocker,
    "persistentVolumeClaim": claim,
    "rbd": _needs("monitors", "image"),
    "cinder": cinder,
    "cephfs": _needs("monitors"),
    "quobyte": quobyte,
    "downwardAPI": downward_api,
    "fc": fibre_channel,
    "flexVolume": flex,
    "configMap": config_map,
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": azure_disk,
    "storageos": storage_os,
    "projected": projection,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": csi,
    "ephemeral": ephemeral,
    "image": image,
}
# The API server's deviating names for a surplus source, and for a source that breaks its rules.
_SURPLUS_NAMES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_BROKEN_NAMES: Final = {"gcePersistentDisk": "persistentDisk"}


def _source(volume: Volume, pod_name: str, path: str) -> Errors:
    given = [name for name in _SOURCES if getattr(volume, name) is not None]
    if not given:
        yield required(path, "must specify a volume type")
        return
    first = given[0]
    here = f"{path}.{first}"
    broken = _SOURCES[first](getattr(volume, first), here)
    yield from reported_at(broken, here, f"{path}.{_BROKEN_NAMES.get(first, first)}")
    for name in given[1:]:
        shown_as = _SURPLUS_NAMES.get(name, name)
        at = f"{path}.{name}" if shown_as != name else ""
        yield forbidden(f"{path}.{shown_as}", "may not specify more than 1 volume type", at=at)
    if volume.iscsi is not None and volume.iscsi.initiatorName:
        yield from _iscsi_interface(f"{volume.name}:{volume.iscsi.targetPortal}", volume.name, path)
    if first == "ephemeral" and pod_name and volume.name:
        claim_name = f"{pod_name}-{volume.name}"
        for problem in formats.dns_subdomain(claim_name):
            yield invalid(f"{path}.name", volume.name, f"PVC name {quoted(claim_name)}: {problem}")


def _iscsi_interface(interface: str, name: str, path: str) -> Errors:
    if formats.size(interface) > 64:
        yield invalid(
            f"{path}.name",
            name,
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
            " if iscsi.initiatorName is specified.",
        )


def volumes(
    entries: tuple[Volume, ...], meta: ObjectMeta, path: str
) -> tuple[dict[str, Volume], list[FieldError]]:
    """Return the valid volumes by name, and the errors of the others."""
    valid: dict[str, Volume] = {}
    errors: list[FieldError] = []
    generated = {f"{meta.name}-{v.name}" for v in entries if v.ephemeral is not None and meta.name}
    for index, volume in enumerate(entries):
        here = f"{path}[{index}]"
        problems = list(_source(volume, meta.name, here))
        problems += _name(volume.name, f"{here}.name")
        if volume.name in valid:
            problems.append(duplicate(f"{here}.name", volume.name))
        if problems:
            errors += problems
        else:
            valid[volume.name] = volume
        source = volume.persistentVolumeClaim
        if source is not None and source.claimName in generated:
            errors.append(
                invalid(
                    f"{here}.persistentVolumeClaim.claimName",
                    source.claimName,
                    "must not reference a PVC that gets created for an ephemeral volume",
                )
            )
    return valid, errors


def _name(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
    else:
        yield from invalid_each(path, name, formats.dns_label(name))
