"""The volume with the token of a pod's service account, and its mounts."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.v1 import (
    ConfigMapProjection,
    Container,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    PodSpec,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)

ROOT_CA: Final = "kube-root-ca.crt"
"""The ConfigMap with the authority of the API server; each namespace has one."""
TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_PREFIX: Final = "kube-api-access-"
_SECONDS: Final = 3607
_MODE: Final = 0o644


def with_token_volume(spec: PodSpec, suffix: str) -> PodSpec:
    """Mount a token in every container that has no mount at its place. ``suffix`` ends the name of
    a new volume."""
    existing = next((v.name for v in spec.volumes if v.name.startswith(_PREFIX)), "")
    name = existing or _PREFIX + suffix
    mount = VolumeMount(name=name, readOnly=True, mountPath=TOKEN_PATH)

    def mounted(container: Container) -> Container:
        if any(other.mountPath == TOKEN_PATH for other in container.volumeMounts):
            return container
        return structs.replace(container, volumeMounts=(*container.volumeMounts, mount))

    changed = structs.replace(
        spec,
        containers=tuple(map(mounted, spec.containers)),
        initContainers=tuple(map(mounted, spec.initContainers)),
    )
    if changed == spec or existing:
        return changed
    return structs.replace(changed, volumes=(*spec.volumes, token_volume(name)))


def token_volume(name: str) -> Volume:
    """Return the volume with a service account's token, the CA certificate and the namespace."""
    token = ServiceAccountTokenProjection(path="token", expirationSeconds=_SECONDS)
    ca = ConfigMapProjection(name=ROOT_CA, items=(KeyToPath(key="ca.crt", path="ca.crt"),))
    field = ObjectFieldSelector(apiVersion="v1", fieldPath="metadata.namespace")
    namespace = DownwardAPIVolumeFile(path="namespace", fieldRef=field)
    return Volume(
        name=name,
        projected=ProjectedVolumeSource(
            defaultMode=_MODE,
            sources=(
                VolumeProjection(serviceAccountToken=token),
                VolumeProjection(configMap=ca),
                VolumeProjection(downwardAPI=DownwardAPIProjection(items=(namespace,))),
            ),
        ),
    )
