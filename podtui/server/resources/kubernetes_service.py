"""The Service ``default/kubernetes``, under which programs look for the API.

It has no cluster IP, because podtui has no proxy for Services.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.v1 import (
    LoadBalancerStatus,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from podtui.store.protocol import Records

_NAMESPACE: Final = "default"
_NAME: Final = "kubernetes"


def kubernetes_service(port: int) -> Service:
    """``port`` is that of the API."""
    return Service(
        metadata=ObjectMeta(
            name=_NAME,
            namespace=_NAMESPACE,
            labels={"component": "apiserver", "provider": "kubernetes"},
        ),
        spec=ServiceSpec(
            type="ClusterIP",
            clusterIP="None",
            clusterIPs=("None",),
            internalTrafficPolicy="Cluster",
            ipFamilies=("IPv4",),
            ipFamilyPolicy="SingleStack",
            ports=(ServicePort(name="https", port=port, protocol="TCP", targetPort=port),),
            sessionAffinity="None",
        ),
        status=ServiceStatus(loadBalancer=LoadBalancerStatus()),
    )


async def publish_service(records: Records, port: int) -> None:
    """Create or correct the Service. With port 0, for an API without a port, remove it."""
    if not port:
        await records.delete("services", _NAMESPACE, _NAME)
        return
    service = kubernetes_service(port)
    stored = await records.get("services", _NAMESPACE, _NAME)
    if isinstance(stored, Service):
        service = structs.replace(service, metadata=stored.metadata)
    await records.put("services", service)
