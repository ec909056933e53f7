"""What the agent is asked for about one pod while somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable

from podtui.api.insight import PodInsight, PodStart, ProbeReport, Timeline, UsageSeries
from podtui.api.v1 import Pod
from podtui.client.protocol import Client
from podtui.errors import ApiError, PodtuiError
from podtui.tui.sanitize import clean

TABS_ASKED = frozenset({"timeline", "resources", "probes"})
"""Tabs that show it."""


class Knowledge:
    """What was heard last stays where the agent does not answer; ``problem`` says why it did not,
    empty where it merely knows nothing of the pod."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._insight = PodInsight(time=0.0)
        self.starts: tuple[PodStart, ...] = ()
        self.problem = ""
        self.asked_at = 0.0

    @property
    def probes(self) -> tuple[ProbeReport, ...]:
        return self._insight.probes

    @property
    def usage(self) -> tuple[UsageSeries, ...]:
        return self._insight.usage

    async def ask(self, pod: Pod, tab: str) -> None:
        """Ask for what one of `TABS_ASKED` shows."""
        namespace, name = pod.metadata.namespace, pod.metadata.name
        try:
            if tab == "timeline":
                self.starts = (await self._client.get(Timeline, namespace, name)).starts
            else:
                self._insight = await self._client.insight(namespace, name)
                self.asked_at = self._now()
            self.problem = ""
        except PodtuiError as error:
            unknown = isinstance(error, ApiError) and error.code == 404
            self.problem = "" if unknown else clean(str(error))
