"""The OpenAPI v2 document: all v3 documents in one, in the older dialect, as JSON and as protobuf.

kubectl before 1.29 reads only the protobuf form, whose messages are those of gnostic's
``OpenAPIv2.proto``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from podtui.server.schema.openapi_schemas import REFERENCE, Json
from podtui.wire.varint import encode_varint

_REFERENCE: Final = "#/definitions/"


def combined(documents: Iterable[Json]) -> Json:
    """Return the v2 document with the content of v3 documents."""
    paths: Json = {}
    schemas: Json = {}
    info: Json = {}
    for document in documents:
        info = document["info"]
        schemas |= document["components"]["schemas"]
        paths |= {path: _path(item) for path, item in document["paths"].items()}
    bearer = {"type": "apiKey", "name": "authorization", "in": "header"}
    return {
        "swagger": "2.0",
        "info": info,
        "paths": dict(sorted(paths.items())),
        "definitions": {name: _schema(schema) for name, schema in sorted(schemas.items())},
        "securityDefinitions": {"BearerToken": bearer},
    }


def _schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    converted: Json = {}
    for key, value in cast(Json, schema).items():
        if key == "$ref":
            converted[key] = _REFERENCE + value.removeprefix(REFERENCE)
        elif key == "allOf":
            converted |= _schema(value[0])
        elif key == "oneOf":
            converted["type"] = "string"
        else:
            converted[key] = _schema(value)
    return converted


def _path(item: Json) -> Json:
    return {
        key: [_parameter(p) for p in value] if key == "parameters" else _operation(value)
        for key, value in item.items()
    }


def _parameter(parameter: Json) -> Json:
    plain = {key: value for key, value in parameter.items() if key != "schema"}
    return plain | _schema(parameter["schema"])


def _operation(operation: Json) -> Json:
    kept = ("tags", "description", "operationId")
    converted: Json = {key: operation[key] for key in kept}
    body: Json | None = operation.get("requestBody")
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    if body is not None:
        media: Json = body["content"]
        # A patch has one schema here, whatever its format.
        schema = _schema(next(iter(media.values()))["schema"])
        stated = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **stated, "schema": schema})
        converted["consumes"] = list(media)
    converted["parameters"] = parameters
    produces: dict[str, None] = {}
    converted["responses"] = responses = Json()
    for code, response in operation["responses"].items():
        responses[code] = {"description": response["description"]}
        for media_type, content in response.get("content", {}).items():
            produces[media_type] = None
            responses[code]["schema"] = _schema(content["schema"])
    converted["produces"] = list(produces)
    return converted | {key: value for key, value in operation.items() if key.startswith("x-")}


# The protobuf form. Each table has the number and the form of a message's fields.

_Form = tuple[int, str]
_PARAMETER: Final[Mapping[str, _Form]] = {
    "required": (1, "bool"),
    "in": (2, "text"),
    "description": (3, "text"),
    "name": (4, "text"),
}
_MESSAGES: Final[Mapping[str, Mapping[str, _Form]]] = {
    "Document": {
        "swagger": (1, "text"),
        "info": (2, "Info"),
        "paths": (8, "Paths"),
        "definitions": (9, "Schemas"),
    },
    "Info": {"title": (1, "text"), "version": (2, "text")},
    "PathItem": {
        "get": (2, "Operation"),
        "put": (3, "Operation"),
        "post": (4, "Operation"),
        "delete": (5, "Operation"),
        "patch": (8, "Operation"),
        "parameters": (9, "Parameters"),
    },
    "Operation": {
        "tags": (1, "texts"),
        "description": (3, "text"),
        "operationId": (5, "text"),
        "produces": (6, "texts"),
        "consumes": (7, "texts"),
        "parameters": (8, "Parameters"),
        "responses": (9, "Responses"),
        "x-": (13, "Extension"),
    },
    "Body": {
        "name": (2, "text"),
        "in": (3, "text"),
        "required": (4, "bool"),
        "schema": (5, "Schema"),
    },
    "Path": {**_PARAMETER, "type": (5, "text")},
    "Query": {
        **_PARAMETER,
        "type": (6, "text"),
        "items": (8, "Items"),
        "uniqueItems": (20, "bool"),
    },
    "Items": {"type": (1, "text")},
    "Response": {"description": (1, "text"), "schema": (2, "SchemaItem")},
    "Schema": {
        "$ref": (1, "text"),
        "format": (2, "text"),
        "description": (4, "text"),
        "default": (5, "any"),
        "required": (19, "texts"),
        "enum": (20, "anys"),
        "additionalProperties": (21, "SchemaItem"),
        "type": (22, "Type"),
        "items": (23, "SchemaItem"),
        "properties": (25, "Schemas"),
        "x-": (31, "Extension"),
    },
}


def encode(document: Json) -> bytes:
    """Encode a v2 document in protobuf."""
    return _message("Document", document)


def _message(name: str, value: Json) -> bytes:
    forms = _MESSAGES[name]
    encoded = bytearray()
    for key, item in value.items():
        form = forms.get("x-" if key.startswith("x-") else key)
        if form is not None:
            number, kind = form
            for content in _contents(kind, key, item):
                encoded += _bytes(number, content)
    return bytes(encoded)


def _contents(kind: str, key: str, value: Any) -> Iterable[bytes | bool]:
    """Return the values of a field, one for each repetition."""
    if kind in ("text", "bool"):
        return [value.encode() if kind == "text" else value]
    if kind == "texts":
        return [text.encode() for text in value]
    if kind in ("any", "anys"):
        return map(_any, value if kind == "anys" else [value])
    if kind == "Extension":
        return [_named(key, _any(value))]
    if kind == "Parameters":
        return map(_parameter_message, value)
    if kind == "Type":
        return [_bytes(1, value.encode())]
    if kind == "SchemaItem":
        return [_bytes(1, _message("Schema", value))]
    if kind in ("Schemas", "Paths", "Responses"):
        return [_map_message(kind, value)]
    return [_message(kind, value)]


def _map_message(kind: str, value: Json) -> bytes:
    item, number = {"Schemas": ("Schema", 1), "Paths": ("PathItem", 2)}.get(kind, ("Response", 1))
    encoded = bytearray()
    for name, content in value.items():
        message = _message(item, content)
        if item == "Response":
            message = _bytes(1, message)
        encoded += _bytes(number, _named(name, message))
    return bytes(encoded)


def _parameter_message(parameter: Json) -> bytes:
    location = parameter["in"]
    if location == "body":
        message = _bytes(1, _message("Body", parameter))
    else:
        query = location == "query"
        number, kind = (3, "Query") if query else (4, "Path")
        message = _bytes(2, _bytes(number, _message(kind, parameter)))
    return _bytes(1, message)


def _any(value: Any) -> bytes:
    """Encode a value as YAML, of which JSON is a part."""
    return _bytes(2, json.dumps(value).encode())


def _named(name: str, message: bytes) -> bytes:
    return _bytes(1, name.encode()) + _bytes(2, message)


def _bytes(number: int, content: bytes | bool) -> bytes:
    if isinstance(content, bool):
        return encode_varint(number << 3) + encode_varint(int(content))
    return encode_varint(number << 3 | 2) + encode_varint(len(content)) + content
