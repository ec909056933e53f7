"""The Service ``kube-system/kube-dns``, as kubeadm publishes it, without the port of metrics.

It has neither a selector nor endpoints: the rules of a pod lead its address to a listener in the
pod's own network.
"""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    LoadBalancerStatus,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from podtui.clock import Clock
from podtui.server.resources.kubernetes_service import correct_service
from podtui.store.protocol import Records

ADDRESS: Final = "10.96.0.10"
_PORT: Final = 53


def dns_service() -> Service:
    return Service(
        metadata=ObjectMeta(
            name="kube-dns",
            namespace="kube-system",
            # kubectl cluster-info lists the Services with the second label, by the third.
            labels={
                "k8s-app": "kube-dns",
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
        ),
        spec=ServiceSpec(
            type="ClusterIP",
            clusterIP=ADDRESS,
            clusterIPs=(ADDRESS,),
            internalTrafficPolicy="Cluster",
            ipFamilies=("IPv4",),
            ipFamilyPolicy="SingleStack",
            ports=(
                ServicePort(name="dns", port=_PORT, protocol="UDP", targetPort=_PORT),
                ServicePort(name="dns-tcp", port=_PORT, protocol="TCP", targetPort=_PORT),
            ),
            sessionAffinity="None",
        ),
        status=ServiceStatus(loadBalancer=LoadBalancerStatus()),
    )


async def publish_dns_service(records: Records, clock: Clock) -> None:
    """Create the Service, or correct that of an earlier start."""
    await correct_service(records, dns_service(), clock)
