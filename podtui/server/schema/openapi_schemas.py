"""The schemas of the OpenAPI documents, made from the facts of `podtui.api.fields` and from
podtui's own types. The texts are those of ``podtui explain``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from podtui.api.fields import LIST, MAP, Field, Type, name_of_kind, types
from podtui.api.names import GROUP_VERSION, METRICS_GROUP_VERSION
from podtui.api.v1 import ObjectMeta
from podtui.explain.kind_texts import field_description, texts
from podtui.server.schema.catalog import Kind, structs_by_kind

Json = dict[str, Any]
REFERENCE: Final = "#/components/schemas/"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_MODEL_PREFIXES: Final = {
    GROUP_VERSION: "dev.podtui.v1alpha1.",
    METRICS_GROUP_VERSION: "io.k8s.metrics.pkg.apis.metrics.v1beta1.",
}
"""The first part of the names of models that are not in Kubernetes' package ``io.k8s.api``."""
_SPECIAL: Final[Mapping[str, tuple[str, Json]]] = {
    "Quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {
            "description": "An amount such as 100m, 1.5 or 128Mi.",
            "oneOf": [{"type": "string"}, {"type": "number"}],
        },
    ),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {
            "description": "A number or a name.",
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        },
    ),
    "Time": (
        f"{META}Time",
        {"description": "A time in RFC 3339 format.", "type": "string", "format": "date-time"},
    ),
    "MicroTime": (
        f"{META}MicroTime",
        {
            "description": "A time in RFC 3339 format, with microseconds.",
            "type": "string",
            "format": "date-time",
        },
    ),
    "FieldsV1": (
        f"{META}FieldsV1",
        {"description": "A set of fields, encoded as a tree.", "type": "object"},
    ),
}
_SCALARS: Final[Mapping[str, Json]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "any": {"type": "object"},
}


class Schemas:
    """The schemas that a document refers to, by model name."""

    def __init__(self) -> None:
        self.models: Json = {}
        self._structs = structs_by_kind()

    def kind(self, kind: Kind) -> Json:
        """Return a reference to the schema of a kind. Without facts, the schema is read from the
        type of the kind's objects."""
        name = name_of_kind(kind.api_version, kind.name)
        if name is not None:
            return self.add(name)
        item = Kind(kind.api_version, kind.name.removesuffix("List"))
        struct = self._structs.get(item)
        if struct is None:
            return {"type": "string"}
        if kind == item:
            return self._add_struct(struct, kind)
        model = _model_prefix(kind) + kind.name
        self.models[model] = {
            "description": f"A list of {item.name} objects.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": self.add("ListMeta"),
                "items": {"type": "array", "items": self.kind(item)},
            },
            "x-kubernetes-group-version-kind": [gvk(kind)],
        }
        return {"$ref": REFERENCE + model}

    def add(self, name: str) -> Json:
        """Add a type and all that it refers to; return a reference."""
        described = types()[name]
        if described.model not in self.models:
            self.models[described.model] = {}
            self.models[described.model] = self._type(name, described)
        return {"$ref": REFERENCE + described.model}

    def _type(self, name: str, described: Type) -> Json:
        schema: Json = {"type": "object"}
        if text := texts().types.get(name):
            schema["description"] = text
        required = [field_name for field_name, field in described.fields.items() if field.required]
        if required:
            schema["required"] = required
        schema["properties"] = {
            field_name: self._field(name, field_name, field)
            for field_name, field in described.fields.items()
        }
        if described.map:
            schema["x-kubernetes-map-type"] = described.map
        if described.version:
            kind = Kind(described.version, name.rpartition(".")[2])
            schema["x-kubernetes-group-version-kind"] = [gvk(kind)]
        return schema

    def _field(self, owner: str, name: str, field: Field) -> Json:
        schema = self._value(field.type)
        text = field_description(owner, name)
        if field.values and schema["type"] == "string":
            schema["enum"] = list(field.values)
            listed = "\n".join(f' - `"{value}"`' for value in field.values)
            text = f"{text}\n\nPossible enum values:\n{listed}"
        elif field.values:
            schema["items"]["enum"] = list(field.values)
        if "$ref" in schema and text:
            schema = Json(allOf=[schema])
        if text:
            schema["description"] = text
        if isinstance(field.default, str) and field.default:
            schema["default"] = field.default
        for extension, value in (
            ("list-type", field.list),
            ("list-map-keys", list(field.keys)),
            ("map-type", field.map),
            ("patch-strategy", field.strategy),
            ("patch-merge-key", field.merge_key),
        ):
            if value:
                schema[f"x-kubernetes-{extension}"] = value
        return schema

    def _value(self, kind: str) -> Json:
        if kind.startswith(LIST):
            return {"type": "array", "items": self._value(kind.removeprefix(LIST))}
        if kind.startswith(MAP):
            values = self._value(kind.removeprefix(MAP))
            return {"type": "object", "additionalProperties": values}
        if kind in _SPECIAL:
            model, schema = _SPECIAL[kind]
            self.models[model] = schema
            return {"$ref": REFERENCE + model}
        return dict(_SCALARS[kind]) if kind in _SCALARS else self.add(kind)

    def _add_struct(self, struct: type[msgspec.Struct], kind: Kind) -> Json:
        prefix = _model_prefix(kind)
        _, components = msgspec.json.schema_components([struct], ref_template="{name}")
        meta = {name for name in components if name in types()}
        for name, component in components.items():
            if name not in meta:
                self.models[prefix + name] = self._plain(component, prefix, meta)
        self.add(ObjectMeta.__name__)
        self.models[prefix + kind.name]["x-kubernetes-group-version-kind"] = [gvk(kind)]
        return {"$ref": f"{REFERENCE}{prefix}{kind.name}"}

    def _plain(self, schema: Any, prefix: str, meta: set[str]) -> Any:
        """Turn JSON Schema into that of OpenAPI 3.0: without null and titles."""
        if isinstance(schema, list):
            items = cast("list[Any]", schema)
            return [self._plain(item, prefix, meta) for item in items]
        if not isinstance(schema, dict):
            return schema
        converted: Json = {}
        for key, value in cast(Json, schema).items():
            if key == "$ref":
                converted |= (
                    {key: REFERENCE + prefix + value} if value not in meta else self.add(value)
                )
            elif key == "anyOf":
                kept = [item for item in value if item != {"type": "null"}]
                is_single = len(kept) == 1
                converted |= (
                    self._plain(kept[0], prefix, meta) if is_single else self._value("IntOrString")
                )
            elif key == "properties":
                # Its keys are fields, which may be called ``description`` or ``default``.
                converted[key] = {
                    name: self._plain(field, prefix, meta) for name, field in value.items()
                }
            elif key == "description":
                converted[key] = _paragraph(value)
            elif key not in ("title", "default"):
                converted[key] = self._plain(value, prefix, meta)
        return converted


def _model_prefix(kind: Kind) -> str:
    """Return the first part of the name of a model: ``io.k8s.api.coordination.v1.``"""
    group = kind.group.partition(".")[0] or "core"
    return _MODEL_PREFIXES.get(kind.api_version, f"io.k8s.api.{group}.{kind.version}.")


def _paragraph(text: str) -> str:
    """Return a docstring as one paragraph without markup."""
    return re.sub(r"\s+", " ", text.replace("``", "")).strip()


def gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.name}
