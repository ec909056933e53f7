"""Environment variables and the objects that they refer to (reference §10.5)."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.expansion import expand
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import (
    ConfigMap,
    Container,
    EnvFromSource,
    EnvVarSource,
    FileKeySelector,
    Pod,
    ResourceFieldSelector,
    Secret,
)
from podtui.kubelet.base.config_error import ConfigError
from podtui.kubelet.base.resources import effective_limit, in_unit
from podtui.kubelet.base.types import NodeView
from podtui.kubelet.containers.env_file import EnvFileError, env_file_value

_LOG = logging.getLogger(__name__)
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything outside the pod's own spec that values may refer to.

    ``config_maps`` and ``secrets`` are by (namespace, name). ``env_files`` holds the files of
    ``fileKeyRef`` by (volume, path), None for a missing file; see `env_files`. Addresses may be
    empty where values can refer only to the pod's metadata (volumes).
    """

    node: NodeView
    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()
    config_maps: Mapping[tuple[str, str], ConfigMap] = field(
        default_factory=dict[tuple[str, str], ConfigMap]
    )
    secrets: Mapping[tuple[str, str], Secret] = field(default_factory=dict[tuple[str, str], Secret])
    env_files: Mapping[tuple[str, str], bytes | None] = field(
        default_factory=dict[tuple[str, str], bytes | None]
    )


def quoted(text: str) -> str:
    """Quote a value of a downward API map: double quotes, control characters escaped."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    out: list[str] = []
    for character in text:
        if character in escapes:
            out.append(escapes[character])
        elif character.isprintable():
            out.append(character)
        elif ord(character) < 0x80:
            out.append(f"\\x{ord(character):02x}")
        else:
            code = ord(character)
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(out)}"'


def metadata_field(pod: Pod, path: str) -> str | None:
    """Return a metadata field, None for other paths.

    A whole map is returned with one ``key="value"`` per line.
    """
    meta = pod.metadata
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        chosen = meta.labels if subscript[1] == "labels" else meta.annotations
        return chosen.get(subscript[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = meta.labels if path == "metadata.labels" else meta.annotations
        return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(pairs.items()))
    plain = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
    }
    return plain.get(path)


def _env_field(pod: Pod, path: str, around: Surroundings) -> str:
    pod_ips = around.pod_ips or (around.host_ips if pod.spec.hostNetwork else ())
    runtime = {
        "spec.nodeName": pod.spec.nodeName,
        "spec.serviceAccountName": pod.spec.serviceAccountName,
        "status.hostIP": around.host_ips[0] if around.host_ips else "",
        "status.hostIPs": ",".join(around.host_ips),
        "status.podIP": pod_ips[0] if pod_ips else "",
        "status.podIPs": ",".join(pod_ips),
    }
    if path in runtime:
        return runtime[path]
    found = (
        None if path in ("metadata.labels", "metadata.annotations") else (metadata_field(pod, path))
    )
    if found is None:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return found


def resource_field(
    pod: Pod, container: Container | None, ref: ResourceFieldSelector, node: NodeView
) -> str:
    """Return a limit or request in units of the divisor, rounded up.

    An unset limit is the pod's own, else the node's allocatable amount; an unset request is 0.
    Raises `ConfigError`.
    """
    if ref.containerName:
        everyone = (*pod.spec.initContainers, *pod.spec.containers)
        container = next((one for one in everyone if one.name == ref.containerName), None)
    if container is None:
        raise ConfigError(f"container {ref.containerName} not found")
    kind, _, name = ref.resource.partition(".")
    if kind == "limits" and name:
        limit = effective_limit(pod, container, name)
        amount = node.resources.allocatable.get(name, 0) if limit is None else limit
    elif kind == "requests" and name:
        text = container.resources.requests.get(name, "0")
        amount = in_unit(name, parse_quantity(text))
    else:
        raise ConfigError(f"unsupported container resource : {ref.resource}")
    divisor = in_unit(name, parse_quantity(ref.divisor or "0"))
    if divisor <= 0:
        divisor = 1000 if name == "cpu" else 1
    return str(-(-amount // divisor))


def _config_map(
    around: Surroundings, namespace: str, name: str, *, optional: bool
) -> ConfigMap | None:
    found = around.config_maps.get((namespace, name))
    if found is None and not optional:
        raise ConfigError(f'configmap "{name}" not found')
    return found


def config_map_data(
    around: Surroundings, namespace: str, name: str, *, optional: bool
) -> dict[str, bytes]:
    """Return all entries of a ConfigMap as bytes, for files.

    Raises `ConfigError` if it is missing and not optional.
    """
    found = _config_map(around, namespace, name, optional=optional)
    if found is None:
        return {}
    entries = {key: value.encode() for key, value in found.data.items()}
    return entries | {key: _decoded(value) for key, value in found.binaryData.items()}


def _config_map_texts(
    around: Surroundings, namespace: str, name: str, *, optional: bool
) -> dict[str, str]:
    """Return the entries of a ConfigMap for variables, without the binary ones."""
    found = _config_map(around, namespace, name, optional=optional)
    return {} if found is None else found.data


def _secret_texts(
    around: Surroundings, namespace: str, name: str, *, optional: bool
) -> dict[str, str]:
    entries = secret_data(around, namespace, name, optional=optional)
    return {key: value.decode("utf-8", "replace") for key, value in entries.items()}


def secret_data(
    around: Surroundings, namespace: str, name: str, *, optional: bool
) -> dict[str, bytes]:
    """Return all entries of a Secret. Raises `ConfigError` if it is missing and not optional."""
    found = around.secrets.get((namespace, name))
    if found is None:
        if optional:
            return {}
        raise ConfigError(f'secret "{name}" not found')
    entries = {key: _decoded(value) for key, value in found.data.items()}
    return entries | {key: value.encode() for key, value in found.stringData.items()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("illegal base64 data") from None


def _from_sources(
    sources: tuple[EnvFromSource, ...], namespace: str, around: Surroundings
) -> Iterator[tuple[str, str]]:
    """Yield the variables of ``envFrom``; like v1.36, skip no name."""
    for source in sources:
        entries: Mapping[str, str] = {}
        if (wanted := source.configMapRef) is not None:
            optional = bool(wanted.optional)
            entries = _config_map_texts(around, namespace, wanted.name, optional=optional)
        elif (held := source.secretRef) is not None:
            optional = bool(held.optional)
            entries = _secret_texts(around, namespace, held.name, optional=optional)
        for key, value in sorted(entries.items()):
            yield source.prefix + key, value


def _from_file(ref: FileKeySelector, around: Surroundings) -> str | None:
    """Return the value, None if the key is missing and optional. A missing file is an error."""
    place = (ref.volumeName, ref.path)
    if place not in around.env_files:
        raise ConfigError(f'cannot find the volume "{ref.volumeName}" referenced by FileKeyRef')
    content = around.env_files[place]
    try:
        if content is None:
            raise EnvFileError("there is no such file")
        value = env_file_value(content, ref.key)
    except EnvFileError as error:
        _LOG.warning("%s in volume %s: %s", ref.path, ref.volumeName, error)
        raise ConfigError("couldn't parse env file") from error
    if value or ref.optional:
        return value or None
    where = f"{ref.volumeName}/{ref.path}"
    raise ConfigError(f'environment variable key "{ref.key}" not found in file "{where}"')


def _value_from(
    source: EnvVarSource, pod: Pod, container: Container, around: Surroundings
) -> str | None:
    """Return the value of a reference, None if an optional one is missing."""
    namespace = pod.metadata.namespace
    if source.fieldRef is not None:
        return _env_field(pod, source.fieldRef.fieldPath, around)
    if source.resourceFieldRef is not None:
        return resource_field(pod, container, source.resourceFieldRef, around.node)
    if (ref := source.configMapKeyRef) is not None:
        kind, optional = "ConfigMap", bool(ref.optional)
        entries = _config_map_texts(around, namespace, ref.name, optional=optional)
    elif (ref := source.secretKeyRef) is not None:
        kind, optional = "Secret", bool(ref.optional)
        entries = _secret_texts(around, namespace, ref.name, optional=optional)
    elif source.fileKeyRef is not None:
        return _from_file(source.fileKeyRef, around)
    else:
        return ""
    if ref.key in entries:
        return entries[ref.key]
    if optional:
        return None
    raise ConfigError(f"couldn't find key {ref.key} in {kind} {namespace}/{ref.name}")


def env_files(container: Container) -> tuple[tuple[str, str], ...]:
    """Return (volume, path) of each file used by the container's variables, without duplicates."""
    refs = (one.valueFrom.fileKeyRef for one in container.env if one.valueFrom is not None)
    return tuple(dict.fromkeys((ref.volumeName, ref.path) for ref in refs if ref is not None))


def environment(pod: Pod, container: Container, around: Surroundings) -> dict[str, str]:
    """Return the container's variables: ``envFrom``, then ``env`` in order; later ones win.

    A value may refer to earlier variables as ``$(NAME)``. Raises `ConfigError`.
    """
    variables = dict(_from_sources(container.envFrom, pod.metadata.namespace, around))
    for variable in container.env:
        if variable.valueFrom is None:
            variables[variable.name] = expand(variable.value, variables)
            continue
        value = _value_from(variable.valueFrom, pod, container, around)
        if value is not None:
            variables[variable.name] = value
    return variables
