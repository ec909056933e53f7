"""Opening URLs of Services, and forwards to them."""

from __future__ import annotations

import pytest
from service_scene import INGRESSES, SERVICES, WEB, as_object, shop_objects
from why_objects import make, ready_pod, starting_pod

from podtui.errors import UsageError
from podtui.tui.commands.open_url import hindrance, urls_of
from podtui.tui.commands.port_forward import (
    PortPair,
    forwarded_pod,
    parse_service_ports,
    service_ports_problem,
)

URL = "http://127.0.0.1:30080/x"


def test_urls_of_a_service_and_an_ingress() -> None:
    items = shop_objects()
    assert urls_of(as_object(SERVICES, items["web"])) == ["http://127.0.0.1:30080/"]
    assert urls_of(as_object(SERVICES, items["db"])) == []
    assert urls_of(as_object(INGRESSES, items["ingress"])) == [
        "http://shop.example.localhost:8080/", "http://shop.example.localhost:8080/cart",
    ]  # fmt: skip


def test_a_display_shows_a_browser() -> None:
    assert hindrance(URL, {"DISPLAY": ":0"}, "linux") == ""
    assert hindrance(URL, {}, "darwin") == ""
    assert hindrance(URL, {}, "linux").startswith("There is no display here")


@pytest.mark.parametrize(
    ("url", "forward", "here"),
    [
        (URL, "30080:127.0.0.1:30080", URL),
        ("http://127.96.1.2/", "8080:127.96.1.2:80", "http://127.0.0.1:8080/"),
        ("http://a.localhost:8480/", "8480:127.0.0.1:8480", "http://a.localhost:8480/"),
    ],
)
def test_over_ssh_the_port_to_forward_is_named(url: str, forward: str, here: str) -> None:
    text = hindrance(url, {"SSH_CONNECTION": "a", "DISPLAY": ":10"}, "linux")
    assert f"ssh -L {forward} " in text
    assert text.endswith(f"open {here}")


def test_a_forward_reaches_a_ready_pod() -> None:
    web = shop_objects()["web"]
    running = ready_pod("web-9", labels=WEB)
    other = ready_pod("web-1", labels={"app": "other"})
    assert forwarded_pod(web, (starting_pod("web-0", labels=WEB), other, running)) is running
    with pytest.raises(UsageError, match="none of its pods is running"):
        forwarded_pod(web, (other,))
    with pytest.raises(UsageError, match="no selector"):
        forwarded_pod(make("Service", "web", spec={}), (running,))


def test_ports_are_those_of_the_service() -> None:
    web = shop_objects()["web"]
    container = {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}
    pod = ready_pod("web-1", labels=WEB, spec={"containers": [container]})
    assert parse_service_ports("80", web, pod) == PortPair(80, 8080)
    assert parse_service_ports(":http", web, pod) == PortPair(0, 8080)
    assert parse_service_ports("9000:9102", web, pod) == PortPair(9000, 9102)
    assert service_ports_problem("81", web, pod) == (
        "the Service has no TCP port '81'; it has 80, 9102"
    )
    assert "no port 'http'" in service_ports_problem("80", web, ready_pod("web-1"))
