"""Endpoint slices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import structs

from podtui.api.discovery import EndpointSlice
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy, with_meta
from podtui.manifest.validation.endpoint_slices import (
    endpoint_slice_update,
    endpoint_slice_warnings,
    validate_endpoint_slice,
)

API_VERSION: Final = "discovery.k8s.io/v1"


def to_wire(item: EndpointSlice) -> Tree:
    """Return the JSON form: lists and the names of ports are written even if they are empty."""
    tree: Tree = {"endpoints": None, "ports": None} | msgspec.to_builtins(item)
    if tree["ports"]:
        tree["ports"] = [{"name": ""} | port for port in tree["ports"]]
    return tree | {"apiVersion": API_VERSION, "kind": "EndpointSlice"}


def _defaults(tree: Tree) -> None:
    for port in tree.get("ports", ()):
        port["protocol"] = port.get("protocol") or "TCP"


def _without_topology(item: EndpointSlice) -> EndpointSlice:
    """Drop the topology labels, which exist for the version v1beta1."""
    return structs.replace(
        item,
        endpoints=tuple(
            structs.replace(endpoint, deprecatedTopology={}) for endpoint in item.endpoints
        ),
    )


def _prepare_create(item: EndpointSlice) -> EndpointSlice:
    return with_meta(_without_topology(item), generation=1)


def _prepare_update(new: EndpointSlice, old: EndpointSlice) -> EndpointSlice:
    new = _without_topology(new)
    changed = new.metadata.labels != old.metadata.labels or new != structs.replace(
        old, metadata=new.metadata
    )
    return with_meta(new, generation=(old.metadata.generation or 0) + changed)


def _warnings(new: EndpointSlice, old: EndpointSlice | None) -> Iterable[str]:
    if old is None and new.addressType == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    yield from endpoint_slice_warnings(new)


ENDPOINT_SLICES: Final = Strategy(
    struct=EndpointSlice,
    defaults=_defaults,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=validate_endpoint_slice,
    validate_update=endpoint_slice_update,
    warnings=_warnings,
)
