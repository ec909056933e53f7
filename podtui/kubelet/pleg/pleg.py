"""PLEG: the pod life-cycle event generator (kubelet.md §3).

The runtime's event stream names the pods to list, a relist every few seconds repairs what the
stream missed, and a worker that acted refreshes its own pod at once. All three update the cache.
``on_change`` is called with each pod whose observation changed, unless only dead containers and
sandboxes were removed: a kubelet runs no pass for those.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from podtui.clock import Clock
from podtui.errors import EngineError, EngineTimeout, EngineUnavailable
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.kubelet_metrics import PLEG_LAST_SEEN, RELIST_INTERVAL, RELIST_SECONDS
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.pleg.observer import PodObserver, Signature, signature
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import (
    ContainerRecord,
    ContainerState,
    Runtime,
    SandboxRecord,
    SandboxState,
    SandboxStatus,
)

_LOG = logging.getLogger(__name__)
# With more dirty pods than this, one list of all pods is cheaper.
REFRESH_LIMIT = 8
# Seconds by which events of a busy pod are deferred: its worker refreshes the pod when done.
BUSY_DELAY = 1.0
# An engine may report an end before its lists show it: seconds before each repeated list.
ECHOES = (0.02, 0.1, 0.5)
ENDS = frozenset({"die", "destroy"})
UNHEALTHY_AFTER = 180.0


def only_dead_removed(before: ObservedPod | None, after: ObservedPod | None) -> bool:
    """Return True if the only difference is that dead containers or sandboxes were removed."""
    if before is None:
        return False
    boxes = () if after is None else after.sandboxes
    containers = () if after is None else after.containers
    if any(box not in before.sandboxes for box in boxes):
        return False
    if any(container not in before.containers for container in containers):
        return False
    lost_boxes = [box for box in before.sandboxes if box not in boxes]
    lost = [container for container in before.containers if container not in containers]
    return all(box.state is SandboxState.NOT_READY for box in lost_boxes) and all(
        container.state is ContainerState.EXITED for container in lost
    )


class Pleg:
    def __init__(
        self,
        runtime: Runtime,
        cache: PodCache,
        link: EngineLink,
        clock: Clock,
        config: KubeletConfig,
        *,
        on_change: Callable[[str], None],
        is_busy: Callable[[str], bool],
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._link = link
        self._clock = clock
        self._config = config
        self._on_change = on_change
        self._is_busy = is_busy
        self._observer = PodObserver(runtime)
        # The states of a pod's objects when they were last inspected. As long as lists show the
        # same, nothing is inspected: a relist of quiet pods is a single call.
        self._signatures: dict[str, Signature] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # Ordered sets of the pods to refresh. For `_dirty`, a busy worker defers the refresh; for
        # `_forced` it does not.
        self._dirty: dict[str, None] = {}
        self._forced: dict[str, None] = {}
        self._ended: dict[str, dict[str, str]] = {}
        """Ends reported by events and not yet shown by a list: by pod UID and by id, the action."""
        self._echoes: dict[str, int] = {}
        self._marked = asyncio.Event()
        self._relist_soon = asyncio.Event()
        self._streaming = False
        self._last_relist: float | None = None

    # --- observing

    async def relist(self) -> None:
        """Observe every pod with one list call and one inspect per changed object.

        Raises `EngineError`.
        """
        if self._last_relist is not None:
            RELIST_INTERVAL.observe(self._clock.monotonic() - self._last_relist)
        with RELIST_SECONDS.time():
            await self._relist()
        self._last_relist = self._clock.monotonic()
        PLEG_LAST_SEEN.set(self._clock.now().timestamp())
        self._link.answered()

    async def _relist(self) -> None:
        # The order is taken before the list: an observation is at least as new as its order. A list
        # that takes long therefore cannot overwrite what a later, quicker one has shown.
        order = self._cache.begin()
        was_ready = self._link.ready
        snapshot = await self._runtime.list()
        boxes: dict[str, list[SandboxRecord]] = {}
        containers: dict[str, list[ContainerRecord]] = {}
        for sandbox in snapshot.sandboxes:
            boxes.setdefault(sandbox.uid, []).append(sandbox)
        for container in snapshot.containers:
            containers.setdefault(container.pod_uid, []).append(container)
        whole = True
        # Pods of earlier lists are included: those that are in no list now are gone.
        for uid in boxes.keys() | containers.keys() | self._signatures.keys():
            try:
                await self._apply(uid, order, boxes.get(uid, ()), containers.get(uid, ()))
            except EngineTimeout as error:
                # Perhaps only this pod's containers are blocked. If the engine is, the link's check
                # fails meanwhile.
                if was_ready and not self._link.ready:
                    raise
                self._link.suspect(error)
                whole = False
                _LOG.warning("pod %s cannot be inspected: %s", uid, error)
            except EngineUnavailable:
                raise
            except EngineError as error:
                whole = False
                _LOG.warning("pod %s cannot be inspected: %s", uid, error)
        # Only if all pods could be read does the list prove that every cached pod is up to date.
        if whole:
            self._cache.touch_all(order)

    async def refresh(self, uid: str) -> bool:
        """Observe one pod; return True if the observation changed. Raises `EngineError`."""
        order = self._cache.begin()
        snapshot = await self._runtime.list(uid)
        return await self._apply(uid, order, snapshot.sandboxes, snapshot.containers)

    async def newer_than(self, uid: str, order: int) -> ObservedPod | None:
        """Return the pod as seen by a list that began after ``order``. Raises `EngineError`."""
        if self._cache.seen(uid) <= order:
            await self.refresh(uid)
        return self._cache.get(uid)

    def note_sandbox(self, status: SandboxStatus) -> None:
        """Cache an inspected sandbox, to save the next observation an inspect."""
        self._observer.note_sandbox(status)

    def reinspect(self, uid: str) -> None:
        """Inspect running containers again at the next observation, for a change no list shows."""
        self._observer.forget_running(self._cache.get(uid))
        self._signatures.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Forget a pod that was just removed completely; no earlier list may bring it back."""
        self._observer.forget(self._cache.get(uid))
        self._cache.set(uid, None, self._cache.begin())
        self._signatures.pop(uid, None)
        self._dirty.pop(uid, None)
        self._echoes.pop(uid, None)
        self._ended.pop(uid, None)
        self._locks.pop(uid, None)

    async def _apply(
        self,
        uid: str,
        order: int,
        sandboxes: Sequence[SandboxRecord],
        containers: Sequence[ContainerRecord],
    ) -> bool:
        sign = signature(sandboxes, containers)
        # While another list is being applied to the pod, its signature is about to change.
        if self._signatures.get(uid, frozenset()) == sign and not self._locked(uid):
            self._cache.touch(uid, order)
            return False
        async with self._locks[uid]:
            if order <= self._cache.seen(uid):
                return False
            before = self._cache.get(uid)
            observed = await self._observer.observe(uid, before, sandboxes, containers)
            if order <= self._cache.seen(uid):
                return False  # it was removed meanwhile
            if observed is None:
                self._signatures.pop(uid, None)
            else:
                # Take the inspected states: they may have changed since the list.
                self._signatures[uid] = frozenset(
                    [(s.id, s.state.value) for s in observed.sandboxes]
                    + [(c.id, c.state.value) for c in observed.containers]
                )
            changed = self._cache.set(uid, observed, order)
        if observed is None:
            self._locks.pop(uid, None)
        if changed and not only_dead_removed(before, observed):
            self._on_change(uid)
        return changed

    def _locked(self, uid: str) -> bool:
        lock = self._locks.get(uid)
        return lock is not None and lock.locked()

    # --- the tasks

    async def run_relists(self) -> None:
        """Relist forever, at a period that depends on the health of the event stream."""
        due = self._clock.monotonic() + self._config.relist_period
        while True:
            now = self._clock.monotonic()
            if due > now:
                try:
                    async with asyncio.timeout(due - now):
                        await self._relist_soon.wait()
                except TimeoutError:
                    pass
                else:
                    self._relist_soon.clear()
                    # The stream has just been opened, and does not report what happened before.
                    # This relist must not wait for the long period of a healthy stream.
                    due = min(due, self._clock.monotonic() + self._config.relist_period)
                    continue
            await self._link.wait_ready()
            try:
                await self.relist()
            except EngineError as error:
                self._link.suspect(error)
                _LOG.warning("relist: %s", error)
            due = self._clock.monotonic() + (
                self._config.relist_period_streaming
                if self._streaming
                else self._config.relist_period
            )

    async def run_events(self) -> None:
        """Read the runtime's events forever and mark the pods to refresh."""
        while True:
            await self._link.wait_ready()
            try:
                self._streaming = True
                self._relist_soon.set()
                async for event in self._runtime.events():
                    # Each exec probe causes exec events, and changes nothing that is observed.
                    if event.pod_uid and not event.action.startswith("exec"):
                        if event.action in ENDS:
                            self._ended.setdefault(event.pod_uid, {})[event.id] = event.action
                            self._echoes[event.pod_uid] = 0
                        self.mark(event.pod_uid)
            except EngineError as error:
                self._link.suspect(error)
                _LOG.info("the engine's event stream ended: %s", error)
            finally:
                self._streaming = False
            await self._clock.sleep(self._config.relist_period)

    def mark(self, uid: str) -> None:
        """Mark a pod to be refreshed."""
        self._dirty[uid] = None
        self._marked.set()

    async def run_refreshes(self) -> None:
        """Refresh the marked pods, forever."""
        while True:
            await self._marked.wait()
            # Give way to the event loop once, so that a burst of events becomes one refresh.
            await asyncio.sleep(0)
            self._marked.clear()
            await self._link.wait_ready()
            uids, self._dirty = list(self._dirty), {}
            busy = [uid for uid in uids if self._is_busy(uid)]
            if busy:
                # A busy worker refreshes its pod itself. Check later that it did.
                loop = asyncio.get_running_loop()
                loop.call_later(BUSY_DELAY, self._refresh_unseen, busy, self._cache.order)
            refreshed = [uid for uid in uids if uid not in set(busy)]
            refreshed += self._forced
            await self._refresh_all(refreshed)
            for uid in refreshed:
                self._refresh_again_soon(uid)

    def _refresh_again_soon(self, uid: str) -> None:
        """Refresh the pod again soon if events reported ends that no list shows yet."""
        step = self._echoes.pop(uid, len(ECHOES))
        if self._shows_ends(uid) or step == len(ECHOES):
            self._ended.pop(uid, None)
            return
        self._echoes[uid] = step + 1
        asyncio.get_running_loop().call_later(ECHOES[step], self._force, (uid,))

    def _shows_ends(self, uid: str) -> bool:
        """Return True if the pod's observation agrees with the ends reported by events."""
        observed, ended = self._cache.get(uid), self._ended.get(uid, {})
        if observed is None:
            return True
        alive = [box.id for box in observed.sandboxes if box.state is SandboxState.READY]
        alive += [
            container.id
            for container in observed.containers
            if container.state is ContainerState.RUNNING
        ]
        seen = [record.id for record in (*observed.sandboxes, *observed.containers)]
        gone = {engine_id for engine_id in seen if ended.get(engine_id) == "destroy"}
        return not gone and ended.keys().isdisjoint(alive)

    def _force(self, uids: Iterable[str]) -> None:
        self._forced.update(dict.fromkeys(uids))
        self._marked.set()

    def _refresh_unseen(self, uids: Sequence[str], order: int) -> None:
        """Refresh pods not observed since ``order``, or not as events reported, even if busy."""
        unseen = [
            uid for uid in uids if self._cache.seen(uid) <= order or not self._shows_ends(uid)
        ]
        if unseen:
            self._force(unseen)

    async def _refresh_all(self, uids: Sequence[str]) -> None:
        self._forced.clear()
        try:
            if len(uids) > REFRESH_LIMIT:
                await self.relist()
            elif uids:
                async with asyncio.TaskGroup() as group:
                    for uid in uids:
                        group.create_task(self._refresh_logged(uid), name=f"refresh {uid}")
        except EngineError as error:
            self._link.suspect(error)
            _LOG.warning("relist: %s", error)

    async def _refresh_logged(self, uid: str) -> None:
        try:
            await self.refresh(uid)
        except EngineUnavailable as error:
            self._link.suspect(error)
        except EngineError as error:
            _LOG.warning("pod %s cannot be inspected: %s", uid, error)

    def problem(self) -> str:
        """Return the kubelet's message if relisting has stalled, else an empty text."""
        if self._last_relist is None:
            return "PLEG is not healthy: pleg has yet to be successful"
        idle = self._clock.monotonic() - self._last_relist
        if idle < UNHEALTHY_AFTER:
            return ""
        minutes, seconds = divmod(int(idle), 60)
        return (
            f"PLEG is not healthy: pleg was last seen active {minutes}m{seconds}s ago; "
            "threshold is 3m0s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine: its runtime, the connection to it, and what was observed through it."""

    runtime: Runtime
    link: EngineLink
    pleg: Pleg
    cache: PodCache
