"""The API server's rules for an Ingress and an IngressClass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.names import INGRESS_CLASS_ANNOTATION
from podtui.api.networking import (
    HTTPIngressPath,
    Ingress,
    IngressBackend,
    IngressClass,
    IngressClassParametersReference,
    IngressRule,
    IngressServiceBackend,
    IngressSpec,
    IngressTLS,
)
from podtui.api.v1 import TypedLocalObjectReference
from podtui.manifest.validation import formats
from podtui.manifest.validation.addresses import address_warnings, ip_address, parse_address
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
    too_long,
)
from podtui.manifest.validation.metadata import object_meta

CLASS_ANNOTATION: Final = INGRESS_CLASS_ANNOTATION
DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_SUFFIXES: Final = ("/..", "/.")
_SCOPES: Final = ("Cluster", "Namespace")
_CONTROLLER_BYTES: Final = 250
_NO_IP: Final = "must be a DNS name, not an IP address"


def validate_ingress(item: Ingress) -> Errors:
    yield from ingress_update(item)
    annotation, name = item.metadata.annotations.get(CLASS_ANNOTATION), item.spec.ingressClassName
    if annotation is not None and name and annotation != name:
        why = "must match `ingressClassName` when both are specified"
        at = f"metadata.annotations[{CLASS_ANNOTATION}]"
        yield invalid(f"annotations.{CLASS_ANNOTATION}", annotation, why, at=at)


def ingress_update(item: Ingress) -> Errors:
    """The rules for an Ingress that exists."""
    yield from object_meta(item.metadata, "metadata")
    yield from _spec(item.spec)


def ingress_status(item: Ingress) -> Errors:
    for index, entry in enumerate(item.status.loadBalancer.ingress):
        path = f"status.loadBalancer.ingress[{index}]"
        if entry.ip:
            yield from ip_address(entry.ip, f"{path}.ip")
        if entry.hostname:
            yield from load_balancer_hostname(entry.hostname, f"{path}.hostname")


def ingress_status_warnings(item: Ingress) -> Iterator[str]:
    for index, entry in enumerate(item.status.loadBalancer.ingress):
        yield from address_warnings(entry.ip, f"status.loadBalancer.ingress[{index}]")


def load_balancer_hostname(name: str, path: str) -> Errors:
    yield from invalid_each(path, name, formats.dns_subdomain(name))
    if parse_address(name) is not None:
        yield invalid(path, name, _NO_IP)


def _spec(spec: IngressSpec) -> Errors:
    if not spec.rules and spec.defaultBackend is None:
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if spec.defaultBackend is not None:
        yield from _backend(spec.defaultBackend, "spec.defaultBackend")
    for index, rule in enumerate(spec.rules):
        yield from _rule(rule, f"spec.rules[{index}]")
    for index, entry in enumerate(spec.tls):
        yield from _tls(entry, f"spec.tls[{index}]")
    name = spec.ingressClassName
    if name:
        yield from invalid_each("spec.ingressClassName", name, formats.dns_subdomain(name))


def _host(host: str, path: str) -> Errors:
    format_ = formats.WILDCARD if "*" in host else formats.SUBDOMAIN
    yield from invalid_each(path, host, format_.problems(host))


def _tls(entry: IngressTLS, path: str) -> Errors:
    for index, host in enumerate(entry.hosts):
        yield from _host(host, f"{path}.hosts[{index}]")
    if entry.secretName:
        problems = formats.dns_subdomain(entry.secretName)
        yield from invalid_each(f"{path}.secretName", entry.secretName, problems)


def _rule(rule: IngressRule, path: str) -> Errors:
    if rule.host:
        if parse_address(rule.host) is not None:
            yield invalid(f"{path}.host", rule.host, _NO_IP)
        yield from _host(rule.host, f"{path}.host")
    if rule.http is None:
        return
    if not rule.http.paths:
        yield required(f"{path}.http.paths")
    for index, item in enumerate(rule.http.paths):
        yield from _path(item, f"{path}.http.paths[{index}]")


def _path(item: HTTPIngressPath, path: str) -> Errors:
    if not item.pathType:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    strict = item.pathType in ("Exact", "Prefix")
    if item.pathType not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", item.pathType, _PATH_TYPES)
    elif not item.path.startswith("/") and (item.path or strict):
        yield invalid(f"{path}.path", item.path, "must be an absolute path")
    if strict:
        for sequence in _SEQUENCES:
            if sequence in item.path:
                yield invalid(f"{path}.path", item.path, f"must not contain '{sequence}'")
        for suffix in _SUFFIXES:
            if item.path.endswith(suffix):
                yield invalid(f"{path}.path", item.path, f"cannot end with '{suffix}'")
    yield from _backend(item.backend, f"{path}.backend")


def _backend(backend: IngressBackend, path: str) -> Errors:
    if backend.resource is not None and backend.service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif backend.resource is not None:
        yield from _reference(backend.resource, f"{path}.resource")
    elif backend.service is not None:
        yield from _service_backend(backend.service, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _service_backend(service: IngressServiceBackend, path: str) -> Errors:
    here, port = f"{path}.service", service.port
    if not service.name:
        yield required(f"{here}.name")
    else:
        yield from invalid_each(f"{here}.name", service.name, formats.dns_label(service.name))
    if port.name and port.number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif port.name:
        yield from invalid_each(f"{here}.port.name", port.name, formats.port_name(port.name))
    elif port.number:
        problems = formats.port_number(port.number)
        yield from invalid_each(f"{here}.port.number", port.number, problems)
    else:
        yield required(path, "port name or number is required")


def _reference(
    reference: TypedLocalObjectReference | IngressClassParametersReference, path: str
) -> Errors:
    if reference.apiGroup:
        problems = formats.dns_subdomain(reference.apiGroup)
        yield from invalid_each(f"{path}.apiGroup", reference.apiGroup, problems)
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            yield required(f"{path}.{name}")
        else:
            yield from invalid_each(f"{path}.{name}", value, formats.path_segment(value))


def validate_ingress_class(item: IngressClass) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    controller = item.spec.controller
    if formats.size(controller) > _CONTROLLER_BYTES:
        yield too_long("spec.controller", _CONTROLLER_BYTES)
    yield from formats.domain_prefixed_path(controller, "spec.controller")
    if item.spec.parameters is not None:
        yield from _parameters(item.spec.parameters, "spec.parameters")


def ingress_class_update(new: IngressClass, old: IngressClass) -> Errors:
    if new.spec.controller != old.spec.controller:
        yield invalid("spec.controller", new.spec.controller, "field is immutable")
    yield from validate_ingress_class(new)


def _parameters(reference: IngressClassParametersReference, path: str) -> Errors:
    yield from _reference(reference, path)
    namespace = reference.namespace
    if not reference.scope:
        yield required(f"{path}.scope")
    elif reference.scope not in _SCOPES:
        yield not_supported(f"{path}.scope", reference.scope, _SCOPES, plain=True)
    elif reference.scope == "Namespace":
        if not namespace:
            yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from invalid_each(f"{path}.namespace", namespace, formats.dns_label(namespace))
    elif namespace:
        yield forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
