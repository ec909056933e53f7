"""The Service ``default/kubernetes`` and its endpoint, as an API server publishes them.

The endpoint is where the API listens on this machine, usually a loopback address. Pods do not reach
it: the rules of a pod lead the address of the Service to a listener in the pod's own network.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from msgspec import structs

from podtui.api import v1
from podtui.api.discovery import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    ObjectMeta,
    Service,
    ServicePort,
)
from podtui.clock import Clock
from podtui.pki.access_point import AccessPoint
from podtui.pki.certificates import CLUSTER_ADDRESS
from podtui.server.resources.cluster_services import cluster_service, correct_service
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.field_managers import API_SERVER, managed
from podtui.store.protocol import Change, Records
from podtui.store.resources import Resource

_NAMESPACE: Final = "default"
_NAME: Final = "kubernetes"
API_SERVICE: Final = (_NAMESPACE, _NAME)
_PORT_NAME: Final = "https"
PORT: Final = 443
_RESOURCES: Final[tuple[Resource, ...]] = ("services", "endpoints", "endpointslices")


def kubernetes_service(port: int) -> Service:
    """``port`` is that of the API."""
    meta = ObjectMeta(
        name=_NAME,
        namespace=_NAMESPACE,
        labels={"component": "apiserver", "provider": "kubernetes"},
    )
    https = ServicePort(name=_PORT_NAME, port=PORT, protocol="TCP", targetPort=port)
    return cluster_service(meta, CLUSTER_ADDRESS, https)


def kubernetes_endpoints(point: AccessPoint) -> Endpoints:
    return Endpoints(
        metadata=ObjectMeta(
            name=_NAME,
            namespace=_NAMESPACE,
            labels={"endpointslice.kubernetes.io/skip-mirror": "true"},
        ),
        subsets=(
            EndpointSubset(
                addresses=(EndpointAddress(ip=point.reached_at),),
                ports=(v1.EndpointPort(name=_PORT_NAME, port=point.port, protocol="TCP"),),
            ),
        ),
    )


def kubernetes_slice(point: AccessPoint) -> EndpointSlice:
    version = ipaddress.ip_address(point.reached_at).version
    return EndpointSlice(
        metadata=ObjectMeta(
            name=_NAME,
            namespace=_NAMESPACE,
            labels={"kubernetes.io/service-name": _NAME},
        ),
        addressType=f"IPv{version}",
        endpoints=(
            Endpoint(addresses=(point.reached_at,), conditions=EndpointConditions(ready=True)),
        ),
        ports=(EndpointPort(name=_PORT_NAME, port=point.port, protocol="TCP"),),
    )


class KubernetesService:
    """Publishes the objects for an API at ``point``; removes them if the API has no port (None).

    As in a cluster, they come back when they are deleted, and a changed endpoint is corrected; a
    changed Service stays until the next start.
    """

    def __init__(self, records: Records, point: AccessPoint | None, clock: Clock) -> None:
        self._records = records
        self._point = point
        self._clock = clock

    async def prepare(self) -> None:
        """Publish the objects, and correct the Service of an earlier start."""
        if self._point is None:
            for resource in _RESOURCES:
                await self._records.delete(resource, *API_SERVICE)
            return
        await correct_service(self._records, kubernetes_service(self._point.port), self._clock)
        await self._publish(self._point)

    async def run(self) -> None:
        """Publish the objects again after changes. Runs forever."""
        await run_control_loop(
            "service of the API", self._records, _RESOURCES, matters=_is_own, sync=self._sync
        )

    async def _sync(self) -> None:
        if self._point is not None:
            await self._publish(self._point)

    async def _publish(self, point: AccessPoint) -> None:
        if await self._records.get("services", *API_SERVICE) is None:
            service = kubernetes_service(point.port)
            await self._records.put("services", managed(service, None, **self._writer()))
        await self._publish_endpoints(kubernetes_endpoints(point))
        await self._publish_slice(kubernetes_slice(point))

    async def _publish_endpoints(self, wanted: Endpoints) -> None:
        stored = await self._records.get("endpoints", *API_SERVICE)
        old = stored if isinstance(stored, Endpoints) else None
        if old is not None:
            if (old.metadata.labels, old.subsets) == (wanted.metadata.labels, wanted.subsets):
                return
            meta = structs.replace(old.metadata, labels=wanted.metadata.labels)
            wanted = structs.replace(wanted, metadata=meta)
        await self._records.put("endpoints", managed(wanted, old, **self._writer()))

    async def _publish_slice(self, wanted: EndpointSlice) -> None:
        stored = await self._records.get("endpointslices", *API_SERVICE)
        old = stored if isinstance(stored, EndpointSlice) else None
        generation = 1
        if old is not None:
            labels = wanted.metadata.labels
            same = structs.replace(wanted, metadata=old.metadata)
            if old == same and old.metadata.labels == labels:
                return
            generation += old.metadata.generation or 0
            wanted = structs.replace(same, metadata=structs.replace(old.metadata, labels=labels))
        meta = structs.replace(wanted.metadata, generation=generation)
        wanted = structs.replace(wanted, metadata=meta)
        await self._records.put("endpointslices", managed(wanted, old, **self._writer()))

    def _writer(self) -> dict[str, str]:
        return {"manager": API_SERVER, "now": rfc3339(self._clock.now())}


async def _is_own(resource: Resource, change: Change) -> bool:
    meta = None if change.object is None else change.object.metadata
    return meta is not None and (meta.namespace, meta.name) == API_SERVICE
