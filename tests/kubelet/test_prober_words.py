"""Addresses, ports and errors as texts."""

from __future__ import annotations

import errno
import socket
from dataclasses import replace

import pytest
from pod_builders import box, engine, make_pod, seen

from podtui.api.v1 import Container, ContainerPort, HTTPGetAction
from podtui.kubelet.prober.address import (
    Address,
    PodAddresses,
    Unreachable,
    hook_port,
    pod_ip,
    probe_port,
)
from podtui.kubelet.prober.http_get import redirected, request_for
from podtui.kubelet.prober.tcp import dial_error, dial_timeout, read_error

WEB = Container(name="c", ports=(ContainerPort(name="web", containerPort=8080),))
SIX = Address("fd00::7", 80)


def test_errors_as_go_words_them() -> None:
    here = Address("10.0.0.7", 80)
    refused = OSError(errno.ECONNREFUSED, "whatever")
    assert dial_error(here, refused) == "dial tcp 10.0.0.7:80: connect: connection refused"
    no_route = OSError(errno.EHOSTUNREACH, "")
    assert dial_error(SIX, no_route) == "dial tcp [fd00::7]:80: connect: no route to host"
    unknown = socket.gaierror(socket.EAI_NONAME, "")
    assert dial_error(Address("x.y", 1), unknown) == "dial tcp: lookup x.y: no such host"
    reset = OSError(errno.ECONNRESET, "")
    assert read_error(here, reset) == "read tcp 10.0.0.7:80: read: connection reset by peer"
    assert dial_timeout(SIX) == "dial tcp [fd00::7]:80: i/o timeout"
    assert dial_error(here, OSError("of its own")) == "dial tcp 10.0.0.7:80: connect: of its own"


@pytest.mark.parametrize(("port", "expected"), [(81, 81), ("web", 8080), ("82", 82)])
def test_ports(port: int | str, expected: int) -> None:
    assert probe_port(port, WEB) == expected
    assert hook_port(port, WEB) == expected


def test_ports_that_are_none() -> None:
    assert probe_port(65536, WEB) == Unreachable("invalid port number: 65536")
    assert (hook_port("", WEB), hook_port(0, WEB)) == (80, 80)
    assert hook_port("x", WEB) == Unreachable("couldn't find port: x")


def test_the_newest_sandbox_counts_if_it_is_ready() -> None:
    assert pod_ip(None) == pod_ip(seen(sandboxes=())) == ""
    assert pod_ip(seen(sandboxes=(box(1, ips=("a",)), box(0, ips=("b",))))) == "a"
    assert pod_ip(seen(sandboxes=(box(1, ready=False), box(0, ips=("b",))))) == ""


@pytest.mark.parametrize("enterable", [True, False])
@pytest.mark.parametrize(
    ("fields", "reached"),
    [
        ({}, True),
        ({"local_host_network": False}, False),
        ({"local_host_network": False, "rootless": True}, False),
        ({"local_host_network": True, "rootless": True}, True),
    ],
)
def test_the_hosts_network(fields: dict[str, bool], reached: bool, enterable: bool) -> None:
    observed = seen(sandboxes=(replace(box(host_network=True), enterable=enterable),))
    addresses = PodAddresses(lambda uid: observed, lambda: engine(**fields))
    found = addresses.find(make_pod(hostNetwork=True), 80)
    if reached:
        assert found == Address("127.0.0.1", 80)
    elif enterable:
        assert found == Address("127.0.0.1", 80, "s0")
    else:
        assert isinstance(found, Unreachable)
        assert "user of a rootless engine" in found.text
    unseen = PodAddresses(lambda uid: None, lambda: engine(**fields))
    assert isinstance(unseen.find(make_pod(hostNetwork=True), 80), Address) is reached


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("enterable", [True, False])
@pytest.mark.parametrize("routable", [True, False])
def test_a_port_is_dialled_here_then_inside_the_pod_then_where_it_is_published(
    routable: bool, enterable: bool, published: bool, ready: bool
) -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}] if published else []
    sandbox = replace(box(ready=ready), routable=routable, enterable=enterable)
    observed = seen(sandboxes=(sandbox,))
    addresses = PodAddresses(lambda uid: observed, engine)
    pod = make_pod({"name": "c", "ports": ports})
    found = addresses.find(pod, 80)
    if not ready:
        assert found == Unreachable("the pod has no address")
    elif routable:
        assert found == Address("10.0.0.7", 80)
    elif enterable:
        assert found == Address("10.0.0.7", 80, "s0")
    elif published:
        assert found == Address("127.0.0.1", 8080)
    else:
        assert isinstance(found, Unreachable)
        assert "10.0.0.7 is not reachable from here" in found.text
        assert "give port 80 a hostPort" in found.text
    assert addresses.find(pod, 80, host="192.0.2.1") == Address("192.0.2.1", 80)


def test_an_address_that_is_a_strangers_here_is_not_dialled() -> None:
    pod = make_pod({"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]})
    for routable in (True, False):
        observed = seen()
        sandboxes = tuple(replace(one, routable=routable) for one in observed.sandboxes)
        strange = replace(observed, sandboxes=sandboxes)
        addresses = PodAddresses(lambda uid, seen=strange: seen, engine)
        own = Address(sandboxes[0].ips[0], 80)
        assert addresses.find(pod, 80) == (own if routable else Address("127.0.0.1", 8080))
        assert isinstance(addresses.find(pod, 81), Address) is routable


def test_a_far_engine_publishes_nothing_here() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    pod, observed = make_pod({"name": "c", "ports": ports}), seen()
    far = PodAddresses(lambda uid: observed, lambda: engine(routable_pods=False, local=False))
    assert isinstance(far.find(pod, 80), Unreachable)
    desktop = engine(routable_pods=False, local=False, operating_system="Docker Desktop")
    near = PodAddresses(lambda uid: observed, lambda: desktop)
    assert near.find(pod, 80) == Address("127.0.0.1", 8080)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b", "http://[fd00::7]:80/b"),
        ("c?d=e", "http://[fd00::7]:80/c?d=e"),
        ("https://[fd00::7]/x", "https://[fd00::7]:443/x"),
        ("http://elsewhere/x", None),
    ],
)
def test_redirects(location: str, url: str | None) -> None:
    request = request_for(HTTPGetAction(port=80, path="/a"), SIX, "test")
    following = redirected(request, location).request
    assert (None if following is None else following.url) == url


def test_a_redirect_stays_inside_the_pod() -> None:
    inside = replace(SIX, sandbox_id="s0")
    request = request_for(HTTPGetAction(port=80, path="/a"), inside, "test")
    following = redirected(request, "http://[fd00::7]:81/b").request
    assert following is not None
    assert following.address == Address("fd00::7", 81, "s0")


@pytest.mark.parametrize("location", ["http://[fd00::7", "ftp://[fd00::7]/", "http://[fd00::7]:x/"])
def test_redirects_that_cannot_be_followed(location: str) -> None:
    request = request_for(HTTPGetAction(port=80, path="/a"), SIX, "test")
    assert redirected(request, location).problem
