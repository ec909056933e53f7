"""Services, and the deprecated v1 Endpoints."""

from __future__ import annotations

from datetime import datetime

from podtui.api.selectors import selector_text
from podtui.api.times import since
from podtui.api.v1 import Endpoints, LabelSelector, Service, ServicePort
from podtui.manifest.strategies import services
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cell,
    Columns,
    TableColumn,
    listed,
)

_MOST_ENDPOINTS = 3


def _service(item: Service, now: datetime) -> list[Cell]:
    spec = item.spec
    return [
        item.metadata.name,
        spec.type,
        next(iter(spec.clusterIPs), NONE),
        _external_addresses(item),
        ",".join(map(_port, spec.ports)) or NONE,
        since(item.metadata.creationTimestamp, now),
        selector_text(LabelSelector(matchLabels=spec.selector)),
    ]


def _external_addresses(item: Service) -> str:
    spec = item.spec
    match spec.type:
        case "ClusterIP" | "NodePort":
            return ",".join(spec.externalIPs) or NONE
        case "LoadBalancer":
            entries = item.status.loadBalancer.ingress
            balancers = sorted({entry.ip or entry.hostname for entry in entries} - {""})
            return ",".join((*balancers, *spec.externalIPs)) or "<pending>"
        case "ExternalName":
            return spec.externalName
        case _:
            return UNKNOWN


def _port(port: ServicePort) -> str:
    on_node = f":{port.nodePort}" if port.nodePort else ""
    return f"{port.port}{on_node}/{port.protocol}"


def _endpoints(item: Endpoints, now: datetime) -> list[Cell]:
    addresses = (
        f"[{address.ip}]{port}" if port and ":" in address.ip else f"{address.ip}{port}"
        for subset in item.subsets
        for port in [f":{port.port}" for port in subset.ports] or [""]
        for address in subset.addresses
    )
    shown = listed(addresses, _MOST_ENDPOINTS) if item.subsets else NONE
    return [item.metadata.name, shown, since(item.metadata.creationTimestamp, now)]


ENDPOINTS = Resource(
    api_version="v1",
    plural="endpoints",
    singular="endpoints",
    kind="Endpoints",
    namespaced=True,
    columns=Columns(
        (NAME, TableColumn("Endpoints", "Addresses and ports of the ready endpoints."), AGE),
        _endpoints,
    ),
    short_names=("ep",),
    record="endpoints",
    strategy=services.ENDPOINTS,
    warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)
SERVICES = Resource(
    api_version="v1",
    plural="services",
    singular="service",
    kind="Service",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Type", "Type of the service."),
            TableColumn("Cluster-IP", "First IP address of the service in the cluster."),
            TableColumn("External-IP", "IP addresses outside of the cluster."),
            TableColumn("Port(s)", "Ports of the service, with their node ports and protocols."),
            AGE,
            TableColumn("Selector", "Labels of the pods behind the service.", wide=True),
        ),
        _service,
    ),
    short_names=("svc",),
    categories=("all",),
    fields=("spec.clusterIP", "spec.type"),
    subresources={
        "proxy": ("create", "delete", "get", "patch", "update"),
        "status": ("get", "patch", "update"),
    },
    record="services",
    strategy=services.SERVICES,
    updates={"status": services.SERVICE_STATUS},
)
