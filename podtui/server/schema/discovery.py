"""API discovery: ``/api``, ``/apis`` and the resource lists below them.

Serves both forms: the aggregated document, which kubectl requests since 1.26, and the plain lists.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

import msgspec
from aiohttp import web

from podtui.server.encoding.media_types import negotiate
from podtui.server.schema.catalog import GroupVersion, Kind, Served, group_versions
from podtui.server.status import json_response

KUBERNETES_MINOR = 36
"""The minor version of the served API types; kubectl adapts its behaviour to it."""

_SHAPE = "APIGroupDiscoveryList"
_OTHER_PATHS = (
    "/.well-known/openid-configuration",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
)
"""The paths that are neither resources nor listed by the documents of this module."""


def version_document(version: str) -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": str(KUBERNETES_MINOR),
        "gitVersion": f"v1.{KUBERNETES_MINOR}.0+podtui-{version}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{machine}",
    }


@cache
def routes(version: str) -> Sequence[web.RouteDef]:
    served = group_versions()
    core, named = served[:1], served[1:]
    table = [
        _fixed("/version", version_document(version)),
        _negotiated("/api", _api_versions(), core),
        _negotiated("/apis", _group_list(named), named),
    ]
    for group in _by_group(named):
        document = {**_header("APIGroup"), **_group(group)}
        table.append(_fixed(f"/apis/{group[0].group}", document))
    table += [_fixed(f"/{item.path}", _resource_list(item)) for item in served]
    paths = sorted([*(route.path for route in table), *_OTHER_PATHS])
    # Client libraries write some of the paths with a slash at the end.
    slashed = (web.get(f"{route.path}/", route.handler) for route in table)
    return (*table, *slashed, _fixed("/", {"paths": paths}))


def _fixed(path: str, document: dict[str, Any]) -> web.RouteDef:
    body = msgspec.json.encode(document)

    async def answer(request: web.Request) -> web.Response:
        return json_response(body)

    return web.get(path, answer)


def _negotiated(path: str, plain: dict[str, Any], groups: Sequence[GroupVersion]) -> web.RouteDef:
    bodies = {
        version: msgspec.json.encode(_aggregated(groups, version)) for version in ("v2", "v2beta1")
    }
    tags = {
        version: f'"{hashlib.sha512(body).hexdigest().upper()}"' for version, body in bodies.items()
    }
    bodies[""] = msgspec.json.encode(plain)

    async def answer(request: web.Request) -> web.Response:
        """As in an API server, only the aggregated form has a tag, by which clients keep it."""
        media = negotiate(request.headers.get("Accept", ""), _SHAPE)
        headers = {"Vary": "Accept"}
        if media.shape:
            headers |= {"ETag": tags[media.version], "Cache-Control": "public"}
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers=headers)
            kind = f"application/json;g=apidiscovery.k8s.io;v={media.version};as={_SHAPE}"
            headers["Content-Type"] = kind
        return json_response(bodies[media.version], headers=headers)

    return web.get(path, answer)


def _header(kind: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": "v1"}


def _api_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _by_group(served: Sequence[GroupVersion]) -> list[list[GroupVersion]]:
    """Return the versions of each group, the preferred one first."""
    return [list(versions) for _, versions in groupby(served, key=lambda item: item.group)]


def _group(served: Sequence[GroupVersion]) -> dict[str, Any]:
    versions = [{"groupVersion": item.api_version, "version": item.version} for item in served]
    return {"name": served[0].group, "versions": versions, "preferredVersion": versions[0]}


def _group_list(served: Sequence[GroupVersion]) -> dict[str, Any]:
    groups = [_group(versions) for versions in _by_group(served)]
    return {**_header("APIGroupList"), "groups": groups}


def _resource_list(served: GroupVersion) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for resource in served.resources:
        row = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind.name,
            "verbs": resource.verbs,
        }
        rows.append(row | _lists(resource))
        for sub in resource.subresources:
            other = sub.kind.api_version != served.api_version
            group = {"group": sub.kind.group, "version": sub.kind.version} if other else {}
            rows.append(
                {
                    "name": f"{resource.plural}/{sub.name}",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    **group,
                    "kind": sub.kind.name,
                    "verbs": sub.verbs,
                }
            )
    return {
        **_header("APIResourceList"),
        "groupVersion": served.api_version,
        "resources": rows,
    }


def _lists(resource: Served) -> dict[str, Any]:
    lists = {"shortNames": resource.short_names, "categories": resource.categories}
    return {name: values for name, values in lists.items() if values}


def _aggregated(served: Sequence[GroupVersion], version: str) -> dict[str, Any]:
    items = [
        {
            "metadata": {"name": group[0].group} if group[0].group else {},
            "versions": [
                {
                    "version": item.version,
                    "freshness": "Current",
                    "resources": [_aggregated_resource(r, item) for r in item.resources],
                }
                for item in group
            ],
        }
        for group in _by_group(served)
    ]
    api_version = f"apidiscovery.k8s.io/{version}"
    return {"kind": _SHAPE, "apiVersion": api_version, "metadata": {}, "items": items}


def _aggregated_resource(resource: Served, within: GroupVersion) -> dict[str, Any]:
    document: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource.kind, within),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
        **_lists(resource),
    }
    if resource.subresources:
        document["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(sub.kind, within),
                "verbs": sub.verbs,
            }
            for sub in resource.subresources
        ]
    return document


def _response_kind(kind: Kind, within: GroupVersion) -> dict[str, str]:
    """Group and version are empty where they are those of the list."""
    is_inherited = kind.api_version == within.api_version
    return {
        "group": "" if is_inherited else kind.group,
        "version": "" if is_inherited else kind.version,
        "kind": kind.name,
    }
