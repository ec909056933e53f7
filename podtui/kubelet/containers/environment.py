"""Environment variables of containers (kubelet.md §10.5).

``fileKeyRef`` reads a variable from a file that another container wrote. A line is
``NAME='VALUE'``: no blank before ``=``, the value in single quotes and taken literally, line feeds
included, and after it only a comment. Blank lines and lines that begin with ``#`` are skipped. If a
blank follows ``=``, the rest of the line is ignored and the value is empty.
"""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Final

from podtui.api.v1 import (
    Container,
    EnvFromSource,
    EnvVarSource,
    FileKeySelector,
    Pod,
)
from podtui.kubelet.containers.service_variables import service_variables
from podtui.kubelet.types import ConfigError
from podtui.kubelet.value_sources import (
    ValueSources,
    config_map_texts,
    metadata_field,
    resource_field,
    secret_texts,
)
from podtui.text.expansion import expand

_BLANKS: Final = " \t"
ENV_FILE_LIMIT: Final = 1 << 20
"""Maximum size in bytes of a file of variables; a longer file is an error."""
_LOG = logging.getLogger(__name__)


def _env_field(pod: Pod, path: str, values: ValueSources) -> str:
    pod_ips = values.pod_ips or (values.host_ips if pod.spec.hostNetwork else ())
    runtime = {
        "spec.nodeName": pod.spec.nodeName,
        "spec.serviceAccountName": pod.spec.serviceAccountName,
        "status.hostIP": values.host_ips[0] if values.host_ips else "",
        "status.hostIPs": ",".join(values.host_ips),
        "status.podIP": pod_ips[0] if pod_ips else "",
        "status.podIPs": ",".join(pod_ips),
    }
    if path in runtime:
        return runtime[path]
    value = (
        None if path in ("metadata.labels", "metadata.annotations") else (metadata_field(pod, path))
    )
    if value is None:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return value


def _from_sources(
    sources: tuple[EnvFromSource, ...], namespace: str, values: ValueSources
) -> Iterator[tuple[str, str]]:
    """Yield the variables of ``envFrom``; like v1.36, skip no name."""
    for source in sources:
        entries: Mapping[str, str] = {}
        if (wanted := source.configMapRef) is not None:
            optional = bool(wanted.optional)
            entries = config_map_texts(values, namespace, wanted.name, optional=optional)
        elif (held := source.secretRef) is not None:
            optional = bool(held.optional)
            entries = secret_texts(values, namespace, held.name, optional=optional)
        for key, value in sorted(entries.items()):
            yield source.prefix + key, value


def _from_file(ref: FileKeySelector, values: ValueSources) -> str | None:
    """Return the value, None if the key is missing and optional. A missing file is an error."""
    file = (ref.volumeName, ref.path)
    if file not in values.env_files:
        raise ConfigError(f'cannot find the volume "{ref.volumeName}" referenced by FileKeyRef')
    content = values.env_files[file]
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
    source: EnvVarSource, pod: Pod, container: Container, values: ValueSources
) -> str | None:
    """Return the value of a reference, None if an optional one is missing."""
    namespace = pod.metadata.namespace
    if source.fieldRef is not None:
        return _env_field(pod, source.fieldRef.fieldPath, values)
    if source.resourceFieldRef is not None:
        return resource_field(pod, container, source.resourceFieldRef, values.node)
    if (ref := source.configMapKeyRef) is not None:
        kind, optional = "ConfigMap", bool(ref.optional)
        entries = config_map_texts(values, namespace, ref.name, optional=optional)
    elif (ref := source.secretKeyRef) is not None:
        kind, optional = "Secret", bool(ref.optional)
        entries = secret_texts(values, namespace, ref.name, optional=optional)
    elif source.fileKeyRef is not None:
        return _from_file(source.fileKeyRef, values)
    else:
        return ""
    if ref.key in entries:
        return entries[ref.key]
    if optional:
        return None
    raise ConfigError(f"couldn't find key {ref.key} in {kind} {namespace}/{ref.name}")


def env_files(container: Container) -> tuple[tuple[str, str], ...]:
    """Return (volume, path) of each file used by the container's variables, without duplicates."""
    refs = (
        variable.valueFrom.fileKeyRef
        for variable in container.env
        if variable.valueFrom is not None
    )
    return tuple(dict.fromkeys((ref.volumeName, ref.path) for ref in refs if ref is not None))


def environment(pod: Pod, container: Container, values: ValueSources) -> dict[str, str]:
    """Return the container's variables: ``envFrom``, then ``env`` in order; later ones win. Those
    of Services come last, without those of a name that the container has.

    A value may refer to earlier variables and to those of Services as ``$(NAME)``. Raises
    `ConfigError`.
    """
    variables = dict(_from_sources(container.envFrom, pod.metadata.namespace, values))
    services = service_variables(pod, values.services)
    references = ChainMap(variables, services)
    for variable in container.env:
        if variable.valueFrom is None:
            variables[variable.name] = expand(variable.value, references)
            continue
        value = _value_from(variable.valueFrom, pod, container, values)
        if value is not None:
            variables[variable.name] = value
    return variables | {key: value for key, value in services.items() if key not in variables}


# --- files of variables


class EnvFileError(ValueError):
    """Raised for text in another form. The message quotes nothing of the file."""


def env_file_value(content: bytes, key: str) -> str:
    """Return the value of the first line that defines ``key``; empty if none does.

    The text after that line is not checked. Raises `EnvFileError`.
    """
    if len(content) > ENV_FILE_LIMIT:
        raise EnvFileError(f"the file has more than {ENV_FILE_LIMIT} bytes")
    for name, value in _variables(_lines(content)):
        if name == key:
            return value
    return ""


def _lines(content: bytes) -> Iterator[tuple[int, str]]:
    text = content.decode("utf-8", "replace")
    lines = text.removesuffix("\n").split("\n") if text else []
    return ((number, line.removesuffix("\r")) for number, line in enumerate(lines, start=1))


def _variables(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    for number, line in lines:
        line = line.lstrip(_BLANKS)
        if not line or line.startswith("#"):
            continue
        name, equals, rest = line.partition("=")
        if not equals:
            raise EnvFileError(f"line {number}: missing '='")
        if not name:
            raise EnvFileError(f"line {number}: empty variable name")
        if name != name.rstrip(_BLANKS):
            raise EnvFileError(f"line {number}: whitespace before '='")
        if rest.startswith(tuple(_BLANKS)):
            yield name, ""
        elif rest.startswith("'"):
            yield name, _quoted(number, rest[1:], lines)
        else:
            raise EnvFileError(f"line {number}: the value is not in single quotes")


def _quoted(number: int, rest: str, lines: Iterator[tuple[int, str]]) -> str:
    """Return the value up to the closing quote, which may be on a later line."""
    began, value = number, ""
    while True:
        piece, quote, after = rest.partition("'")
        value += piece
        if quote:
            break
        number, rest = next(lines, (0, ""))
        if not number:
            raise EnvFileError(f"line {began}: the single quote is not closed")
        value += "\n"
    after = after.lstrip(_BLANKS)
    if after and not after.startswith("#"):
        raise EnvFileError(f"line {number}: unexpected text after the closing quote")
    return value
