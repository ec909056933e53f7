"""Wires what publishes Services on this machine: node ports, load balancers and Ingresses."""

from __future__ import annotations

import resource
import ssl
from functools import partial
from typing import Final

from podtui.client.api_client import ApiClient
from podtui.clock import Clock
from podtui.controllers.client import ControllerClient
from podtui.controllers.loop import run_controller
from podtui.pki.certificates import (
    key_pem,
    make_authority,
    make_key,
    make_server_certificate,
    pem,
)
from podtui.runtime.docker.identity import root_key
from podtui.services.ingress_server import IngressServer, server_context
from podtui.services.ingresses import Ingresses
from podtui.services.manager import Jobs, Services
from podtui.services.protocol import EventSink
from podtui.services.proxies import MAX_TOTAL, Dialer
from podtui.services.service_ports import ServicePorts
from podtui.settings import Settings

AGENT: Final = "cloud-controller-manager"
"""The User-Agent, which is also the manager of the fields that are written."""
_FILES: Final = 2048
"""Files of the rest of the agent, with those of its API and of Ingresses."""
_MIN_CONNECTIONS: Final = 64


def publishing_jobs(
    services: Services,
    client: ApiClient,
    events: EventSink,
    dialer: Dialer,
    settings: Settings,
    clock: Clock,
) -> Jobs:
    """Return the long-running calls, by name. They write with ``client``."""
    cache = services.cache
    writer = ControllerClient(client, cache)
    ports = ServicePorts(
        services.index,
        writer,
        events,
        dialer,
        clock,
        address=settings.servicesAddress,
        machine=root_key(str(settings.rootDir)),
        max_connections=max_connections(),
    )
    jobs: Jobs = {
        "published Services": partial(ports.run, partial(run_controller, ports, cache, clock)),
    }
    controllers: list[ServicePorts | Ingresses] = [ports]
    if settings.ingressPort:
        fallback = fallback_context(settings.servicesAddress, clock)
        ingresses = Ingresses(
            cache,
            services.index,
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


def max_connections() -> int:
    """Return how many connections may be open, and let the process have the files for them: each
    connection needs two, and the rest of the agent some hundred."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES + 2 * MAX_TOTAL
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return max(_MIN_CONNECTIONS, min(MAX_TOTAL, (limit - _FILES) // 2))


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
