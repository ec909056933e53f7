"""Services, and the deprecated v1 Endpoints. `podtui.server.resources.service_addresses` allocates
the addresses and node ports of Services."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.v1 import Endpoints, Service, ServiceSpec, ServiceStatus
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy, with_old_spec
from podtui.manifest.validation.endpoints import endpoints_warnings, validate_endpoints
from podtui.manifest.validation.errors import Errors
from podtui.manifest.validation.services import (
    is_external,
    needs_health_check,
    service_status,
    service_status_warnings,
    service_update,
    service_warnings,
    validate_service,
)

_AFFINITY_SECONDS: Final = 10800


def _endpoints_defaults(tree: Tree) -> None:
    for subset in tree.get("subsets", ()):
        for port in subset.get("ports", ()):
            port["protocol"] = port.get("protocol") or "TCP"


def _endpoints_update_errors(new: Endpoints, old: Endpoints) -> Errors:
    yield from validate_endpoints(new)


def _endpoints_warnings(new: Endpoints, old: Endpoints | None) -> Iterable[str]:
    return endpoints_warnings(new)


def _defaults(tree: Tree) -> None:
    spec: Tree = tree.setdefault("spec", {})
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig", {})
        if config.get("clientIP", {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    kind = spec["type"] = spec.get("type") or "ClusterIP"
    for port in spec.get("ports", ()):
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port["port"]
    external = kind in ("NodePort", "LoadBalancer")
    if external or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if external or kind == "ClusterIP":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for entry in tree.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
            if entry.get("ip"):
                entry.setdefault("ipMode", "VIP")


def _prepare_create(item: Service) -> Service:
    spec = _readable(item.spec)
    if spec.clusterIP and not spec.clusterIPs:
        spec = structs.replace(spec, clusterIPs=(spec.clusterIP,))
    return structs.replace(item, spec=spec, status=ServiceStatus())


def _readable(spec: ServiceSpec) -> ServiceSpec:
    """Return the spec as an API server shows it when it is read."""
    if spec.type != "ExternalName":
        return spec
    return structs.replace(spec, internalTrafficPolicy="")


def _prepare_update(new: Service, old: Service) -> Service:
    """Drop what the type no longer needs, unless the update changes it."""
    spec, kept = _readable(new.spec), old.spec
    spec = _without_ports(_without_addresses(spec, kept), kept)
    if "LoadBalancer" == kept.type != spec.type:
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if getattr(spec, name) == getattr(kept, name):
                spec = structs.replace(spec, **{name: _empty(name)})
    same_policy = spec.externalTrafficPolicy == kept.externalTrafficPolicy
    if is_external(kept) and not is_external(spec) and same_policy:
        spec = structs.replace(spec, externalTrafficPolicy="")
    status = old.status
    if spec.type != "LoadBalancer":
        status = structs.replace(status, loadBalancer=ServiceStatus().loadBalancer)
    return structs.replace(new, spec=spec, status=status)


def _empty(name: str) -> object:
    return getattr(ServiceSpec(), name)


def _without_addresses(spec: ServiceSpec, old: ServiceSpec) -> ServiceSpec:
    if spec.type != "ExternalName" or old.type == "ExternalName":
        return spec
    if (spec.clusterIP, spec.clusterIPs) == (old.clusterIP, old.clusterIPs):
        spec = structs.replace(spec, clusterIP="", clusterIPs=())
    if spec.ipFamilies == old.ipFamilies:
        spec = structs.replace(spec, ipFamilies=())
    if spec.ipFamilyPolicy == old.ipFamilyPolicy:
        spec = structs.replace(spec, ipFamilyPolicy="")
    return spec


def _without_ports(spec: ServiceSpec, old: ServiceSpec) -> ServiceSpec:
    on_nodes = ("NodePort", "LoadBalancer")
    if old.type in on_nodes and spec.type not in on_nodes:
        before = {port.nodePort for port in old.ports}
        if {port.nodePort for port in spec.ports} <= before | {None}:
            ports = tuple(structs.replace(port, nodePort=None) for port in spec.ports)
            spec = structs.replace(spec, ports=ports)
    same = spec.healthCheckNodePort == old.healthCheckNodePort
    if needs_health_check(old) and not needs_health_check(spec) and same:
        spec = structs.replace(spec, healthCheckNodePort=None)
    return spec


def _update_errors(new: Service, old: Service) -> Errors:
    return service_update(new, old)


def _status_errors(new: Service, old: Service) -> Errors:
    return service_status(new)


def _warnings(new: Service, old: Service | None) -> Iterable[str]:
    return service_warnings(new)


def _status_warnings(new: Service, old: Service | None) -> Iterable[str]:
    return service_status_warnings(new)


ENDPOINTS: Final = Strategy(
    struct=Endpoints,
    defaults=_endpoints_defaults,
    validate_create=validate_endpoints,
    validate_update=_endpoints_update_errors,
    warnings=_endpoints_warnings,
    create_on_update=True,
)
SERVICES: Final = Strategy(
    struct=Service,
    defaults=_defaults,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=validate_service,
    validate_update=_update_errors,
    warnings=_warnings,
    create_on_update=True,
    returns_deleted=True,
    serial=True,
)
SERVICE_STATUS: Final = replace(
    SERVICES,
    prepare_update=with_old_spec,
    validate_update=_status_errors,
    warnings=_status_warnings,
    serial=False,
)
