"""The prober: owns the probe workers of every pod and returns their results (kubelet.md §8)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.pods import is_sidecar
from podtui.api.v1 import Container, Pod
from podtui.clock import Clock
from podtui.kubelet.base.types import ObservedContainer, ObservedPod, ProbeResult, ProbeView
from podtui.kubelet.containers.killer import container_spec
from podtui.kubelet.events.recorder import EventRecorder
from podtui.kubelet.prober.handlers import ProbeHandlers
from podtui.kubelet.prober.state import (
    OnProbeResult,
    ProbeKind,
    ProbeState,
    ProbeTotal,
    Rules,
    probe_of,
    rules_of,
)
from podtui.kubelet.prober.worker import ProbeWorker, Ticker, report
from podtui.runtime.protocol import ContainerState


def _probed(pod: Pod) -> Iterator[tuple[Container, ProbeKind]]:
    """Yield every probe of the regular containers and sidecars."""
    sidecars = [one for one in pod.spec.initContainers if is_sidecar(one)]
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
        self._observe = observe
        self._recorded = recorded
        self._clock = clock
        self._jitter = jitter
        self._ticker = Ticker(
            handlers=handlers,
            newest=self._newest,
            started=self._started,
            known_good=self._known_good,
            on_result=on_result,
            events=events,
            clock=clock,
        )
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
        for worker in self._pods.get(uid, {}).values():
            regular = any(one.name == worker.name for one in worker.pod.spec.containers)
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
        worker.task = group.create_task(self._ticker.run(worker, delay), name=label)

    # --- results

    def view(self, pod: Pod, observed: ObservedPod) -> ProbeView:
        """Return the latest results. Also triggers the readiness probes of containers that are not
        ready, so that they run at once."""
        uid = pod.metadata.uid
        found: dict[ProbeKind, dict[str, ProbeResult]] = {kind: {} for kind in ProbeKind}
        for container, kind in _probed(pod):
            newest = observed.newest(container.name)
            if newest is None:
                continue
            result = self._result(uid, container.name, kind, newest.id)
            if result is not None:
                found[kind][newest.id] = result
            if kind is ProbeKind.READINESS and result is not ProbeResult.SUCCESS:
                self._trigger_readiness_probe(pod, newest)
        return ProbeView(
            startup=found[ProbeKind.STARTUP],
            liveness=found[ProbeKind.LIVENESS],
            readiness=found[ProbeKind.READINESS],
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
        found = (workers.get((container.name, kind)) for container, kind in _probed(pod))
        return tuple(self._report(worker) for worker in found if worker is not None)

    def _report(self, worker: ProbeWorker) -> ProbeReport:
        spec, newest = worker.spec(), self._newest(worker.uid, worker.name)
        since = None if newest is None else newest.started_at or newest.created_at
        due = None if worker.stopped else worker.log.due
        return report(
            worker.name,
            worker.state,
            Rules() if spec is None else rules_of(spec[1]),
            newest,
            due_in=None if due is None else due - self._clock.monotonic(),
            age=0.0 if since is None else (self._clock.now() - since).total_seconds(),
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
                return await self._ticker.run_once(worker)
        raise LookupError(f'container "{container}" has no {probe} probe under way')

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
