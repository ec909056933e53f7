"""The OpenAPI documents describe what is served, and are consistent."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from podtui.api import fields
from podtui.api.v1 import ObjectMeta, Struct
from podtui.explain.kind_texts import texts
from podtui.server.resources import definitions
from podtui.server.resources.resource import AnyResource, Resource
from podtui.server.schema import catalog, openapi, openapi_v2
from podtui.server.schema.catalog import GroupVersion
from podtui.server.schema.openapi_schemas import REFERENCE

DOCUMENTS = openapi.documents("0.0.test")
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref":
                yield item
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_reference_leads_to_a_schema(path: str) -> None:
    known = DOCUMENTS[path]["components"]["schemas"]
    assert {ref.removeprefix(REFERENCE) for ref in references(DOCUMENTS[path])} <= set(known)
    assert all(schema for schema in known.values())


def test_operations_have_unique_names() -> None:
    names = Counter(
        operation["operationId"]
        for document in DOCUMENTS.values()
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    )
    assert len(names) > 20
    assert max(names.values()) == 1


def described() -> list[GroupVersion]:
    """Return the groups with a document: those that have objects, or kinds of requests."""
    return [
        served
        for served in catalog.group_versions()
        if served.group == "policy" or not all(one.is_absent for one in served.resources)
    ]


def test_every_served_resource_and_subresource_has_a_path() -> None:
    methods = {"get": "get", "create": "post", "update": "put", "patch": "patch"}
    methods["delete"] = "delete"
    for served in described():
        paths = DOCUMENTS[served.path]["paths"]
        for resource in served.resources:
            if resource.is_absent:
                continue
            scope = "/namespaces/{namespace}" if resource.namespaced else ""
            collection = f"/{served.path}{scope}/{resource.plural}"
            item = f"{collection}/{{name}}"
            for verb in resource.verbs:
                if verb in ("list", "create", "deletecollection"):
                    method = {"list": "get", "create": "post"}.get(verb, "delete")
                    assert method in paths[collection], verb
                elif verb != "watch":
                    assert methods.get(verb, verb) in paths[item], verb
            for sub in resource.subresources:
                for verb in sub.verbs:
                    assert methods[verb] in paths[f"{item}/{sub.name}"], (sub.name, verb)


def test_every_kind_has_its_schema() -> None:
    for served in described():
        found = {
            (kind["group"], kind["version"], kind["kind"])
            for schema in DOCUMENTS[served.path]["components"]["schemas"].values()
            for kind in schema.get("x-kubernetes-group-version-kind", ())
        }
        for resource in served.resources:
            kind = (served.group, served.version, resource.kind.name)
            assert (kind in found) != resource.is_absent


class Widget(Struct, frozen=True, kw_only=True):
    """A thing to show."""

    apiVersion: str = "widgets.example.com/v1"
    kind: str = "Widget"
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    description: str = ""


def test_a_declaration_is_enough_to_describe_a_kind_that_is_only_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added: AnyResource = Resource(
        api_version="widgets.example.com/v1",
        plural="widgets",
        singular="widget",
        kind="Widget",
        namespaced=False,
        live_struct=Widget,
    )
    monkeypatch.setattr(definitions, "ALL", (*definitions.ALL, added))
    group = catalog.group_versions()[-1]
    assert group.path == "apis/widgets.example.com/v1"
    document = openapi.document(group, "0.0.test")
    assert "/apis/widgets.example.com/v1/widgets/{name}" in document["paths"]
    schemas = document["components"]["schemas"]
    model = "io.k8s.api.widgets.v1.Widget"
    assert schemas[model]["properties"]["value"] == {"type": "integer"}
    assert schemas[model]["description"] == "A thing to show."
    # A field may have the name of a keyword.
    assert schemas[model]["properties"]["description"] == {"type": "string"}
    items = schemas[f"{model}List"]["properties"]["items"]["items"]
    assert items == {"$ref": REFERENCE + model}


def test_every_kind_that_clients_write_has_the_properties_that_patches_need() -> None:
    for resource in definitions.ALL:
        if resource.strategy is not None:
            assert fields.name_of_kind(resource.api_version, resource.kind), resource.kind


def test_kubectl_finds_how_patches_merge_lists() -> None:
    schemas = DOCUMENTS["api/v1"]["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    port = schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert port["x-kubernetes-int-or-string"] is True
    ephemeral = "/api/v1/namespaces/{namespace}/pods/{name}/ephemeralcontainers"
    patch = DOCUMENTS["api/v1"]["paths"][ephemeral]["patch"]
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}


def test_values_of_enumerations_are_listed() -> None:
    schemas = DOCUMENTS["api/v1"]["components"]["schemas"]
    policy = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"]
    assert policy["enum"] == ["Always", "Never", "OnFailure"]
    assert policy["description"].endswith(
        'Possible enum values:\n - `"Always"`\n - `"Never"`\n - `"OnFailure"`'
    )
    claim = schemas["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"]
    assert "ReadWriteOnce" in claim["accessModes"]["items"]["enum"]
    pod = openapi_v2.combined(DOCUMENTS.values())["definitions"]["io.k8s.api.core.v1.PodSpec"]
    assert pod["properties"]["restartPolicy"]["enum"] == policy["enum"]


def test_every_field_of_a_workload_has_a_text() -> None:
    schemas = DOCUMENTS["apis/apps/v1"]["components"]["schemas"]
    groups = ("io.k8s.api.apps.v1.", "io.k8s.api.autoscaling.v1.")
    own = {
        name.rpartition(".")[2]: schema
        for name, schema in schemas.items()
        if name.startswith(groups) and not name.endswith("List")
    }
    assert {"ControllerRevision", "DaemonSet", "Deployment", "Scale", "StatefulSet"} <= own.keys()
    for name, schema in own.items():
        assert schema["description"], name
        for field, described in schema["properties"].items():
            assert described.get("description"), (name, field)


def test_texts_are_about_existing_types_and_fields() -> None:
    known = fields.types()
    assert set(texts().types) <= set(known)
    for owner, described in texts().fields.items():
        if owner != "every":
            assert set(described) <= set(known[owner].fields), owner
    groups = {"path", "every", "list", "watch", "write", "patch", "delete"}
    subresources = {"log", "exec", "attach", "portforward", "proxy"}
    assert set(texts().parameters) == groups | subresources


async def test_the_index_names_each_document_by_its_digest(http: aiohttp.ClientSession) -> None:
    index = (await (await http.get("/openapi/v3")).json())["paths"]
    assert set(index) == {served.path for served in described()}
    address = index["api/v1"]["serverRelativeURL"]
    async with http.get(address) as response:
        document = await response.json()
        tag = response.headers["ETag"]
        assert "immutable" in response.headers["Cache-Control"]
    assert "io.k8s.api.core.v1.Pod" in document["components"]["schemas"]
    async with http.get("/openapi/v3/api/v1", headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")
    async with http.get("/openapi/v3/api/v1?hash=0", allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (301, address)
    async with http.get("/openapi/v3/api/v2") as response:
        assert response.status == 404


async def test_documents_are_sent_compressed_if_wanted(http: aiohttp.ClientSession) -> None:
    headers = {"Accept-Encoding": "gzip"}
    async with http.get("/openapi/v3/api/v1", headers=headers) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        small = int(response.headers["Content-Length"])
        packed = await response.json()
    async with http.get("/openapi/v3/api/v1", headers={"Accept-Encoding": "identity"}) as response:
        assert int(response.headers["Content-Length"]) > 4 * small
        assert await response.json() == packed


async def test_version_2_as_json_and_protobuf(http: aiohttp.ClientSession) -> None:
    async with http.get("/openapi/v2", headers={"Accept": "application/json"}) as response:
        document = await response.json()
    assert document["swagger"] == "2.0"
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert set(document["paths"]) == {
        path for served in DOCUMENTS.values() for path in served["paths"]
    }
    async with http.get("/openapi/v2", headers={"Accept": PROTOBUF}) as response:
        assert response.content_type.endswith("+protobuf")
        encoded = await response.read()
    assert encoded == openapi_v2.encode(document)


def test_protobuf_of_a_small_document() -> None:
    # Decoded by gnostic's own reader: one model, one path with a PATCH of one parameter.
    query = {"name": "n", "in": "query", "type": "string"}
    document = {
        "swagger": "2.0",
        "info": {"title": "t", "version": "1"},
        "paths": {"/a": {"patch": {"parameters": [query]}}},
        "definitions": {"M": {"type": "object", "x-y": [1]}},
    }
    assert openapi_v2.encode(document) == (
        b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x011"
        b"B\x24\x12\x22\x0a\x02/a\x12\x1cB\x1aB\x18\x0a\x16\x12\x14\x1a\x12"
        b"\x22\x01n\x12\x05query2\x06string"
        b"J\x21\x0a\x1f\x0a\x01M\x12\x1a\xb2\x01\x08\x0a\x06object\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]"
    )


def test_documents_are_small_when_compressed() -> None:
    # They are kept for as long as the agent runs.
    packed = sum(len(gzip.compress(json.dumps(d).encode())) for d in DOCUMENTS.values())
    assert packed < 200_000
