"""The sources of values: ConfigMaps, Secrets and the downward API (kubelet.md §10.5).

Variables and volumes refer to them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.pod_resources import effective_limit, in_unit
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import (
    ConfigMap,
    Container,
    Pod,
    ResourceFieldSelector,
    Secret,
    Service,
    ServiceAccountTokenProjection,
)
from podtui.errors import PodtuiError
from podtui.kubelet.types import ConfigError, NodeView
from podtui.text.go_format import quoted

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSources:
    """Everything outside the pod's own spec that values may refer to.

    ``config_maps`` and ``secrets`` are by (namespace, name). ``env_files`` holds the files of
    ``fileKeyRef`` by (volume, path), None for a missing file. ``tokens`` holds the token of each
    projection, or why there is none. ``services`` are those that variables may name. Addresses may
    be empty where values can refer only to the pod's metadata (volumes).
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
    tokens: Mapping[ServiceAccountTokenProjection, str | PodtuiError] = field(
        default_factory=dict[ServiceAccountTokenProjection, "str | PodtuiError"]
    )
    services: tuple[Service, ...] = ()


def metadata_field(pod: Pod, path: str) -> str | None:
    """Return a metadata field, None for other paths.

    A whole map is returned with one ``key="value"`` per line.
    """
    meta = pod.metadata
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        selected = meta.labels if subscript[1] == "labels" else meta.annotations
        return selected.get(subscript[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = meta.labels if path == "metadata.labels" else meta.annotations
        return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(pairs.items()))
    plain = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
    }
    return plain.get(path)


def resource_field(
    pod: Pod, container: Container | None, ref: ResourceFieldSelector, node: NodeView
) -> str:
    """Return a limit or request in units of the divisor, rounded up.

    An unset limit is the pod's own, else the node's allocatable amount; an unset request is 0.
    Raises `ConfigError`.
    """
    if ref.containerName:
        containers = (*pod.spec.initContainers, *pod.spec.containers)
        container = next(
            (container for container in containers if container.name == ref.containerName), None
        )
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
    values: ValueSources, namespace: str, name: str, *, optional: bool
) -> ConfigMap | None:
    document = values.config_maps.get((namespace, name))
    if document is None and not optional:
        raise ConfigError(f'configmap "{name}" not found')
    return document


def config_map_data(
    values: ValueSources, namespace: str, name: str, *, optional: bool
) -> dict[str, bytes]:
    """Return all entries of a ConfigMap as bytes, for files.

    Raises `ConfigError` if it is missing and not optional.
    """
    document = _config_map(values, namespace, name, optional=optional)
    if document is None:
        return {}
    entries = {key: value.encode() for key, value in document.data.items()}
    return entries | {key: _decoded(value) for key, value in document.binaryData.items()}


def config_map_texts(
    values: ValueSources, namespace: str, name: str, *, optional: bool
) -> dict[str, str]:
    """Return the entries of a ConfigMap for variables, without the binary ones."""
    document = _config_map(values, namespace, name, optional=optional)
    return {} if document is None else document.data


def secret_texts(
    values: ValueSources, namespace: str, name: str, *, optional: bool
) -> dict[str, str]:
    entries = secret_data(values, namespace, name, optional=optional)
    return {key: value.decode("utf-8", "replace") for key, value in entries.items()}


def secret_data(
    values: ValueSources, namespace: str, name: str, *, optional: bool
) -> dict[str, bytes]:
    """Return all entries of a Secret. Raises `ConfigError` if it is missing and not optional."""
    document = values.secrets.get((namespace, name))
    if document is None:
        if optional:
            return {}
        raise ConfigError(f'secret "{name}" not found')
    entries = {key: _decoded(value) for key, value in document.data.items()}
    return entries | {key: value.encode() for key, value in document.stringData.items()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("illegal base64 data") from None
