"""The Services of the cluster itself. ``kube-system/kube-dns`` is as kubeadm publishes it, without
the port of metrics; `podtui.server.resources.kubernetes_service` publishes the other one.

They have no selectors. kube-dns has no endpoints, either: the rules of a pod lead its address to a
listener in the pod's own network.
"""

from __future__ import annotations

from typing import Final

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

DNS_ADDRESS: Final = "10.96.0.10"
_DNS_PORT: Final = 53


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


def dns_service() -> Service:
    meta = ObjectMeta(
        name="kube-dns",
        namespace="kube-system",
        # kubectl cluster-info lists the Services with the second label, by the third.
        labels={
            "k8s-app": "kube-dns",
            "kubernetes.io/cluster-service": "true",
            "kubernetes.io/name": "CoreDNS",
        },
    )
    return cluster_service(
        meta,
        DNS_ADDRESS,
        ServicePort(name="dns", port=_DNS_PORT, protocol="UDP", targetPort=_DNS_PORT),
        ServicePort(name="dns-tcp", port=_DNS_PORT, protocol="TCP", targetPort=_DNS_PORT),
    )


async def publish_dns_service(records: Records, clock: Clock) -> None:
    """Create the Service, or correct that of an earlier start."""
    await correct_service(records, dns_service(), clock)
