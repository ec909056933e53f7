"""Ingresses, their classes, network policies, and the addresses of Services."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.names import FOREIGN_INGRESS_ANNOTATIONS
from podtui.api.networking import (
    Ingress,
    IngressClass,
    IPAddress,
    NetworkPolicy,
    ServiceCIDR,
    ServiceCIDRStatus,
)
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import (
    Strategy,
    counted,
    with_meta,
    with_old_spec,
    with_old_status,
    without_status,
)
from podtui.manifest.validation.addresses import parse_range
from podtui.manifest.validation.cluster_addresses import (
    ip_address_update,
    service_cidr_update,
    validate_ip_address,
    validate_service_cidr,
)
from podtui.manifest.validation.errors import Errors
from podtui.manifest.validation.ingresses import (
    CLASS_ANNOTATION,
    ingress_class_update,
    ingress_status,
    ingress_status_warnings,
    ingress_update,
    validate_ingress,
    validate_ingress_class,
)
from podtui.manifest.validation.network_policies import (
    network_policy_spec,
    network_policy_warnings,
    validate_network_policy,
)

NO_POLICY: Final = "the NetworkPolicy is stored, but podtui does not enforce it"


def _ingress_update_errors(new: Ingress, old: Ingress) -> Errors:
    yield from ingress_update(new)


def _ingress_status_errors(new: Ingress, old: Ingress) -> Errors:
    yield from ingress_status(new)


def _ingress_warnings(new: Ingress, old: Ingress | None) -> Iterable[str]:
    names = sorted(new.metadata.annotations)
    if ignored := [name for name in names if name.startswith(FOREIGN_INGRESS_ANNOTATIONS)]:
        yield f"annotations for other Ingress controllers have no effect: {', '.join(ignored)}"
    annotated = CLASS_ANNOTATION in new.metadata.annotations
    if old is None and annotated and not new.spec.ingressClassName:
        yield (
            f'annotation "{CLASS_ANNOTATION}" is deprecated, please use'
            " 'spec.ingressClassName' instead"
        )


def _ingress_status_warnings(new: Ingress, old: Ingress | None) -> Iterable[str]:
    return ingress_status_warnings(new)


def _class_defaults(tree: Tree) -> None:
    parameters = tree.get("spec", {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _prepare_class(item: IngressClass) -> IngressClass:
    return with_meta(item, generation=1)


def _policy_defaults(tree: Tree) -> None:
    spec: Tree = tree.setdefault("spec", {})
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port["protocol"] = port.get("protocol") or "TCP"
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _prepare_policy(item: NetworkPolicy) -> NetworkPolicy:
    return with_meta(item, generation=1)


def _policy_update_errors(new: NetworkPolicy, old: NetworkPolicy) -> Errors:
    yield from network_policy_spec(new.spec)


def _policy_warnings(new: NetworkPolicy, old: NetworkPolicy | None) -> Iterable[str]:
    yield NO_POLICY
    yield from network_policy_warnings(new)


def _cidr_warnings(new: ServiceCIDR, old: ServiceCIDR | None) -> Iterable[str]:
    for text in new.spec.cidrs:
        parsed = parse_range(text)
        if parsed is not None and parsed.address.version != 4:
            yield f"podtui allocates IPv4 addresses only: {text} has no effect"


def _prepare_cidr(item: ServiceCIDR) -> ServiceCIDR:
    return structs.replace(item, status=ServiceCIDRStatus())


def _prepare_cidr_update(new: ServiceCIDR, old: ServiceCIDR) -> ServiceCIDR:
    return structs.replace(new, status=old.status)


def _prepare_cidr_status(new: ServiceCIDR, old: ServiceCIDR) -> ServiceCIDR:
    meta = structs.replace(old.metadata, managedFields=new.metadata.managedFields)
    return structs.replace(new, metadata=meta, spec=old.spec)


INGRESSES: Final = Strategy(
    struct=Ingress,
    prepare_create=without_status,
    prepare_update=with_old_status,
    validate_create=validate_ingress,
    validate_update=_ingress_update_errors,
    warnings=_ingress_warnings,
)
INGRESS_STATUS: Final = replace(
    INGRESSES,
    prepare_update=with_old_spec,
    validate_update=_ingress_status_errors,
    warnings=_ingress_status_warnings,
)
INGRESS_CLASSES: Final = Strategy(
    struct=IngressClass,
    defaults=_class_defaults,
    prepare_create=_prepare_class,
    prepare_update=counted,
    validate_create=validate_ingress_class,
    validate_update=ingress_class_update,
)
NETWORK_POLICIES: Final = Strategy(
    struct=NetworkPolicy,
    defaults=_policy_defaults,
    prepare_create=_prepare_policy,
    prepare_update=counted,
    validate_create=validate_network_policy,
    validate_update=_policy_update_errors,
    warnings=_policy_warnings,
)
IP_ADDRESSES: Final = Strategy(
    struct=IPAddress,
    validate_create=validate_ip_address,
    validate_update=ip_address_update,
)
SERVICE_CIDRS: Final = Strategy(
    struct=ServiceCIDR,
    prepare_create=_prepare_cidr,
    prepare_update=_prepare_cidr_update,
    validate_create=validate_service_cidr,
    validate_update=service_cidr_update,
    warnings=_cidr_warnings,
)
SERVICE_CIDR_STATUS: Final = Strategy(struct=ServiceCIDR, prepare_update=_prepare_cidr_status)
