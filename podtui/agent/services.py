"""Wires what gives Services their names and addresses, in pods and on this machine."""

from __future__ import annotations

import resource
import ssl
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from podtui.agent.api_for_pods import ApiForPods
from podtui.agent.node_resolvers import NodeResolvers
from podtui.agent.pod_dialing import EndpointDialer
from podtui.agent.pod_networks import EngineNetworks, host_table
from podtui.api.names import root_key
from podtui.client.api_client import ApiClient
from podtui.client.protocol import Follower
from podtui.client.unix import UnixClient
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
from podtui.runtime.protocol import Runtime
from podtui.server.transport.pod_server import PodServers
from podtui.services.dns_server import DnsServer
from podtui.services.forwarding import Forwarder
from podtui.services.ingress_server import IngressServer, server_context
from podtui.services.ingresses import Ingresses
from podtui.services.manager import SERVICE_PROXY, Jobs, Services, service_jobs
from podtui.services.protocol import EventSink
from podtui.services.proxies import MAX_TOTAL, Dialer
from podtui.services.service_ports import ServicePorts
from podtui.services.zone import CLUSTER_DOMAIN
from podtui.settings import Settings

PUBLISHER: Final = "cloud-controller-manager"
"""The User-Agent of what publishes Services on this machine, and the manager of the fields that it
writes."""
_FILES: Final = 2048
"""Files of the rest of the agent, with those of its API and of Ingresses."""
_MIN_CONNECTIONS: Final = 64


def service_parts(
    stack: AsyncExitStack,
    runtime: Runtime,
    networks: EngineNetworks,
    objects: Follower,
    settings: Settings,
    clock: Clock,
    servers: PodServers | None,
) -> Jobs:
    """Create all parts, which ``stack`` closes, and return their long-running calls, by name. They
    follow ``objects``. Pods reach the API if there are ``servers`` for it."""

    def client(agent: str) -> UnixClient:
        created = UnixClient(settings.socket_path, clock=clock, agent=agent)
        stack.push_async_callback(created.close)
        return created

    events = ControllerEvents(client(SERVICE_PROXY), clock)
    services = Services(
        networks,
        events,
        clock,
        node_name=settings.nodeName,
        host_table=host_table(str(settings.rootDir)),
    )
    if settings.engine != "memory":
        # Simulated pods have no network.
        networks.services = services.proxy
    dns = DnsServer(
        services.names,
        settings.clusterDomain or CLUSTER_DOMAIN,
        Forwarder(NodeResolvers(settings.resolvConf, clock)),
        clock,
    )
    stack.callback(dns.close)
    services.listeners.append(dns)
    jobs: Jobs = {"events of Services": events.run, "cluster DNS": dns.run}
    if servers is not None:
        api = ApiForPods(servers)
        stack.callback(api.close)
        services.listeners.append(api)
        jobs["API for pods"] = api.run
    jobs |= publishing_jobs(
        services, client(PUBLISHER), events, EndpointDialer(runtime, networks), settings, clock
    )
    # Last: each part adds the kinds that it follows.
    return jobs | service_jobs(services, objects)


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
