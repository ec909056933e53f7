"""The objects of the folder that are not Pods, and the references of Pods to them (departure 7)."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import msgspec
from msgspec.structs import replace

from podtui.api import v1
from podtui.api.local import Severity
from podtui.api.objects import Object
from podtui.api.places import field_path, write_places
from podtui.manifest.decode import decode
from podtui.manifest.document import (
    NOT_ENFORCED,
    Document,
    MapKey,
    Path,
    Position,
    Problem,
    printable,
)
from podtui.manifest.kinds import Kind
from podtui.manifest.problems import validation_problems, without_consequences
from podtui.manifest.validation.errors import FieldError
from podtui.manifest.validation.formats import path_segment
from podtui.manifest.validation.metadata import object_meta
from podtui.manifest.validation.objects import validate_config_map, validate_secret

DocumentKind = Literal["ConfigMap", "Secret"]
ObjectKey = tuple[DocumentKind, str, str]
"""Kind, namespace and name."""
Claim = tuple[str, str, str]
"""Something that only one file may provide: a kind with namespace and name, or a UID."""
Tree = dict[str, Any]
_OF_SERVER: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_LONGEST_PREFIX: Final = 58
_SUFFIX: Final = 5
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The length of generated names, and the characters that an API server appends."""
_FROZEN: Final = "Forbidden: field is immutable when `immutable` is set"


@dataclass(frozen=True, slots=True)
class FolderDocument:
    """An object as the folder has it. ``item`` has the API's defaults. ``configuration`` is what
    the document states, in the API's form; ``places`` are the positions of its fields
    (`podtui.api.places`) and ``position`` is that of its name."""

    item: Object
    configuration: Tree
    places: str
    position: Position

    @property
    def key(self) -> Claim:
        return object_key(self.item)


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


def object_key(item: Object) -> Claim:
    return type(item).__name__, item.metadata.namespace, item.metadata.name


def document_key(item: v1.ConfigMap | v1.Secret) -> ObjectKey:
    kind: DocumentKind = "Secret" if isinstance(item, v1.Secret) else "ConfigMap"
    return kind, item.metadata.namespace, item.metadata.name


def read_object(document: Document, kind: Kind) -> tuple[FolderDocument | None, list[Problem]]:
    """Return the object of a document, and all problems. The values of a Secret never appear in a
    message."""
    tree, decode_problems = decode(document, kind.struct, version=kind.api_version)
    problems = [*document.problems, *decode_problems]
    if tree is None:
        return None, problems
    metadata: Tree = dict(tree.get("metadata") or {})
    tree["metadata"] = metadata
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    else:
        metadata.pop("namespace", None)
    stated = _stated(tree, document.value)
    stated["metadata"] = {
        name: value for name, value in stated.get("metadata", {}).items() if name not in _OF_SERVER
    }
    if kind.namespaced:
        stated["metadata"]["namespace"] = metadata["namespace"]
    prefix = metadata.get("generateName")
    if isinstance(prefix, str) and prefix and not metadata.get("name"):
        metadata["name"] = stated["metadata"]["name"] = _generated_name(prefix, stated)
    for name in _OF_SERVER:
        metadata.pop(name, None)
    problems += _without_effect(document)
    try:
        item, content_problems = _item(tree, document, kind, problems)
    except msgspec.ValidationError as error:
        problems.append(Problem(code="FieldValueTypeInvalid", message=printable(str(error))))
        return None, problems
    problems += content_problems
    if isinstance(item, v1.Secret):
        stated.pop("stringData", None)
        stated.pop("data", None)
        stated |= {"data": item.data} if item.data else {}
    elif isinstance(item, v1.ConfigMap) and item.binaryData:
        stated["binaryData"] = item.binaryData
    position = document.position(("metadata", "name")) or (1, 1)
    places = write_places(document.keys, document.values)
    return FolderDocument(item, stated, places, position), problems


def _is_allocated(error: FieldError, kind: Kind) -> bool:
    """Return whether the API server fills in the required field, before it checks the object."""
    port = kind.struct is v1.Service and error.path == "spec.healthCheckNodePort"
    return port and error.type == "FieldValueRequired"


def _generated_name(prefix: str, stated: Tree) -> str:
    """Return the name of an object that states only ``generateName``. It depends on the content:
    each version of the document is an object of its own, once."""
    content = json.dumps(stated, sort_keys=True, default=str).encode()
    number = int.from_bytes(hashlib.sha256(content).digest()[:8])
    suffix = ""
    for _ in range(_SUFFIX):
        number, index = divmod(number, len(_SAFE))
        suffix += _SAFE[index]
    return prefix[:_LONGEST_PREFIX] + suffix


def _item(
    tree: Tree, document: Document, kind: Kind, reported: list[Problem]
) -> tuple[Any, list[Problem]]:
    """Return the object in the API's form, with namespace and defaults, and the problems of its
    values. Raises `msgspec.ValidationError`."""
    if kind.struct in (v1.ConfigMap, v1.Secret):
        return _read_content(tree, document, kind.struct, reported)
    strategy = kind.strategy
    strategy.defaults(tree)
    errors = [*strategy.tree_errors(tree)]
    stated = msgspec.convert(tree, kind.struct)
    item = strategy.prepare_create(stated)
    errors += (e for e in strategy.validate_create(item) if not _is_allocated(e, kind))
    # Not the metadata of ``item``: a LimitRange without a name gets a random one over the API.
    errors += object_meta(
        stated.metadata, "metadata", namespaced=kind.namespaced, name_rule=path_segment
    )
    problems = validation_problems(errors, document, reported)
    warnings = [_warning(text, document) for text in strategy.warnings(stated, None)]
    problems += without_consequences(warnings, [*reported, *problems])
    return msgspec.structs.replace(item, apiVersion="", kind=""), problems


def _warning(text: str, document: Document) -> Problem:
    """Return a warning of the API server, which may begin with a field, as a problem."""
    field, colon, rest = text.partition(": ")
    path = field_path(field) if colon and " " not in field else ()
    if not path:
        return Problem(
            code=NOT_ENFORCED, message=text, path=("kind",), severity=Severity.WARNING, at_key=True
        )
    return Problem(code="Discouraged", message=rest, path=path, severity=Severity.WARNING)


def _stated(clean: Any, written: Any) -> Any:
    """Return the decoded value without what the document does not state."""
    if isinstance(clean, dict) and isinstance(written, dict):
        tree, source = cast("Tree", clean), cast("Tree", written)
        return {
            key: _stated(value, source[key])
            for key, value in tree.items()
            if source.get(key) is not None
        }
    if isinstance(clean, list) and isinstance(written, list):
        items = zip(cast("list[Any]", clean), cast("list[Any]", written), strict=False)
        return [_stated(value, source) for value, source in items]
    return cast("Any", clean)


def _without_effect(document: Document) -> list[Problem]:
    """Warn of the fields that only the API server and the controllers set."""
    tree = cast("Tree", document.value)
    written: object = tree.get("metadata")
    metadata = cast("Tree", written) if isinstance(written, dict) else {}
    paths: list[Path] = [
        ("metadata", name) for name in _OF_SERVER if metadata.get(name) not in (None, "", [], {})
    ]
    if _has_scalars(tree.get("status")):
        paths.append(("status",))
    return [
        Problem(
            code="NoEffect",
            message="has no effect: the API server or a controller sets it",
            path=path,
            fix="remove it",
            remove=(path,),
            severity=Severity.WARNING,
            at_key=True,
        )
        for path in paths
    ]


def _has_scalars(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_scalars, cast("Tree", value).values()))
    if isinstance(value, list):
        return any(map(_has_scalars, cast("list[Any]", value)))
    return value is not None


def _read_content(
    tree: Tree,
    document: Document,
    struct: type[v1.ConfigMap] | type[v1.Secret],
    reported: list[Problem],
) -> tuple[v1.ConfigMap | v1.Secret, list[Problem]]:
    """Return a ConfigMap or Secret with base64 without line breaks, and ``stringData`` merged into
    ``data``; and its problems."""
    tree = {name: value for name, value in tree.items() if name not in ("apiVersion", "kind")}
    item = msgspec.convert(tree, struct)
    encoded, part = (
        (item.data, "data") if isinstance(item, v1.Secret) else (item.binaryData, "binaryData")
    )
    problems: list[Problem] = []
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
    reported = [*reported, *problems]
    if isinstance(item, v1.Secret):
        item = replace(item, type=item.type or "Opaque")
        content |= {key: _bytes(text) for key, text in item.stringData.items()}
        errors = validate_secret(item, content)
        problems += _with_size(validation_problems(errors, document, reported), content)
        return replace(item, data=_encoded(content), stringData={}), problems
    errors = validate_config_map(item, content)
    text = {key: _bytes(value) for key, value in item.data.items()}
    problems += _with_size(validation_problems(errors, document, reported), text | content)
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


def immutable_problems(old: Object, new: Object) -> list[Problem]:
    """Return the changes that an immutable ConfigMap or Secret forbids."""
    if not (
        (isinstance(old, v1.ConfigMap) and isinstance(new, v1.ConfigMap))
        or (isinstance(old, v1.Secret) and isinstance(new, v1.Secret))
    ):
        return []
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
