"""The kinds of the group networking.k8s.io."""

from __future__ import annotations

from datetime import datetime

from podtui.api.networking import Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR
from podtui.api.selectors import selector_text
from podtui.api.times import since
from podtui.manifest.strategies import networking
from podtui.manifest.validation.ingresses import DEFAULT_CLASS
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, NONE, Cell, Columns, TableColumn

_MOST_HOSTS = 3


def _ingress(item: Ingress, now: datetime) -> list[Cell]:
    spec, entries = item.spec, item.status.loadBalancer.ingress
    return [
        item.metadata.name,
        spec.ingressClassName or NONE,
        _hosts(item),
        ",".join(sorted({entry.ip or entry.hostname for entry in entries} - {""})),
        "80, 443" if spec.tls else "80",
        since(item.metadata.creationTimestamp, now),
    ]


def _hosts(item: Ingress) -> str:
    """Return the first hosts. As in Kubernetes, the number of further ones counts all rules."""
    rules = item.spec.rules
    hosts = [rule.host for rule in rules if rule.host]
    places = [index for index, rule in enumerate(rules) if rule.host]
    complete = len(hosts) < _MOST_HOSTS or places[_MOST_HOSTS - 1] == len(rules) - 1
    shown = ",".join(hosts[:_MOST_HOSTS]) or "*"
    return shown if complete else f"{shown} + {len(rules) - _MOST_HOSTS} more..."


def _ingress_class(item: IngressClass, now: datetime) -> list[Cell]:
    meta, parameters = item.metadata, item.spec.parameters
    default = " (default)" if meta.annotations.get(DEFAULT_CLASS) == "true" else ""
    reference = NONE
    if parameters is not None:
        group = f".{parameters.apiGroup}" if parameters.apiGroup else ""
        reference = f"{parameters.kind}{group}/{parameters.name}"
    age = since(meta.creationTimestamp, now)
    return [meta.name + default, item.spec.controller, reference, age]


def _network_policy(item: NetworkPolicy, now: datetime) -> list[Cell]:
    age = since(item.metadata.creationTimestamp, now)
    return [item.metadata.name, selector_text(item.spec.podSelector), age]


def _ip_address(item: IPAddress, now: datetime) -> list[Cell]:
    parent, reference = item.spec.parentRef, NONE
    if parent is not None:
        group = f".{parent.group}" if parent.group else ""
        parts = (f"{parent.resource}{group}".lower(), parent.namespace, parent.name)
        reference = "/".join(part for part in parts if part)
    return [item.metadata.name, reference]


def _service_cidr(item: ServiceCIDR, now: datetime) -> list[Cell]:
    age = since(item.metadata.creationTimestamp, now)
    return [item.metadata.name, ",".join(item.spec.cidrs), age]


INGRESSES = Resource(
    api_version="networking.k8s.io/v1",
    plural="ingresses",
    singular="ingress",
    kind="Ingress",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Class", "Name of the IngressClass."),
            TableColumn("Hosts", "Hosts of the rules."),
            TableColumn("Address", "Addresses at which the rules are served."),
            TableColumn("Ports", "Ports at which the rules are served."),
            AGE,
        ),
        _ingress,
    ),
    short_names=("ing",),
    subresources={"status": ("get", "patch", "update")},
    record="ingresses",
    strategy=networking.INGRESSES,
    updates={"status": networking.INGRESS_STATUS},
)
INGRESS_CLASSES = Resource(
    api_version="networking.k8s.io/v1",
    plural="ingressclasses",
    singular="ingressclass",
    kind="IngressClass",
    namespaced=False,
    columns=Columns(
        (
            NAME,
            TableColumn("Controller", "Name of the controller that serves Ingresses of the class."),
            TableColumn("Parameters", "Object with further parameters of the class."),
            AGE,
        ),
        _ingress_class,
    ),
    record="ingressclasses",
    strategy=networking.INGRESS_CLASSES,
)
NETWORK_POLICIES = Resource(
    api_version="networking.k8s.io/v1",
    plural="networkpolicies",
    singular="networkpolicy",
    kind="NetworkPolicy",
    namespaced=True,
    columns=Columns(
        (NAME, TableColumn("Pod-Selector", "Labels of the pods to which it applies."), AGE),
        _network_policy,
    ),
    short_names=("netpol",),
    record="networkpolicies",
    strategy=networking.NETWORK_POLICIES,
)
IP_ADDRESSES = Resource(
    api_version="networking.k8s.io/v1",
    plural="ipaddresses",
    singular="ipaddress",
    kind="IPAddress",
    namespaced=False,
    columns=Columns((NAME, TableColumn("ParentRef", "Object that has the address.")), _ip_address),
    short_names=("ip",),
    record="ipaddresses",
    strategy=networking.IP_ADDRESSES,
)
SERVICE_CIDRS = Resource(
    api_version="networking.k8s.io/v1",
    plural="servicecidrs",
    singular="servicecidr",
    kind="ServiceCIDR",
    namespaced=False,
    columns=Columns(
        (NAME, TableColumn("CIDRs", "Ranges for the addresses of Services."), AGE), _service_cidr
    ),
    subresources={"status": ("get", "patch", "update")},
    record="servicecidrs",
    strategy=networking.SERVICE_CIDRS,
    updates={"status": networking.SERVICE_CIDR_STATUS},
)
