"""ConfigMaps and Secrets from the folder (departure 7)."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from podtui.api import v1
from podtui.manifest.decode import decode
from podtui.manifest.document import Document, MapKey, Problem
from podtui.manifest.problems import validation_problems
from podtui.manifest.validation.objects import validate_config_map, validate_secret

DocumentKind = Literal["ConfigMap", "Secret"]
ObjectKey = tuple[DocumentKind, str, str]
"""Kind, namespace and name."""
FolderObject: TypeAlias = v1.ConfigMap | v1.Secret
OBJECT_KINDS: Final[dict[object, type[v1.ConfigMap] | type[v1.Secret]]] = {
    "ConfigMap": v1.ConfigMap,
    "Secret": v1.Secret,
}
_FROZEN: Final = "Forbidden: field is immutable when `immutable` is set"


@dataclass(frozen=True, slots=True)
class References:
    """The ConfigMaps and Secrets that a pod names, and the subset that it requires."""

    keys: frozenset[ObjectKey]
    needed: frozenset[ObjectKey]


def _references(pod: v1.Pod) -> Iterator[tuple[DocumentKind, str, bool]]:
    """Yield kind, name and the optional flag of each reference."""
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
    """Return the references of a pod that podtui can resolve."""
    keys: set[ObjectKey] = set()
    needed: set[ObjectKey] = set()
    for kind, name, optional in _references(pod):
        key: ObjectKey = (kind, pod.metadata.namespace, name)
        keys.add(key)
        if not optional:
            needed.add(key)
    return References(frozenset(keys), frozenset(needed))


def object_key(item: FolderObject) -> ObjectKey:
    kind: DocumentKind = "Secret" if isinstance(item, v1.Secret) else "ConfigMap"
    return kind, item.metadata.namespace, item.metadata.name


def read_object(
    document: Document, struct: type[v1.ConfigMap] | type[v1.Secret]
) -> tuple[FolderObject | None, list[Problem]]:
    """Return the ConfigMap or Secret of a document in the API's form, and all problems. The values
    of a Secret never appear in a message.

    The API's form has a namespace, base64 without line breaks, and ``stringData`` merged into
    ``data``.
    """
    tree, decode_problems = decode(document, struct)
    problems = [*document.problems, *decode_problems]
    if tree is None:
        return None, problems
    item = msgspec.convert(tree, struct)
    metadata = replace(item.metadata, namespace=item.metadata.namespace or "default")
    encoded, part = (
        (item.data, "data") if isinstance(item, v1.Secret) else (item.binaryData, "binaryData")
    )
    content: dict[str, bytes] = {}
    for key, text in encoded.items():
        try:
            content[key] = _decoded(text)
        except ValueError as error:
            fix = "use stringData for plain text" if part == "data" else "use data for plain text"
            problems.append(
                Problem(
                    code="FieldValueInvalid",
                    message=f"Invalid value: {error}",
                    path=(part, MapKey(key)),
                    fix=fix,
                )
            )
    if isinstance(item, v1.Secret):
        item = replace(item, metadata=metadata, type=item.type or "Opaque")
        content |= {key: _bytes(text) for key, text in item.stringData.items()}
        errors = validate_secret(item, content)
        problems += _with_size(validation_problems(errors, document, problems), content)
        return replace(item, data=_encoded(content), stringData={}), problems
    item = replace(item, metadata=metadata)
    errors = validate_config_map(item, content)
    text = {key: _bytes(value) for key, value in item.data.items()}
    problems += _with_size(validation_problems(errors, document, problems), text | content)
    return replace(item, binaryData=_encoded(content)), problems


def _with_size(problems: list[Problem], content: Mapping[str, bytes]) -> list[Problem]:
    """Say how large the data is, and what to do, where it exceeds the API server's limit."""
    size = sum(map(len, content.values()))
    fix = f"it has {size} bytes; split it, or mount large files with a hostPath volume"
    return [
        dataclasses.replace(problem, fix=fix)
        if problem.code == "FieldValueTooLong" and problem.path == ("data",)
        else problem
        for problem in problems
    ]


def _decoded(text: str) -> bytes:
    """Raises ValueError with the position at which the text is no longer base64."""
    flat = text.replace("\r", "").replace("\n", "")
    try:
        return base64.b64decode(flat, validate=True)
    except binascii.Error:
        good = len(flat) - len(flat.lstrip(_ALPHABET))
        where = good if good < len(flat.rstrip("=")) else len(flat)
        raise ValueError(f"illegal base64 data at character {where + 1}") from None
    except ValueError:
        raise ValueError("illegal base64 data: a character that is not ASCII") from None


_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _encoded(content: dict[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in content.items()}


def immutable_problems(old: FolderObject, new: FolderObject) -> list[Problem]:
    """Return the changes that an immutable object forbids."""
    if not old.immutable:
        return []
    parts = ["data"] if isinstance(old, v1.Secret) else ["data", "binaryData"]
    changed = [part for part in parts if getattr(old, part) != getattr(new, part)]
    if not new.immutable:
        changed.insert(0, "immutable")
    fix = "give the new content another name, or remove the file first"
    return [
        Problem(code="FieldValueForbidden", message=_FROZEN, path=(part,), fix=fix)
        for part in changed
    ]
