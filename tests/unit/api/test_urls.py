"""The addresses and URLs of Services and Ingresses on this machine."""

from __future__ import annotations

import pytest

from podtui.api.networking import (
    HTTPIngressPath,
    HTTPIngressRuleValue,
    Ingress,
    IngressLoadBalancerIngress,
    IngressLoadBalancerStatus,
    IngressPortStatus,
    IngressRule,
    IngressSpec,
    IngressStatus,
    IngressTLS,
)
from podtui.api.urls import PUBLISHED, covers, ingress_urls, published_ports
from podtui.api.v1 import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)


def service(*ports: ServicePort, published: str, balancer: str = "") -> Service:
    entries = (LoadBalancerIngress(ip=balancer),) if balancer else ()
    return Service(
        metadata=ObjectMeta(name="web", annotations={PUBLISHED: published}),
        spec=ServiceSpec(ports=ports),
        status=ServiceStatus(loadBalancer=LoadBalancerStatus(ingress=entries)),
    )


def urls(*ports: ServicePort, published: str, balancer: str = "") -> list[tuple[str, str]]:
    item = service(*ports, published=published, balancer=balancer)
    return [(port.address, port.url) for port in published_ports(item)]


def test_a_node_port() -> None:
    port = ServicePort(port=80, nodePort=30080, protocol="TCP")
    assert urls(port, published="127.0.0.1:30080/TCP") == [
        ("127.0.0.1:30080", "http://127.0.0.1:30080/")
    ]


def test_a_port_that_nothing_listens_on_has_no_address() -> None:
    port = ServicePort(port=80, nodePort=30080, protocol="TCP")
    assert urls(port, published="") == []
    assert urls(port, published="127.0.0.1:30080/UDP") == []


def test_a_load_balancer_comes_before_its_node_port() -> None:
    port = ServicePort(port=80, nodePort=30080, protocol="TCP")
    published = "127.0.0.1:30080/TCP 127.96.3.4:80/TCP"
    assert urls(port, published=published, balancer="127.96.3.4") == [
        ("127.96.3.4:80", "http://127.96.3.4/")
    ]


def test_a_load_balancer_without_its_port_is_reached_at_the_node_port() -> None:
    port = ServicePort(port=80, nodePort=30080, protocol="TCP")
    assert urls(port, published="127.0.0.1:30080/TCP", balancer="127.0.0.1") == [
        ("127.0.0.1:30080", "http://127.0.0.1:30080/")
    ]


@pytest.mark.parametrize(
    ("port", "scheme"),
    [
        (ServicePort(port=80), "http"),
        (ServicePort(port=443), "https"),
        (ServicePort(port=443, name="http"), "http"),
        (ServicePort(port=8000, name="https-web"), "https"),
        (ServicePort(port=443, appProtocol="http"), "http"),
        (ServicePort(port=80, appProtocol="HTTPS"), "https"),
        (ServicePort(port=80, appProtocol="redis"), ""),
        (ServicePort(port=8080, targetPort=5432), ""),
        (ServicePort(port=6379), ""),
        (ServicePort(port=9000, name="grpc"), ""),
        (ServicePort(port=9000, name="http-grpc"), "http"),
        (ServicePort(port=80, protocol="UDP"), ""),
    ],
)
def test_the_scheme_is_guessed_from_name_and_number(port: ServicePort, scheme: str) -> None:
    protocol = port.protocol or "TCP"
    published = f"127.96.3.4:{port.port}/{protocol}"
    [item] = published_ports(service(port, published=published, balancer="127.96.3.4"))
    assert item.url.partition(":")[0] == scheme


def ingress(
    *rules: IngressRule, tls: tuple[IngressTLS, ...] = (), port: int = 8480, error: str = ""
) -> Ingress:
    ports = (IngressPortStatus(port=port, protocol="TCP", error=error),)
    entry = IngressLoadBalancerIngress(ip="127.0.0.1", ports=ports)
    return Ingress(
        spec=IngressSpec(rules=rules, tls=tls),
        status=IngressStatus(loadBalancer=IngressLoadBalancerStatus(ingress=(entry,))),
    )


def rule(host: str, *paths: str) -> IngressRule:
    items = tuple(HTTPIngressPath(path=path, pathType="Prefix") for path in paths)
    return IngressRule(host=host, http=HTTPIngressRuleValue(paths=items))


def test_urls_of_an_ingress() -> None:
    [any_host, named, local] = ingress_urls(
        ingress(rule("", "/api"), rule("shop.example.com", "/"), rule("web.localhost", "/"))
    )
    assert (any_host.url, any_host.resolves) == ("http://127.0.0.1:8480/api", True)
    assert (named.url, named.resolves) == ("http://shop.example.com:8480/", False)
    assert named.local_url == "http://shop.example.com.localhost:8480/"
    assert (local.url, local.resolves) == ("http://web.localhost:8480/", True)


def test_https_is_for_the_hosts_of_a_certificate() -> None:
    item = ingress(
        rule("a.example.com", "/"),
        rule("b.example.com", "/"),
        tls=(IngressTLS(hosts=("a.example.com",), secretName="a"),),
    )
    assert [url.url for url in ingress_urls(item)] == [
        "https://a.example.com:8480/",
        "http://b.example.com:8480/",
    ]


def test_a_default_backend_has_a_url() -> None:
    assert [url.url for url in ingress_urls(ingress())] == ["http://127.0.0.1:8480/"]


def test_a_wildcard_has_no_url_and_a_regular_expression_is_cut() -> None:
    item = ingress(rule("*.example.com", "/"), rule("", "/api(/|$)(.*)"))
    assert [url.url for url in ingress_urls(item)] == ["http://127.0.0.1:8480/api"]


def test_an_ingress_without_an_address_has_no_url() -> None:
    assert ingress_urls(Ingress()) == ()
    assert ingress_urls(ingress(error="podtui.dev/Error")) == ()


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("a.b", "a.b", True),
        ("*.b.c", "a.b.c", True),
        ("*.b.c", "x.a.b.c", False),
        ("*.b.c", "b.c", False),
        ("*.b.c", ".b.c", False),
    ],
)
def test_hosts_of_rules(pattern: str, host: str, expected: bool) -> None:
    assert covers(pattern, host) is expected
