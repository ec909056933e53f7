"""The connection to the engine: connect, detect a loss, reconnect (kubelet.md §3).

While all is quiet, the engine is pinged. After a call has failed, a ping is not enough: an engine
that waits for its own locks answers pings and lists, and nothing else.

Without a connection, the sync loop and all workers wait on `EngineLink.wait_ready`; they consume
and drop nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from podtui.api.names import AGENT_CLASH, KUBELET_NOT_READY
from podtui.clock import Clock
from podtui.errors import AgentClash, EngineError
from podtui.kubelet.config import KubeletConfig
from podtui.runtime.protocol import EngineInfo, Runtime

_LOG = logging.getLogger(__name__)
FIRST_DELAY = 0.1
LAST_DELAY = 5.0


class EngineLink:
    """Owns the connection state."""

    def __init__(self, runtime: Runtime, clock: Clock, config: KubeletConfig) -> None:
        self._runtime = runtime
        self._clock = clock
        self._config = config
        self._ready = asyncio.Event()
        self._suspect = asyncio.Event()
        self._last_ok: float | None = None
        self.info: EngineInfo | None = None
        self.error = ""
        self._clash = False

    @property
    def ready(self) -> bool:
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        if not self._ready.is_set():
            await self._ready.wait()

    def suspect(self, error: Exception) -> None:
        """Report a call that failed as if the engine were gone; triggers a check at once."""
        if self._ready.is_set():
            _LOG.debug("checking the engine because of: %s", error)
            self._suspect.set()

    def answered(self) -> None:
        """Note a successful call, which counts as a ping."""
        self._last_ok = self._clock.monotonic()

    def problems(self) -> tuple[str, ...]:
        """Return why the node is not ready, in the kubelet's wording."""
        if self._last_ok is None:
            unchecked = "container runtime status check may not have completed yet"
            return (
                (unchecked,)
                if self._config.strict or not self.error
                else (unchecked, self._not_ready())
            )
        if self.ready:
            return ()
        silent = self._clock.monotonic() - self._last_ok >= self._config.runtime_down_after
        down = ("container runtime is down",) if silent else ()
        return down if self._config.strict else (*down, self._not_ready())

    @property
    def reason(self) -> str:
        """The reason why the node is not ready, for its condition."""
        return AGENT_CLASH if self._clash and not self._config.strict else KUBELET_NOT_READY

    def _not_ready(self) -> str:
        return f"container runtime not ready: {self.error}"

    async def run(
        self, on_connected: Callable[[], Awaitable[None]], on_change: Callable[[], None]
    ) -> None:
        """Connect to the engine and watch the connection. Runs forever.

        ``on_connected`` (the first relist) is part of connecting: the link is ready after it has
        returned. ``on_change`` is called after every change of the state.
        """
        delay = FIRST_DELAY
        while True:
            try:
                # The engine client's own timeouts are shorter; this one is for an engine that
                # hangs.
                async with asyncio.timeout(60.0):
                    self.info = await self._runtime.connect()
                    await on_connected()
            except (EngineError, TimeoutError) as error:
                self._mark_lost(error, on_change)
                await self._clock.sleep(delay)
                delay = min(LAST_DELAY, 2 * delay)
                continue
            delay = FIRST_DELAY
            self.error = ""
            self._clash = False
            self.answered()
            self._suspect.clear()
            self._ready.set()
            _LOG.info("engine %s %s answers", self.info.name, self.info.version)
            on_change()
            self._mark_lost(await self._watch(), on_change)

    async def _watch(self) -> Exception:
        """Ping and check the engine until it fails, and return the error."""
        while True:
            try:
                async with asyncio.timeout(self._config.ping_period):
                    await self._suspect.wait()
            except TimeoutError:
                quiet = self._clock.monotonic() - (self._last_ok or 0.0)
                if quiet < self._config.ping_period:
                    continue
            suspected = self._suspect.is_set()
            self._suspect.clear()
            try:
                async with asyncio.timeout(self._config.runtime_down_after):
                    await self._runtime.ping()
                    if suspected:
                        await self._runtime.check()
            except (EngineError, TimeoutError) as error:
                return error
            self.answered()

    def _mark_lost(self, error: Exception, on_change: Callable[[], None]) -> None:
        was_ready = self._ready.is_set()
        self._ready.clear()
        text = str(error) or "the engine does not answer"
        changed = text != self.error
        self.error = text
        self._clash = isinstance(error, AgentClash)
        if was_ready or changed:
            _LOG.warning("Skipping pod synchronization: %s", text)
            on_change()
