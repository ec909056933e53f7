"""OpenAPI v3 documents of the served API, one for each group and version of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from podtui.explain.kind_texts import texts
from podtui.server.schema.catalog import GroupVersion, Kind, Served, Subresource, group_versions
from podtui.server.schema.openapi_schemas import META, REFERENCE, Json, Schemas, gvk

_METHODS: Final = {
    "get": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
}
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_BOOLEANS: Final = frozenset(
    {
        "allowWatchBookmarks",
        "follow",
        "force",
        "insecureSkipTLSVerifyBackend",
        "orphanDependents",
        "previous",
        "sendInitialEvents",
        "stderr",
        "stdin",
        "stdout",
        "timestamps",
        "tty",
        "watch",
    }
)
_INTEGERS: Final = frozenset(
    {
        "gracePeriodSeconds",
        "limit",
        "limitBytes",
        "ports",
        "sinceSeconds",
        "tailLines",
        "timeoutSeconds",
    }
)
_WITHOUT_RESOURCES: Final = {"policy/v1": ("Eviction",)}
"""Kinds that are described although no resource of their group has them."""


def document(group_version: GroupVersion, version: str) -> Json:
    """Return the document of one group and version."""
    schemas = Schemas()
    paths: Json = {}
    for resource in group_version.resources:
        if not resource.is_absent:
            paths |= _paths(resource, schemas)
    for sub in ("Status", "DeleteOptions"):
        schemas.add(sub)
    for name in _WITHOUT_RESOURCES.get(group_version.api_version, ()):
        schemas.add(name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "podtui", "version": version},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.models.items())),
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey",
                    "description": "Bearer Token authentication",
                    "name": "authorization",
                    "in": "header",
                }
            },
        },
        "security": [{"BearerToken": []}],
    }


def documents(version: str) -> dict[str, Json]:
    """Return all documents by path (``api/v1``)."""
    return {
        served.path: document(served, version)
        for served in group_versions()
        if served.api_version in _WITHOUT_RESOURCES
        or not all(resource.is_absent for resource in served.resources)
    }


def _paths(resource: Served, schemas: Schemas) -> Json:
    kind = resource.kind
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
    base = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    within = ["namespace"] if resource.namespaced else []
    operations = _Operations(resource, schemas)
    paths: Json = {}
    collection = operations.collection()
    if collection:
        paths[f"{base}/{resource.plural}"] = _at(within, collection)
    if resource.namespaced and "get" in collection:
        paths[f"{root}/{resource.plural}"] = _at([], {"get": operations.list_all()})
    if item := operations.item():
        paths[f"{base}/{resource.plural}/{{name}}"] = _at(["name", *within], item)
    for sub in resource.subresources:
        path = f"{base}/{resource.plural}/{{name}}/{sub.name}"
        paths[path] = _at(["name", *within], operations.subresource(sub))
    return paths


def _at(names: Iterable[str], operations: Json) -> Json:
    path = [
        {
            "name": name,
            "in": "path",
            "description": texts().parameters["path"][name],
            "required": True,
            "schema": {"type": "string"},
        }
        for name in names
    ]
    return {**operations, "parameters": [*path, *_query("every")]}


@cache
def _query(*groups: str) -> tuple[Json, ...]:
    """Return the query parameters of some groups of `podtui/explain/kind_texts.toml`."""
    return tuple(
        {
            "name": name.removesuffix("[]"),
            "in": "query",
            "description": text,
            "schema": _parameter(name),
        }
        for group in groups
        for name, text in sorted(texts().parameters[group].items())
    )


def _parameter(name: str) -> Json:
    plain = name.removesuffix("[]")
    kind = "boolean" if plain in _BOOLEANS else "integer" if plain in _INTEGERS else "string"
    if name.endswith("[]"):
        return {"type": "array", "items": {"type": kind}}
    return {"type": kind, "uniqueItems": True}


class _Operations:
    def __init__(self, resource: Served, schemas: Schemas) -> None:
        self._resource = resource
        self._schemas = schemas
        kind = resource.kind
        group = kind.group.partition(".")[0] or "core"
        self._tag = f"{group}_{kind.version}"
        scope = "Namespaced" if resource.namespaced else ""
        self._group = f"{group.capitalize()}{kind.version.capitalize()}"
        self._scope = scope
        self._name = kind.name

    def collection(self) -> Json:
        verbs, operations = self._resource.verbs, dict[str, Any]()
        listed = Kind(self._resource.kind.api_version, f"{self._name}List")
        if "list" in verbs:
            operations["get"] = self._list(f"list{self._group}{self._scope}{self._name}", listed)
        if "create" in verbs:
            operations["post"] = self._write("create", "post", self._resource.kind, "write")
        if "deletecollection" in verbs:
            operations["delete"] = self._delete(
                f"deleteCollection{self._scope}", ("list", "delete")
            )
        return operations

    def list_all(self) -> Json:
        listed = Kind(self._resource.kind.api_version, f"{self._name}List")
        return self._list(f"list{self._group}{self._name}ForAllNamespaces", listed)

    def item(self) -> Json:
        verbs, operations = self._resource.verbs, dict[str, Any]()
        if "get" in verbs:
            operations["get"] = self._read("read", self._resource.kind)
        for verb in ("update", "patch"):
            if verb in verbs:
                group = "patch" if verb == "patch" else "write"
                method = _METHODS[verb]
                operations[method] = self._write(verb, method, self._resource.kind, group)
        if "delete" in verbs:
            operations["delete"] = self._delete(f"delete{self._scope}", ("delete",))
        return operations

    def subresource(self, sub: Subresource) -> Json:
        suffix = sub.name.capitalize()
        operations: Json = {}
        if sub.kind.name.endswith("Options"):
            for verb in sub.verbs:
                method = _METHODS[verb]
                name = f"connect{self._group}{method.capitalize()}{self._scope}{self._name}{suffix}"
                operations[method] = {
                    **self._operation(name, "connect", sub.kind, {"type": "string"}, media="*/*"),
                    "parameters": list(_query(sub.name)),
                }
            return operations
        for verb in sub.verbs:
            method = _METHODS[verb]
            if verb == "get":
                operations[method] = self._read("read", sub.kind, suffix)
                if sub.name == "log":
                    operations[method] = {
                        **self._operation(
                            f"read{self._group}{self._scope}{self._name}{suffix}",
                            "get",
                            sub.kind,
                            {"type": "string"},
                            media="text/plain",
                        ),
                        "parameters": list(_query("log")),
                    }
            else:
                group = "patch" if verb == "patch" else "write"
                operations[method] = self._write(verb, method, sub.kind, group, suffix)
        return operations

    def _operation(
        self,
        name: str,
        action: str,
        kind: Kind,
        schema: Json,
        *,
        codes: tuple[str, ...] = ("200",),
        media: str = "application/json",
    ) -> Json:
        status = self._schemas.add("Status")
        texts = {"200": "OK", "201": "Created", "202": "Accepted"}
        responses: Json = {
            code: {"description": texts[code], "content": {media: {"schema": schema}}}
            for code in codes
        }
        responses["401"] = {"description": "Unauthorized"}
        responses["default"] = {
            "description": "Failure",
            "content": {"application/json": {"schema": status}},
        }
        return {
            "tags": [self._tag],
            "description": f"{action} {kind.name}",
            "operationId": name,
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(kind),
        }

    def _list(self, name: str, listed: Kind) -> Json:
        operation = self._operation(name, "list", self._resource.kind, self._schemas.kind(listed))
        groups = ("list", "watch") if "watch" in self._resource.verbs else ("list",)
        return {**operation, "parameters": list(_query(*groups))}

    def _read(self, verb: str, kind: Kind, suffix: str = "") -> Json:
        name = f"{verb}{self._group}{self._scope}{self._name}{suffix}"
        return self._operation(name, "get", kind, self._schemas.kind(kind))

    def _write(self, verb: str, method: str, kind: Kind, group: str, suffix: str = "") -> Json:
        name = "replace" if verb == "update" else verb
        schema = self._schemas.kind(kind)
        codes = ("200", "201", "202") if method == "post" else ("200", "201")
        operation = self._operation(
            f"{name}{self._group}{self._scope}{self._name}{suffix}",
            {"create": "post", "update": "put"}.get(verb, verb),
            kind,
            schema,
            codes=codes,
        )
        if method == "patch":
            self._schemas.models[f"{META}Patch"] = {
                "description": "A patch; its content type names its format.",
                "type": "object",
            }
            patch = {"$ref": f"{REFERENCE}{META}Patch"}
            content: Json = {media: {"schema": patch} for media in _PATCHES}
            content["application/json-patch+json"] = {
                "schema": {"type": "array", "items": {"type": "object"}}
            }
        else:
            content = {"application/json": {"schema": schema}}
        body = {"content": content, "required": True}
        return {**operation, "parameters": list(_query(group)), "requestBody": body}

    def _delete(self, name: str, groups: tuple[str, ...]) -> Json:
        whole = "list" in groups
        schema = self._schemas.add("Status")
        if not whole and self._name == "Pod":
            schema = self._schemas.kind(self._resource.kind)
        operation = self._operation(
            f"{name[:6]}{self._group}{name[6:]}{self._name}",
            "deletecollection" if whole else "delete",
            self._resource.kind,
            schema,
            codes=("200",) if whole else ("200", "202"),
        )
        options = {"application/json": {"schema": self._schemas.add("DeleteOptions")}}
        body = {"content": options}
        return {**operation, "parameters": list(_query(*groups)), "requestBody": body}
