"""What the agent is asked for about one pod while somebody looks at it."""

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
"""What is asked for by the tabs that show it."""
WAIT_SECONDS: Final = 30.0
"""For so long the agent keeps an answer back until it has something new to tell."""


class Knowledge:
    """What was heard last stays where the agent does not answer; ``problem`` says why it did not,
    empty where it merely knows nothing of the pod."""

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
        """Ask for what one of `TABS_ASKED` shows, of the last ``span`` seconds; where that was
        heard already, wait until there is more. Whether the agent answered."""
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
