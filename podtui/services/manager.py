"""All parts that give Services their names and addresses, and what they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from podtui.client.cache import Cache
from podtui.client.protocol import Follower
from podtui.clock import Clock
from podtui.services.index import ServiceIndex
from podtui.services.name_index import NameIndex
from podtui.services.protocol import EventSink, PodListener, PodNetworks
from podtui.services.proxy import Proxy

SERVICE_PROXY: Final = "kube-proxy"
"""The User-Agent of the parts, and the component of their events."""
Jobs = dict[str, Callable[[], Awaitable[object]]]


class Services:
    """The parts share one cache of objects and one index of Services. `jobs` run them.

    A part adds the kinds that it follows to ``cache`` in its constructor.
    """

    def __init__(
        self,
        networks: PodNetworks,
        events: EventSink,
        clock: Clock,
        *,
        node_name: str,
        host_table: str,
    ) -> None:
        """``host_table`` is the name of the agent's table of rules in the host's network."""
        self.cache = Cache()
        self.index = ServiceIndex(self.cache)
        self.names = NameIndex(self.cache, self.index)
        self.listeners: list[PodListener] = []
        """DNS and the API for pods. Complete before `jobs` run."""
        self.proxy = Proxy(
            self.cache,
            self.index,
            networks,
            self.listeners,
            events,
            clock,
            node_name=node_name,
            host_table=host_table,
        )


def service_jobs(services: Services, objects: Follower) -> Jobs:
    """Return the long-running calls of the parts, by name. They follow ``objects``."""
    return {
        "objects of Services": partial(services.cache.run, objects),
        "Service proxy": services.proxy.run,
    }
