"""The prober: runs the probe workers of every pod and returns their results (kubelet.md §8)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from typing import Final

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.pods import is_sidecar, pod_ref
from podtui.api.v1 import Container, Pod, Probe
from podtui.clock import Clock
from podtui.kubelet.containers.killer import container_spec
from podtui.kubelet.events.recorder import WARNING, EventRecorder, field_path
from podtui.kubelet.prober.handlers import ProbeHandlers
from podtui.kubelet.prober.state import (
    OnProbeResult,
    ProbeKind,
    ProbeOutcome,
    ProbeState,
    ProbeTotal,
    ProbeVerdict,
    Rules,
    probe_of,
    rules_of,
)
from podtui.kubelet.prober.worker import ProbeWorker, probe_run, report
from podtui.kubelet.types import ObservedContainer, ObservedPod, ProbeResult, ProbeView
from podtui.runtime.protocol import ContainerState

_LOG = logging.getLogger(__name__)
TRIES: Final = 3


def _probed(pod: Pod) -> Iterator[tuple[Container, ProbeKind]]:
    """Yield every probe of the regular containers and sidecars."""
    sidecars = [container for container in pod.spec.initContainers if is_sidecar(container)]
    for container in (*sidecars, *pod.spec.containers):
        for kind in ProbeKind:
            if probe_of(container, kind) is not None:
                yield container, kind


class Prober:
    """Implements `podtui.kubelet.prober.state.Probes`; its `run` must be running.

    ``observe`` returns the observed state of a pod by UID; ``recorded`` its record from an earlier
    kubelet, whose results count until there are newer ones; ``jitter`` returns numbers in [0, 1).
    """

    def __init__(
        self,
        *,
        handlers: ProbeHandlers,
        observe: Callable[[str], ObservedPod | None],
        on_result: OnProbeResult,
        events: EventRecorder,
        clock: Clock,
        recorded: Callable[[str], Pod | None] = lambda uid: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._handlers = handlers
        self._observe = observe
        self._on_result = on_result
        self._events = events
        self._recorded = recorded
        self._clock = clock
        self._jitter = jitter
        self._pods: dict[str, dict[tuple[str, ProbeKind], ProbeWorker]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._began: float | None = None

    # --- lifecycle

    async def run(self) -> None:
        """Run the task group of the workers forever."""
        if self._began is None:
            self._began = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                # The probes of pods that started before this task.
                for workers in self._pods.values():
                    for worker in workers.values():
                        if not worker.stopped:
                            self._spawn(group, worker)
                await asyncio.Event().wait()
            finally:
                self._group = None

    def start(self, pod: Pod) -> None:
        """Start a worker for each probe of the pod; existing workers continue with this version."""
        workers = self._pods.setdefault(pod.metadata.uid, {})
        wanted = {(container.name, kind) for container, kind in _probed(pod)}
        for key in [key for key in workers if key not in wanted]:
            _cancel(workers.pop(key))
        for name, kind in wanted:
            worker = workers.get((name, kind))
            if worker is not None and not worker.stopped:
                worker.pod = pod
                continue
            worker = ProbeWorker(pod, name, ProbeState(kind=kind))
            workers[name, kind] = worker
            if self._group is not None:
                self._spawn(self._group, worker)

    def stop(self, uid: str, *, readiness: bool) -> None:
        """Stop liveness and startup probes of regular containers. With ``readiness``, stop all
        probes and drop their results."""
        if readiness:
            for worker in self._pods.pop(uid, {}).values():
                _cancel(worker)
            return
        # Sidecars keep their probes: they serve the other containers until these have ended.
        for worker in self._pods.get(uid, {}).values():
            regular = any(container.name == worker.name for container in worker.pod.spec.containers)
            if regular and worker.kind is not ProbeKind.READINESS:
                _cancel(worker)

    def _spawn(self, group: asyncio.TaskGroup, worker: ProbeWorker) -> None:
        spec = worker.spec()
        if spec is None:
            return
        period = rules_of(spec[1]).period
        age = self._clock.monotonic() - (self._began or 0.0)
        # Spread the first probes, so that a restarted kubelet does not probe all pods at the same
        # time.
        delay = self._jitter() * period if period > age else 0.0
        label = f"{worker.kind} probe of {worker.name} in {worker.uid}"
        worker.task = group.create_task(self._run_worker(worker, delay), name=label)

    # --- runs

    async def _run_worker(self, worker: ProbeWorker, delay: float) -> None:
        """Tick every period, after an initial ``delay`` in seconds, until cancelled or the probe is
        gone."""
        worker.log.due = self._clock.monotonic() + delay
        await self._clock.sleep(delay)
        due = self._clock.monotonic()
        while (spec := worker.spec()) is not None:
            worker.run_now.clear()
            try:
                await self._tick(worker, *spec)
            except Exception:  # noqa: BLE001 - one probe's mistake must not end the others
                _LOG.exception("%s probe of %s failed", worker.kind, pod_ref(worker.pod))
            due = await self._pause(worker, due, rules_of(spec[1]).period)

    async def _pause(self, worker: ProbeWorker, due: float, period: float) -> float:
        """Wait for the next tick and return its time. A missed tick runs at once; a request to
        run now restarts the period."""
        now = self._clock.monotonic()
        # Counted from the due time, not from now: a slow probe does not shift the later ones.
        if (following := due + period) <= now:
            worker.log.due = now
            return now - (now - due) % period
        worker.log.due = following
        try:
            async with asyncio.timeout(following - now):
                await worker.run_now.wait()
        except TimeoutError:
            return following
        return self._clock.monotonic()

    async def _tick(self, worker: ProbeWorker, container: Container, probe: Probe) -> None:
        newest = self._newest(worker.uid, worker.name)
        if newest is None:
            return
        if newest.state is ContainerState.EXITED:
            worker.state = worker.state.down(newest.id)
        if newest.state is not ContainerState.RUNNING:
            return
        known_good = self._known_good(worker.kind, worker.uid, newest.id)
        if newest.id != worker.state.container_id:
            worker.seen = self._clock.monotonic()
        worker.state = worker.state.state_of(newest.id, known_good=known_good)
        rules = rules_of(probe)
        age = self._age(worker, newest)
        started = self._started(worker.pod, worker.name, newest.id)
        if worker.state.is_due(rules, age=age, started=started):
            outcome = await self._execute(worker, container, newest.id, probe)
            self._take(worker, container, newest.id, outcome, rules)

    def _age(self, worker: ProbeWorker, newest: ObservedContainer) -> float:
        """Return the seconds since the start of the container. The start of one that started before
        the wall clock was set back can be in the future; the initial delay ends nevertheless."""
        since = newest.started_at or newest.created_at
        age = (self._clock.now() - since).total_seconds()
        if newest.id != worker.state.container_id:
            return age
        return max(age, self._clock.monotonic() - worker.seen)

    async def _execute(
        self, worker: ProbeWorker, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        worker.running = True
        began, clock = self._clock.now(), self._clock.monotonic()
        try:
            outcome = await self._try(worker, container, container_id, probe)
        finally:
            worker.running = False
        worker.log.runs.append(probe_run(outcome, began, self._clock.monotonic() - clock))
        return outcome

    async def _try(
        self, worker: ProbeWorker, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        # An error says nothing about the container. Only a repeated one is reported.
        for _ in range(TRIES - 1):
            outcome = await self._handlers.run(worker.pod, container, container_id, probe)
            if outcome.verdict is not ProbeVerdict.ERROR:
                return outcome
        return await self._handlers.run(worker.pod, container, container_id, probe)

    async def _run_once(self, worker: ProbeWorker) -> ProbeRun:
        """Run the handler once on a user's request; the result is not counted.

        Raises `LookupError` if the probe is gone or the container does not run.
        """
        spec, newest = worker.spec(), self._newest(worker.uid, worker.name)
        if spec is None or newest is None or newest.state is not ContainerState.RUNNING:
            raise LookupError(f'container "{worker.name}" is not running')
        began, clock = self._clock.now(), self._clock.monotonic()
        outcome = await self._handlers.run(worker.pod, spec[0], newest.id, spec[1])
        return probe_run(outcome, began, self._clock.monotonic() - clock)

    def _take(
        self,
        worker: ProbeWorker,
        container: Container,
        container_id: str,
        outcome: ProbeOutcome,
        rules: Rules,
    ) -> None:
        kind = worker.kind
        # No failure, or a restart of the engine would restart containers that are well.
        if outcome.verdict is ProbeVerdict.NO_ENGINE:
            _LOG.debug("%s probe of %s: %s", kind, pod_ref(worker.pod), outcome.text)
            return
        if outcome.verdict is ProbeVerdict.ERROR:
            worker.totals["unknown"] += 1
            text = f"{kind} probe errored and resulted in unknown state: {outcome.text}"
            self._event(worker, container, "Unhealthy", text)
            return
        if outcome.verdict is ProbeVerdict.FAILURE:
            worker.totals["failed"] += 1
            self._event(worker, container, "Unhealthy", f"{kind} probe failed: {outcome.text}")
            result = ProbeResult.FAILURE
        else:
            worker.totals["successful"] += 1
            if outcome.verdict is ProbeVerdict.WARNING:
                self._event(
                    worker, container, "ProbeWarning", f"{kind} probe warning: {outcome.text}"
                )
            result = ProbeResult.SUCCESS
        before = worker.state
        worker.state = before.observe(result, rules)
        if worker.state.result is not before.result:
            self._on_result(worker.uid, container_id, kind, result)

    def _event(self, worker: ProbeWorker, container: Container, reason: str, text: str) -> None:
        path = field_path(worker.pod, container.name)
        self._events.pod(worker.pod, WARNING, reason, text, path)

    # --- results

    def view(self, pod: Pod, observed: ObservedPod) -> ProbeView:
        """Return the latest results. Also triggers the readiness probes of containers that are not
        ready, so that they run at once."""
        uid = pod.metadata.uid
        results: dict[ProbeKind, dict[str, ProbeResult]] = {kind: {} for kind in ProbeKind}
        for container, kind in _probed(pod):
            newest = observed.newest(container.name)
            if newest is None:
                continue
            result = self._result(uid, container.name, kind, newest.id)
            if result is not None:
                results[kind][newest.id] = result
            if kind is ProbeKind.READINESS and result is not ProbeResult.SUCCESS:
                self._trigger_readiness_probe(pod, newest)
        return ProbeView(
            startup=results[ProbeKind.STARTUP],
            liveness=results[ProbeKind.LIVENESS],
            readiness=results[ProbeKind.READINESS],
        )

    def totals(self) -> tuple[ProbeTotal, ...]:
        """Return the counters of the current workers."""
        return tuple(
            ProbeTotal(
                probe_type=worker.kind.value,
                result=result,
                container=worker.name,
                pod=worker.pod.metadata.name,
                namespace=worker.pod.metadata.namespace,
                pod_uid=worker.uid,
                count=count,
            )
            for workers in self._pods.values()
            for worker in workers.values()
            for result, count in sorted(worker.totals.items())
        )

    def reports(self, pod: Pod) -> tuple[ProbeReport, ...]:
        """Return the report of each probe of the pod, in container order. Changes nothing."""
        workers = self._pods.get(pod.metadata.uid, {})
        probed = (workers.get((container.name, kind)) for container, kind in _probed(pod))
        return tuple(self._report(worker) for worker in probed if worker is not None)

    def _report(self, worker: ProbeWorker) -> ProbeReport:
        spec, newest = worker.spec(), self._newest(worker.uid, worker.name)
        due = None if worker.stopped else worker.log.due
        return report(
            worker.name,
            worker.state,
            Rules() if spec is None else rules_of(spec[1]),
            newest,
            due_in=None if due is None else due - self._clock.monotonic(),
            age=0.0 if newest is None else self._age(worker, newest),
            started=newest is not None and self._started(worker.pod, worker.name, newest.id),
            running=worker.running,
            runs=worker.log.runs,
        )

    async def run_once(self, uid: str, container: str, probe: str) -> ProbeRun:
        """Run a probe once, out of turn and without counting it. Raises `LookupError`, with a
        message for the user, if there is no such probe or its container does not run."""
        workers = self._pods.get(uid, {})
        for (name, kind), worker in workers.items():
            if (name, kind.value) == (container, probe):
                return await self._run_once(worker)
        raise LookupError(f'container "{container}" has no active {probe} probe')

    def _trigger_readiness_probe(self, pod: Pod, newest: ObservedContainer) -> None:
        worker = self._pods.get(pod.metadata.uid, {}).get((newest.name, ProbeKind.READINESS))
        if (
            worker is not None
            and not worker.running
            and newest.state is ContainerState.RUNNING
            and self._started(pod, newest.name, newest.id)
        ):
            worker.run_now.set()

    def _result(
        self, uid: str, name: str, kind: ProbeKind, container_id: str
    ) -> ProbeResult | None:
        worker = self._pods.get(uid, {}).get((name, kind))
        if worker is not None and worker.state.container_id == container_id:
            return worker.state.result
        if self._known_good(kind, uid, container_id):
            return ProbeResult.SUCCESS
        return None

    def _newest(self, uid: str, name: str) -> ObservedContainer | None:
        observed = self._observe(uid)
        return None if observed is None else observed.newest(name)

    def _started(self, pod: Pod, name: str, container_id: str) -> bool:
        container = container_spec(pod, name)
        if container is None or container.startupProbe is None:
            return True
        result = self._result(pod.metadata.uid, name, ProbeKind.STARTUP, container_id)
        return result is ProbeResult.SUCCESS

    def _known_good(self, kind: ProbeKind, uid: str, container_id: str) -> bool:
        """Return whether an earlier kubelet recorded this instance as started or ready."""
        # Liveness begins with success anyway. The others begin with failure: a restarted kubelet
        # would report running pods as not ready.
        if kind is ProbeKind.LIVENESS or (record := self._recorded(uid)) is None:
            return False
        every = (*record.status.initContainerStatuses, *record.status.containerStatuses)
        for status in every:
            if status.containerID.partition("://")[2] == container_id:
                return bool(status.started if kind is ProbeKind.STARTUP else status.ready)
        return False


def _cancel(worker: ProbeWorker) -> None:
    worker.stopped = True
    if worker.task is not None:
        worker.task.cancel()
