"""Rules for volumes: a unique name and exactly one valid source each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from podtui.api.quantity import Quantity
from podtui.api.v1 import (
    ConfigMapVolumeSource,
    CSIVolumeSource,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    KeyToPath,
    NFSVolumeSource,
    ObjectMeta,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
)
from podtui.manifest.validation import claims, drivers, formats, projected
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
    yield from drivers.all_given(source, ("server", "path"), path)
    if not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path")


def _keys(items: tuple[KeyToPath, ...], mode: int | None, path: str) -> Errors:
    yield from formats.file_mode(mode, f"{path}.defaultMode")
    for index, item in enumerate(items):
        yield from projected.key_to_path(item, f"{path}.items[{index}]")


def secret(source: SecretVolumeSource, path: str) -> Errors:
    yield from drivers.all_given(source, ("secretName",), path)
    yield from _keys(source.items, source.defaultMode, path)


def config_map(source: ConfigMapVolumeSource, path: str) -> Errors:
    yield from drivers.all_given(source, ("name",), path)
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


def csi(source: CSIVolumeSource, path: str) -> Errors:
    here = f"{path}.driver"
    if not source.driver:
        yield required(here)
    else:
        if formats.size(source.driver) > 63:
            yield too_long(here, 63)
        problems = formats.dns_subdomain(source.driver.lower())
        yield from invalid_each(here, source.driver, problems)
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
        yield from claims.template(source.volumeClaimTemplate, here)


def claim(source: PersistentVolumeClaimVolumeSource, path: str) -> Errors:
    yield from drivers.all_given(source, ("claimName",), path)


# In the API server's order: the first source found is the volume's source, each further one is an
# error. Each rule is called with a source of its own type.
_SOURCES: Final[dict[str, Callable[[Any, str], Errors]]] = {
    "emptyDir": empty_dir,
    "hostPath": host_path,
    "gitRepo": drivers.git_repo,
    "gcePersistentDisk": drivers.gce_disk,
    "awsElasticBlockStore": drivers.aws_disk,
    "secret": secret,
    "nfs": nfs,
    "iscsi": drivers.iscsi,
    "glusterfs": drivers.needs("endpoints", "path"),
    "flocker": drivers.flocker,
    "persistentVolumeClaim": claim,
    "rbd": drivers.needs("monitors", "image"),
    "cinder": drivers.cinder,
    "cephfs": drivers.needs("monitors"),
    "quobyte": drivers.quobyte,
    "downwardAPI": downward_api,
    "fc": drivers.fibre_channel,
    "flexVolume": drivers.flex,
    "configMap": config_map,
    "azureFile": drivers.needs("secretName", "shareName"),
    "vsphereVolume": drivers.needs("volumePath"),
    "photonPersistentDisk": drivers.needs("pdID"),
    "portworxVolume": drivers.needs("volumeID"),
    "azureDisk": drivers.azure_disk,
    "storageos": drivers.storage_os,
    "projected": projection,
    "scaleIO": drivers.needs("gateway", "system", "volumeName"),
    "csi": csi,
    "ephemeral": ephemeral,
    "image": image,
}
# The API server's deviating names for a surplus source, and for a source that breaks its rules.
_SAID_EXTRA: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_SAID_BROKEN: Final = {"gcePersistentDisk": "persistentDisk"}


def _source(volume: Volume, pod_name: str, path: str) -> Errors:
    given = [name for name in _SOURCES if getattr(volume, name) is not None]
    if not given:
        yield required(path, "must specify a volume type")
        return
    first = given[0]
    here = f"{path}.{first}"
    broken = _SOURCES[first](getattr(volume, first), here)
    yield from reported_at(broken, here, f"{path}.{_SAID_BROKEN.get(first, first)}")
    for name in given[1:]:
        shown_as = _SAID_EXTRA.get(name, name)
        at = f"{path}.{name}" if shown_as != name else ""
        yield forbidden(f"{path}.{shown_as}", "may not specify more than 1 volume type", at=at)
    if volume.iscsi is not None and volume.iscsi.initiatorName:
        yield from _iscsi_interface(f"{volume.name}:{volume.iscsi.targetPortal}", volume.name, path)
    if first == "ephemeral" and pod_name and volume.name:
        made = f"{pod_name}-{volume.name}"
        for problem in formats.dns_subdomain(made):
            yield invalid(f"{path}.name", volume.name, f"PVC name {quoted(made)}: {problem}")


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
    made = {f"{meta.name}-{v.name}" for v in entries if v.ephemeral is not None and meta.name}
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
        wanted = volume.persistentVolumeClaim
        if wanted is not None and wanted.claimName in made:
            errors.append(
                invalid(
                    f"{here}.persistentVolumeClaim.claimName",
                    wanted.claimName,
                    "must not reference a PVC that gets created for an ephemeral volume",
                )
            )
    return valid, errors


def _name(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
    else:
        yield from invalid_each(path, name, formats.dns_label(name))
