"""The Service ``kube-system/kube-dns``, as kubeadm publishes it, without the port of metrics.

It has neither a selector nor endpoints: the rules of a pod lead its address to a listener in the
pod's own network.
"""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    ObjectMeta,
    Service,
    ServicePort,
)
from podtui.clock import Clock
from podtui.server.resources.cluster_services import cluster_service, correct_service
from podtui.store.protocol import Records

ADDRESS: Final = "10.96.0.10"
_PORT: Final = 53


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
        ADDRESS,
        ServicePort(name="dns", port=_PORT, protocol="UDP", targetPort=_PORT),
        ServicePort(name="dns-tcp", port=_PORT, protocol="TCP", targetPort=_PORT),
    )


async def publish_dns_service(records: Records, clock: Clock) -> None:
    """Create the Service, or correct that of an earlier start."""
    await correct_service(records, dns_service(), clock)
