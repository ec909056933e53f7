"""Query the agent about one pod while its screen is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from podtui.api.insight import (
    InsightPart,
    InsightQuery,
    NetworkSeries,
    PodInsight,
    PodStart,
    ProbeReport,
    UsageSeries,
)
from podtui.api.v1 import Pod
from podtui.client.protocol import Client
from podtui.errors import ApiError, PodtuiError
from podtui.tui.widgets.sanitize import clean

TABS_ASKED: Final = {
    "timeline": InsightPart.STARTS,
    "resources": InsightPart.USAGE,
    "probes": InsightPart.PROBES,
}
"""The part of the insight that each tab shows."""
WAIT_SECONDS: Final = 30.0
"""Maximum seconds that the agent holds a query until it has news (long polling)."""


class Knowledge:
    """The last answers of the agent about a pod. They are kept if a later query fails. ``problem``
    is the reason of the failure; empty if the agent merely does not know the pod.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._told: dict[InsightPart, PodInsight] = {}
        self._seen: tuple[str, str, InsightPart, float, str] | None = None
        self.problem = ""
        self.asked_at = 0.0

    @property
    def starts(self) -> tuple[PodStart, ...]:
        return self._of(InsightPart.STARTS).starts

    @property
    def probes(self) -> tuple[ProbeReport, ...]:
        return self._of(InsightPart.PROBES).probes

    @property
    def usage(self) -> tuple[UsageSeries, ...]:
        return self._of(InsightPart.USAGE).usage

    @property
    def network(self) -> NetworkSeries:
        return self._of(InsightPart.USAGE).network

    @property
    def unmeasured(self) -> dict[str, str]:
        return self._of(InsightPart.USAGE).unmeasured

    def _of(self, part: InsightPart) -> PodInsight:
        return self._told.get(part, PodInsight(time=0.0))

    async def ask(self, pod: Pod, tab: str, span: float) -> bool:
        """Query the part shown by ``tab`` (one of `TABS_ASKED`) for the last ``span`` seconds. If
        that part is known, wait until the agent has news. Return whether the agent answered.
        """
        namespace, name = pod.metadata.namespace, pod.metadata.name
        part = TABS_ASKED[tab]
        seen = ""
        if self._seen is not None and self._seen[:-1] == (namespace, name, part, span):
            seen = self._seen[-1]
        wait = WAIT_SECONDS if seen else 0.0
        query = InsightQuery(part=part, span=span, seen=seen, wait=wait)
        try:
            found = await self._client.insight(namespace, name, query)
        except PodtuiError as error:
            unknown = isinstance(error, ApiError) and error.code == 404
            self.problem = "" if unknown else clean(str(error))
            self._seen = None
            return False
        self.problem = ""
        if found is not None:
            self._told[part] = found
            self._seen = (namespace, name, part, span, found.version)
            self.asked_at = self._now()
        return True
