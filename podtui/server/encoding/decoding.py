"""Decode a document into the API's types, with the API server's rules and error texts.

A value of a wrong type refuses the document; unknown and repeated fields are collected for field
validation.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, cast

from podtui.api import fields as facts
from podtui.api import v1
from podtui.api.quantity import canonical
from podtui.api.shape import Form, Shape, StructField, empty, fields, required_names
from podtui.api.times import rfc3339, rfc3339_micros
from podtui.text.json_text import valid_json

Tree = dict[str, Any]

_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d):(\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_MOST_LEVELS: Final = 100
_INTEGER_BITS: Final = 31
# The names that Go's messages use for strings of a named type.
_GO_TYPES: Final[Mapping[str, str]] = {
    "types.UID": """ConfigMapNodeConfigSource.uid ObjectMeta.uid ObjectReference.uid
        OwnerReference.uid Preconditions.uid StatusDetails.uid""",
    "v1.Capability": "Capabilities.add Capabilities.drop",
    "v1.ConditionStatus": "NamespaceCondition.status NodeCondition.status PodCondition.status",
    "v1.ContainerRestartPolicy": "Container.restartPolicy",
    "v1.CoordinatedLeaseStrategy": "LeaseSpec.strategy",
    "v1.DNSPolicy": "PodSpec.dnsPolicy",
    "v1.DeletionPropagation": "DeleteOptions.propagationPolicy",
    "v1.FinalizerName": "NamespaceSpec.finalizers",
    "v1.HostPathType": "HostPathVolumeSource.type",
    "v1.LabelSelectorOperator": "LabelSelectorRequirement.operator",
    "v1.ManagedFieldsOperationType": "ManagedFieldsEntry.operation",
    "v1.MountPropagationMode": "VolumeMount.mountPropagation",
    "v1.NamespacePhase": "NamespaceStatus.phase",
    "v1.NodeSelectorOperator": "NodeSelectorRequirement.operator",
    "v1.OSName": "PodOS.name",
    "v1.PodPhase": "PodStatus.phase",
    "v1.PreemptionPolicy": "PodSpec.preemptionPolicy",
    "v1.Protocol": "ContainerPort.protocol",
    "v1.PullPolicy": "Container.imagePullPolicy EphemeralContainer.imagePullPolicy"
    " ImageVolumeSource.pullPolicy",
    "v1.RestartPolicy": "PodSpec.restartPolicy",
    "v1.SecretType": "Secret.type",
    "v1.StorageMedium": "EmptyDirVolumeSource.medium",
    "v1.TaintEffect": "Taint.effect Toleration.effect",
    "v1.TerminationMessagePolicy": "Container.terminationMessagePolicy"
    " EphemeralContainer.terminationMessagePolicy",
    "v1.TolerationOperator": "Toleration.operator",
    "v1.URIScheme": "HTTPGetAction.scheme",
}
_GO_TYPE: Final = {
    member: name for name, members in _GO_TYPES.items() for member in members.split()
}
_JSON_KINDS: Final = ((str, "string"), (bool, "bool"), (list, "array"), (dict, "object"))


class DecodeError(Exception):
    """Raised for a document that is not such an object; the text is the API server's."""


class RepeatedKeys(Tree):
    """A JSON object in which ``repeated`` keys occur more than once; the last one counts."""

    repeated: tuple[str, ...] = ()


# msgspec alone would stop at the first error, with a text of its own. Clients get the texts of Go,
# and field validation needs every unknown and repeated field. So the document is first decoded here
# to a clean tree, which msgspec then converts to the struct without errors.
@dataclass(slots=True)
class _Decoding:
    remarks: list[str] = field(default_factory=list[str])
    wrong: str = ""
    """The first wrong type; Go reports it after it has read everything else."""

    def object(self, value: Tree, struct: type[v1.Struct], path: str, go_path: str) -> Tree:
        """``path`` has the indexes of list items, ``go_path`` has not, as Go names fields in its
        messages about unknown fields and about wrong types."""
        members = fields(struct)
        clean: Tree = {}
        repeated = value.repeated if isinstance(value, RepeatedKeys) else ()
        for key, element in value.items():
            here = f"{path}.{key}" if path else key
            member = members.get(key)
            if member is None:
                self.remarks.append(f'unknown field "{here}"')
            elif element is not None:
                there = f"{go_path}.{key}" if go_path else key
                self.set(clean, member, element, struct, here, there)
            if key in repeated:
                self.remarks.append(f'duplicate field "{here}"')
        # In Go, an absent field has its zero value. Whether it may be empty is validated later.
        for name in required_names(struct) - clean.keys():
            clean[name] = empty(members[name].shape)
        return clean

    def set(
        self,
        into: Tree,
        member: StructField,
        value: Any,
        struct: type[v1.Struct],
        path: str,
        go_path: str,
    ) -> None:
        target = _Target(struct.__name__, member.name, go_path)
        clean = self.value(value, member.shape, path, target)
        zero = isinstance(clean, int) and not clean
        if clean is not None and not (zero and target.omits_zero):
            into[member.name] = clean

    def value(self, value: Any, shape: Shape, path: str, target: _Target) -> Any:
        if isinstance(value, dict):
            tree = cast("Tree", value)
            if shape.form is Form.OBJECT and shape.struct is not None:
                return self.object(tree, shape.struct, path, target.go_path)
            if shape.form is Form.MAP and shape.item is not None:
                return self.map(tree, shape.item, path, target)
        if isinstance(value, list) and shape.form is Form.LIST and shape.item is not None:
            item = shape.item
            # A null in a list is the zero value of the item's type. For an object, that includes
            # its required fields: `item` decodes it as an empty map.
            return [
                empty(item)
                if element is None and item.form is not Form.OBJECT
                else self.item(element, item, f"{path}[{index}]", target)
                for index, element in enumerate(cast("list[Any]", value))
            ]
        return self.scalar(cast("object", value), shape, target)

    def item(self, value: Any, shape: Shape, path: str, target: _Target) -> Any:
        clean = self.value({} if value is None else value, shape, path, target)
        return empty(shape) if clean is None else clean

    def map(self, value: Tree, item: Shape, path: str, target: _Target) -> Tree:
        clean: Tree = {}
        repeated = value.repeated if isinstance(value, RepeatedKeys) else ()
        for key, element in value.items():
            here = f"{path}.{key}"
            if key in repeated:
                self.remarks.append(f'duplicate field "{here}"')
            decoded = empty(item) if element is None else self.item(element, item, here, target)
            # Encoded again, so that equal bytes are equal texts in the record.
            if target.fact == "{}bytes":
                decoded = _base64(str(decoded))
            clean[key] = decoded
        return clean

    def scalar(self, value: object, shape: Shape, target: _Target) -> Any:
        # To Python, a boolean is an integer: it is excluded where one is expected. A quantity or a
        # time that is wrong raises at once, any other wrong value only after the whole document.
        match shape.form:
            case Form.TEXT if isinstance(value, str):
                return value
            case Form.BOOLEAN if isinstance(value, bool):
                return value
            case Form.INTEGER if isinstance(value, int) and not isinstance(value, bool):
                bits = 63 if "int64" in target.fact else _INTEGER_BITS
                if -(1 << bits) <= value < 1 << bits:
                    return value
                return self.refuse(f"number {value}", shape, target)
            case Form.PORT if isinstance(value, int | str) and not isinstance(value, bool):
                return value
            case Form.QUANTITY:
                return _quantity(value)
            case Form.TIME if isinstance(value, str):
                return _time(value, micro=target.fact == "MicroTime")
            case Form.ANY:
                return value
            case _:
                return self.refuse(_kind(value, shape), shape, target)

    def refuse(self, kind: str, shape: Shape, target: _Target) -> None:
        self.wrong = self.wrong or (
            f"json: cannot unmarshal {kind} into Go struct field"
            f" {target.struct}.{target.go_path} of type {target.go_type(shape)}"
        )


@dataclass(frozen=True, slots=True)
class _Target:
    """The field that a value is decoded into: its struct, its name, and its path without
    indexes."""

    struct: str
    name: str
    go_path: str

    @property
    def field_facts(self) -> facts.Field | None:
        """The facts about the field."""
        type_facts = facts.types().get(self.struct)
        return None if type_facts is None else type_facts.fields.get(self.name)

    @property
    def fact(self) -> str:
        """The type of the field, as `podtui.api.fields` names it."""
        return "" if self.field_facts is None else self.field_facts.type

    @property
    def omits_zero(self) -> bool:
        """True if Go does not distinguish 0 or false from an absent value, and omits it."""
        return (
            self.field_facts is not None
            and not self.field_facts.pointer
            and not self.field_facts.required
        )

    def go_type(self, shape: Shape) -> str:
        if shape.form is Form.LIST and shape.item is not None:
            return f"[]{self.go_type(shape.item)}"
        if shape.form is Form.MAP and shape.item is not None:
            return f"map[string]{self.go_type(shape.item)}"
        if shape.struct is not None:
            return f"v1.{shape.struct.__name__}"
        plain = {
            Form.TEXT: "string",
            Form.INTEGER: "int64" if "int64" in self.fact else "int32",
            Form.BOOLEAN: "bool",
            Form.QUANTITY: "resource.Quantity",
            Form.TIME: "string",
            Form.PORT: "int32",
        }
        return _GO_TYPE.get(f"{self.struct}.{self.name}", plain.get(shape.form, "interface {}"))


def _kind(value: object, shape: Shape) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"number {json.dumps(value)}" if shape.form is Form.INTEGER else "number"
    return json_kind(value)


def json_kind(value: object) -> str:
    """Return what Go's messages call a JSON value."""
    return next((name for kind, name in _JSON_KINDS if isinstance(value, kind)), "number")


def _quantity(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DecodeError(_QUANTITY)
    try:
        return canonical(str(value))
    except ValueError as error:
        raise DecodeError(_QUANTITY) from error


def _time(text: str, *, micro: bool) -> str:
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    match = _TIME.fullmatch(text)
    if match is None:
        raise DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    day, hour, rest, fraction, zone = match.groups(default="")
    if micro and len(fraction) != len("000000"):
        tail = text[match.end(3) :]
        raise DecodeError(
            f'parsing time "{text}" as "{layout}": cannot parse "{tail}" as ".000000"'
        )
    digits = (fraction + "000000")[:6]
    try:
        moment = datetime.fromisoformat(
            f"{day}T{hour}:{rest}.{digits}{'+00:00' if zone == 'Z' else zone}"
        ).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DecodeError(f'parsing time "{text}": day out of range') from error
    return rfc3339_micros(moment) if micro else rfc3339(moment)


def _base64(text: str) -> str:
    flat = text.replace("\r", "").replace("\n", "")
    try:
        return base64.b64encode(base64.b64decode(flat, validate=True)).decode()
    except (binascii.Error, ValueError) as error:
        good = re.match("[A-Za-z0-9+/]*", flat)
        position = good.end() if good is not None else 0
        raise DecodeError(f"illegal base64 data at input byte {position}") from error


def decode_object(tree: Tree, struct: type[v1.Struct]) -> tuple[Tree, list[str]]:
    """Return a tree that is ready for ``msgspec.convert``, and remarks about unknown and repeated
    fields. Quantities and times are canonical. Raises `DecodeError`."""
    decoding = _Decoding()
    clean = decoding.object(tree, struct, "", "")
    if decoding.wrong:
        raise DecodeError(decoding.wrong)
    return clean, decoding.remarks


def parse_json(body: bytes) -> Any:
    """Parse JSON; objects with repeated keys become `RepeatedKeys`. What is no character is
    replaced, as in Go. Raises `DecodeError`."""
    # A byte that is not UTF-8 becomes one surrogate here, and one replacement character in
    # `valid_json`. Positions thus stay the same, and an error message can show the byte itself.
    text = body.decode(errors="surrogateescape")
    try:
        value = json.loads(valid_json(text), object_pairs_hook=_pairs, parse_constant=_constant)
    except RecursionError as error:
        raise DecodeError("exceeded max depth") from error
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()):
            raise DecodeError("unexpected end of JSON input") from error
        character = _go_character(text[error.pos])
        raise DecodeError(f"invalid character '{character}' {_expectation(error)}") from error
    except ValueError as error:
        raise DecodeError(str(error)) from error
    # Only a document with so many brackets can be so deep: most need no walk.
    if body.count(b"{") + body.count(b"[") > _MOST_LEVELS:
        _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    """Refuse values that are nested deeper than the functions that walk them can go."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _MOST_LEVELS:
            raise DecodeError("exceeded max depth")
        level = [child for item in level for child in _children(item)]


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("Tree", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _pairs(pairs: list[tuple[str, Any]]) -> Tree:
    tree = dict(pairs)
    if len(tree) == len(pairs):
        return tree
    names = [name for name, _ in pairs]
    marked = RepeatedKeys(tree)
    marked.repeated = tuple(name for name in tree if names.count(name) > 1)
    return marked


def _go_character(character: str) -> str:
    """Return how Go's messages show the first byte of a character."""
    byte = character.encode(errors="surrogateescape")[0]
    shown = chr(byte)
    return shown if shown.isprintable() else f"\\x{byte:02x}"


def _constant(text: str) -> NoReturn:
    raise DecodeError(f"invalid character '{text[0]}' looking for beginning of value")


def _expectation(error: json.JSONDecodeError) -> str:
    message = error.msg
    if message.startswith("Expecting property name"):
        return "looking for beginning of object key string"
    if message.startswith("Expecting ',' delimiter"):
        return "after object key:value pair"
    if message.startswith("Expecting ':'"):
        return "after object key"
    if message.startswith("Extra data"):
        return "after top-level value"
    return "looking for beginning of value"
