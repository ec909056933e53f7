"""API discovery: ``/api``, ``/apis`` and the resource lists below them.

Serves both forms: the aggregated document, which kubectl requests since 1.26, and the plain lists.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from podtui.server.query import negotiate
from podtui.server.resources import ALL, GROUPS, Resource
from podtui.server.status import json_response

KUBERNETES_MINOR = 36
"""The minor version of the served API types; kubectl adapts its behaviour to it."""

_SHAPE = "APIGroupDiscoveryList"


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


def routes(version: str) -> list[web.RouteDef]:
    table = [
        _fixed("/version", version_document(version)),
        _negotiated("/api", _api_versions(), GROUPS[:1]),
        _negotiated("/apis", _group_list(), GROUPS[1:]),
    ]
    for group in GROUPS:
        if group:
            table.append(_fixed(f"/apis/{group}", {**_header("APIGroup"), **_group(group)}))
        of_group = _resources(group)
        table.append(_fixed(of_group[0].root, _resource_list(of_group)))
    return table


def _fixed(path: str, document: dict[str, Any]) -> web.RouteDef:
    body = msgspec.json.encode(document)

    async def answer(request: web.Request) -> web.Response:
        return json_response(body)

    return web.get(path, answer)


def _negotiated(path: str, plain: dict[str, Any], groups: Sequence[str]) -> web.RouteDef:
    bodies = {
        version: msgspec.json.encode(_aggregated(groups, version)) for version in ("v2", "v2beta1")
    }
    bodies[""] = msgspec.json.encode(plain)

    async def answer(request: web.Request) -> web.Response:
        media = negotiate(request.headers.get("Accept", ""), _SHAPE)
        kind = "application/json"
        if media.shape:
            kind += f";g=apidiscovery.k8s.io;v={media.version};as={_SHAPE}"
        headers = {"Content-Type": kind, "Vary": "Accept"}
        return json_response(bodies[media.version], headers=headers)

    return web.get(path, answer)


def _header(kind: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": "v1"}


def _resources(group: str) -> list[Resource]:
    return [resource for resource in ALL if resource.group == group]


def _api_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group(group: str) -> dict[str, Any]:
    api_version = _resources(group)[0].api_version
    version = {"groupVersion": api_version, "version": api_version.rpartition("/")[2]}
    return {"name": group, "versions": [version], "preferredVersion": version}


def _group_list() -> dict[str, Any]:
    return {**_header("APIGroupList"), "groups": [_group(group) for group in GROUPS if group]}


def _resource_list(resources: Sequence[Resource]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for resource in resources:
        row = {"name": resource.plural, "namespaced": resource.namespaced, "kind": resource.kind}
        rows.append(
            {
                **row,
                "singularName": resource.singular,
                "verbs": resource.verbs,
                "shortNames": resource.short_names,
                "categories": resource.categories,
            }
        )
        rows.extend(
            {**row, "name": f"{resource.plural}/{name}", "singularName": "", "verbs": verbs}
            for name, verbs in resource.subresources.items()
        )
    document = {**_header("APIResourceList"), "groupVersion": resources[0].api_version}
    return {**document, "resources": rows}


def _aggregated(groups: Sequence[str], version: str) -> dict[str, Any]:
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [
                {
                    "version": _resources(group)[0].api_version.rpartition("/")[2],
                    "freshness": "Current",
                    "resources": [_aggregated_resource(r) for r in _resources(group)],
                }
            ],
        }
        for group in groups
    ]
    api_version = f"apidiscovery.k8s.io/{version}"
    return {"kind": _SHAPE, "apiVersion": api_version, "metadata": {}, "items": items}


def _aggregated_resource(resource: Resource) -> dict[str, Any]:
    kind = {
        "group": resource.group,
        "version": resource.api_version.rpartition("/")[2],
        "kind": resource.kind,
    }
    return {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
        "shortNames": resource.short_names,
        "categories": resource.categories,
        "subresources": [
            {"subresource": name, "responseKind": kind, "verbs": verbs}
            for name, verbs in resource.subresources.items()
        ],
    }
