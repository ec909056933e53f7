"""When a screen asks the agent to try connections again."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tui_scene import FakeClient
from why_objects import crashing_pod

from podtui.api.insight import ConnectionAttempt, ConnectionCheck, Outcome
from podtui.tui.model.connection_checks import AGAIN_SECONDS, ConnectionChecks


def answer(outcome: Outcome) -> ConnectionCheck:
    attempt = ConnectionAttempt(address="10.0.0.1", outcome=outcome, seconds=0.1)
    return ConnectionCheck(host="db", port=80, attempts=(attempt,))


class World:
    def __init__(self, outcome: Outcome | None) -> None:
        self.time = 0.0
        self.client = FakeClient()
        if outcome is not None:
            self.client.connection_checks["db", 80] = answer(outcome)
        self.checks = ConnectionChecks(lambda: self.time)
        self.pod: Any = crashing_pod("web")

    async def asks(self) -> bool:
        """Return whether the agent is asked now."""
        before = len(self.client.checked)
        self.checks.of(self.pod, "db", 80)
        if self.checks.is_due:
            await self.checks.ask(self.client, lambda: None)
        return len(self.client.checked) > before


async def test_an_accepted_connection_is_tried_again_after_a_restart() -> None:
    world = World(Outcome.ACCEPTED)
    assert world.checks.of(world.pod, "db", 80) is None
    assert await world.asks()
    assert world.checks.of(world.pod, "db", 80) == answer(Outcome.ACCEPTED)
    world.time = 10 * AGAIN_SECONDS
    assert not await world.asks()
    statuses = tuple(replace(each, restartCount=7) for each in world.pod.status.containerStatuses)
    world.pod = replace(world.pod, status=replace(world.pod.status, containerStatuses=statuses))
    assert await world.asks()


async def test_a_connection_that_failed_is_tried_again_after_a_while() -> None:
    for outcome in (Outcome.REFUSED, None):
        world = World(outcome)
        assert await world.asks()
        assert not await world.asks()
        world.time = AGAIN_SECONDS
        assert await world.asks()
    assert world.checks.of(world.pod, "db", 80) == "the pod has no running sandbox"
