"""The API server's rules for a Service, which apply after its addresses and ports are allocated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.v1 import Service, ServicePort, ServiceSpec
from podtui.manifest.validation import formats
from podtui.manifest.validation.addresses import (
    address_range,
    address_warnings,
    endpoint_address,
    ip_address,
    is_ipv6,
    range_warnings,
)
from podtui.manifest.validation.endpoint_slices import PROTOCOLS
from podtui.manifest.validation.errors import (
    Errors,
    GoText,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.ingresses import load_balancer_hostname
from podtui.manifest.validation.metadata import label_name, labels, object_meta

HEADLESS: Final = "None"
IP_FAMILIES: Final = ("IPv4", "IPv6")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_TRAFFIC_POLICIES: Final = ("Cluster", "Local")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES: Final = ("Proxy", "VIP")
_LONGEST_AFFINITY: Final = 86400
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_UNCHANGEABLE: Final = "may not change once set"


def is_headless(spec: ServiceSpec) -> bool:
    return spec.clusterIPs == (HEADLESS,)


def is_external(spec: ServiceSpec) -> bool:
    """Return whether traffic from outside of the cluster reaches the Service."""
    return spec.type in ("NodePort", "LoadBalancer") or (
        spec.type == "ClusterIP" and bool(spec.externalIPs)
    )


def needs_health_check(spec: ServiceSpec) -> bool:
    return spec.type == "LoadBalancer" and spec.externalTrafficPolicy == "Local"


def validate_service(item: Service) -> Errors:
    yield from object_meta(item.metadata, "metadata", name_rule=formats.dns_label)
    yield from _service(item)


def service_update(new: Service, old: Service) -> Errors:
    after, before = new.spec, old.spec
    if "ExternalName" not in (after.type, before.type):
        yield from _changed_addresses(after, before)
        yield from _changed_families(after, before)
    yield from _load_balancer_class(after, before)
    checked = needs_health_check(before) and needs_health_check(after)
    if checked and after.healthCheckNodePort != before.healthCheckNodePort:
        yield forbidden("spec.healthCheckNodePort", "field is immutable")
    yield from _service(new)


def service_status(new: Service) -> Errors:
    """The rules for an update of the status."""
    path, entries = "status.loadBalancer.ingress", new.status.loadBalancer.ingress
    if new.spec.type != "LoadBalancer" and entries:
        yield forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, entry in enumerate(entries):
        here = f"{path}[{index}]"
        if entry.ip:
            yield from ip_address(entry.ip, f"{here}.ip")
        if not entry.ipMode and entry.ip:
            yield required(f"{here}.ipMode", "must be specified when `ip` is set")
        elif entry.ipMode and not entry.ip:
            yield forbidden(f"{here}.ipMode", "may not be specified when `ip` is not set")
        elif entry.ipMode and entry.ipMode not in _IP_MODES:
            yield not_supported(f"{here}.ipMode", entry.ipMode, _IP_MODES)
        if entry.hostname:
            yield from load_balancer_hostname(entry.hostname, f"{here}.hostname")


def service_warnings(item: Service) -> Iterator[str]:
    """Warn about deprecated and ignored fields, and addresses in an unusual form."""
    spec = item.spec
    if _HINTS in item.metadata.annotations:
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    headless = spec.type == "ClusterIP" and spec.clusterIP == HEADLESS
    if spec.clusterIP and not headless:
        for index, address in enumerate(spec.clusterIPs):
            yield from address_warnings(address, f"spec.clusterIPs[{index}]")
    if headless:
        if spec.loadBalancerIP:
            yield "spec.loadBalancerIP is ignored for headless services"
        if spec.externalIPs:
            yield "spec.externalIPs is ignored for headless services"
        if spec.sessionAffinity != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    for index, address in enumerate(spec.externalIPs):
        yield from address_warnings(address, f"spec.externalIPs[{index}]")
    if spec.externalIPs and not headless and spec.type != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    yield from address_warnings(spec.loadBalancerIP, "spec.loadBalancerIP")
    for index, text in enumerate(spec.loadBalancerSourceRanges):
        yield from range_warnings(text, f"spec.loadBalancerSourceRanges[{index}]")
    if spec.type == "ExternalName" and spec.externalIPs:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.type != "ExternalName" and spec.externalName:
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.trafficDistribution == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def service_status_warnings(item: Service) -> Iterator[str]:
    for index, entry in enumerate(item.status.loadBalancer.ingress):
        yield from address_warnings(entry.ip, f"status.loadBalancer.ingress[{index}]")


def _service(item: Service) -> Errors:
    spec, annotations = item.spec, item.metadata.annotations
    mode, hints = annotations.get(_MODE), annotations.get(_HINTS)
    if mode is not None and hints is not None and mode != hints:
        why = f"must match annotations[{_HINTS}] when both are specified"
        yield invalid(f"metadata.annotations[{_MODE}]", mode, why)
    if not spec.ports and not is_headless(spec) and spec.type != "ExternalName":
        yield required("spec.ports")
    if spec.type in ("LoadBalancer", "NodePort") and is_headless(spec):
        why = f"may not be set to 'None' for {spec.type} services"
        yield invalid("spec.clusterIPs[0]", HEADLESS, why)
    if spec.type == "ExternalName":
        yield from _external_name(spec)
    yield from _ports(spec)
    yield from labels(spec.selector, "spec.selector")
    yield from _session_affinity(spec)
    yield from cluster_addresses(spec)
    for index, address in enumerate(spec.externalIPs):
        path = f"spec.externalIPs[{index}]"
        problems = list(ip_address(address, path))
        yield from problems or endpoint_address(address, path)
    if spec.type not in _TYPES:
        yield not_supported("spec.type", spec.type, _TYPES)
    yield from _unique_ports(spec)
    yield from _source_ranges(item)
    if spec.allocateLoadBalancerNodePorts is not None and spec.type != "LoadBalancer":
        yield forbidden("spec.allocateLoadBalancerNodePorts", _BALANCER_ONLY)
    yield from _load_balancer_class(spec)
    yield from _traffic(spec)


def _external_name(spec: ServiceSpec) -> Errors:
    why = "may not be set for ExternalName services"
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if getattr(spec, name):
            yield forbidden(f"spec.{name}", why)
    name = spec.externalName.removesuffix(".")
    if name:
        yield from invalid_each("spec.externalName", name, formats.dns_subdomain(name))
    else:
        yield required("spec.externalName")


def _ports(spec: ServiceSpec) -> Errors:
    names: set[str] = set()
    for index, port in enumerate(spec.ports):
        path = f"spec.ports[{index}]"
        if port.name:
            yield from invalid_each(f"{path}.name", port.name, formats.dns_label(port.name))
            if port.name in names:
                yield duplicate(f"{path}.name", port.name)
            names.add(port.name)
        elif len(spec.ports) > 1:
            yield required(f"{path}.name")
        yield from _port(port, path)


def _port(port: ServicePort, path: str) -> Errors:
    yield from invalid_each(f"{path}.port", port.port, formats.port_number(port.port))
    if port.protocol not in PROTOCOLS:
        yield not_supported(f"{path}.protocol", port.protocol, PROTOCOLS)
    target = port.targetPort
    if isinstance(target, str):
        yield from invalid_each(f"{path}.targetPort", target, formats.port_name(target))
    elif target is not None:
        yield from invalid_each(f"{path}.targetPort", target, formats.port_number(target))
    if port.appProtocol:
        yield from label_name(port.appProtocol, f"{path}.appProtocol")


def _session_affinity(spec: ServiceSpec) -> Errors:
    affinity, config = spec.sessionAffinity, spec.sessionAffinityConfig
    if affinity not in _AFFINITIES:
        yield not_supported("spec.sessionAffinity", affinity, _AFFINITIES)
    client = config and config.clientIP
    seconds = client and client.timeoutSeconds
    if affinity == "ClientIP" and seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
        why = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
        yield invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, why)


def cluster_addresses(spec: ServiceSpec) -> Errors:
    """The rules for the addresses in the cluster and their families."""
    if spec.type == "ExternalName":
        return
    path, addresses = "spec.clusterIPs", spec.clusterIPs
    if spec.clusterIP and not addresses:
        yield required(path)
    elif spec.clusterIP and addresses[0] != spec.clusterIP:
        yield invalid(path, addresses, "first value must match `clusterIP`")
    elif not spec.clusterIP and addresses:
        yield invalid(path, addresses, "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(spec.ipFamilies):
        if family not in IP_FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, IP_FAMILIES)
        if family in spec.ipFamilies[:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", GoText(family))
    policy = spec.ipFamilyPolicy
    if policy and policy not in _FAMILY_POLICIES:
        yield not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    wrong = False
    for index, address in enumerate(addresses):
        if index == 0 and address == HEADLESS:
            if len(addresses) > 1:
                wrong = True
                yield invalid(path, addresses, "'None' must be the first and only value")
            continue
        problems = list(ip_address(address, f"{path}[{index}]"))
        wrong = wrong or bool(problems)
        yield from problems
    if len(addresses) > len(IP_FAMILIES):
        yield invalid(path, addresses, "may only hold up to 2 values")
    if wrong:
        return
    if len(addresses) > 1 and len({is_ipv6(address) for address in addresses}) == 1:
        yield invalid(path, addresses, "may specify no more than one IP for each IP family")
    if not is_headless(spec):
        yield from _families_of_addresses(spec)


def _families_of_addresses(spec: ServiceSpec) -> Errors:
    for index, (address, family) in enumerate(zip(spec.clusterIPs, spec.ipFamilies, strict=False)):
        if family in IP_FAMILIES and is_ipv6(address) != (family == "IPv6"):
            why = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid(f"spec.clusterIPs[{index}]", address, why)


def _changed_addresses(after: ServiceSpec, before: ServiceSpec) -> Errors:
    if is_headless(after) and is_headless(before):
        return
    new, old, path = after.clusterIPs, before.clusterIPs, "spec.clusterIPs"
    if len(new) == len(old):
        for index, (mine, other) in enumerate(zip(new, old, strict=True)):
            if mine != other:
                yield invalid(f"{path}[{index}]", new, _UNCHANGEABLE)
        return
    if not new:
        yield invalid(f"{path}[0]", None, "primary clusterIP can not be unset")
    elif old and new[0] != old[0]:
        yield invalid(f"{path}[0]", new, _UNCHANGEABLE)
    if len(new) == 1 and len(old) > 1 and after.ipFamilyPolicy != "SingleStack":
        why = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        yield invalid("spec.ipFamilyPolicy", GoText(after.ipFamilyPolicy), why)


def _changed_families(after: ServiceSpec, before: ServiceSpec) -> Errors:
    if is_headless(after) or is_headless(before):
        return
    new, old, path = after.ipFamilies, before.ipFamilies, "spec.ipFamilies[0]"
    if len(new) == len(old):
        for mine, other in zip(new, old, strict=True):
            if mine != other:
                yield invalid(path, new, _UNCHANGEABLE)
    elif new and old and new[0] != old[0]:
        yield invalid(path, after.clusterIPs, _UNCHANGEABLE)


def _unique_ports(spec: ServiceSpec) -> Errors:
    if spec.type == "ClusterIP":
        for index, port in enumerate(spec.ports):
            if port.nodePort:
                why = "may not be used when `type` is 'ClusterIP'"
                yield forbidden(f"spec.ports[{index}].nodePort", why)
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        if port.nodePort:
            key = (port.protocol, port.nodePort)
            if key in node_ports:
                yield duplicate(f"spec.ports[{index}].nodePort", port.nodePort)
            node_ports.add(key)
    ports: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        if (port.protocol, port.port) in ports:
            shown = ServicePort(protocol=port.protocol, port=port.port, targetPort=0, nodePort=0)
            yield duplicate(f"spec.ports[{index}]", shown, at=f"spec.ports[{index}].port")
        ports.add((port.protocol, port.port))


def _source_ranges(item: Service) -> Errors:
    spec, path = item.spec, "spec.LoadBalancerSourceRanges"
    text = item.metadata.annotations.get(_SOURCE_RANGES)
    if spec.loadBalancerSourceRanges:
        at = "spec.loadBalancerSourceRanges"
        if spec.type != "LoadBalancer":
            yield forbidden(path, _BALANCER_ONLY, at=at)
        for index, value in enumerate(spec.loadBalancerSourceRanges):
            yield from address_range(value.strip(), f"{path}[{index}]")
    elif text is not None:
        path = f"metadata.annotations[{_SOURCE_RANGES}]"
        if spec.type != "LoadBalancer":
            yield forbidden(path, _BALANCER_ONLY)
        for value in text.strip().split(",") if text.strip() else ():
            yield from address_range(value.strip(), path)


def _load_balancer_class(after: ServiceSpec, before: ServiceSpec | None = None) -> Errors:
    path, name = "spec.loadBalancerClass", after.loadBalancerClass
    if after.type != "LoadBalancer":
        if name:
            yield forbidden(path, _BALANCER_ONLY)
        return
    if before is not None and before.type == after.type and before.loadBalancerClass != name:
        yield invalid(path, name or None, _UNCHANGEABLE)
    if name:
        yield from label_name(name, path)


def _traffic(spec: ServiceSpec) -> Errors:
    outer, inner = spec.externalTrafficPolicy, spec.internalTrafficPolicy
    path = "spec.externalTrafficPolicy"
    if not is_external(spec):
        if outer:
            why = "may only be set for externally-accessible services"
            yield invalid(path, GoText(outer), why)
    elif outer not in _TRAFFIC_POLICIES:
        yield not_supported(path, outer, _TRAFFIC_POLICIES)
    port, path = spec.healthCheckNodePort or 0, "spec.healthCheckNodePort"
    if not needs_health_check(spec):
        if port:
            why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is"
            yield invalid(path, port, f"{why} 'Local'")
    elif not port:
        yield required(path)
    else:
        yield from invalid_each(path, port, formats.port_number(port))
    if inner and inner not in _TRAFFIC_POLICIES:
        yield not_supported("spec.internalTrafficPolicy", inner, _TRAFFIC_POLICIES)
    distribution = spec.trafficDistribution
    if distribution and distribution not in _DISTRIBUTIONS:
        path = "spec.trafficDistribution"
        yield not_supported(path, distribution, _DISTRIBUTIONS, plain=True)
