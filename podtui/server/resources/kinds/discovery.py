"""The kinds of the group discovery.k8s.io."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import discovery

ENDPOINT_SLICES = Resource(
    api_version="discovery.k8s.io/v1",
    plural="endpointslices",
    singular="endpointslice",
    kind="EndpointSlice",
    namespaced=True,
    record="endpointslices",
    strategy=discovery.ENDPOINT_SLICES,
)
