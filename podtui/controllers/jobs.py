"""Jobs: pods that have to end, and their count.

A pod that has ended is counted exactly once, whenever the agent stops. Each pod of a Job has a
finalizer. The controller writes the UIDs of ended pods to ``status.uncountedTerminatedPods``, then
takes the finalizers off, then moves the UIDs from the status to its counters. A pod without a
finalizer is therefore counted already, or will be by its UID. The indexes of an Indexed Job need
no UIDs for successes: ``status.completedIndexes`` says which of them are counted.

A Job ends in two steps as well: the condition SuccessCriteriaMet or FailureTarget says why it will
end; Complete or Failed follows when all its pods are gone or have ended.

One `sync` goes through these functions in this order: `observe`, `plan`, the creations and
deletions, `conclude`, `track`, the writes of the status and the finalizers, `finish`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from podtui.api.batch import Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods
from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import (
    Container,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    Pod,
    PodTemplateSpec,
)
from podtui.clock import Clock
from podtui.controllers.batches import call_in_batches
from podtui.controllers.cache import Cache, Key, Kind, controller_of
from podtui.controllers.client import Writer
from podtui.controllers.deletion_order import pods_to_delete
from podtui.controllers.events import ControllerEvents, EventType
from podtui.controllers.job_failures import BackOff, finished_at, judge
from podtui.controllers.job_indexes import Indexes
from podtui.controllers.loop import Keys, claimant_keys, own_key
from podtui.controllers.pods import (
    PodControl,
    apply_claim,
    claim,
    is_active,
    is_ready,
    is_terminating,
    pod_of_template,
)
from podtui.errors import ApiError, PodtuiError

COMPONENT: Final = "job-controller"
FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of a pod."""
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_MANAGER: Final = "kubernetes.io/job-controller"
_MAX_PREFIX: Final = 58
_MAX_UNCOUNTED: Final = 500
_MAX_CHANGES: Final = 500
"""Pods created or deleted by one sync."""
_MIN_WAIT_SECONDS: Final = 1.0
_NO_INDEXES: Final = Indexes()
Note = tuple[EventType, str, str]
"""Type, reason and message of an event."""


# --- the fields of a Job and its pods


def is_finished(job: Job) -> bool:
    return finished_condition(job) is not None


def finished_condition(job: Job) -> JobCondition | None:
    """Return the condition Complete or Failed, if it is True."""
    return next(
        (
            c
            for c in job.status.conditions
            if c.type in ("Complete", "Failed") and c.status == "True"
        ),
        None,
    )


def is_indexed(spec: JobSpec) -> bool:
    return spec.completionMode == "Indexed"


def is_suspended(spec: JobSpec) -> bool:
    return spec.suspend is True


def replaces_failed_only(spec: JobSpec) -> bool:
    """Whether a pod that is terminating is replaced only once it has ended."""
    return spec.podReplacementPolicy == "Failed" or spec.podFailurePolicy is not None


def index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def has_finalizer(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


def has_failed(pod: Pod, spec: JobSpec) -> bool:
    """Whether the pod counts as failed; a deleted one may never reach the phase Failed."""
    if pod.status.phase == "Failed":
        return True
    return not replaces_failed_only(spec) and is_terminating(pod)


def _has_valid_index(pod: Pod, spec: JobSpec) -> bool:
    index = index_of(pod)
    return not is_indexed(spec) or (index is not None and index < (spec.completions or 0))


def _annotated(pod: Pod, name: str) -> int:
    text = pod.metadata.annotations.get(name, "")
    number = int(text) if text.isdecimal() else 0
    return number if number < 2**31 else 0


def _true_condition(status: JobStatus, name: str) -> JobCondition | None:
    return next((c for c in status.conditions if c.type == name and c.status == "True"), None)


def _condition(
    name: str, reason: str, message: str, now: datetime, *, status: str = "True"
) -> JobCondition:
    time = rfc3339(now)
    return JobCondition(
        type=name,
        status=status,
        reason=reason,
        message=message,
        lastProbeTime=time,
        lastTransitionTime=time,
    )


def _with_condition(
    conditions: tuple[JobCondition, ...], new: JobCondition
) -> tuple[JobCondition, ...]:
    """Replace a condition that says something else, or add it. A condition that is False is not
    added: the Job never had it."""
    for index, old in enumerate(conditions):
        if old.type == new.type:
            said = (old.status, old.reason, old.message)
            if said == (new.status, new.reason, new.message):
                return conditions
            return (*conditions[:index], new, *conditions[index + 1 :])
    return conditions if new.status == "False" else (*conditions, new)


# --- what the pods have reached


@dataclass(frozen=True, slots=True)
class Progress:
    """A Job and its pods before the controller does anything. ``end`` is the condition by which it
    ends, if it does: FailureTarget, Failed or SuccessCriteriaMet."""

    job: Job
    pods: tuple[Pod, ...]
    active: tuple[Pod, ...]
    succeeded: int
    failed: int
    back_off: BackOff
    succeeded_indexes: Indexes = _NO_INDEXES
    failed_indexes: Indexes | None = None
    replaced: Mapping[int, Pod] | None = None
    """The last failed pod of each index, with ``backoffLimitPerIndex``: its finalizer stays until
    its replacement, which takes over its number of failures, exists."""
    end: JobCondition | None = None


def observe(job: Job, pods: Sequence[Pod], back_off: BackOff, now: datetime) -> Progress:
    """Count the pods of a Job that has not finished, and decide whether it ends."""
    spec, status = job.spec, job.status
    uncounted = status.uncountedTerminatedPods or UncountedTerminatedPods()
    countable = [pod for pod in pods if has_finalizer(pod) and _has_valid_index(pod, spec)]
    succeeded = [
        pod
        for pod in countable
        if pod.metadata.uid not in uncounted.succeeded and pod.status.phase == "Succeeded"
    ]
    failed = [
        pod
        for pod in countable
        if pod.metadata.uid not in uncounted.failed and has_failed(pod, spec)
    ]
    counting = sum(judge(spec.podFailurePolicy, pod).counts for pod in failed)
    progress = Progress(
        job=job,
        pods=tuple(pods),
        active=tuple(pod for pod in pods if is_active(pod)),
        succeeded=(status.succeeded or 0) + len(succeeded) + len(uncounted.succeeded),
        failed=(status.failed or 0) + counting + len(uncounted.failed),
        back_off=back_off.after(succeeded, failed),
    )
    progress = replace(progress, end=_early_end(progress, now))
    return _with_indexes(progress, countable, now) if is_indexed(spec) else progress


def _early_end(progress: Progress, now: datetime) -> JobCondition | None:
    job, spec = progress.job, progress.job.spec
    if (met := _true_condition(job.status, "SuccessCriteriaMet")) is not None:
        return met
    if (target := _true_condition(job.status, "FailureTarget")) is not None:
        return _condition("Failed", target.reason, target.message, now)
    for pod in progress.pods:
        if has_failed(pod, spec) and (message := judge(spec.podFailurePolicy, pod).message):
            return _condition("FailureTarget", "PodFailurePolicy", message, now)
    limit = spec.backoffLimit
    restarts = _restarts(progress.pods) if spec.template.spec.restartPolicy == "OnFailure" else 0
    if limit is not None and (progress.failed > limit or 0 < restarts >= limit):
        message = "Job has reached the specified backoff limit"
        return _condition("FailureTarget", "BackoffLimitExceeded", message, now)
    left = deadline_seconds(job, now)
    if left is not None and left <= 0:
        message = "Job was active longer than specified deadline"
        return _condition("FailureTarget", "DeadlineExceeded", message, now)
    return None


def _restarts(pods: Iterable[Pod]) -> int:
    return sum(
        status.restartCount
        for pod in pods
        if pod.status.phase in ("Pending", "Running")
        for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    )


def deadline_seconds(job: Job, now: datetime) -> float | None:
    """Return the seconds until ``activeDeadlineSeconds`` are over; None if no time runs."""
    start = parse_time(job.status.startTime)
    if job.spec.activeDeadlineSeconds is None or is_suspended(job.spec) or start is None:
        return None
    end = start + timedelta(seconds=job.spec.activeDeadlineSeconds)
    return (end - now).total_seconds()


def _with_indexes(progress: Progress, countable: Sequence[Pod], now: datetime) -> Progress:
    """Add what concerns the indexes of an Indexed Job; ``countable`` has valid indexes."""
    job, spec, end = progress.job, progress.job.spec, progress.end
    completions = spec.completions or 0
    done = Indexes.parse(job.status.completedIndexes, completions) | _indexes(
        pod for pod in countable if pod.status.phase == "Succeeded"
    )
    failed: Indexes | None = None
    if (limit := spec.backoffLimitPerIndex) is not None:
        failed = Indexes.parse(job.status.failedIndexes, completions) | _indexes(
            pod for pod in countable if _fails_index(pod, spec, limit)
        )
        most = completions if spec.maxFailedIndexes is None else spec.maxFailedIndexes
        if end is None and failed.total > most:
            message = "Job has exceeded the specified maximal number of failed indexes"
            end = _condition("FailureTarget", "MaxFailedIndexesExceeded", message, now)
        if end is None and failed.total and failed.total + done.total >= completions:
            end = _condition("FailureTarget", "FailedIndexes", "Job has failed indexes", now)
    if end is None and (rule := matching_success_rule(spec, done)) is not None:
        message = f"Matched rules at index {rule}"
        end = _condition("SuccessCriteriaMet", "SuccessPolicy", message, now)
    progress = replace(
        progress,
        succeeded=done.total,
        succeeded_indexes=done,
        failed_indexes=failed,
        end=end,
    )
    if failed is None:
        return progress
    return replace(progress, replaced=_replaced(progress, countable, failed))


def _indexes(pods: Iterable[Pod]) -> Indexes:
    return Indexes.of(index for pod in pods if (index := index_of(pod)) is not None)


def _fails_index(pod: Pod, spec: JobSpec, limit: int) -> bool:
    if not has_failed(pod, spec):
        return False
    verdict = judge(spec.podFailurePolicy, pod)
    if verdict.action == "FailIndex":
        return True
    return verdict.counts and _annotated(pod, INDEX_FAILURES) >= limit


def _failures_of_index(pod: Pod) -> int:
    return _annotated(pod, INDEX_FAILURES) + _annotated(pod, INDEX_IGNORED_FAILURES)


def _replaced(progress: Progress, countable: Iterable[Pod], failed: Indexes) -> dict[int, Pod]:
    active = _indexes(progress.active)
    last: dict[int, Pod] = {}
    for pod in countable:
        index = index_of(pod)
        if index is None or not has_failed(pod, progress.job.spec):
            continue
        if index in progress.succeeded_indexes or index in failed or index in active:
            continue
        rank = (_failures_of_index(pod), finished_at(pod))
        before = last.get(index)
        if before is None or (_failures_of_index(before), finished_at(before)) <= rank:
            last[index] = pod
    return last


def matching_success_rule(spec: JobSpec, done: Indexes) -> int | None:
    """Return the position of the first rule of the success policy that is met."""
    rules = spec.successPolicy.rules if spec.successPolicy is not None and done.total else ()
    for position, rule in enumerate(rules):
        count = rule.succeededCount
        if rule.succeededIndexes:
            wanted = Indexes.parse(rule.succeededIndexes, spec.completions or 0)
            common = wanted.common(done)
            met = common == wanted.total or (count is not None and common >= count)
            if wanted.total and met:
                return position
        elif count is not None and done.total >= count:
            return position
    return None


# --- what to do


@dataclass(frozen=True, slots=True)
class Plan:
    """``delete`` are the pods of a Job that ends; they count as failed. ``remove`` are surplus, and
    do not count. ``wait`` are the seconds until pods may be created."""

    delete: tuple[Pod, ...] = ()
    remove: tuple[Pod, ...] = ()
    create: tuple[Pod, ...] = ()
    wait: float | None = None


def plan(progress: Progress, now: datetime) -> Plan:
    job, spec, active = progress.job, progress.job.spec, len(progress.active)
    if progress.end is not None:
        return Plan(delete=progress.active)
    if job.metadata.deletionTimestamp is not None:
        return Plan()
    if is_suspended(spec):
        return Plan(remove=progress.active)
    wanted = _wanted(progress)
    surplus = tuple(_surplus(progress, max(0, active - wanted), now))
    if surplus:
        # Deletions go first: repeated indexes have to go before their pods are replaced.
        return Plan(remove=surplus[:_MAX_CHANGES])
    missing = wanted - active
    if replaces_failed_only(spec):
        missing -= sum(map(is_terminating, progress.pods))
    if missing <= 0:
        return Plan()
    if progress.replaced is None:
        wait = progress.back_off.seconds_left(now)
        if wait > 0:
            return Plan(wait=max(wait, _MIN_WAIT_SECONDS))
    missing = min(missing, _MAX_CHANGES)
    if not is_indexed(spec):
        return Plan(create=tuple(new_pod(job) for _ in range(missing)))
    return _index_plan(progress, missing, now)


def _wanted(progress: Progress) -> int:
    """Return how many pods should be active."""
    spec = progress.job.spec
    parallelism = spec.parallelism or 0
    if spec.completions is None:
        return len(progress.active) if progress.succeeded else parallelism
    return max(0, min(parallelism, spec.completions - progress.succeeded))


def _index_plan(progress: Progress, missing: int, now: datetime) -> Plan:
    spec = progress.job.spec
    taken = progress.succeeded_indexes | _indexes(progress.active)
    if replaces_failed_only(spec):
        taken |= _indexes(filter(is_terminating, progress.pods))
    taken |= progress.failed_indexes or _NO_INDEXES
    indexes = taken.missing(spec.completions or 0, missing)
    replaced = progress.replaced or {}
    waits = {index: _index_wait(replaced.get(index), now) for index in indexes}
    due = [index for index in indexes if waits[index] <= 0]
    if not due:
        return Plan(wait=max(_MIN_WAIT_SECONDS, min(waits.values()))) if waits else Plan()
    pods = tuple(new_pod(progress.job, index, replaced.get(index)) for index in due)
    # Upstream waits for the next change; here the other indexes are due at their time.
    later = [wait for wait in waits.values() if wait > 0]
    return Plan(create=pods, wait=max(_MIN_WAIT_SECONDS, min(later)) if later else None)


def _index_wait(failed: Pod | None, now: datetime) -> float:
    if failed is None:
        return 0.0
    return BackOff(_failures_of_index(failed) + 1, finished_at(failed)).seconds_left(now)


def new_pod(job: Job, index: int | None = None, failed: Pod | None = None) -> Pod:
    """Return a new pod of the Job; with an index, instead of the last failed pod of that index."""
    template = job.spec.template
    if index is None:
        pod = pod_of_template(template, job)
        meta = pod.metadata
    else:
        pod = pod_of_template(_indexed_template(job, template, index), job)
        suffix = f"-{index}-"
        prefix = job.metadata.name[: _MAX_PREFIX - len(suffix)] + suffix
        annotations = {**pod.metadata.annotations, INDEX: str(index)}
        if job.spec.backoffLimitPerIndex is not None:
            annotations |= _failure_annotations(job.spec, failed)
        labels = {**pod.metadata.labels, INDEX: str(index)}
        meta = structs.replace(
            pod.metadata, generateName=prefix, annotations=annotations, labels=labels
        )
    if FINALIZER not in meta.finalizers:
        meta = structs.replace(meta, finalizers=(*meta.finalizers, FINALIZER))
    return structs.replace(pod, metadata=meta)


def _indexed_template(job: Job, template: PodTemplateSpec, index: int) -> PodTemplateSpec:
    spec = structs.replace(
        template.spec,
        hostname=f"{job.metadata.name}-{index}",
        initContainers=tuple(map(_with_index_variable, template.spec.initContainers)),
        containers=tuple(map(_with_index_variable, template.spec.containers)),
    )
    return structs.replace(template, spec=spec)


def _with_index_variable(container: Container) -> Container:
    if any(variable.name == _INDEX_VARIABLE for variable in container.env):
        return container
    source = EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=f"metadata.labels['{INDEX}']"))
    variable = EnvVar(name=_INDEX_VARIABLE, valueFrom=source)
    return structs.replace(container, env=(*container.env, variable))


def _failure_annotations(spec: JobSpec, failed: Pod | None) -> dict[str, str]:
    failures = ignored = 0
    if failed is not None:
        counts = judge(spec.podFailurePolicy, failed).counts
        failures = _annotated(failed, INDEX_FAILURES) + counts
        ignored = _annotated(failed, INDEX_IGNORED_FAILURES) + (not counts)
    annotations = {INDEX_FAILURES: str(failures)}
    return annotations | {INDEX_IGNORED_FAILURES: str(ignored)} if ignored else annotations


def _surplus(progress: Progress, least: int, now: datetime) -> list[Pod]:
    """Return at least ``least`` active pods to delete, the least advanced ones first; with indexes,
    all pods without a valid index or with that of a more advanced pod."""
    spec = progress.job.spec
    if not is_indexed(spec):
        return pods_to_delete(progress.active, (), least, now) if least else []
    removed: list[Pod] = []
    by_index: defaultdict[int, list[Pod]] = defaultdict(list)
    for pod in progress.active:
        index = index_of(pod)
        if index is None or index >= (spec.completions or 0):
            removed.append(pod)
        else:
            by_index[index].append(pod)
    kept: list[Pod] = []
    for group in by_index.values():
        repeated = pods_to_delete(group, (), len(group) - 1, now)
        removed += repeated
        kept += [pod for pod in group if pod not in repeated]
    more = max(0, least - len(removed))
    return [*removed, *(pods_to_delete(kept, (), more, now) if more else ())]


# --- the status


@dataclass(frozen=True, slots=True)
class Counts:
    """The pods after the creations and deletions."""

    active: int
    ready: int
    terminating: int


def count_pods(progress: Progress, deleted: Sequence[Pod], created: int) -> Counts:
    return Counts(
        active=len(progress.active) - len(deleted) + created,
        ready=sum(map(is_ready, progress.active)) - sum(map(is_ready, deleted)),
        terminating=sum(map(is_terminating, progress.pods)) + len(deleted),
    )


def conclude(progress: Progress, counts: Counts, now: datetime) -> tuple[Progress, list[Note]]:
    """Return the progress with the counts in its status, and the events to record. A Job without
    further pods to run is complete; others are suspended or resumed."""
    job, spec, status = progress.job, progress.job.spec, progress.job.status
    notes: list[Note] = []
    if status.startTime is None and not is_suspended(spec):
        status = structs.replace(status, startTime=rfc3339(now))
    done = progress.succeeded >= (1 if spec.completions is None else spec.completions)
    end = progress.end
    if end is None and done and counts.active == 0:
        message = "Reached expected number of succeeded pods"
        end = _condition("SuccessCriteriaMet", "CompletionsReached", message, now)
    elif end is None and job.metadata.deletionTimestamp is None:
        status, notes = _with_suspension(status, spec, now)
    status = structs.replace(
        status,
        active=counts.active or None,
        ready=counts.ready,
        terminating=counts.terminating,
    )
    return replace(progress, job=structs.replace(job, status=status), end=end), notes


def _with_suspension(
    status: JobStatus, spec: JobSpec, now: datetime
) -> tuple[JobStatus, list[Note]]:
    if is_suspended(spec):
        new = _condition("Suspended", "JobSuspended", "Job suspended", now)
        note: Note = ("Normal", "Suspended", "Job suspended")
        start = None
    else:
        new = _condition("Suspended", "JobResumed", "Job resumed", now, status="False")
        note = ("Normal", "Resumed", "Job resumed")
        start = rfc3339(now)
    conditions = _with_condition(status.conditions, new)
    if conditions == status.conditions:
        return status, []
    return structs.replace(status, conditions=conditions, startTime=start), [note]


@dataclass(frozen=True, slots=True)
class Tracking:
    """``status`` is written before the finalizers of ``release`` are taken off. ``end`` is Complete
    or Failed. ``whole`` is False if more pods remain to be counted in the next sync."""

    status: JobStatus
    release: tuple[Pod, ...]
    end: JobCondition | None
    whole: bool = True


def track(progress: Progress, now: datetime) -> Tracking:
    """Put the ended pods into the status."""
    job, spec, end = progress.job, progress.job.spec, progress.end
    pods = [pod for pod in progress.pods if has_finalizer(pod)]
    if is_indexed(spec):
        pods.sort(key=lambda pod: -1 if (index := index_of(pod)) is None else index)
    status = count_released(job.status, {pod.metadata.uid for pod in pods})
    uncounted = status.uncountedTerminatedPods or UncountedTerminatedPods()
    succeeded, failed = list(uncounted.succeeded), list(uncounted.failed)
    release: list[Pod] = []
    indexes: list[int] = []
    done = Indexes.parse(status.completedIndexes, spec.completions or 0)
    whole = True
    # All that has not ended when the Job fails has failed.
    fails = end is not None and end.type != "SuccessCriteriaMet"
    for pod in pods:
        uid, failing = pod.metadata.uid, has_failed(pod, spec)
        counts = _has_valid_index(pod, spec) and judge(spec.podFailurePolicy, pod).counts
        if not _is_releasable(progress, pod, failing=failing):
            continue
        release.append(pod)
        if pod.status.phase == "Succeeded" and uid not in uncounted.failed:
            index = index_of(pod)
            if is_indexed(spec):
                if _has_valid_index(pod, spec) and index is not None and index not in done:
                    indexes.append(index)
            elif uid not in succeeded:
                succeeded.append(uid)
        elif uid not in failed and counts and (failing or fails):
            failed.append(uid)
        if len(indexes) + len(succeeded) + len(failed) >= _MAX_UNCOUNTED:
            whole = False
            break
    status = structs.replace(
        status,
        uncountedTerminatedPods=UncountedTerminatedPods(
            succeeded=tuple(succeeded), failed=tuple(failed)
        ),
    )
    if is_indexed(spec):
        all_done = progress.succeeded_indexes | Indexes.of(indexes)
        status = structs.replace(
            status,
            succeeded=all_done.total or None,
            completedIndexes=str(all_done),
            failedIndexes=str(progress.failed_indexes or ""),
        )
    return _ending(Tracking(status, tuple(release), end, whole), now)


def _ending(tracking: Tracking, now: datetime) -> Tracking:
    """Write the condition that a Job will end, and turn it into that of its end."""
    status, end = tracking.status, tracking.end
    if end is None or end.type not in ("FailureTarget", "SuccessCriteriaMet"):
        return tracking
    if _true_condition(status, end.type) is None:
        status = structs.replace(status, conditions=(*status.conditions, end))
    name = "Failed" if end.type == "FailureTarget" else "Complete"
    last = _condition(name, end.reason, end.message, now)
    return replace(tracking, status=status, end=last)


def _is_releasable(progress: Progress, pod: Pod, *, failing: bool) -> bool:
    ends = progress.job.metadata.deletionTimestamp is not None or progress.end is not None
    if ends or pod.status.phase == "Succeeded":
        return True
    index = index_of(pod)
    waiting = (progress.replaced or {}).get(index) if index is not None else None
    return failing and (waiting is None or waiting.metadata.uid != pod.metadata.uid)


def count_released(status: JobStatus, with_finalizer: set[str]) -> JobStatus:
    """Move the UIDs of pods without a finalizer to the counters."""
    uncounted = status.uncountedTerminatedPods or UncountedTerminatedPods()
    succeeded = tuple(uid for uid in uncounted.succeeded if uid in with_finalizer)
    failed = tuple(uid for uid in uncounted.failed if uid in with_finalizer)
    more_succeeded = len(uncounted.succeeded) - len(succeeded)
    more_failed = len(uncounted.failed) - len(failed)
    return structs.replace(
        status,
        succeeded=(status.succeeded or 0) + more_succeeded or None,
        failed=(status.failed or 0) + more_failed or None,
        uncountedTerminatedPods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def finish(job: Job, tracking: Tracking) -> tuple[JobStatus, list[Note]]:
    """Return the status with the condition of the end, and its events, if nothing is left to be
    counted or to end; else the status as it is."""
    status, end = job.status, tracking.end
    uncounted = status.uncountedTerminatedPods or UncountedTerminatedPods()
    if end is None or not tracking.whole or uncounted.succeeded or uncounted.failed:
        return status, []
    if status.terminating:
        return status, []
    status = structs.replace(status, conditions=_with_condition(status.conditions, end))
    if end.type == "Failed":
        return status, [("Warning", end.reason, end.message)]
    notes: list[Note] = []
    if job.spec.completions is not None and (status.succeeded or 0) > job.spec.completions:
        message = "Too many succeeded pods running after completion count reached"
        notes.append(("Warning", "TooManySucceededPods", message))
    notes.append(("Normal", "Completed", "Job completed"))
    return structs.replace(status, completionTime=end.lastTransitionTime), notes


# --- the controllers


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
        known, back_off = self._back_offs.get(key, ("", BackOff()))
        progress = observe(job, pods, back_off if known == uid else BackOff(), now)
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

        failure = await call_in_batches(len(steps.create), create)
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
