"""ConfigMaps and Secrets that stand in the folder beside the pods (departure 7)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from podtui.api import v1
from podtui.manifest.document import MapKey, Problem

ObjectKey = tuple[Literal["ConfigMap", "Secret"], str, str]
"""Kind, namespace and name."""

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class References:
    """The ConfigMaps and Secrets that a pod names, and those of them that it cannot do without."""

    found: frozenset[ObjectKey]
    needed: frozenset[ObjectKey]


def _references(pod: v1.Pod) -> Iterator[tuple[Literal["ConfigMap", "Secret"], str, bool]]:
    """Kind, name and whether it is optional, of each reference."""
    spec = pod.spec
    for secret in spec.imagePullSecrets:
        yield "Secret", secret.name, False
    for container in (*spec.initContainers, *spec.containers):
        for source in container.envFrom:
            if (config := source.configMapRef) is not None:
                yield "ConfigMap", config.name, bool(config.optional)
            if (held := source.secretRef) is not None:
                yield "Secret", held.name, bool(held.optional)
        for variable in container.env:
            value = variable.valueFrom
            if value is not None and (key := value.configMapKeyRef) is not None:
                yield "ConfigMap", key.name, bool(key.optional)
            if value is not None and (hidden := value.secretKeyRef) is not None:
                yield "Secret", hidden.name, bool(hidden.optional)
    for volume in spec.volumes:
        if (files := volume.configMap) is not None:
            yield "ConfigMap", files.name, bool(files.optional)
        if (secrets := volume.secret) is not None:
            yield "Secret", secrets.secretName, bool(secrets.optional)
        for part in volume.projected.sources if volume.projected is not None else ():
            if part.configMap is not None:
                yield "ConfigMap", part.configMap.name, bool(part.configMap.optional)
            if part.secret is not None:
                yield "Secret", part.secret.name, bool(part.secret.optional)


def references(pod: v1.Pod) -> References:
    """What the pod refers to in ways that podtui can resolve."""
    found: set[ObjectKey] = set()
    needed: set[ObjectKey] = set()
    for kind, name, optional in _references(pod):
        key: ObjectKey = (kind, pod.metadata.namespace, name)
        found.add(key)
        if not optional:
            needed.add(key)
    return References(frozenset(found), frozenset(needed))


def object_key(item: v1.ConfigMap | v1.Secret) -> ObjectKey:
    kind: Literal["ConfigMap", "Secret"] = "Secret" if isinstance(item, v1.Secret) else "ConfigMap"
    return kind, item.metadata.namespace, item.metadata.name


def object_problems(tree: dict[str, Any], struct: type[v1.ConfigMap | v1.Secret]) -> list[Problem]:
    """What validation says of a decoded ConfigMap or Secret. No value is ever quoted."""
    problems: list[Problem] = []
    name = tree.get("metadata", {}).get("name", "")
    if not name:
        problems.append(
            Problem(
                code="FieldValueRequired",
                message="Required value",
                path=("metadata", "name"),
                fix="add name",
            )
        )
    elif not _NAME.fullmatch(name):
        problems.append(
            Problem(
                code="FieldValueInvalid",
                message="Invalid value: a lowercase RFC 1123 subdomain is expected",
                path=("metadata", "name"),
            )
        )
    encoded = "data" if struct is v1.Secret else "binaryData"
    for part in ("data", "binaryData", "stringData"):
        for key, text in tree.get(part, {}).items():
            path = (part, MapKey(key))
            if not _KEY.fullmatch(key):
                message = "Invalid value: a key has letters, digits, '-', '_' or '.'"
                problems.append(Problem(code="FieldValueInvalid", message=message, path=path))
            if part == encoded:
                try:
                    base64.b64decode(text, validate=True)
                except (binascii.Error, ValueError):
                    message = "Invalid value: not base64"
                    fix = "use stringData for plain text" if struct is v1.Secret else "use data"
                    problems.append(
                        Problem(code="FieldValueInvalid", message=message, path=path, fix=fix)
                    )
    return problems
