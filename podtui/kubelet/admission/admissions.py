"""Admit and reject pods, preempt others, and record rejections (kubelet.md §5.2, 5.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from podtui.api.local import WhatIf
from podtui.api.names import LACKS, WOULD_FIT
from podtui.api.pod_resources import is_static, pod_requests
from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.admission.predicates import admit, beyond_node
from podtui.kubelet.admission.what_if import AdmissionContext, what_if
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.killer import EXCEEDED_GRACE, effective_grace, ends_in_time
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.kubelet_metrics import ADMISSION_REJECTIONS, PREEMPTIONS
from podtui.kubelet.node.host import Listener
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.resize.allocations import Allocations
from podtui.kubelet.resize.resizes import INFEASIBLE
from podtui.kubelet.resource_managers.resource_managers import ResourceManagers
from podtui.kubelet.status.pod_status import rejected_status, status_ended_by
from podtui.kubelet.status.status_manager import StatusManager
from podtui.kubelet.types import AdmitResult, Decorate

_LOG = logging.getLogger(__name__)
PREEMPTED: Final = "Preempted in order to admit critical pod"
DISRUPTED: Final = "Pod was preempted by Kubelet to accommodate a critical pod."
KillPod = Callable[[str, Decorate], asyncio.Event | None]
"""Stops a pod by UID and decorates its last statuses.

Returns an event that is set once nothing of the pod runs, or None if there is nothing to stop.
"""


class Admissions:
    """Remembers the rejected pods. A pod stays rejected until its UID changes, the kubelet
    restarts, or the user asks for a retry.

    ``find`` returns a pod by UID. ``kill`` stops a preempted pod.
    """

    def __init__(
        self,
        *,
        find: Callable[[str], Pod | None],
        kill: KillPod,
        statuses: StatusManager,
        events: EventRecorder,
        node: NodeManager,
        allocations: Allocations,
        managers: ResourceManagers,
        clock: Clock,
        config: KubeletConfig,
    ) -> None:
        self._find = find
        self._kill = kill
        self._statuses = statuses
        self._events = events
        self._node = node
        self._allocations = allocations
        self._managers = managers
        self._clock = clock
        self._config = config
        self._rejected: dict[str, AdmitResult] = {}
        self._admitted = AdmittedPods()

    def is_rejected(self, uid: str) -> bool:
        return uid in self._rejected

    def forget_rejection(self, uid: str) -> bool:
        """Forget a rejection. Return whether there was one."""
        return self._rejected.pop(uid, None) is not None

    def mark_admitted(self, pod: Pod) -> None:
        """Count the pod's allocated resources from now on, until it stops."""
        self._admitted.add(self._allocations.allocated(pod))

    def mark_stopped(self, uid: str) -> None:
        """Stop counting the pod's requests: the pod has stopped, or its manifest is gone."""
        self._admitted.drop(uid)
        self._managers.release(uid)

    def keep_only(self, uids: Collection[str]) -> None:
        """Release the exclusive resources of pods that an earlier run of the kubelet admitted, and
        that are gone."""
        self._managers.keep_only(uids)

    def readmit(self, pod: Pod) -> None:
        """Count a restarted pod again. If its exclusive resources are taken by now, it runs without
        them."""
        failure = self._managers.readmit(pod)
        if failure is not None:
            self._events.pod(pod, WARNING, failure.reason, str(failure))
        self.mark_admitted(pod)

    async def admit(self, pod: Pod) -> bool:
        """Admit or reject the pod, and set the status of a rejected pod. Waits until preempted pods
        have stopped.

        A pod that an earlier run of the kubelet admitted is checked with the resources allocated
        then.
        """
        allocated = self._allocations.allocated(pod)
        failure = await self._managers.admit(allocated)
        if failure is None:
            result = await self.fits(allocated)
        else:
            result = AdmitResult(admitted=False, reason=failure.reason, message=str(failure))
        if result.admitted:
            self._allocations.allocate(allocated)
            self.mark_admitted(pod)
            return True
        self._managers.release(pod.metadata.uid)
        self._rejected[pod.metadata.uid] = result
        ADMISSION_REJECTIONS.labels(result.reason).inc()
        _LOG.info("%s was rejected: %s: %s", pod_ref(pod), result.reason, result.message)
        self._events.pod(pod, WARNING, result.reason, result.message)
        self._statuses.set(pod, rejected_status(pod, result, self._clock.now()))
        if result.lacks and not self._config.strict:
            text = "; ".join(
                f"{resource}: requested {requested}, used {used}, capacity {capacity}"
                for resource, requested, used, capacity in result.lacks
            )
            self._statuses.annotate(pod.metadata.uid, LACKS, text)
        return False

    async def fits(self, pod: Pod) -> AdmitResult:
        """Check whether the node accepts the pod with its current requests. Returns after the pods
        to preempt have stopped."""
        result = self._check(pod)
        for uid in result.preempt if result.admitted else ():
            await self._preempt(uid)
        return result

    async def fits_resize(self, pod: Pod) -> AdmitResult:
        """Check whether the node accepts the pod with resources that differ from the allocated
        ones."""
        problem = self._managers.resize_problem(pod, self._allocations.allocated(pod))
        problem = problem or beyond_node(pod, self._node.view())
        if problem:
            return AdmitResult(admitted=False, reason=INFEASIBLE, message=problem)
        return await self.fits(pod)

    def what_if(self, pod: Pod, listeners: Sequence[Listener]) -> WhatIf:
        """Return how the node would decide about the pod; ``listeners`` are the listening sockets
        of the machine."""
        admitted = self._admitted
        context = AdmissionContext(
            node=self._node.view(),
            active=admitted.pods(),
            listeners=listeners,
            requests=admitted.requests,
            gates=self._config.feature_gates,
        )
        return what_if(pod, context)

    def review(self) -> None:
        """Annotate each rejected static pod with whether it would fit now (departure 6)."""
        if self._config.strict:
            return
        for uid in self._rejected:
            pod = self._find(uid)
            if pod is not None and is_static(pod):
                result = self._check(pod)
                fits = result.admitted and not result.preempt
                self._statuses.annotate(uid, WOULD_FIT, "true" if fits else None)

    def _check(self, pod: Pod) -> AdmitResult:
        admitted = self._admitted
        return admit(
            pod,
            self._managers.node_view(pod, self._node.view()),
            admitted.pods(),
            requests=admitted.requests,
            gates=self._config.feature_gates,
        )

    async def _preempt(self, uid: str) -> None:
        victim = self._find(uid)
        if victim is None:
            return
        self._events.pod(victim, WARNING, "Preempting", PREEMPTED)
        PREEMPTIONS.labels("").inc()
        grace = effective_grace(victim)
        stopped = self._kill(
            uid,
            partial(
                status_ended_by,
                victim,
                reason="Preempting",
                message=PREEMPTED,
                disruption=DISRUPTED,
                now=self._clock.now(),
            ),
        )
        if stopped is None:
            return
        if not await ends_in_time(stopped, grace):
            self._events.pod(victim, WARNING, "ExceededGracePeriod", EXCEEDED_GRACE)


class AdmittedPods:
    """Caches the requests of each admitted pod, so that admission of a new pod does not parse the
    quantities of all others again."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._requests: dict[str, Mapping[str, int]] = {}

    def add(self, pod: Pod) -> None:
        """Add the pod; it replaces a pod with the same UID."""
        uid = pod.metadata.uid
        if self._pods.get(uid) is not pod:
            self._requests.pop(uid, None)
        self._pods[uid] = pod

    def drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._requests.pop(uid, None)

    def pods(self) -> tuple[Pod, ...]:
        """Return the admitted pods in the order of their admission."""
        return tuple(self._pods.values())

    def requests(self, pod: Pod) -> Mapping[str, int]:
        """Return `pod_requests` of any pod; the result is cached for admitted pods."""
        uid = pod.metadata.uid
        if self._pods.get(uid) is not pod:
            return pod_requests(pod)
        requests = self._requests.get(uid)
        if requests is None:
            requests = self._requests[uid] = pod_requests(pod)
        return requests
