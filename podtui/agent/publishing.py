"""Wires what publishes Services on this machine: node ports, load balancers and Ingresses."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from podtui.agent.pod_dialing import EndpointDialer
from podtui.api.v1 import Pod
from podtui.client.api_client import ApiClient
from podtui.client.cache import Cache
from podtui.client.protocol import Follower
from podtui.clock import Clock
from podtui.controllers.client import ControllerClient
from podtui.controllers.events import ControllerEvents
from podtui.controllers.loop import run_controller
from podtui.pki.certificates import (
    key_pem,
    make_authority,
    make_key,
    make_server_certificate,
    pem,
)
from podtui.runtime.docker.identity import root_key
from podtui.runtime.protocol import Runtime
from podtui.services.ingress_server import IngressServer, server_context
from podtui.services.ingresses import Ingresses
from podtui.services.service_ports import ServicePorts
from podtui.settings import Settings

AGENT: Final = "cloud-controller-manager"
"""The User-Agent, which is also the manager of the fields that are written."""


def publishing_jobs(
    client: ApiClient, objects: Follower, runtime: Runtime, settings: Settings, clock: Clock
) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return the long-running calls, by name."""
    cache = Cache()
    pods = PodsByIp(cache)
    writer = ControllerClient(client, cache)
    events = ControllerEvents(client, clock)
    dialer = EndpointDialer(runtime, pods.uid)
    ports = ServicePorts(
        cache,
        writer,
        events,
        dialer,
        clock,
        address=settings.servicesAddress,
        machine=root_key(str(settings.rootDir)),
    )
    jobs: dict[str, Callable[[], Awaitable[object]]] = {
        "objects of published Services": partial(cache.run, objects),
        "events of published Services": events.run,
        "published Services": partial(ports.run, partial(run_controller, ports, cache, clock)),
    }
    controllers: list[ServicePorts | Ingresses] = [ports]
    if settings.ingressPort:
        fallback = fallback_context(settings.servicesAddress, clock)
        ingresses = Ingresses(
            cache,
            writer,
            events,
            lambda backends_of: IngressServer(backends_of, dialer, fallback, clock),
            address=settings.servicesAddress,
            port=settings.ingressPort,
        )
        controllers.append(ingresses)
        follow = partial(run_controller, ingresses, cache, clock)
        jobs["Ingresses"] = partial(ingresses.run, follow)
    for controller in controllers:
        for kind in controller.kinds:
            cache.add_kind(kind)
    return jobs


def fallback_context(address: str, clock: Clock) -> ssl.SSLContext:
    """Return the context for names without a certificate. Its authority is not kept: no client can
    trust it."""
    now, authority_key, key = clock.now(), make_key(), make_key()
    authority = make_authority(authority_key, now)
    names = tuple(dict.fromkeys(("localhost", "127.0.0.1", address)))
    certificate = make_server_certificate(
        authority, authority_key, key, names, now, "podtui-ingress"
    )
    return server_context(pem(certificate), key_pem(key))


class PodsByIp:
    """The pods of a cache with a network of their own, by IP."""

    def __init__(self, cache: Cache) -> None:
        self._uids: dict[str, str] = {}
        cache.observe(Pod, self._changed)

    def uid(self, ip: str) -> str:
        """Return the UID of the pod with an IP, or an empty text."""
        return self._uids.get(ip, "")

    def _changed(self, before: object | None, after: object | None) -> None:
        if isinstance(before, Pod):
            for ip in _ips(before):
                if self._uids.get(ip) == before.metadata.uid:
                    del self._uids[ip]
        if isinstance(after, Pod):
            for ip in _ips(after):
                self._uids[ip] = after.metadata.uid


def _ips(pod: Pod) -> list[str]:
    ended = pod.status.phase in ("Succeeded", "Failed")
    return [] if ended or pod.spec.hostNetwork else [item.ip for item in pod.status.podIPs]
