"""The network of a Service or an Ingress, as rows of one table: URLs, names,
ports or routes, endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from podtui.api.networking import Ingress
from podtui.api.urls import ingress_urls, published_ports
from podtui.api.v1 import Service
from podtui.client.any_kind import TableColumn, TableRow
from podtui.tui.model.model import pod_key
from podtui.tui.widgets.cells import Cell, Column, ColumnValue, Row, content_of, text_field
from podtui.tui.widgets.sanitize import clean
from podtui.why.endpoints import EndpointHealth, endpoints_of, is_headless, service_names
from podtui.why.ingresses import routes_of
from podtui.why.inventory import Inventory
from podtui.why.services import target_text

NETWORK_KINDS: Final = frozenset({"services", "ingresses.networking.k8s.io"})


def with_endpoints(inventory: Inventory, row: TableRow) -> TableRow:
    """Return the row of a Service with the column Ready: the ready endpoints of all."""
    meta = row.metadata
    item = inventory.get(Service, meta.namespace, meta.name)
    cell = ""
    if item is not None and item.spec.type != "ExternalName":
        endpoints = endpoints_of(inventory, item)
        cell = f"{sum(endpoint.is_ready for endpoint in endpoints)}/{len(endpoints)}"
    return TableRow(
        meta,
        (*row.cells[:1], cell, *row.cells[1:]),
        (*row.columns[:1], TableColumn("Ready"), *row.columns[1:]),
    )


class NetworkEntry(Struct, frozen=True):
    """One row. ``value`` is what is copied; all texts are sanitized. ``url`` can be opened in a
    browser, ``pod`` is the key of the pod of an endpoint."""

    what: str
    value: str
    state: str = ""
    tone: str = ""
    detail: str = ""
    url: str = ""
    pod: str = ""


def network_entries(inventory: Inventory, item: Any) -> list[NetworkEntry]:
    """Return the rows about a Service or an Ingress."""
    if isinstance(item, Ingress):
        return [*_ingress_urls(item), *_routes(inventory, item)]
    if not isinstance(item, Service):
        return []
    endpoints = endpoints_of(inventory, item)
    return [
        *service_urls(item),
        *(
            NetworkEntry("name", clean(name), detail=clean(f"→ {target}" if target else ""))
            for name, target in service_names(item, endpoints)
        ),
        *_ports(item),
        *_endpoints(item, endpoints),
    ]


def service_urls(item: Service) -> list[NetworkEntry]:
    """Return the addresses of a Service outside of the cluster."""
    published = [
        NetworkEntry(
            "URL" if port.url else "address",
            clean(port.url or port.address),
            detail=clean(f"→ {port.port}/{port.protocol}" + (f" {port.name}" if port.name else "")),
            url=port.url,
        )
        for port in published_ports(item)
    ]
    if published:
        return published
    return [
        NetworkEntry("address", clean(f"{host}:{port.port}"), detail="load balancer")
        for entry in item.status.loadBalancer.ingress
        if (host := entry.hostname or entry.ip)
        for port in item.spec.ports
    ]


def _ingress_urls(item: Ingress) -> Iterator[NetworkEntry]:
    urls = ingress_urls(item)
    for each in urls:
        detail = ""
        if not each.resolves:
            detail = f"as {each.url} once {each.host} leads to {each.address}"
        yield NetworkEntry("URL", clean(each.local_url), detail=clean(detail), url=each.local_url)
    if urls:
        return
    for entry in item.status.loadBalancer.ingress:
        if host := entry.hostname or entry.ip:
            yield NetworkEntry("address", clean(host), detail="of the controller")


def _routes(inventory: Inventory, item: Ingress) -> Iterator[NetworkEntry]:
    for route in routes_of(inventory, item):
        backend = route.backend.service
        target = ""
        if backend is not None:
            target = f"→ {backend.name}:{backend.port.name or backend.port.number or ''}"
        problem = route.problem
        if not problem and route.service is not None:
            endpoints = endpoints_of(inventory, route.service)
            if not any(endpoint.is_ready for endpoint in endpoints):
                problem = "no ready endpoints"
        detail = f"{target}  {problem}" if problem else target
        state, tone = ("✖ broken", "error") if problem else ("● ok", "running")
        yield NetworkEntry("route", clean(route.shown), state, tone, clean(detail))


def _ports(item: Service) -> Iterator[NetworkEntry]:
    for port in item.spec.ports:
        text = f"{port.port}/{port.protocol or 'TCP'}" + (f" {port.name}" if port.name else "")
        if is_headless(item):
            detail = "no mapping: clients connect to the port of the pods"
        else:
            detail = f"→ {target_text(port)} of the pods"
        if port.nodePort:
            detail += f", node port {port.nodePort}"
        yield NetworkEntry("port", clean(text), detail=clean(detail))


def _endpoints(item: Service, endpoints: Sequence[EndpointHealth]) -> Iterator[NetworkEntry]:
    for endpoint in endpoints:
        ports = ",".join(str(number) for _, number in endpoint.ports)
        address = endpoint.address or "no address yet"
        host = f"[{address}]" if ":" in address else address
        pod = endpoint.pod
        name = pod.metadata.name if pod is not None else ""
        detail = f"{name}: {endpoint.problem}" if endpoint.problem and name else (
            endpoint.problem or name)  # fmt: skip
        if endpoint.is_ready:
            state, tone = "● ready", "running"
        elif item.spec.publishNotReadyAddresses and endpoint.address:
            state, tone = "◐ published", "unready"
        else:
            state, tone = "✖ not ready", "error"
        yield NetworkEntry(
            "endpoint",
            clean(f"{host}:{ports}" if ports else address),
            state,
            tone,
            clean(detail),
            pod=pod_key(pod) if pod is not None else "",
        )


class _Numbered(Struct, frozen=True):
    """An entry with its position: the rows keep their order."""

    number: int
    entry: NetworkEntry


NETWORK_COLUMNS: Final = (
    Column("what", "WHAT", 90, minimum=8, maximum=8,
           of=lambda each: ColumnValue(Cell(each.entry.what, "muted"), each.number,
                                       each.entry.what)),
    Column("value", "VALUE", 100, minimum=34, maximum=70, flexible=True, middle_cut=True,
           of=lambda each: text_field(each.entry.value, "key" if each.entry.url else "name")),
    Column("state", "STATE", 85, minimum=11, maximum=11,
           of=lambda each: text_field(each.entry.state, each.entry.tone)),
    Column("detail", "DETAIL", 80, minimum=12, maximum=400, flexible=True, filling=True,
           of=lambda each: text_field(each.entry.detail, "soft")),
)  # fmt: skip


def network_rows(entries: Sequence[NetworkEntry]) -> dict[str, tuple[NetworkEntry, Row]]:
    """Return the entries with their rows, by the keys of the rows."""
    result: dict[str, tuple[NetworkEntry, Row]] = {}
    for number, entry in enumerate(entries):
        key = f"{entry.what}:{entry.value}:{entry.pod}"
        while key in result:
            key += "+"
        row = Row(
            key,
            *content_of(NETWORK_COLUMNS, _Numbered(number, entry)),
            search=f"{entry.what} {entry.value} {entry.state} {entry.detail}",
            summary=entry.value,
            fault=entry.tone == "error",
        )
        result[key] = (entry, row)
    return result
