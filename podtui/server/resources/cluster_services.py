"""The Services of the cluster itself, as an API server and kubeadm publish them."""

from __future__ import annotations

from msgspec import structs

from podtui.api.times import rfc3339
from podtui.api.v1 import (
    LoadBalancerStatus,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from podtui.clock import Clock
from podtui.server.resources.field_managers import API_SERVER, managed
from podtui.store.protocol import Records


def cluster_service(meta: ObjectMeta, address: str, *ports: ServicePort) -> Service:
    """Return a Service without a selector."""
    return Service(
        metadata=meta,
        spec=ServiceSpec(
            type="ClusterIP",
            clusterIP=address,
            clusterIPs=(address,),
            internalTrafficPolicy="Cluster",
            ipFamilies=("IPv4",),
            ipFamilyPolicy="SingleStack",
            ports=ports,
            sessionAffinity="None",
        ),
        status=ServiceStatus(loadBalancer=LoadBalancerStatus()),
    )


async def correct_service(records: Records, service: Service, clock: Clock) -> None:
    """Create a Service of the cluster itself, or give the stored one its spec."""
    meta = service.metadata
    stored = await records.get("services", meta.namespace, meta.name)
    old = stored if isinstance(stored, Service) else None
    if old is not None:
        if old.spec == service.spec:
            return
        service = structs.replace(service, metadata=old.metadata)
    now = rfc3339(clock.now())
    await records.put("services", managed(service, old, manager=API_SERVER, now=now))
