"""Pod workers: one task per pod UID, strictly serial (kubelet.md §4).

A worker is in ``sync`` until its pod is removed, killed or comes to its natural end; then it is
``terminating`` until nothing runs, ``terminated`` until nothing is left, and finished. The full
name of a static pod belongs to one worker at a time: a new version of a pod waits until the old
one's containers and sandbox are stopped. Workers decide when to run a pass; `PodSyncer` carries it
out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from podtui.api.names import CONFIG_SEEN
from podtui.api.pod_resources import is_static
from podtui.api.pods import full_name, pod_ref
from podtui.api.times import epoch
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.errors import EngineError, EngineTimeout, EngineUnavailable, PodtuiError
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.killer import ALIVE, MIN_GRACE_SECONDS, effective_grace
from podtui.kubelet.kubelet_metrics import (
    ORPHANED_PODS,
    POD_WORKER_SECONDS,
    POD_WORKER_START_SECONDS,
    RESTARTED_PODS,
)
from podtui.kubelet.pleg.pleg import Engine
from podtui.kubelet.status.status_reporter import StatusReporter
from podtui.kubelet.types import Decorate, ObservedPod, WorkerState

_LOG = logging.getLogger(__name__)
# Seconds until the next step after the engine became unavailable; it then waits for the link.
ENGINE_RETRY = 1.0
# Seconds in which changes of a pod other than of its spec are gathered for one pass. No container
# changes with them, and a kubelet waits for the next relist of its PLEG, up to a second.
GATHER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The result of one pass. ``retry_in`` is set if it failed: seconds until the next try."""

    terminal: bool = False
    acted: bool = False
    retry_in: float | None = None
    deadline_in: float | None = None
    """Seconds until the pod needs a pass: at the end of its activeDeadlineSeconds, or for the retry
    of a volume."""


class PodSyncer(Protocol):
    """The three passes of a pod's life; each can be repeated until it succeeds."""

    async def sync_pod(
        self, pod: Pod, observed: ObservedPod | None, stopping: asyncio.Event
    ) -> SyncOutcome: ...

    async def sync_terminating(
        self,
        pod: Pod,
        observed: ObservedPod | None,
        *,
        grace: int,
        decorate: Decorate | None,
        removing: Callable[[], bool],
    ) -> bool:
        """Stop everything; return True if it was removed, too.

        ``removing`` returns True if the stopped containers and sandboxes are to be removed.
        """
        ...

    async def sync_terminated(
        self, pod: Pod, observed: ObservedPod | None, *, decorate: Decorate | None, remove: bool
    ) -> None: ...


class WorkingPod(NamedTuple):
    """The labels of a pod in the metric ``kubelet_working_pods``."""

    lifecycle: str
    config: str
    static: str


@dataclass(slots=True, eq=False)
class _Worker:
    pod: Pod
    state: WorkerState = WorkerState.SYNC
    started: bool = False
    remove_all: bool = False
    """True if nothing is to be left of the pod."""
    source_removed: bool = False
    """True if its manifest or record is gone."""
    runtime_only: bool = False
    """True if the pod is known from the container runtime alone."""
    next_version: Pod | None = None
    """The pod to run once this one has ended: its manifest came back meanwhile."""
    start_over_pod: Pod | None = None
    """The pod to run once nothing is left of this one, on a request to start over."""
    grace: int | None = None
    decorate: Decorate | None = None
    containers_removed: bool = False
    """True if its containers were removed already; the rest of the pod is then removed, too."""
    cleaned_up: bool = False
    """True if nothing is left of the pod."""
    busy: bool = False
    seen_order: int = 0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event | None = None
    """Set once nothing of the pod runs, if somebody waits for it."""
    kill_task: asyncio.Task[Exception | None] | None = None
    gather_timer: asyncio.TimerHandle | None = None
    """Set while changes of the pod are gathered."""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def finished(self) -> bool:
        return self.state is WorkerState.FINISHED

    @property
    def removing(self) -> bool:
        return self.remove_all and self.next_version is None


class PodWorkers:
    """All pod workers of a kubelet. ``jitter`` returns numbers in [0, 1).

    No worker may be started before `open` is called; until then, lookups find no worker.

    ``on_restart`` is called with a pod that starts again after its end: on a request to start over,
    or because its manifest came back while it was ending. ``on_stopped`` is called with the UID of
    every pod that stopped using the node.
    """

    def __init__(
        self,
        *,
        syncer: PodSyncer,
        reporter: StatusReporter,
        engine: Engine,
        clock: Clock,
        config: KubeletConfig,
        jitter: Callable[[], float],
        on_restart: Callable[[Pod], None],
        on_stopped: Callable[[str], None],
    ) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._syncer = syncer
        self._reporter = reporter
        self._engine = engine
        self._clock = clock
        self._config = config
        self._jitter = jitter
        self._on_restart = on_restart
        self._on_stopped = on_stopped
        self._workers: dict[str, _Worker] = {}
        self._owners: dict[str, str] = {}
        self._queues: dict[str, list[str]] = {}

    def open(self, group: asyncio.TaskGroup) -> None:
        """Run the workers as tasks of ``group``."""
        self._group = group

    # --- queries

    def state(self, uid: str) -> WorkerState | None:
        worker = self._workers.get(uid)
        return None if worker is None else worker.state

    def busy(self, uid: str) -> bool:
        worker = self._workers.get(uid)
        return worker is not None and worker.busy

    def ending(self, uid: str) -> bool:
        """Return True if the pod is terminating or has ended, even if it will be restarted."""
        worker = self._workers.get(uid)
        return worker is not None and worker.state is not WorkerState.SYNC

    def working(self) -> Iterator[WorkingPod]:
        """Yield the state of each pod for the metrics."""
        for worker in self._workers.values():
            ended = worker.state in (WorkerState.TERMINATED, WorkerState.FINISHED)
            lifecycle = "terminated" if ended else worker.state.value
            if worker.runtime_only:
                yield WorkingPod(lifecycle, "runtime_only", "unknown")
            else:
                config = "orphan" if worker.source_removed else "desired"
                yield WorkingPod(lifecycle, config, "true" if is_static(worker.pod) else "")

    def __len__(self) -> int:
        return len(self._workers)

    # --- commands

    # Commands do not wait for the engine: they change what the worker is to do, and wake its task.
    # Only the task runs passes, one after the other, so that no pass needs a lock.
    def update(self, pod: Pod, *, wake: bool = True) -> None:
        """Run this pod, or continue to run it in this version: at once if its spec changed, soon
        otherwise, or with ``wake`` False from its next pass."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is None:
            self._start(_Worker(pod))
        elif worker.state is WorkerState.SYNC:
            changed = pod.spec != worker.pod.spec
            worker.pod = pod
            if wake and changed:
                worker.wake.set()
            elif wake:
                self._gather(worker)
        elif worker.start_over_pod is not None:
            worker.start_over_pod = pod
        elif worker.remove_all:
            # An end that has begun is not taken back, since its containers may already have their
            # stop signal: `_finish` starts the pod again.
            worker.next_version = pod

    def _gather(self, worker: _Worker) -> None:
        """Run a pass soon; the changes until then share it."""
        if worker.gather_timer is not None:
            return

        def wake() -> None:
            worker.gather_timer = None
            worker.wake.set()

        loop = asyncio.get_running_loop()
        worker.gather_timer = loop.call_later(GATHER_SECONDS, wake)

    def wake(self, uid: str) -> None:
        """Run another pass as soon as possible; a finished pod is left alone."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake.set()

    def finish(self, pod: Pod) -> None:
        """End an API pod that is deleted, with the grace period of its record, or one that had
        ended before this kubelet started."""
        deleted = pod.metadata.deletionTimestamp is not None
        worker = self._workers.get(pod.metadata.uid)
        if worker is None:
            worker = _Worker(pod, remove_all=deleted)
            self._begin_terminating(worker)
            if deleted or self._is_alive(worker.uid):
                self._start(worker)
            else:
                worker.state = WorkerState.FINISHED
                self._workers[worker.uid] = worker
            return
        worker.pod = pod
        worker.remove_all = worker.remove_all or deleted
        if worker.state is WorkerState.SYNC:
            self._begin_terminating(worker)
        elif worker.state is WorkerState.TERMINATING:
            self._shorten(worker, effective_grace(pod))
        elif worker.state is WorkerState.FINISHED and deleted and not worker.cleaned_up:
            self._clean_up_again(worker)

    def _is_alive(self, uid: str) -> bool:
        observed = self._engine.cache.get(uid)
        return observed is not None and any(
            container.state in ALIVE for container in observed.containers
        )

    def remove(self, uid: str) -> None:
        """Stop a pod whose manifest or record is gone, with its own grace period, and remove all of
        it."""
        worker = self._workers.get(uid)
        if worker is None:
            return
        worker.remove_all = worker.source_removed = True
        worker.next_version = worker.start_over_pod = None
        if worker.state is WorkerState.SYNC:
            self._begin_terminating(worker)
        elif worker.state is WorkerState.FINISHED:
            if worker.cleaned_up:
                del self._workers[uid]
            else:
                self._clean_up_again(worker)
        else:
            worker.wake.set()

    def _clean_up_again(self, worker: _Worker) -> None:
        """Remove the dead containers of a pod that ended earlier."""
        worker.state = WorkerState.TERMINATED
        self._start(worker)

    def start_over(self, pod: Pod) -> None:
        """Stop the pod with its own grace period, remove all of it, then run it like a new one."""
        self.remove(pod.metadata.uid)
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.start_over_pod = pod

    def kill(
        self, uid: str, *, grace: int | None = None, decorate: Decorate | None = None
    ) -> asyncio.Event | None:
        """Stop the pod although its manifest stays.

        A shorter ``grace`` also applies to a stop in progress. Return an event that is set once
        nothing of the pod runs, or None if there is nothing to stop.
        """
        worker = self._workers.get(uid)
        if worker is None or worker.state in (WorkerState.TERMINATED, WorkerState.FINISHED):
            return None
        if decorate is not None:
            worker.decorate = decorate
        if worker.state is WorkerState.SYNC:
            self._begin_terminating(worker, grace)
        elif grace is not None:
            self._shorten(worker, grace)
        if worker.stopped is None:
            worker.stopped = asyncio.Event()
        return worker.stopped

    def _shorten(self, worker: _Worker, grace: int) -> None:
        """Apply a shorter grace period to a stop in progress."""
        if worker.grace is not None and grace < worker.grace:
            worker.grace = max(MIN_GRACE_SECONDS, grace)
            if worker.kill_task is not None:
                worker.kill_task.cancel()
            worker.wake.set()

    def remove_orphan(self, pod: Pod, *, owns_name: bool) -> None:
        """Stop and remove a pod that has no manifest; ``pod`` is built from its labels.

        With ``owns_name``, a new pod with its full name waits until it has stopped.
        """
        if pod.metadata.uid in self._workers:
            return
        ORPHANED_PODS.inc()
        worker = _Worker(pod, started=True, remove_all=True, source_removed=True, runtime_only=True)
        if owns_name:
            self._owners.setdefault(full_name(pod), worker.uid)
        self._begin_terminating(worker, MIN_GRACE_SECONDS)
        self._start(worker)

    def _begin_terminating(self, worker: _Worker, grace: int | None = None) -> None:
        worker.state = WorkerState.TERMINATING
        worker.grace = effective_grace(worker.pod, grace)
        worker.stopping.set()
        worker.wake.set()

    def _start(self, worker: _Worker) -> None:
        assert self._group is not None, "open() comes first"
        self._workers[worker.uid] = worker
        self._group.create_task(self._run(worker), name=f"pod worker {pod_ref(worker.pod)}")

    # --- the task

    async def _run(self, worker: _Worker) -> None:
        while not worker.finished:
            # Before the pass: a wake during the pass then causes another one.
            worker.wake.clear()
            worker.busy = True
            try:
                with POD_WORKER_SECONDS.labels(worker.state.value).time():
                    delay = await self._step(worker)
            except EngineUnavailable as error:
                self._engine.link.suspect(error)
                if isinstance(error, EngineTimeout):
                    stops = worker.state is WorkerState.TERMINATING
                    self._reporter.no_answer(worker.pod, error, stops=stops)
                _LOG.warning("pod %s: the engine is unavailable: %s", pod_ref(worker.pod), error)
                delay = ENGINE_RETRY
            except PodtuiError as error:
                _LOG.warning("pod %s: %s", pod_ref(worker.pod), error)
                delay = self._jittered(self._config.error_backoff)
            except Exception:  # noqa: BLE001 - one pod's failure must not end the others' workers
                _LOG.exception("pod %s: its worker failed and will try again", pod_ref(worker.pod))
                delay = self._jittered(self._config.error_backoff)
            finally:
                worker.busy = False
            if not worker.finished and delay != 0:
                await self._pause(worker, delay)
        self._finish(worker)

    async def _pause(self, worker: _Worker, delay: float | None) -> None:
        try:
            async with asyncio.timeout(delay):
                await worker.wake.wait()
        except TimeoutError:
            pass

    async def _step(self, worker: _Worker) -> float | None:
        """Run one pass; return seconds until the next, None to wait for a wake, 0 for at once."""
        if worker.state is WorkerState.SYNC:
            return await self._sync(worker)
        if worker.state is WorkerState.TERMINATING:
            return await self._terminate(worker)
        return await self._clean_up(worker)

    async def _sync(self, worker: _Worker) -> float | None:
        if not self._take_name(worker):
            self._reporter.waiting_for_name(worker.pod)
            return None
        await self._engine.link.wait_ready()
        # The pod was killed during the wait: the next step terminates it.
        if worker.stopping.is_set():
            return 0
        try:
            # The pass before may have started containers. An earlier observation lacks them, and
            # would let this pass start them a second time.
            observed = await self._engine.pleg.newer_than(worker.uid, worker.seen_order)
        except EngineUnavailable:
            raise
        except EngineError as error:
            self._reporter.cannot_observe(worker.pod, error)
            raise
        if not worker.started:
            self._count_start(worker.pod)
        worker.started = True
        try:
            outcome = await self._syncer.sync_pod(worker.pod, observed, worker.stopping)
        finally:
            # Even after a partial pass, the next one needs a newer observation.
            worker.seen_order = self._engine.cache.order
        if worker.stopping.is_set():
            return 0
        if outcome.terminal:
            self._begin_terminating(worker)
            return 0
        if outcome.acted and await self._engine.pleg.refresh(worker.uid):
            # Run another pass at once to update the status.
            worker.wake.set()
        if outcome.retry_in is not None and not self._config.strict:
            self._reporter.publish(worker.pod)
        delay = self._config.sync_frequency
        if outcome.retry_in is not None:
            delay = min(max(outcome.retry_in, 0.0), delay)
        delay = self._jittered(delay)
        if outcome.deadline_in is not None:
            delay = min(delay, max(0.1, outcome.deadline_in))
        return delay

    def _count_start(self, pod: Pod) -> None:
        seen = epoch(pod.metadata.annotations.get(CONFIG_SEEN))
        if seen is not None:
            POD_WORKER_START_SECONDS.observe(max(0.0, self._clock.now().timestamp() - seen))

    async def _terminate(self, worker: _Worker) -> float | None:
        await self._engine.link.wait_ready()
        observed = await self._engine.pleg.newer_than(worker.uid, worker.seen_order)
        if worker.started or observed is not None:
            try:
                # The stop is a task of its own, because `_shorten` cancels it while this worker
                # goes on.
                async with asyncio.TaskGroup() as group:
                    task = worker.kill_task = group.create_task(
                        self._stop(worker, observed), name=f"kill {pod_ref(worker.pod)}"
                    )
            finally:
                worker.kill_task = None
                worker.seen_order = self._engine.cache.order
            if task.cancelled():
                return 0  # again, with a shorter grace period
            if (error := task.result()) is not None:
                raise error
        # Nothing of the pod runs now. The next version of a static pod may start, although dead
        # containers of this one may still be there.
        worker.state = WorkerState.TERMINATED
        if worker.stopped is not None:
            worker.stopped.set()
        self._release_name(worker)
        self._on_stopped(worker.uid)
        return 0

    async def _stop(self, worker: _Worker, observed: ObservedPod | None) -> Exception | None:
        try:
            worker.containers_removed = await self._syncer.sync_terminating(
                worker.pod,
                observed,
                grace=worker.grace or MIN_GRACE_SECONDS,
                decorate=worker.decorate,
                # The final status of an API pod shows how its containers ended.
                removing=lambda: worker.removing and is_static(worker.pod),
            )
        except PodtuiError as error:
            # Not raised: the task group would wrap it in a group, which `_run` does not handle.
            return error
        return None

    async def _clean_up(self, worker: _Worker) -> float | None:
        await self._engine.link.wait_ready()
        remove = worker.containers_removed or worker.removing
        observed = self._engine.cache.get(worker.uid)
        await self._syncer.sync_terminated(
            worker.pod, observed, decorate=worker.decorate, remove=remove
        )
        if worker.removing and not remove:
            return 0  # the manifest was removed meanwhile
        worker.cleaned_up = remove
        worker.state = WorkerState.FINISHED
        return 0

    def _finish(self, worker: _Worker) -> None:
        self._release_name(worker)
        following = worker.start_over_pod or worker.next_version
        if following is not None:
            del self._workers[worker.uid]
            RESTARTED_PODS.labels("true" if is_static(following) else "").inc()
            self._on_restart(following)
            self.update(following)
        elif worker.source_removed:
            # Only then: without its worker, the next update of a pod that has ended would run the
            # pod again.
            del self._workers[worker.uid]

    def _jittered(self, delay: float) -> float:
        return delay * (1 + 0.5 * self._jitter())

    # --- full names

    def _take_name(self, worker: _Worker) -> bool:
        if not is_static(worker.pod):
            # A pod that is deleted by force and created again must not wait for the old one.
            return True
        name = full_name(worker.pod)
        owner = self._owners.setdefault(name, worker.uid)
        if owner == worker.uid:
            return True
        queue = self._queues.setdefault(name, [])
        if worker.uid not in queue:
            queue.append(worker.uid)
        return False

    def _release_name(self, worker: _Worker) -> None:
        name = full_name(worker.pod)
        if self._owners.get(name) != worker.uid:
            return
        del self._owners[name]
        queue = self._queues.pop(name, [])
        # Versions that were removed while they waited need no name any more.
        while queue:
            successor = self._workers.get(queue.pop(0))
            if successor is not None and successor.state is WorkerState.SYNC:
                self._owners[name] = successor.uid
                successor.wake.set()
                break
        if queue:
            self._queues[name] = queue
