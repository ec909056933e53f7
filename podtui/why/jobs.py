"""Diagnoses of Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from podtui.api.batch import CronJob, Job, JobCondition
from podtui.api.cron import CronError, CronSchedule, Interval, find_zone, parse_schedule
from podtui.api.events import last_seen
from podtui.api.health import Health
from podtui.api.times import epoch, rfc3339, short_duration
from podtui.api.v1 import Pod
from podtui.text.terminal_text import plural
from podtui.why.inventory import Inventory, object_name
from podtui.why.types import Diagnosis, Evidence, Kind, Part
from podtui.why.workloads import (
    MAX_PARTS,
    alive,
    as_desired,
    deleting,
    failed_create,
    has_failure,
    name_list,
    part_of,
)

_DOCS: Final = "https://kubernetes.io/docs/concepts/workloads/controllers/"
_FIRST_BACK_OFF: Final = 10
_MAX_BACK_OFF: Final = 600
_MAX_DOUBLINGS: Final = 10


# --- Jobs


def diagnose_job(inventory: Inventory, item: Job) -> Diagnosis:
    early = deleting(item)
    if early is not None:
        return early
    conditions = {c.type: c for c in item.status.conditions if c.status == "True"}
    pods = inventory.owned(Pod, item)
    failed = conditions.get("Failed") or conditions.get("FailureTarget")
    if failed is not None:
        return _failed(inventory, item, failed, pods)
    if "Complete" in conditions:
        return _complete(item, conditions["Complete"])
    if item.spec.suspend:
        return Diagnosis(
            cause="Suspended",
            kind=Kind.WAIT,
            health=Health.PENDING,
            state="suspended",
            title="It is suspended: it has no pods until it is resumed.",
            brief="suspended",
            advice=f"kubectl patch job {item.metadata.name} -n {item.metadata.namespace}"
            """ -p '{"spec":{"suspend":false}}'""",
            docs=_DOCS + "job/#suspending-a-job",
        )
    if item.spec.managedBy not in ("", "kubernetes.io/job-controller"):
        return Diagnosis(
            cause="ManagedElsewhere",
            kind=Kind.WAIT,
            health=Health.PENDING,
            state="waiting for its controller",
            title=f"Another controller manages it: {item.spec.managedBy}.",
            docs=_DOCS + "job/#delegation-of-managing-a-job-object-to-external-controller",
        )
    refusal = failed_create(inventory, item)
    if refusal is not None:
        return refusal
    active = alive(pods)
    parts = part_of(inventory, active)
    failures = item.status.failed or 0
    if not active and failures and not item.status.terminating:
        return _back_off(inventory, item, pods, failures)
    counts = f"{_counts(item)}."
    fails = has_failure(parts)
    if active and not parts:
        return as_desired(f"Its pods are running: {counts}", _limits(item, inventory.now),
                          state="running")  # fmt: skip
    title = (
        f"Its pods do not run as they should: {counts}" if fails else f"It is starting: {counts}"
    )
    return Diagnosis(
        cause="JobPods",
        kind=Kind.FAILURE if fails else Kind.WAIT,
        health=Health.FAILING if fails else Health.PENDING,
        state="failing" if fails else "starting",
        title=title,
        brief=parts[0].diagnosis.brief if fails else "",
        sentences=tuple(filter(None, (_limits(item, inventory.now),))),
        evidence=inventory.evidence(item),
        parts=parts,
        docs=_DOCS + "job/",
    )


def _counts(item: Job) -> str:
    status, wanted = item.status, item.spec.completions
    done = f"{status.succeeded or 0} of {wanted} completed" if wanted else (
        f"{status.succeeded or 0} completed")  # fmt: skip
    return f"{status.active or 0} active, {done}, {status.failed or 0} failed"


def _limits(item: Job, now: float) -> str:
    began, seconds = epoch(item.status.startTime), item.spec.activeDeadlineSeconds
    if began is None or seconds is None:
        return ""
    left = began + seconds - now
    return f"Its activeDeadlineSeconds ({seconds} s) end in {short_duration(max(left, 0))}."


def _complete(item: Job, condition: JobCondition) -> Diagnosis:
    by_policy = condition.reason == "SuccessPolicy"
    done = plural(item.status.succeeded or 0, "pod")
    how = f"Its success policy is met: {condition.message}" if by_policy else f"{done} completed."
    return Diagnosis(
        cause="Completed",
        kind=Kind.COMPLETION,
        health=Health.COMPLETED,
        state="completed",
        title=f"It completed at {condition.lastTransitionTime}.",
        sentences=(how,),
    )


def _failed(
    inventory: Inventory, item: Job, condition: JobCondition, pods: Sequence[Pod]
) -> Diagnosis:
    spec = item.spec
    reasons = {
        "BackoffLimitExceeded": (
            f"Its pods failed more often than its backoffLimit of {_limit(spec.backoffLimit, 6)}"
            " allows."
        ),
        "DeadlineExceeded": (
            f"It ran longer than its activeDeadlineSeconds of {spec.activeDeadlineSeconds} s."
        ),
        "PodFailurePolicy": "Its pod failure policy ended it.",
        "FailedIndexes": (
            f"Indexes failed for good: {item.status.failedIndexes or 'unknown'}"
            f" (backoffLimitPerIndex {_limit(spec.backoffLimitPerIndex, 0)})."
        ),
        "MaxFailedIndexesExceeded": (
            f"More indexes failed than its maxFailedIndexes of {spec.maxFailedIndexes} allow:"
            f" {item.status.failedIndexes or 'unknown'}."
        ),
    }
    title = reasons.get(condition.reason) or condition.message or condition.reason
    ends = condition.type == "FailureTarget"
    ended = [pod for pod in pods if pod.status.phase == "Failed"]
    newest = sorted(ended, key=lambda pod: pod.metadata.creationTimestamp or "")[-1:]
    parts = tuple(Part(object_name(pod), inventory.pod_diagnosis(pod)) for pod in newest)
    explained = parts or condition.reason in ("PodFailurePolicy", "DeadlineExceeded")
    gone = "" if explained else "None of its failed pods is left, so that their logs are gone."
    return Diagnosis(
        cause=condition.reason or "JobFailed",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="failing" if ends else "failed",
        title=title if title.endswith(".") else f"{title}.",
        brief=(parts[0].diagnosis.brief if parts else "") or condition.reason,
        sentences=tuple(
            filter(None, (f"{_counts(item)}.", "Its pods are being ended." if ends else "", gone))
        ),
        evidence=(
            Evidence(
                "state",
                f"{condition.type}: {condition.reason}: {condition.message}",
                condition.lastTransitionTime or "",
                warning=True,
            ),
        ),
        advice="A failed Job does not start again: correct it, delete it, and create it again.",
        parts=parts,
        docs=_DOCS + "job/#handling-pod-and-container-failures",
    )


def _limit(value: int | None, default: int) -> int:
    return default if value is None else value


def _back_off(inventory: Inventory, item: Job, pods: Sequence[Pod], failures: int) -> Diagnosis:
    ended = [pod for pod in pods if pod.status.phase == "Failed"]
    newest = max(ended, key=lambda pod: pod.metadata.creationTimestamp or "", default=None)
    seconds = min(_FIRST_BACK_OFF * 2 ** min(failures - 1, _MAX_DOUBLINGS), _MAX_BACK_OFF)
    end = _ended_at(newest) if newest is not None else None
    # The controller counts the failures since the last success, which the Job does not say.
    left = None if end is None else end + seconds - inventory.now
    when = (
        f"The next pod starts in about {short_duration(left)} (estimated from its failures)."
        if left is not None and left > 0
        else "The next pod starts soon."
    )
    parts = (
        (Part(object_name(newest), inventory.pod_diagnosis(newest)),) if newest is not None else ()
    )
    limit = _limit(item.spec.backoffLimit, 6)
    return Diagnosis(
        cause="JobBackOff",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="failing",
        title=f"It waits in back-off after {plural(failures, 'failed pod')}.",
        brief=(parts[0].diagnosis.brief if parts else "") or "waits in back-off",
        sentences=(when, f"It fails after more than {limit} failed pods (backoffLimit)."),
        parts=parts,
        docs=_DOCS + "job/#pod-backoff-failure-policy",
    )


def _ended_at(pod: Pod) -> float | None:
    ends = [
        epoch(status.state.terminated.finishedAt)
        for status in pod.status.containerStatuses
        if status.state.terminated is not None
    ]
    return max((end for end in ends if end is not None), default=None)


# --- CronJobs


def diagnose_cron_job(inventory: Inventory, item: CronJob) -> Diagnosis:
    early = deleting(item)
    if early is not None:
        return early
    spec = item.spec
    last = item.status.lastScheduleTime
    began = f"The last Job was due at {last}." if last else "No Job was started yet."
    if spec.suspend:
        return as_desired(
            "It is suspended: it starts no Jobs.",
            began,
            f"To resume it: kubectl patch cronjob {item.metadata.name} -n"
            f""" {item.metadata.namespace} -p '{{"spec":{{"suspend":false}}}}'.""",
            state="suspended",
            health=Health.COMPLETED,
        )
    schedule = _schedule(item)
    if isinstance(schedule, str):
        return Diagnosis(
            cause="BadSchedule",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="failing",
            title=f"Its schedule cannot be read: {schedule}.",
            brief="bad schedule",
            advice="Correct spec.schedule or spec.timeZone.",
            docs=_DOCS + "cron-jobs/#schedule-syntax",
        )
    when = _next(item, schedule, inventory.now)
    following = (
        f"The next Job starts {when}." if when else "Its schedule has no time in the next years."
    )
    events = inventory.events(item, "FailedCreate", "SuccessfulCreate", "MissSchedule",
                              "TooManyMissedTimes", "JobAlreadyActive")  # fmt: skip
    newest = events[-1] if events else None
    jobs = inventory.owned(Job, item)
    if newest is not None and newest.reason == "FailedCreate":
        return Diagnosis(
            cause="JobRefused",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="failing",
            title=f"Its Job could not be created: {newest.message.strip()}",
            brief="Job refused",
            sentences=(following,),
            evidence=inventory.evidence(item, "FailedCreate"),
        )
    missed = newest is not None and newest.reason in ("MissSchedule", "TooManyMissedTimes")
    active = [job for job in jobs if not _is_over(job)]
    blocked = newest is not None and newest.reason == "JobAlreadyActive" and active
    runs = [job.metadata.name for job in active]
    if blocked:
        return Diagnosis(
            cause="ConcurrencyForbid",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="waiting",
            title=f"A Job is due, but {name_list(runs)} still runs: concurrencyPolicy is Forbid.",
            brief="waits for the running Job",
            sentences=("It starts once the earlier Job has ended.",),
            evidence=inventory.evidence(item, "JobAlreadyActive"),
            parts=_of_jobs(inventory, active),
            docs=_DOCS + "cron-jobs/#concurrency-policy",
        )
    over = sorted(
        (job for job in jobs if _is_over(job)), key=lambda job: job.metadata.creationTimestamp or ""
    )
    failed = over[-1:] if over and _has(over[-1], "Failed") else []
    if failed:
        diagnosis = diagnose_job(inventory, failed[0])
        return Diagnosis(
            cause="LastJobFailed",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="failing",
            title=f"Its last finished Job failed: {failed[0].metadata.name}.",
            brief=diagnosis.brief,
            sentences=(following,),
            parts=(Part(object_name(failed[0]), diagnosis),),
        )
    troubled = [part for part in _of_jobs(inventory, active) if part.diagnosis.kind is Kind.FAILURE]
    if troubled:
        return Diagnosis(
            cause="JobFailing",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="failing",
            title=f"Its Job {troubled[0].name.partition('/')[2]} fails.",
            brief=troubled[0].diagnosis.brief,
            sentences=(following,),
            parts=tuple(troubled),
        )
    if missed and newest is not None:
        many = newest.reason == "TooManyMissedTimes"
        advice = (
            "Set or decrease spec.startingDeadlineSeconds."
            if many
            else "Raise spec.startingDeadlineSeconds if late starts are useful."
        )
        return Diagnosis(
            cause=newest.reason,
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="missed starts",
            title=f"It missed a start at or before {last_seen(newest)}.",
            brief="missed a start",
            sentences=(following, began),
            evidence=inventory.evidence(item, newest.reason),
            advice=advice,
            docs=_DOCS + "cron-jobs/#starting-deadline",
        )
    running = f"Running: {name_list(runs)}." if runs else ""
    return as_desired(following, began, running, state="scheduled")


def _schedule(item: CronJob) -> CronSchedule | Interval | str:
    """Return the schedule, or the reason why it cannot be read."""
    if find_zone(item.spec.timeZone) is None:
        return f"unknown time zone {item.spec.timeZone}"
    try:
        return parse_schedule(item.spec.schedule)
    except CronError as error:
        return str(error)


def _next(item: CronJob, schedule: CronSchedule | Interval, now: float) -> str:
    """Return the next time of the schedule; empty if it has none."""
    zone = find_zone(item.spec.timeZone) or UTC
    text = f"({item.spec.schedule}{f', {item.spec.timeZone}' if item.spec.timeZone else ''})"
    # An interval counts from the last time; a schedule of fields from the clock.
    last = epoch(item.status.lastScheduleTime or item.metadata.creationTimestamp)
    origin = now if isinstance(schedule, CronSchedule) or last is None else last
    following = schedule.following(datetime.fromtimestamp(origin, UTC), zone)
    if following is None:
        return ""
    left = following.timestamp() - now
    how = f"in {short_duration(left)}, at" if left > 0 else "now, due since"
    return f"{how} {rfc3339(following)} {text}"


def _is_over(job: Job) -> bool:
    return _has(job, "Complete") or _has(job, "Failed")


def _has(job: Job, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in job.status.conditions)


def _of_jobs(inventory: Inventory, jobs: Sequence[Job]) -> tuple[Part, ...]:
    return tuple(Part(object_name(job), diagnose_job(inventory, job)) for job in jobs[:MAX_PARTS])
