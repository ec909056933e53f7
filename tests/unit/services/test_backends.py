"""The backends of Services, from Services and EndpointSlices."""

from __future__ import annotations

from podtui.api.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from podtui.api.v1 import (
    ClientIPConfig,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
    SessionAffinityConfig,
)
from podtui.services.backends import Backend, backends_of, port_backends

KEY: tuple[str, str] = ("default", "web")


def endpoint(ip: str, **conditions: bool) -> Endpoint:
    return Endpoint(addresses=(ip,), conditions=EndpointConditions(**conditions))


def endpoint_slice(*endpoints: Endpoint, ports: tuple[EndpointPort, ...] = ()) -> EndpointSlice:
    default = (EndpointPort(name="", port=8080, protocol="TCP"),)
    return EndpointSlice(addressType="IPv4", endpoints=endpoints, ports=ports or default)


def service(**spec: object) -> Service:
    values = {"clusterIP": "10.96.0.7", "ports": (ServicePort(port=80, protocol="TCP"),), **spec}
    return Service(metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(**values))  # pyright: ignore[reportArgumentType]


def test_only_ready_endpoints_are_backends() -> None:
    slices = [endpoint_slice(endpoint("10.0.0.1", ready=True), endpoint("10.0.0.2", ready=False))]
    assert backends_of(ServicePort(port=80), slices) == (Backend("10.0.0.1", 8080),)


def test_a_missing_condition_means_ready() -> None:
    assert backends_of(ServicePort(port=80), [endpoint_slice(endpoint("10.0.0.1"))]) == (
        Backend("10.0.0.1", 8080),
    )


def test_without_ready_endpoints_those_that_still_serve_are_used() -> None:
    ends = endpoint("10.0.0.3", ready=False, serving=True, terminating=True)
    gone = endpoint("10.0.0.4", ready=False, serving=False, terminating=True)
    assert backends_of(ServicePort(port=80), [endpoint_slice(ends, gone)]) == (
        Backend("10.0.0.3", 8080),
    )


def test_ports_of_a_slice_are_found_by_name_and_protocol() -> None:
    ports = (
        EndpointPort(name="dns", port=53, protocol="UDP"),
        EndpointPort(name="dns-tcp", port=5353, protocol="TCP"),
    )
    slices = [endpoint_slice(endpoint("10.0.0.1"), ports=ports)]
    assert backends_of(ServicePort(name="dns", port=53, protocol="UDP"), slices) == (
        Backend("10.0.0.1", 53),
    )
    assert backends_of(ServicePort(name="dns", port=53, protocol="TCP"), slices) == ()


def test_headless_and_external_services_have_no_ports() -> None:
    services = [service(clusterIP="None"), service(type="ExternalName", clusterIP="")]
    assert port_backends(services, {}) == []


def test_session_affinity_has_its_timeout() -> None:
    config = SessionAffinityConfig(clientIP=ClientIPConfig(timeoutSeconds=60))
    slices = {KEY: [endpoint_slice(endpoint("10.0.0.1"))]}
    plain, default, short = port_backends(
        [
            service(),
            service(sessionAffinity="ClientIP"),
            service(sessionAffinity="ClientIP", sessionAffinityConfig=config),
        ],
        slices,
    )
    assert (plain.affinity, default.affinity, short.affinity) == (0, 10800, 60)
    assert plain.backends == (Backend("10.0.0.1", 8080),)
