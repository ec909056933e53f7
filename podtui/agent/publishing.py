"""Wires what publishes Services on this machine: node ports, load balancers and Ingresses."""

from __future__ import annotations

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
from podtui.runtime.docker.identity import root_key
from podtui.runtime.protocol import Runtime
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
    for kind in ports.kinds:
        cache.add_kind(kind)
    return {
        "objects of published Services": partial(cache.run, objects),
        "events of published Services": events.run,
        "published Services": partial(ports.run, partial(run_controller, ports, cache, clock)),
    }


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
