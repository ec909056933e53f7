"""The addresses and URLs at which this machine reaches Services and Ingresses.

They are computed from the objects alone. The agent that listens for a Service writes its listening
addresses into the annotation `PUBLISHED`; that of an Ingress are in its status.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from podtui.api.networking import Ingress, IngressRule
from podtui.api.v1 import Service, ServicePort

PUBLISHED: Final = "podtui.dev/published"
"""The annotation of a Service with the addresses that an agent listens on, such as
``127.0.0.1:30080/TCP 127.96.7.9:80/TCP``."""
LOCAL_DOMAIN: Final = ".localhost"
"""Names below this domain lead to this machine (RFC 6761), in browsers without any set-up."""
_HTTPS_PORTS: Final = frozenset({443, 6443, 8443, 9443})
_HTTPS_PROTOCOLS: Final = frozenset({"https", "kubernetes.io/wss"})
_HTTP_PROTOCOLS: Final = frozenset({"http", "kubernetes.io/ws", "kubernetes.io/h2c"})
_OTHER_PORTS: Final = frozenset(
    {
        *(21, 22, 23, 25, 53, 110, 143, 389, 465, 587, 636, 873, 993, 995),
        *(1433, 1521, 1883, 2181, 3306, 3389, 4222, 5432, 5671, 5672, 5900, 6379, 8883),
        *(9042, 9092, 11211, 26379, 27017, 50051),
    }
)
"""Well-known ports of protocols other than HTTP."""
_OTHER_NAMES: Final = frozenset(
    "amqp dns ftp grpc kafka ldap memcached mongo mongodb mqtt mysql nats postgres postgresql redis"
    " smtp ssh tcp telnet tls udp vnc".split()
)


@dataclass(frozen=True, slots=True)
class PublishedPort:
    """A port of a Service, and its address on this machine, such as ``127.0.0.1:30080``. ``url`` is
    empty if the port does not look like HTTP: whether it is, is a guess from its name and number,
    unless ``appProtocol`` says it."""

    name: str
    port: int
    protocol: str
    address: str
    url: str


@dataclass(frozen=True, slots=True)
class IngressUrl:
    """A URL of an Ingress. ``host`` is the host of the rule, empty if it is for any host.
    ``address`` is where the agent listens; ``resolves`` is False if ``host`` must first be made to
    lead there, for instance in ``/etc/hosts``. `local_url` needs no set-up."""

    url: str
    host: str
    address: str
    resolves: bool
    local_url: str


def published_addresses(service: Service) -> tuple[str, ...]:
    """Return the addresses that an agent listens on, such as ``127.0.0.1:30080/TCP``."""
    return tuple(service.metadata.annotations.get(PUBLISHED, "").split())


def published_ports(service: Service) -> tuple[PublishedPort, ...]:
    """Return the ports of a Service that this machine reaches. The address of its load balancer
    comes before a node port."""
    addresses = published_addresses(service)
    balancers = [entry.ip for entry in service.status.loadBalancer.ingress if entry.ip]
    ports: list[PublishedPort] = []
    for port in service.spec.ports:
        protocol = port.protocol or "TCP"
        candidates = [host_port(ip, port.port) for ip in balancers]
        candidates += [
            address.rpartition("/")[0]
            for address in addresses
            if port.nodePort and address.endswith(f":{port.nodePort}/{protocol}")
        ]
        address = next((item for item in candidates if f"{item}/{protocol}" in addresses), "")
        if address:
            ports.append(
                PublishedPort(port.name, port.port, protocol, address, _service_url(port, address))
            )
    return tuple(ports)


def _service_url(port: ServicePort, address: str) -> str:
    scheme = _scheme(port)
    if not scheme:
        return ""
    default = ":443" if scheme == "https" else ":80"
    return f"{scheme}://{address.removesuffix(default)}/"


def _scheme(port: ServicePort) -> str:
    """Return ``http``, ``https``, or an empty text for other protocols."""
    if (port.protocol or "TCP") != "TCP":
        return ""
    protocol = port.appProtocol.lower()
    if protocol in _HTTPS_PROTOCOLS:
        return "https"
    if protocol:
        return "http" if protocol in _HTTP_PROTOCOLS else ""
    numbers = {port.port, port.targetPort}
    parts = set(port.name.split("-"))
    if "https" in parts or (numbers & _HTTPS_PORTS and "http" not in parts):
        return "https"
    if "http" in parts:
        return "http"
    return "" if numbers & _OTHER_PORTS or parts & _OTHER_NAMES else "http"


def ingress_urls(ingress: Ingress) -> tuple[IngressUrl, ...]:
    """Return the URLs of an Ingress that an agent serves, without duplicates: for each path of each
    rule, or for the default backend. A wildcard host has none, because no name is known."""
    urls: dict[str, IngressUrl] = {}
    for entry in ingress.status.loadBalancer.ingress:
        for port in entry.ports:
            if not entry.ip or port.error:
                continue
            for rule in ingress.spec.rules or (IngressRule(),):
                if rule.host.startswith("*"):
                    continue
                for path in _paths(rule):
                    url = _ingress_url(ingress, rule.host, path, entry.ip, port.port)
                    urls.setdefault(url.url, url)
    return tuple(urls.values())


def _paths(rule: IngressRule) -> Iterable[str]:
    """Regular expressions, which other controllers accept as a path, are cut at the first special
    character."""
    paths = () if rule.http is None else rule.http.paths
    for path in paths:
        plain = path.path
        for character in "(*[?$":
            plain = plain.partition(character)[0]
        yield plain or "/"
    if not paths:
        yield "/"


def _ingress_url(ingress: Ingress, host: str, path: str, ip: str, port: int) -> IngressUrl:
    secure = [name for item in ingress.spec.tls for name in item.hosts]
    is_secure = bool(ingress.spec.tls) and (not secure or any(covers(n, host) for n in secure))
    scheme = "https" if is_secure else "http"
    address = host_port(ip, port)
    default = f":{443 if is_secure else 80}"
    suffix = "" if f":{port}" == default else f":{port}"
    resolves = not host or is_local(host)
    local_host = host if resolves else host + LOCAL_DOMAIN
    url = f"{scheme}://{host}{suffix}{path}" if host else f"{scheme}://{address}{path}"
    local_url = url if not host else f"{scheme}://{local_host}{suffix}{path}"
    return IngressUrl(url, host, address, resolves, local_url)


def is_local(host: str) -> bool:
    return host == LOCAL_DOMAIN[1:] or host.endswith(LOCAL_DOMAIN)


def covers(pattern: str, host: str) -> bool:
    """Return whether a host of an Ingress covers a name. A wildcard stands for one label."""
    if not pattern.startswith("*."):
        return pattern == host
    label, _, rest = host.partition(".")
    return bool(label) and rest == pattern[2:]


def host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
