"""Compute a pod's status and pass it to the records and the timeline (kubelet.md §7)."""

from __future__ import annotations

from podtui.api.names import CONFIG_SEEN
from podtui.api.pod_resources import is_static
from podtui.api.times import epoch
from podtui.api.v1 import Pod, PodStatus, Volume
from podtui.clock import Clock
from podtui.errors import EngineError
from podtui.kubelet.containers.restart import RestartCounts
from podtui.kubelet.containers.starter import ReasonCache
from podtui.kubelet.events.recorder import NORMAL, WARNING
from podtui.kubelet.events.timelines import pull_and_init_seconds
from podtui.kubelet.kubelet_metrics import (
    POD_START_SECONDS,
    POD_START_SLI_SECONDS,
    POD_START_TOTAL_SECONDS,
)
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.prober.state import Probes
from podtui.kubelet.resize.resizes import PodResources
from podtui.kubelet.resource_managers.resource_managers import ResourceManagers
from podtui.kubelet.status.container_status import PodView
from podtui.kubelet.status.phase import PENDING, RUNNING
from podtui.kubelet.status.pod_status import (
    DEADLINE_MESSAGE,
    DEADLINE_REASON,
    final_status,
    merge_readiness,
    past_deadline,
    pod_status,
    sandbox_made,
)
from podtui.kubelet.status.status_manager import PodRecords
from podtui.kubelet.types import Decorate, ObservedPod


class StatusReporter:
    """Computes statuses from observations and passes them to the status manager.

    ``reasons`` holds the last failed start of each container. ``counts`` are the restart counts
    shown so far; they never decrease.
    """

    def __init__(
        self,
        *,
        cache: PodCache,
        records: PodRecords,
        resources: PodResources,
        reasons: ReasonCache,
        probes: Probes,
        node: NodeManager,
        managers: ResourceManagers,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._records = records
        self._resources = resources
        self._reasons = reasons
        self._probes = probes
        self._node = node
        self._managers = managers
        self._clock = clock
        self.counts = RestartCounts()

    def observed(self, pod: Pod) -> ObservedPod:
        """Return the pod from the cache, without sandboxes and containers if it was never seen."""
        meta = pod.metadata
        observed = self._cache.get(meta.uid)
        return observed or ObservedPod(uid=meta.uid, name=meta.name, namespace=meta.namespace)

    def publish(self, pod: Pod) -> None:
        """Publish the current observation, between passes."""
        self._set(pod, self.observed(pod))

    def cannot_observe(self, pod: Pod, error: EngineError) -> None:
        self._records.events.pod(pod, WARNING, "FailedSync", f"error determining status: {error}")

    def no_answer(self, pod: Pod, error: EngineError, *, stops: bool) -> None:
        """Report that the engine left a call for the pod unanswered."""
        reason, text = ("FailedKillPod", "killing") if stops else ("FailedSync", "syncing")
        self._records.events.pod(pod, WARNING, reason, f"error {text} pod: {error}")

    def waiting_for_name(self, pod: Pod) -> None:
        """Publish a first status while another pod with this full name has to end."""
        if self._records.statuses.get(pod.metadata.uid) is None:
            self._records.statuses.set(pod, pod.status)

    def of_pass(
        self,
        pod: Pod,
        observed: ObservedPod,
        *,
        terminal: bool = False,
        decorate: Decorate | None = None,
    ) -> PodStatus:
        """Publish the status at the start or the end of a pass.

        Each pass emits an event if the pod is past its deadline.
        """
        if past_deadline(pod, self._records.statuses.get(pod.metadata.uid), self._clock.now()):
            self._records.events.pod(pod, NORMAL, DEADLINE_REASON, DEADLINE_MESSAGE)
        return self._set(pod, observed, terminal=terminal, decorate=decorate)

    def ended(self, pod: Pod, *, decorate: Decorate | None) -> None:
        """Publish the final status of a pod that ended and stays listed (kubelet.md §7.6)."""
        status = self.of_pass(pod, self.observed(pod), terminal=True, decorate=decorate)
        self._records.statuses.set(pod, final_status(pod, status))

    def show_readiness(self, pod: Pod, container_id: str, *, ready: bool) -> None:
        """Publish a readiness result at once, without a pass (kubelet.md §7.3)."""
        status = self._records.statuses.get(pod.metadata.uid)
        if status is not None:
            name = f"{self._node.context().runtime_name}://{container_id}"
            merged = merge_readiness(pod, status, name, ready=ready, now=self._clock.now())
            self._records.statuses.set(pod, merged)
            self._records.timelines.shown(pod, merged)

    def show_sandbox(self, pod: Pod) -> None:
        """Publish that the sandbox is ready; the next pass publishes the rest."""
        status = self._records.statuses.get(pod.metadata.uid)
        if status is not None:
            self._records.statuses.set(pod, sandbox_made(status, self._clock.now()))

    def _set(
        self,
        pod: Pod,
        observed: ObservedPod,
        *,
        terminal: bool = False,
        decorate: Decorate | None = None,
    ) -> PodStatus:
        uid = pod.metadata.uid
        self.counts.observe(observed)
        previous, recorded = self._records.statuses.get(uid), self._seed(uid)
        status = pod_status(
            self._resources.allocations.allocated(pod),
            PodView(
                observed=observed,
                probes=self._probes.view(pod, observed),
                previous=previous,
                recorded=recorded,
                waiting=self._reasons.of(uid),
                resize=self._resources.resizes.conditions(uid, terminal=terminal),
                actuated=self._resources.allocations.actuated(uid),
            ),
            self._node.context(),
            now=self._clock.now(),
            terminal=terminal,
        )
        status = self.counts.show(uid, status, seed=recorded)
        status = self._managers.show_devices(pod, status)
        if decorate is not None:
            status = decorate(status)
        if previous is not None and (previous.phase, status.phase) == (PENDING, RUNNING):
            self._count_start(pod, status)
        self._records.statuses.set(pod, status)
        self._records.timelines.observed(pod, observed)
        self._records.timelines.shown(pod, status)
        return status

    def _count_start(self, pod: Pod, status: PodStatus) -> None:
        now = self._clock.now().timestamp()
        seen = epoch(pod.metadata.annotations.get(CONFIG_SEEN))
        if seen is not None:
            POD_START_SECONDS.observe(max(0.0, now - seen))
        created = epoch(pod.metadata.creationTimestamp)
        running = all(container.state.running is not None for container in status.containerStatuses)
        if created is None or is_static(pod) or not running:
            return
        POD_START_TOTAL_SECONDS.observe(max(0.0, now - created))
        if all(map(_is_stateless, pod.spec.volumes)):
            starts = self._records.timelines.starts(pod.metadata.namespace, pod.metadata.name)
            others = pull_and_init_seconds(starts[0]) if starts else 0.0
            POD_START_SLI_SECONDS.observe(max(0.0, now - created - others))

    def _seed(self, uid: str) -> PodStatus | None:
        seed = self._records.statuses.seed(uid)
        return None if seed is None else seed.status


def _is_stateless(volume: Volume) -> bool:
    """Return True if the volume's content comes from the API or lives as long as the pod."""
    sources = (
        volume.configMap, volume.downwardAPI, volume.emptyDir, volume.projected, volume.secret
    )  # fmt: skip
    return any(source is not None for source in sources)
