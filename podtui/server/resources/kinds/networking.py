"""The kinds of the group networking.k8s.io."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import networking

INGRESSES = Resource(
    api_version="networking.k8s.io/v1",
    plural="ingresses",
    singular="ingress",
    kind="Ingress",
    namespaced=True,
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
    record="ingressclasses",
    strategy=networking.INGRESS_CLASSES,
)
NETWORK_POLICIES = Resource(
    api_version="networking.k8s.io/v1",
    plural="networkpolicies",
    singular="networkpolicy",
    kind="NetworkPolicy",
    namespaced=True,
    short_names=("netpol",),
    record="networkpolicies",
    strategy=networking.NETWORK_POLICIES,
)
