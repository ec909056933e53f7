"""The routes of Ingresses: the examples of the API's documentation, and requests at the edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.names import INGRESS_CONTROLLER
from podtui.api.networking import (
    HTTPIngressPath,
    HTTPIngressRuleValue,
    Ingress,
    IngressBackend,
    IngressClass,
    IngressClassSpec,
    IngressRule,
    IngressServiceBackend,
    IngressSpec,
    IngressTLS,
    ServiceBackendPort,
)
from podtui.api.v1 import ObjectMeta, Service, ServicePort, ServiceSpec, TypedLocalObjectReference
from podtui.services.ingress_rules import (
    RouteTable,
    Target,
    Unrouted,
    certificate_of,
    host_name,
    ignored_annotations,
    is_served,
    plain_prefix,
    route,
    route_table,
)


def service_of(namespace: str, name: str) -> Service | None:
    if name == "missing":
        return None
    if name == "external":
        return Service(spec=ServiceSpec(type="ExternalName", externalName="example.com"))
    ports = (ServicePort(name="http", port=80), ServicePort(name="admin", port=9000))
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(ports=ports)
    )


def backend(name: str, port: str | int = 80) -> IngressBackend:
    reference = (
        ServiceBackendPort(name=port) if isinstance(port, str) else ServiceBackendPort(number=port)
    )
    return IngressBackend(service=IngressServiceBackend(name=name, port=reference))


def path(text: str, name: str, kind: str = "Prefix", port: str | int = 80) -> HTTPIngressPath:
    return HTTPIngressPath(path=text, pathType=kind, backend=backend(name, port))


def rule(host: str, *paths: HTTPIngressPath) -> IngressRule:
    return IngressRule(host=host, http=HTTPIngressRuleValue(paths=paths))


def ingress(*rules: IngressRule, name: str = "i", created: str = "", **spec: object) -> Ingress:
    return Ingress(
        metadata=ObjectMeta(name=name, namespace="ns", creationTimestamp=created or None),
        spec=IngressSpec(rules=rules, **spec),  # pyright: ignore[reportArgumentType]
    )


def table(*ingresses: Ingress) -> RouteTable:
    return route_table(ingresses, service_of)


def name_of(answer: Target | Unrouted) -> str:
    return answer.service if isinstance(answer, Target) else "-"


@pytest.mark.parametrize(
    ("kind", "paths", "request_path", "expected"),
    [
        # The table of the documentation of Ingress.
        ("Prefix", ("/",), "/any/path", "/"),
        ("Exact", ("/foo",), "/foo", "/foo"),
        ("Exact", ("/foo",), "/bar", "-"),
        ("Exact", ("/foo",), "/foo/", "-"),
        ("Exact", ("/foo/",), "/foo", "-"),
        ("Prefix", ("/foo",), "/foo", "/foo"),
        ("Prefix", ("/foo",), "/foo/", "/foo"),
        ("Prefix", ("/foo/",), "/foo", "/foo/"),
        ("Prefix", ("/foo/",), "/foo/", "/foo/"),
        ("Prefix", ("/aaa/bb",), "/aaa/bbb", "-"),
        ("Prefix", ("/aaa/bbb",), "/aaa/bbb", "/aaa/bbb"),
        ("Prefix", ("/aaa/bbb/",), "/aaa/bbb", "/aaa/bbb/"),
        ("Prefix", ("/aaa/bbb",), "/aaa/bbb/", "/aaa/bbb"),
        ("Prefix", ("/aaa/bbb",), "/aaa/bbb/ccc", "/aaa/bbb"),
        ("Prefix", ("/aaa/bbb",), "/aaa/bbbxyz", "-"),
        ("Prefix", ("/", "/aaa"), "/aaa/ccc", "/aaa"),
        ("Prefix", ("/", "/aaa"), "/ccc", "/"),
        ("Prefix", ("/", "/aaa", "/aaa/bbb"), "/aaa/bbb", "/aaa/bbb"),
        ("Prefix", ("/aaa",), "/ccc", "-"),
        # Escapes and dots are resolved, so that no rule is bypassed.
        ("Prefix", ("/", "/admin"), "/%61dmin", "/admin"),
        ("Prefix", ("/", "/admin"), "/x/../admin/", "/admin"),
        ("Prefix", ("/", "/admin"), "/./admin", "/admin"),
        ("Prefix", ("/", "/admin"), "/admin/..", "/"),
        ("Prefix", ("/", "/admin"), "/../../admin", "/admin"),
        ("Prefix", ("/", "/admin"), "//admin", "/"),
    ],
)
def test_paths(kind: str, paths: tuple[str, ...], request_path: str, expected: str) -> None:
    items = [path(text, f"s{index}", kind) for index, text in enumerate(paths)]
    answer = route(table(ingress(rule("", *items))), "any", request_path)
    index = name_of(answer).removeprefix("s")
    assert (paths[int(index)] if index != "-" else "-") == expected


def test_exact_comes_before_prefix_of_the_same_path() -> None:
    routes = table(ingress(rule("", path("/foo", "prefix"), path("/foo", "exact", "Exact"))))
    assert name_of(route(routes, "h", "/foo")) == "exact"
    assert name_of(route(routes, "h", "/foo/x")) == "prefix"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/api", "/api"),
        ("/api(/|$)(.*)", "/"),
        ("/v1/api/?(.*)", "/v1/api"),
        ("/static/.*", "/static"),
        ("/*", "/"),
        ("/a.b/c", "/a.b/c"),
    ],
)
def test_a_regular_expression_is_a_prefix(text: str, expected: str) -> None:
    assert plain_prefix(text) == expected


def test_hosts() -> None:
    routes = table(
        ingress(
            rule("shop.example.com", path("/", "shop")),
            rule("*.example.com", path("/", "wildcard")),
            rule("", path("/any", "any")),
        )
    )
    hosts = {
        "shop.example.com": "shop",
        "SHOP.Example.com:8480": "shop",
        "shop.example.com.": "shop",
        "shop.example.com.localhost:8480": "shop",
        "x.example.com": "wildcard",
        "x.example.com.localhost": "wildcard",
        "a.b.example.com": "-",
        "example.com": "-",
    }
    assert {host: name_of(route(routes, host, "/")) for host in hosts} == hosts
    assert name_of(route(routes, "a.b.example.com", "/any/x")) == "any"
    assert name_of(route(routes, "", "/any")) == "any"


def test_a_host_without_the_path_leads_to_the_rules_of_all_hosts() -> None:
    routes = table(ingress(rule("a.b", path("/x", "x")), rule("", path("/", "any"))))
    assert name_of(route(routes, "a.b", "/y")) == "any"


def test_the_reason_names_the_hosts() -> None:
    routes = table(ingress(rule("shop.example.com", path("/shop", "shop"))))
    other = route(routes, "127.0.0.1:8480", "/")
    assert isinstance(other, Unrouted)
    assert "no rule is for the host 127.0.0.1; there are rules for shop.example.com" in other.reason
    same = route(routes, "shop.example.com", "/")
    assert isinstance(same, Unrouted)
    assert same.reason == "no rule of the host shop.example.com is for the path /"


def test_default_backends() -> None:
    only = table(ingress(defaultBackend=backend("fallback")))
    assert name_of(route(only, "any", "/x")) == "fallback"
    of_rules = table(ingress(rule("a.b", path("/x", "x")), defaultBackend=backend("fallback")))
    assert name_of(route(of_rules, "a.b", "/y")) == "fallback"
    assert name_of(route(of_rules, "c.d", "/y")) == "-"


def test_a_rule_without_paths_leads_to_the_default_backend() -> None:
    routes = table(ingress(IngressRule(host="a.b"), defaultBackend=backend("fallback")))
    assert name_of(route(routes, "a.b", "/y")) == "fallback"


def test_the_older_of_two_equal_rules_counts() -> None:
    new = ingress(rule("", path("/", "new")), name="a", created="2026-01-02T00:00:00Z")
    old = ingress(rule("", path("/", "old")), name="b", created="2026-01-01T00:00:00Z")
    assert name_of(route(table(new, old), "h", "/")) == "old"


def test_ports_by_name_and_number() -> None:
    routes = table(ingress(rule("", path("/a", "s", port="admin"), path("/b", "s", port=80))))
    answer = [route(routes, "h", text) for text in ("/a", "/b")]
    assert [item.port.port for item in answer if isinstance(item, Target) and item.port] == [
        9000,
        80,
    ]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (backend("missing"), "Service ns/missing does not exist"),
        (
            backend("external"),
            "podtui does not serve Service ns/external of the type ExternalName",
        ),
        (backend("s", 81), "Service ns/s has no port 81"),
        (backend("s", "web"), "Service ns/s has no port web"),
        (
            IngressBackend(resource=TypedLocalObjectReference(kind="Bucket", name="b")),
            "podtui does not serve the resource Bucket as a backend",
        ),
    ],
)
def test_a_backend_that_cannot_be_reached_says_why(item: IngressBackend, problem: str) -> None:
    answer = route(table(ingress(defaultBackend=item)), "h", "/")
    assert isinstance(answer, Target)
    assert answer.problem == problem


def test_which_classes_are_served() -> None:
    def of_class(name: str) -> Ingress:
        return ingress(ingressClassName=name)

    classes = {
        name: IngressClass(spec=IngressClassSpec(controller=controller))
        for name, controller in (("podtui", INGRESS_CONTROLLER), ("other", "example.com/other"))
    }
    expected = {"": True, "podtui": True, "nginx": True, "other": False}
    assert {name: is_served(of_class(name), classes) for name in expected} == expected
    annotated = Ingress(metadata=ObjectMeta(annotations={"kubernetes.io/ingress.class": "other"}))
    assert not is_served(annotated, classes)


def test_annotations_of_other_controllers() -> None:
    names = {"nginx.ingress.kubernetes.io/rewrite-target": "/", "team": "shop"}
    item = Ingress(metadata=ObjectMeta(annotations=names))
    assert ignored_annotations(item) == ["nginx.ingress.kubernetes.io/rewrite-target"]


def test_certificates() -> None:
    routes = table(
        ingress(
            tls=(
                IngressTLS(hosts=("*.example.com",), secretName="wildcard"),
                IngressTLS(hosts=("shop.example.com",), secretName="shop"),
                IngressTLS(secretName="fallback"),
                IngressTLS(hosts=("none.example.org",)),
            )
        )
    )
    secrets = {
        "shop.example.com": "shop",
        "shop.example.com.localhost": "shop",
        "x.example.com": "wildcard",
        "other": "fallback",
        "": "fallback",
        "none.example.org": "fallback",
    }
    selected = {name: certificate_of(routes, name) for name in secrets}
    assert {name: item.secret for name, item in selected.items() if item} == secrets


def test_no_certificate() -> None:
    assert certificate_of(table(), "a.b") is None


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_host_and_path_have_an_answer(host: str, text: str) -> None:
    routes = table(ingress(rule("a.b", path("/x", "x")), rule("*.b", path("/", "y"))))
    assert isinstance(route(routes, host, text), Target | Unrouted)


def test_host_names() -> None:
    assert host_name("[::1]:80") == "[::1]"
    assert host_name("Example.COM:80") == "example.com"
