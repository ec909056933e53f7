"""The kinds of the group discovery.k8s.io."""

from __future__ import annotations

from datetime import datetime

from podtui.api.discovery import EndpointSlice
from podtui.api.times import since
from podtui.manifest.strategies import discovery
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn, listed

_MOST = 3
_UNSET = "<unset>"


def _endpoint_slice(item: EndpointSlice, now: datetime) -> list[Cell]:
    ports = (port.name if port.port is None else str(port.port) for port in item.ports)
    addresses = (address for endpoint in item.endpoints for address in endpoint.addresses)
    return [
        item.metadata.name,
        item.addressType,
        listed(ports, _MOST) or _UNSET,
        listed(addresses, _MOST) or _UNSET,
        since(item.metadata.creationTimestamp, now),
    ]


ENDPOINT_SLICES = Resource(
    api_version=discovery.API_VERSION,
    plural="endpointslices",
    singular="endpointslice",
    kind="EndpointSlice",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("AddressType", "Type of the addresses: IPv4, IPv6 or FQDN."),
            TableColumn("Ports", "Ports of all endpoints in the slice."),
            TableColumn("Endpoints", "Addresses of the endpoints."),
            AGE,
        ),
        _endpoint_slice,
    ),
    record="endpointslices",
    strategy=discovery.ENDPOINT_SLICES,
    to_wire=discovery.to_wire,
)
