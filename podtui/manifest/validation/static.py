"""References that a static pod may not have, because only an API server could resolve them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.v1 import Pod, PodSpec, Volume, VolumeProjection
from podtui.manifest.validation.context import AnyContainer, containers_with_paths
from podtui.manifest.validation.errors import FORBIDDEN, FieldError, quoted

CLAIMS: Final = "persistentvolumeclaims"
ACCOUNTS: Final = ("serviceaccounts", "serviceaccounts (via projected volumes)")
Found = Iterator[tuple[str, str]]


def validate_static(pod: Pod) -> list[FieldError]:
    """Return an error for each forbidden reference, in the kubelet's order.

    The kubelet stops at the first one; its detail is the kubelet's whole message (kubelet.md §1.4).
    ``value`` is the kind of object referred to, such as ``secrets`` or ``configmaps``, so that a
    caller who can resolve it may ignore the error.
    """
    return [
        *(
            FieldError(path, FORBIDDEN, f"static pods may not reference {what}", what)
            for path, what in _references(pod.spec)
        ),
        *_unknown_sources(pod.spec),
    ]


def _references(spec: PodSpec) -> Found:
    for name in ("serviceAccountName", "serviceAccount"):
        if getattr(spec, name):
            yield f"spec.{name}", ACCOUNTS[0]
            break
    for path in _secrets(spec):
        yield path, "secrets"
    for path in _config_maps(spec):
        yield path, "configmaps"
    if spec.resourceClaims:
        yield "spec.resourceClaims", "resourceclaims"
    for index, volume in enumerate(spec.volumes):
        yield from _volume(volume, f"spec.volumes[{index}]")


def _unknown_sources(spec: PodSpec) -> Iterator[FieldError]:
    """Report projected sources of no known kind."""
    for index, volume in enumerate(spec.volumes):
        sources = volume.projected.sources if volume.projected is not None else ()
        for position, source in enumerate(sources):
            if source == VolumeProjection():
                path = f"spec.volumes[{index}].projected.sources[{position}]"
                why = f"unknown source for projected volume {quoted(volume.name)}"
                yield FieldError(path, FORBIDDEN, why)


def _secrets(spec: PodSpec) -> Iterator[str]:
    """Yield the paths of all references to Secrets by name."""
    for index, ref in enumerate(spec.imagePullSecrets):
        if ref.name:
            yield f"spec.imagePullSecrets[{index}].name"
    for path, container in containers_with_paths(spec):
        yield from _container_secrets(container, path)
    for index, volume in enumerate(spec.volumes):
        yield from _volume_secrets(volume, f"spec.volumes[{index}]")


def _container_secrets(container: AnyContainer, path: str) -> Iterator[str]:
    for index, source in enumerate(container.envFrom):
        if source.secretRef is not None and source.secretRef.name:
            yield f"{path}.envFrom[{index}].secretRef.name"
    for index, variable in enumerate(container.env):
        source = variable.valueFrom
        if source is not None and source.secretKeyRef is not None and source.secretKeyRef.name:
            yield f"{path}.env[{index}].valueFrom.secretKeyRef.name"


def _volume_secrets(volume: Volume, path: str) -> Iterator[str]:
    if volume.secret is not None and volume.secret.secretName:
        yield f"{path}.secret.secretName"
    if volume.azureFile is not None and volume.azureFile.secretName:
        yield f"{path}.azureFile.secretName"
    if volume.projected is not None:
        for index, source in enumerate(volume.projected.sources):
            if source.secret is not None and source.secret.name:
                yield f"{path}.projected.sources[{index}].secret.name"
    publish = volume.csi.nodePublishSecretRef if volume.csi is not None else None
    if publish is not None and publish.name:
        yield f"{path}.csi.nodePublishSecretRef.name"
    for name, driver in (
        ("cephfs", volume.cephfs),
        ("cinder", volume.cinder),
        ("flexVolume", volume.flexVolume),
        ("rbd", volume.rbd),
        ("scaleIO", volume.scaleIO),
        ("iscsi", volume.iscsi),
        ("storageos", volume.storageos),
    ):
        if driver is not None and driver.secretRef is not None and driver.secretRef.name:
            yield f"{path}.{name}.secretRef.name"


def _config_maps(spec: PodSpec) -> Iterator[str]:
    """Yield the paths of all references to ConfigMaps by name."""
    for path, container in containers_with_paths(spec):
        for index, source in enumerate(container.envFrom):
            if source.configMapRef is not None and source.configMapRef.name:
                yield f"{path}.envFrom[{index}].configMapRef.name"
        for index, variable in enumerate(container.env):
            ref = variable.valueFrom.configMapKeyRef if variable.valueFrom is not None else None
            if ref is not None and ref.name:
                yield f"{path}.env[{index}].valueFrom.configMapKeyRef.name"
    for index, volume in enumerate(spec.volumes):
        path = f"spec.volumes[{index}]"
        if volume.configMap is not None and volume.configMap.name:
            yield f"{path}.configMap.name"
        if volume.projected is not None:
            for position, source in enumerate(volume.projected.sources):
                if source.configMap is not None and source.configMap.name:
                    yield f"{path}.projected.sources[{position}].configMap.name"


def _volume(volume: Volume, path: str) -> Found:
    """Yield the references of the volume's source, except the names found above."""
    if volume.configMap is not None and not volume.configMap.name:
        yield f"{path}.configMap", "configmaps (via configmap volumes)"
    if volume.secret is not None and not volume.secret.secretName:
        yield f"{path}.secret", "secrets (via secret volumes)"
    for name, source, what in (
        ("csi", volume.csi, "csidrivers (via CSI volumes)"),
        ("glusterfs", volume.glusterfs, "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", volume.persistentVolumeClaim, CLAIMS),
        ("ephemeral", volume.ephemeral, "persistentvolumeclaims (via ephemeral volumes)"),
    ):
        if source is not None:
            yield f"{path}.{name}", what
    if volume.azureFile is not None and not volume.azureFile.secretName:
        yield f"{path}.azureFile", "secrets (via azureFile volumes)"
    if volume.projected is not None:
        for index, source in enumerate(volume.projected.sources):
            yield from _projection(source, f"{path}.projected.sources[{index}]")


def _projection(source: VolumeProjection, path: str) -> Found:
    if source.configMap is not None and not source.configMap.name:
        yield f"{path}.configMap", "configmaps (via projected volumes)"
    if source.secret is not None and not source.secret.name:
        yield f"{path}.secret", "secrets (via projected volumes)"
    for name, kind, noun in (
        ("serviceAccountToken", source.serviceAccountToken, ACCOUNTS[1]),
        ("clusterTrustBundle", source.clusterTrustBundle, "clustertrustbundles"),
        ("podCertificate", source.podCertificate, "podcertificates"),
    ):
        if kind is not None:
            yield f"{path}.{name}", noun
