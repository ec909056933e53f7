"""The checks of an API server before it passes a request for a pod on to the kubelet.

The kubelet has its own checks, with other texts, and does not know pods that no node has yet.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from podtui.api.pods import container_names
from podtui.api.v1 import EndpointAddress, Endpoints, EndpointSubset, Pod, Service
from podtui.server.status import Handler, StatusError, bad_request, not_found
from podtui.store.protocol import Records

_SCHEMES: Final = ("", "http", "https")
_NUMBER: Final = re.compile("[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """The pod, Service or node that a proxy request names. ``scheme`` and ``port`` may be empty."""

    scheme: str
    name: str
    port: str


def parse_target(text: str, kind: str) -> ProxyTarget:
    """Parse ``NAME``, ``NAME:PORT`` or ``SCHEME:NAME:PORT``. Raises `StatusError` 400."""
    parts = text.split(":")
    if len(parts) < 3:
        parts = ["", *parts]
    if len(parts) == 2:
        parts.append("")
    scheme, name, *port = parts
    if len(port) != 1 or not name or scheme not in _SCHEMES:
        raise bad_request(f'invalid {kind} request "{text}"')
    return ProxyTarget(scheme, name, port[0])


@dataclass(frozen=True, slots=True)
class ServiceLocation:
    """A pod behind a Service, and how to reach its endpoint."""

    scheme: str
    pod: Pod
    address: str
    port: int


def port_name(service: Service, port: str) -> str:
    """Return the name of a Service's port, which a request gives by number or by name. Raises
    `StatusError` 503."""
    if not _NUMBER.fullmatch(port):
        return port
    for item in service.spec.ports:
        if item.port == int(port):
            return item.name
    name = service.metadata.name
    raise StatusError(503, f'no service port {int(port)} found for service "{name}"')


def endpoint_addresses(
    subsets: Iterable[EndpointSubset], port: str
) -> Iterator[tuple[EndpointAddress, int]]:
    """Yield the ready addresses that have the named port, with its number."""
    for subset in subsets:
        for number in (item.port for item in subset.ports if item.name == port):
            yield from ((address, number) for address in subset.addresses)


class PodLocations:
    def __init__(self, records: Records, node_name: str) -> None:
        self._records = records
        self._node_name = node_name

    async def pod(self, request: web.Request) -> Pod:
        """Return the pod that a request names. Raises `StatusError` 404."""
        return await self.named(request.match_info["namespace"], request.match_info["pod"])

    async def named(self, namespace: str, name: str) -> Pod:
        """Raises `StatusError` 404."""
        pod = await self._records.get("pods", namespace, name)
        if not isinstance(pod, Pod):
            raise not_found("pods", name)
        return pod

    async def of_service(self, namespace: str, text: str) -> ServiceLocation:
        """Return a ready pod behind the Service that a proxy request names. Raises `StatusError`
        400, 404 or 503."""
        target = parse_target(text, "service")
        name, port = target.name, target.port
        if _NUMBER.fullmatch(port):
            service = await self._records.get("services", namespace, name)
            if not isinstance(service, Service):
                raise not_found("services", name)
            port = port_name(service, port)
        endpoints = await self._records.get("endpoints", namespace, name)
        if not isinstance(endpoints, Endpoints):
            raise not_found("endpoints", name)
        if not endpoints.subsets:
            raise StatusError(503, f'no endpoints available for service "{name}"')
        addresses = [*endpoint_addresses(endpoints.subsets, port)]
        random.shuffle(addresses)
        for address, number in addresses:
            reference = address.targetRef
            if reference is None or reference.namespace != namespace:
                continue
            pod = await self._records.get("pods", namespace, reference.name)
            if isinstance(pod, Pod) and address.ip in [item.ip for item in pod.status.podIPs]:
                return ServiceLocation(target.scheme, pod, address.ip, number)
        raise StatusError(503, f'no endpoints available for service "{text}"')

    @web.middleware
    async def own_node(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests through the proxy of another node. Raises `StatusError` 400, 404 or 500.

        The port that a client may add is ignored: the kubelet of this node is the agent itself.
        """
        if "node" in request.match_info:
            name = parse_target(request.match_info["node"], "node").name
            if name != self._node_name:
                if await self._records.get("nodes", "", name) is None:
                    raise not_found("nodes", name)
                raise StatusError(500, self._unreachable(f'the request is for node "{name}"'))
        return await handler(request)

    def checked(self, handler: Handler, *, container: bool) -> Handler:
        """Return a handler that first checks that the pod has a node and, with ``container``, the
        container of the request."""

        async def located(request: web.Request) -> web.StreamResponse:
            pod = await self.pod(request)
            if container:
                check_container(pod, request.query.get("container", ""))
            if not pod.spec.nodeName:
                raise bad_request(f"pod {pod.metadata.name} does not have a host assigned")
            self.check_node(pod)
            return await handler(request)

        return located

    def check_node(self, pod: Pod) -> None:
        """Raises `StatusError` 500 if the pod runs on another node: podtui does not connect to the
        kubelets of other nodes."""
        node = pod.spec.nodeName
        if node != self._node_name:
            text = f'pod "{pod.metadata.name}" is bound to node "{node}"'
            raise StatusError(500, self._unreachable(text))

    def _unreachable(self, text: str) -> str:
        return f'{text}, but this agent reaches only the kubelet of node "{self._node_name}"'


def check_container(pod: Pod, name: str) -> None:
    """Check the container that a request names; without a name, the pod must have only one.

    Raises `StatusError` 400.
    """
    names = container_names(pod)
    if name and name not in names:
        raise bad_request(f"container {name} is not valid for pod {pod.metadata.name}")
    if not name and len(pod.spec.containers) != 1:
        raise bad_request(
            f"a container name must be specified for pod {pod.metadata.name}, choose one of:"
            f" [{' '.join(names)}]"
        )
