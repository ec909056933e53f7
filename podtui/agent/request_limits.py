"""The rates of a node's requests to the API server of its cluster, as a kubelet limits them.

A kubelet has three clients: one for events, one without a limit for heartbeats (the lease and the
status of the node), and one for everything else. Watches are not limited; the list before each
watch is.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final, Literal

from podtui.client.connection import Request
from podtui.clock import Clock
from podtui.events.token_bucket import TokenBucket
from podtui.settings import Settings

_DEFAULT_QPS: Final = 5
_DEFAULT_BURST: Final = 10
"""Those of client-go, in place of 0."""
_HEARTBEATS: Final = ("/apis/coordination.k8s.io/", "/api/v1/nodes/")
_EVENTS: Final = re.compile(r"/api/v1/namespaces/[^/]+/events(/|$)")
Limit = Literal["", "events", "requests"]


def limit_of(request: Request) -> Limit:
    """Return the limit that a request counts for; empty for none."""
    parameters = dict[str, str](request.params or ())
    if "watch" in parameters or request.path.startswith(_HEARTBEATS):
        return ""
    return "events" if _EVENTS.match(request.path) else "requests"


class _Rate:
    def __init__(self, qps: int, burst: int) -> None:
        self.seconds = 1 / (qps or _DEFAULT_QPS)
        self.bucket = TokenBucket(qps or _DEFAULT_QPS, burst or _DEFAULT_BURST)
        self.turn = asyncio.Lock()


class RequestLimits:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._rates = {
            "requests": _Rate(settings.kubeAPIQPS, settings.kubeAPIBurst),
            "events": _Rate(settings.eventRecordQPS, settings.eventBurst),
        }

    async def wait(self, request: Request) -> None:
        """Wait until the request may be sent. Requests are sent in the order of their calls."""
        limit = limit_of(request)
        if not limit:
            return
        rate = self._rates[limit]
        async with rate.turn:
            while not rate.bucket.take(self._clock.monotonic()):
                await self._clock.sleep(rate.seconds)
