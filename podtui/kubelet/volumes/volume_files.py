"""Files of configuration volumes (ConfigMap, Secret, downward API, projected): content and layout
(kubelet.md §10.2)."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from podtui.api.v1 import (
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from podtui.errors import PodtuiError
from podtui.kubelet.types import ConfigError, NodeView
from podtui.kubelet.value_sources import (
    ValueSources,
    config_map_data,
    metadata_field,
    resource_field,
    secret_data,
)
from podtui.runtime.protocol import VolumeFile
from podtui.text.go_format import aggregated

DEFAULT_MODE: Final = 0o644
DATA: Final = "..data"
_GROUP_READS: Final = 0o440
_PRIVATE: Final = 0o600
_READERS: Final = {"configmap": config_map_data, "secret": secret_data}
_NO_KEY: Final[Mapping[str, str]] = {
    "configmap": "configmap references non-existent config key: {key}",
    "secret": "references non-existent secret key: {key}",
}


class Content(NamedTuple):
    data: bytes
    mode: int
    uid: int = 0


Contents = dict[str, Content]
"""Content, mode and owner by relative path."""


def volume_contents(pod: Pod, volume: Volume, values: ValueSources) -> Contents | None:
    """Return the files of a configuration volume; None for other volume types.

    Raises `ConfigError` with the kubelet's message if a referenced object or key is missing.
    """
    if (downward := volume.downwardAPI) is not None:
        return _downward_api_files(pod, downward.items, _mode(downward.defaultMode), values.node)
    if (config := volume.configMap) is not None:
        mode = _mode(config.defaultMode)
        return _document("configmap", pod, values, config.name, config.items, mode, config.optional)
    if (secret := volume.secret) is not None:
        mode = _mode(secret.defaultMode)
        return _document(
            "secret", pod, values, secret.secretName, secret.items, mode, secret.optional
        )
    if (projected := volume.projected) is not None:
        return _projected(pod, projected.sources, _mode(projected.defaultMode), values)
    return None


def _mode(mode: int | None) -> int:
    return DEFAULT_MODE if mode is None else mode


def _downward_api_files(
    pod: Pod, items: Iterable[DownwardAPIVolumeFile], default: int, node: NodeView
) -> Contents:
    files: Contents = {}
    errors: list[str] = []
    for item in items:
        mode = default if item.mode is None else item.mode
        try:
            content = _downward_text(pod, item, node).encode()
        except ConfigError as error:
            errors.append(str(error))
        else:
            files[posixpath.normpath(item.path)] = Content(content, mode)
    if errors:
        raise ConfigError(aggregated(errors))
    return files


def _downward_text(pod: Pod, item: DownwardAPIVolumeFile, node: NodeView) -> str:
    if item.fieldRef is not None:
        text = metadata_field(pod, item.fieldRef.fieldPath)
        if text is None:
            raise ConfigError(f"unsupported fieldPath: {item.fieldRef.fieldPath}")
        return text
    if item.resourceFieldRef is not None:
        return resource_field(pod, None, item.resourceFieldRef, node)
    return ""


def _document(
    kind: str,
    pod: Pod,
    values: ValueSources,
    name: str,
    items: tuple[KeyToPath, ...],
    default: int,
    optional: bool | None,
) -> Contents:
    """Return the files of a ConfigMap or Secret: the given items, or all keys."""
    lax = bool(optional)
    entries = _READERS[kind](values, pod.metadata.namespace, name, optional=lax)
    if not items:
        return {key: Content(content, default) for key, content in entries.items()}
    files: Contents = {}
    for item in items:
        if item.key in entries:
            mode = default if item.mode is None else item.mode
            files[posixpath.normpath(item.path)] = Content(entries[item.key], mode)
        elif not lax:
            raise ConfigError(_NO_KEY[kind].format(key=item.key))
    return files


def _projected(
    pod: Pod, sources: Iterable[VolumeProjection], mode: int, values: ValueSources
) -> Contents:
    """Merge all sources; for equal paths the last source wins."""
    files: Contents = {}
    errors: list[str] = []
    for source in sources:
        try:
            files |= _source(pod, source, mode, values)
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError(aggregated(errors))
    return files


def _source(pod: Pod, source: VolumeProjection, mode: int, values: ValueSources) -> Contents:
    if source.downwardAPI is not None:
        return _downward_api_files(pod, source.downwardAPI.items, mode, values.node)
    if (wanted := source.configMap) is not None:
        return _document("configmap", pod, values, wanted.name, wanted.items, mode, wanted.optional)
    if (held := source.secret) is not None:
        return _document("secret", pod, values, held.name, held.items, mode, held.optional)
    if (projection := source.serviceAccountToken) is not None:
        return {posixpath.normpath(projection.path): _token(pod, projection, mode, values)}
    # Trust bundles and certificates come from controllers that podtui does not have.
    return {}


def _token(
    pod: Pod, projection: ServiceAccountTokenProjection, mode: int, values: ValueSources
) -> Content:
    """Return the token: only its user can read it, if the pod names a user or an ``fsGroup``."""
    token = values.tokens.get(projection, "")
    if isinstance(token, PodtuiError):
        raise ConfigError(str(token))
    user = common_user(pod)
    security = pod.spec.securityContext
    group = None if security is None else security.fsGroup
    private = user is not None or group is not None
    return Content(token.encode(), _PRIVATE if private else mode, user or 0)


def common_user(pod: Pod) -> int | None:
    """Return the ``runAsUser`` that all containers have; None if one has none, or they differ."""
    spec = pod.spec
    default = None if spec.securityContext is None else spec.securityContext.runAsUser
    users = {
        default
        if container.securityContext is None or container.securityContext.runAsUser is None
        else container.securityContext.runAsUser
        for container in (*spec.initContainers, *spec.containers, *spec.ephemeralContainers)
    }
    return users.pop() if len(users) == 1 else None


def laid_out(files: Contents, group: int | None) -> tuple[VolumeFile, ...]:
    """Lay out the files as the kubelet does: in a versioned directory that the ``..data`` symlink
    points to, so that readers see all files of one version. With ``group`` (fsGroup), everything
    belongs to that group, and the group can read every file.

    Raises `ConfigError` if one path needs another file as its directory.
    """
    for path in files:
        parent = posixpath.dirname(path)
        while parent:
            if parent in files:
                raise ConfigError(f"mkdir {parent}: not a directory")
            parent = posixpath.dirname(parent)
    digest = hashlib.sha256()
    for path, (content, mode, _) in sorted(files.items()):
        digest.update(f"{path}\0{mode}\0{len(content)}\0".encode() + content)
    directory = f"..{digest.hexdigest()[:16]}"
    gid = group or 0
    made = [
        VolumeFile(
            path=f"{directory}/{path}",
            content=content,
            mode=mode if group is None else mode | _GROUP_READS,
            uid=uid,
            gid=gid,
        )
        for path, (content, mode, uid) in sorted(files.items())
    ]
    made.append(VolumeFile(path=DATA, target=directory, gid=gid))
    tops = dict.fromkeys(path.partition("/")[0] for path in sorted(files))
    made += [VolumeFile(path=top, target=f"{DATA}/{top}", gid=gid) for top in tops]
    return tuple(made)
