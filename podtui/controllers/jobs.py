"""The controllers of Jobs: their pods, pods that have lost their Job, and the end of old Jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec import structs

from podtui.api.batch import Job, JobStatus
from podtui.api.times import parse_time
from podtui.api.v1 import (
    Pod,
)
from podtui.client.cache import Cache, Key, Kind, controller_of
from podtui.clock import Clock
from podtui.controllers.batches import call_in_batches
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents
from podtui.controllers.job_failures import BackOff
from podtui.controllers.job_progress import (
    FINALIZER,
    Note,
    Plan,
    conclude,
    count_pods,
    count_released,
    deadline_seconds,
    finish,
    finished_condition,
    has_finalizer,
    is_finished,
    observe,
    plan,
    track,
)
from podtui.controllers.loop import Keys, claimant_keys, own_key
from podtui.controllers.pods import (
    PodControl,
    apply_claim,
    claim,
    is_current,
)
from podtui.errors import ApiError, PodtuiError

COMPONENT: Final = "job-controller"
_MANAGER: Final = "kubernetes.io/job-controller"


class JobController:
    def __init__(
        self, cache: Cache, writer: Writer, events: ControllerEvents, clock: Clock
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._clock = clock
        self._pods = PodControl(writer, events, COMPONENT)
        self._back_offs: dict[Key, tuple[str, BackOff]] = {}
        """With the UID of the Job. A restart of the agent ends the back-off."""

    @property
    def name(self) -> str:
        return COMPONENT

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {
            Job: own_key,
            Pod: claimant_keys(self._cache, Job, lambda job: job.spec.selector),
        }

    async def sync(self, key: Key) -> float | None:
        job = self._cache.get(Job, *key)
        if job is None or is_finished(job):
            self._back_offs.pop(key, None)
            return None
        if job.spec.managedBy not in ("", _MANAGER):
            return None
        return await self._sync(job)

    async def _sync(self, job: Job) -> float | None:
        now, uid, key = self._clock.now(), job.metadata.uid, own_key_of(job)
        pods = await self._claimed(job)
        back_off_uid, back_off = self._back_offs.get(key, ("", BackOff()))
        progress = observe(job, pods, back_off if back_off_uid == uid else BackOff(), now)
        steps = plan(progress, now)
        error, deleted, created = await self._carry_out(steps, job)
        if error is not None:
            # The Job ends when its pods are deleted.
            progress = replace(progress, end=None)
        progress, notes = conclude(progress, count_pods(progress, deleted, created), now)
        tracking = track(progress, now)
        stored = await self._write(job, tracking.status)
        self._back_offs[key] = (uid, progress.back_off)
        self._record(stored, notes)
        failure = await self._release(tracking.release)
        remaining = {
            pod.metadata.uid
            for pod in progress.pods
            if (current := self._pod(pod)) is not None and has_finalizer(current)
        }
        counted = structs.replace(stored, status=count_released(stored.status, remaining))
        if failure is not None:
            await self._write(stored, counted.status)
            raise failure
        status, notes = finish(counted, tracking)
        stored = await self._write(stored, status)
        self._record(stored, notes)
        if error is not None:
            raise error
        return _sooner(steps.wait, deadline_seconds(stored, now))

    def _pod(self, pod: Pod) -> Pod | None:
        meta = pod.metadata
        current = self._cache.get(Pod, meta.namespace, meta.name)
        return current if current is not None and current.metadata.uid == meta.uid else None

    async def _claimed(self, job: Job) -> list[Pod]:
        claimed = claim(job, job.spec.selector, self._cache.claimable(Pod, job))
        adopted = {pod.metadata.uid for pod in claimed.adopted}
        pods = await apply_claim(self._writer, Pod, job, claimed)
        for index, pod in enumerate(pods):
            if pod.metadata.uid in adopted and not has_finalizer(pod):
                patch = {"metadata": {"finalizers": [FINALIZER]}}
                pods[index] = await self._writer.patch(Pod, pod, patch)
        return pods

    async def _carry_out(self, steps: Plan, job: Job) -> tuple[PodtuiError | None, list[Pod], int]:
        """Return the error that ended the steps, the deleted pods, the number of created ones."""
        deleted: list[Pod] = []
        created = 0
        try:
            for pod in steps.delete:
                await self._pods.delete(pod, job)
                deleted.append(pod)
            for pod in steps.remove:
                await release(self._writer, pod)
                await self._pods.delete(pod, job)
                deleted.append(pod)
        except PodtuiError as error:
            return error, deleted, created
        pods = iter(steps.create)

        async def create() -> None:
            nonlocal created
            await self._pods.create(next(pods), job)
            created += 1

        failure = await call_in_batches(
            len(steps.create), create, partial(is_current, self._writer, job)
        )
        return failure, deleted, created

    async def _release(self, pods: Iterable[Pod]) -> PodtuiError | None:
        failure: PodtuiError | None = None
        for pod in pods:
            try:
                await release(self._writer, pod)
            except PodtuiError as error:
                failure = error
        return failure

    async def _write(self, job: Job, status: JobStatus) -> Job:
        if status == job.status:
            return job
        item = structs.replace(job, status=status)
        return await self._writer.update(Job, item, subresource="status")

    def _record(self, job: Job, notes: Iterable[Note]) -> None:
        for event_type, reason, message in notes:
            self._events.record(COMPONENT, job, event_type, reason, message)


def own_key_of(job: Job) -> Key:
    return (job.metadata.namespace, job.metadata.name)


def _sooner(first: float | None, second: float | None) -> float | None:
    times = [max(0.0, seconds) for seconds in (first, second) if seconds is not None]
    return min(times, default=None)


async def release(writer: Writer, pod: Pod) -> None:
    """Take the finalizer off a pod; without effect if the pod is gone."""
    if not has_finalizer(pod):
        return
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    try:
        await writer.patch(Pod, pod, patch)
    except ApiError as error:
        if error.code not in (404, 409):
            raise


class OrphanedJobPods:
    """Takes the finalizer off pods whose Job is gone or has finished, so that they can be
    deleted."""

    name = "job-controller (orphaned pods)"

    def __init__(self, cache: Cache, writer: Writer) -> None:
        self._cache = cache
        self._writer = writer

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {Pod: own_key, Job: self._pods_of}

    def _pods_of(self, job: Job) -> Iterable[Key]:
        for pod in self._cache.owned(Pod, job.metadata.uid):
            yield (pod.metadata.namespace, pod.metadata.name)

    async def sync(self, key: Key) -> float | None:
        pod = self._cache.get(Pod, *key)
        if pod is None or not has_finalizer(pod):
            return None
        owner = controller_of(pod)
        if owner is not None:
            if (owner.kind, owner.apiVersion) != ("Job", "batch/v1"):
                return None
            job = self._cache.get(Job, pod.metadata.namespace, owner.name)
            if job is not None and job.metadata.uid == owner.uid:
                other = job.spec.managedBy not in ("", _MANAGER)
                if other or not is_finished(job):
                    return None
        await release(self._writer, pod)
        return None


class FinishedJobs:
    """Deletes Jobs ``ttlSecondsAfterFinished`` after their end."""

    name = "ttl-after-finished-controller"

    def __init__(self, cache: Cache, writer: Writer, clock: Clock) -> None:
        self._cache = cache
        self._writer = writer
        self._clock = clock

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {Job: own_key}

    async def sync(self, key: Key) -> float | None:
        job = self._cache.get(Job, *key)
        left = None if job is None else seconds_to_live(job, self._clock.now())
        if job is None or left is None:
            return None
        if left > 0:
            return left
        await self._writer.delete(Job, job, policy="Foreground")
        return None


def seconds_to_live(job: Job, now: datetime) -> float | None:
    """Return the seconds until a finished Job is deleted; None if it is not."""
    condition, seconds = finished_condition(job), job.spec.ttlSecondsAfterFinished
    if condition is None or seconds is None or job.metadata.deletionTimestamp is not None:
        return None
    finished = parse_time(condition.lastTransitionTime)
    if finished is None:
        return None
    return (finished + timedelta(seconds=seconds) - now).total_seconds()
