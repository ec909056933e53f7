"""The routes of Ingresses, as pure functions: from Ingresses and Services to a table, and from the
host and path of a request to a backend.

The rules are those of the API's documentation: a host is exact or a wildcard for one label; a path
is ``Exact`` or a ``Prefix`` of whole elements; the longest path wins, and ``Exact`` before
``Prefix``. ``ImplementationSpecific`` is ``Prefix`` here, up to the first character of a regular
expression. Of two equal rules, the one of the older Ingress counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from podtui.api.names import (
    FOREIGN_INGRESS_ANNOTATIONS,
    INGRESS_CLASS_ANNOTATION,
    INGRESS_CONTROLLER,
)
from podtui.api.networking import Ingress, IngressBackend, IngressClass
from podtui.api.urls import LOCAL_DOMAIN, covers
from podtui.api.v1 import Service, ServicePort

_REGULAR_EXPRESSION: Final = "(*[?$|^"


@dataclass(frozen=True, slots=True)
class Target:
    """The port of a Service that a rule leads to. ``problem`` says why there is none."""

    namespace: str
    service: str
    port: ServicePort | None
    problem: str = ""

    @property
    def is_tls(self) -> bool:
        return self.port is not None and self.port.appProtocol.lower() == "https"


@dataclass(frozen=True, slots=True)
class PathRule:
    path: str
    is_exact: bool
    target: Target

    def matches(self, path: str) -> bool:
        if self.is_exact:
            return path == self.path
        prefix = self.path.rstrip("/")
        return path == prefix or path.startswith(prefix + "/")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The Secret for a host, which may be a wildcard; an empty host stands for all."""

    host: str
    namespace: str
    secret: str


@dataclass(frozen=True, slots=True)
class RouteTable:
    """``hosts`` has the rules of each host, the best first. The empty host stands for all."""

    hosts: Mapping[str, tuple[PathRule, ...]]
    default: Target | None
    certificates: tuple[Certificate, ...]


@dataclass(frozen=True, slots=True)
class Unrouted:
    """No rule is for a request; ``reason`` is for the person who sent it."""

    reason: str


# --- which Ingresses are served


def class_of(ingress: Ingress) -> str:
    return ingress.spec.ingressClassName or ingress.metadata.annotations.get(
        INGRESS_CLASS_ANNOTATION, ""
    )


def is_served(ingress: Ingress, classes: Mapping[str, IngressClass]) -> bool:
    """Return whether podtui serves an Ingress: unless its class belongs to another controller. A
    class without an object belongs to none: manifests often name the class of a controller that
    their reader is expected to have."""
    name = class_of(ingress)
    ingress_class = classes.get(name)
    return ingress_class is None or ingress_class.spec.controller == INGRESS_CONTROLLER


def foreign_controller(ingress: Ingress, classes: Mapping[str, IngressClass]) -> str:
    """Return the controller that serves an Ingress, if it is not podtui, else an empty text."""
    ingress_class = classes.get(class_of(ingress))
    return (
        ""
        if ingress_class is None or is_served(ingress, classes)
        else ingress_class.spec.controller
    )


def ignored_annotations(ingress: Ingress) -> list[str]:
    """Return the annotations for other controllers, which have no effect."""
    return sorted(
        name
        for name in ingress.metadata.annotations
        if name.startswith(FOREIGN_INGRESS_ANNOTATIONS)
    )


# --- the table

ServiceOf = Callable[[str, str], Service | None]
"""(namespace, name) → the Service."""


def route_table(ingresses: Iterable[Ingress], service_of: ServiceOf) -> RouteTable:
    """Return the routes of the served Ingresses."""
    hosts: dict[str, dict[tuple[str, bool], PathRule]] = {}
    default: Target | None = None
    certificates: dict[tuple[str, str], Certificate] = {}
    for ingress in sorted(ingresses, key=_age):
        namespace, spec = ingress.metadata.namespace, ingress.spec
        fallback = None
        if spec.defaultBackend is not None:
            fallback = target_of(namespace, spec.defaultBackend, service_of)
            if not spec.rules:
                default = default or fallback
        for rule in spec.rules:
            rules = hosts.setdefault(rule.host, {})
            for path in () if rule.http is None else rule.http.paths:
                is_exact = path.pathType == "Exact"
                text = path.path or "/"
                if path.pathType == "ImplementationSpecific":
                    text = plain_prefix(text)
                target = target_of(namespace, path.backend, service_of)
                rules.setdefault((text, is_exact), PathRule(text, is_exact, target))
            if fallback is not None:
                rules.setdefault(("/", False), PathRule("/", is_exact=False, target=fallback))
        for entry in spec.tls:
            for host in entry.hosts or ("",):
                certificate = Certificate(host, namespace, entry.secretName)
                if entry.secretName:
                    certificates.setdefault((host, namespace), certificate)
    return RouteTable(
        {host: tuple(sorted(rules.values(), key=_precedence)) for host, rules in hosts.items()},
        default,
        tuple(certificates.values()),
    )


def _age(ingress: Ingress) -> tuple[str, str, str]:
    meta = ingress.metadata
    return (meta.creationTimestamp or "", meta.namespace, meta.name)


def _precedence(rule: PathRule) -> tuple[int, bool]:
    return (-len(rule.path.rstrip("/")), not rule.is_exact)


def plain_prefix(path: str) -> str:
    """Return a path up to the element with the first character of a regular expression."""
    ends = [index for index, character in enumerate(path) if character in _REGULAR_EXPRESSION]
    if not ends:
        return path
    return path[: path.rfind("/", 0, ends[0] + 1) + 1].rstrip("/") or "/"


def target_of(namespace: str, backend: IngressBackend, service_of: ServiceOf) -> Target:
    """Return the port of a backend."""
    reference = backend.service
    if reference is None:
        kind = "" if backend.resource is None else f" {backend.resource.kind}"
        return Target(namespace, "", None, f"podtui does not serve the resource{kind} as a backend")
    service = service_of(namespace, reference.name)
    name = f"{namespace}/{reference.name}"
    if service is None:
        return Target(namespace, reference.name, None, f"Service {name} does not exist")
    if service.spec.type == "ExternalName":
        text = f"podtui does not serve Service {name} of the type ExternalName"
        return Target(namespace, reference.name, None, text)
    wanted = reference.port
    for port in service.spec.ports:
        if (wanted.name and port.name == wanted.name) or (wanted.number or 0) == port.port:
            return Target(namespace, reference.name, port)
    shown = wanted.name or wanted.number
    return Target(namespace, reference.name, None, f"Service {name} has no port {shown}")


# --- a request


def route(table: RouteTable, host: str, path: str) -> Target | Unrouted:
    """Return the target of a request. ``host`` may have a port; ``path`` is as the client wrote it.

    A host that no rule names, but for an additional ``.localhost``, is one of the rules: browsers
    find such a name on this machine without any set-up.
    """
    name = host_name(host)
    plain = _normal(unquote(path))
    target = _of_host(table, name, plain)
    if target is None and name.endswith(LOCAL_DOMAIN):
        target = _of_host(table, name.removesuffix(LOCAL_DOMAIN), plain)
    if target is None:
        target = _of_rules(table.hosts.get("", ()), plain) or table.default
    if target is not None:
        return target
    hosts = sorted(filter(None, table.hosts))
    if hosts and not _is_named(table, name):
        return Unrouted(f"no rule is for the host {name}; there are rules for {', '.join(hosts)}")
    return Unrouted(f"no rule of the host {name} is for the path {plain}")


def _normal(path: str) -> str:
    """Return a path without ``.`` and ``..``, as a server resolves them."""
    if "/." not in path:
        return path
    elements: list[str] = []
    for element in path.split("/")[1:]:
        if element == "..":
            elements = elements[:-1]
        elif element != ".":
            elements.append(element)
    end = "/" if path.endswith(("/.", "/..")) and elements else ""
    return "/" + "/".join(elements) + end


def host_name(host: str) -> str:
    """Return a Host header without its port, in lower case."""
    name = host.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].removesuffix(".")


def _is_named(table: RouteTable, name: str) -> bool:
    names = (name, name.removesuffix(LOCAL_DOMAIN))
    return "" in table.hosts or any(covers(host, each) for host in table.hosts for each in names)


def _of_host(table: RouteTable, name: str, path: str) -> Target | None:
    """The rules of an exact host come before those of a wildcard."""
    for host in (name, f"*.{name.partition('.')[2]}"):
        target = _of_rules(table.hosts.get(host, ()), path)
        if target is not None:
            return target
    return None


def _of_rules(rules: Iterable[PathRule], path: str) -> Target | None:
    return next((rule.target for rule in rules if rule.matches(path)), None)


def certificate_of(table: RouteTable, name: str) -> Certificate | None:
    """Return the certificate for the server name of a TLS client: of its host, else of a wildcard,
    else one without hosts."""
    candidates = (name, name.removesuffix(LOCAL_DOMAIN)) if name else ()
    for candidate in candidates:
        for is_wildcard in (False, True):
            for item in table.certificates:
                if item.host.startswith("*.") == is_wildcard and covers(item.host, candidate):
                    return item
    return next((item for item in table.certificates if not item.host), None)
