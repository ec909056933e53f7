"""Environment variables that name the Services of a pod's namespace (kubelet.md §10.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from podtui.api.v1 import Pod, Service, ServicePort

_API: Final = ("default", "kubernetes")
"""Namespace and name of the Service of the API: every pod has its variables."""


def service_variables(pod: Pod, services: Iterable[Service]) -> dict[str, str]:
    """Return the variables for those of ``services`` that have a cluster IP: the API's, and unless
    ``enableServiceLinks`` is false those of the pod's namespace, which win."""
    selected: dict[str, Service] = {}
    for service in services:
        meta = service.metadata
        if service.spec.clusterIP in ("", "None"):
            continue
        if (meta.namespace, meta.name) == _API:
            selected.setdefault(meta.name, service)
        elif meta.namespace == pod.metadata.namespace and pod.spec.enableServiceLinks is not False:
            selected[meta.name] = service
    return {name: value for service in selected.values() for name, value in _variables_of(service)}


def _variables_of(service: Service) -> Iterator[tuple[str, str]]:
    address, ports = service.spec.clusterIP, service.spec.ports
    prefix = _variable_name(service.metadata.name)
    if not ports:
        return
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(ports[0].port)
    for port in ports:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}", str(port.port)
    yield f"{prefix}_PORT", _url(address, ports[0])
    for port in ports:
        link = f"{prefix}_PORT_{port.port}_{_protocol(port)}"
        yield link, _url(address, port)
        yield f"{link}_PROTO", _protocol(port).lower()
        yield f"{link}_PORT", str(port.port)
        yield f"{link}_ADDR", address


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()


def _protocol(port: ServicePort) -> str:
    return (port.protocol or "TCP").upper()


def _url(address: str, port: ServicePort) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"{_protocol(port).lower()}://{host}:{port.port}"
