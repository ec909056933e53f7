"""CronJobs: Jobs that start at the times of a schedule.

The name of a Job holds the minute of its time, so that no time starts two Jobs. A schedule without
a time zone is read in UTC, as by a controller manager in a container.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import structs

from podtui.api.batch import CronJob, CronJobStatus, Job
from podtui.api.cron import CronError, CronSchedule, Interval, find_zone, parse_schedule
from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import ObjectMeta
from podtui.client.cache import Cache, Key, Kind, controller_of
from podtui.clock import Clock
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents, reference
from podtui.controllers.job_progress import Note, finished_condition, is_finished
from podtui.controllers.loop import Keys, controller_key, own_key
from podtui.controllers.pods import owner_reference
from podtui.errors import ApiError

COMPONENT: Final = "cronjob-controller"
SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY_MISSED: Final = 100
_MARGIN: Final = timedelta(milliseconds=100)
"""Added to the wait for the next time."""
Schedule = CronSchedule | Interval


# --- times


class Missed(Enum):
    """The times that passed without a Job, by their number."""

    NONE = "none"
    FEW = "few"
    MANY = "many"


class Due(NamedTuple):
    """The last time that is due, if any, since ``earliest``."""

    earliest: datetime
    time: datetime | None
    missed: Missed


class ScheduleError(ValueError):
    """Raised for a schedule that never comes, such as February 31."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a CronJob."""

    cron: CronJob
    schedule: Schedule
    zone: ZoneInfo

    def following(self, moment: datetime) -> datetime:
        following = self.schedule.following(moment, self.zone)
        if following is None:
            raise ScheduleError("time difference between two schedules is less than 1 second")
        return following

    def due(self, now: datetime, *, with_deadline: bool) -> Due:
        """Return the last time that is due. ``with_deadline`` leaves out times that are older than
        ``startingDeadlineSeconds``. Raises `ScheduleError`."""
        spec, status, meta = self.cron.spec, self.cron.status, self.cron.metadata
        earliest = parse_time(status.lastScheduleTime) or parse_time(meta.creationTimestamp) or now
        if with_deadline and spec.startingDeadlineSeconds is not None:
            deadline = now - timedelta(seconds=spec.startingDeadlineSeconds)
            earliest = max(earliest, deadline)
        first = self.following(earliest)
        second = self.following(first)
        if now < first:
            return Due(earliest, None, Missed.NONE)
        if now < second:
            return Due(earliest, first, Missed.NONE)
        # The number of missed times is an estimate: those between may be many, and irregular.
        interval = round((second - first).total_seconds())
        count = int((now - first).total_seconds()) // interval + 1
        time, last = self.following(first + timedelta(seconds=(count - 2) * interval)), None
        while time <= now:
            time, last = self.following(time), time
        return Due(earliest, last, Missed.MANY if count > _MANY_MISSED else Missed.FEW)

    def seconds_to_next(self, now: datetime) -> float | None:
        """Return the seconds until the next sync; None for a schedule that never comes."""
        try:
            due = self.due(now, with_deadline=False)
            last = due.time
            if last is None:
                last = due.earliest if due.missed is Missed.NONE else now
            return (self.following(last) + _MARGIN - now).total_seconds()
        except ScheduleError:
            return None


def job_name(cron: CronJob, time: datetime) -> str:
    return f"{cron.metadata.name}-{int(time.timestamp()) // 60}"


def new_job(cron: CronJob, time: datetime) -> Job:
    """Return the Job for a time of the schedule."""
    template = cron.spec.jobTemplate
    local = time.astimezone(find_zone(cron.spec.timeZone) or UTC)
    text = local.isoformat(timespec="seconds")
    if not local.utcoffset():
        text = rfc3339(time)
    return Job(
        metadata=ObjectMeta(
            name=job_name(cron, time),
            namespace=cron.metadata.namespace,
            labels=template.metadata.labels,
            annotations={**template.metadata.annotations, SCHEDULED: text},
            ownerReferences=(owner_reference(cron),),
        ),
        spec=template.spec,
    )


# --- the Jobs


def review(cron: CronJob, jobs: Sequence[Job]) -> tuple[CronJobStatus, list[Note]]:
    """Return the status as the Jobs say, and the events to record."""
    status = cron.status
    active = {entry.uid: entry for entry in status.active}
    last = status.lastSuccessfulTime
    notes: list[Note] = []
    for job in jobs:
        uid, name = job.metadata.uid, job.metadata.name
        finished = finished_condition(job)
        if finished is None:
            if uid not in active:
                message = f"Saw a job that the controller did not create or forgot: {name}"
                notes.append(("Warning", "UnexpectedJob", message))
            continue
        if active.pop(uid, None) is not None:
            message = f"Saw completed job: {name}, condition: {finished.type}"
            notes.append(("Normal", "SawCompletedJob", message))
        if finished.type == "Complete":
            last = _later(last, job.status.completionTime)
    present = {job.metadata.uid for job in jobs}
    for uid, entry in list(active.items()):
        if uid not in present:
            del active[uid]
            notes.append(("Normal", "MissingJob", f"Active job went missing: {entry.name}"))
    kept = tuple(entry for entry in status.active if entry.uid in active)
    return structs.replace(status, active=kept, lastSuccessfulTime=last), notes


def _later(first: str | None, second: str | None) -> str | None:
    return max(filter(None, (first, second)), default=None)


def without_active(status: CronJobStatus, job: Job) -> CronJobStatus:
    uid = job.metadata.uid
    return structs.replace(status, active=tuple(item for item in status.active if item.uid != uid))


def expired_jobs(cron: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the finished Jobs beyond the limits of the history, the oldest ones first."""
    limits = {
        "Complete": cron.spec.successfulJobsHistoryLimit,
        "Failed": cron.spec.failedJobsHistoryLimit,
    }
    expired: list[Job] = []
    for name, limit in limits.items():
        ended = [
            job
            for job in jobs
            if (condition := finished_condition(job)) is not None and condition.type == name
        ]
        ended.sort(key=lambda job: (job.status.startTime or "~", job.metadata.name))
        if limit is not None and len(ended) > limit:
            expired += ended[: len(ended) - limit]
    return expired


@dataclass(frozen=True, slots=True)
class Start:
    """The time for which to start a Job, if any, and the events to record."""

    time: datetime | None = None
    notes: tuple[Note, ...] = ()


def choose_start(times: Times, now: datetime) -> Start:
    """Decide whether a Job is due. Raises `ScheduleError`."""
    cron, spec = times.cron, times.cron.spec
    _, time, missed = times.due(now, with_deadline=True)
    if time is None:
        return Start()
    notes: list[Note] = []
    if missed is Missed.MANY:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check"
            " clock skew"
        )
        notes.append(("Warning", "TooManyMissedTimes", message))
    deadline = spec.startingDeadlineSeconds
    if deadline is not None and time + timedelta(seconds=deadline) < now:
        message = f"Missed scheduled time to start a job: {_rfc1123(time)}"
        return Start(None, (*notes, ("Warning", "MissSchedule", message)))
    names = {entry.name for entry in cron.status.active}
    if job_name(cron, time) in names or parse_time(cron.status.lastScheduleTime) == time:
        return Start(None, tuple(notes))
    if spec.concurrencyPolicy == "Forbid" and cron.status.active:
        message = (
            "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        return Start(None, (*notes, ("Normal", "JobAlreadyActive", message)))
    return Start(time, tuple(notes))


def _rfc1123(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")


def read_times(cron: CronJob) -> tuple[Times | None, list[Note]]:
    """Return the times of the schedule; None if it cannot be read."""
    spec = cron.spec
    zone = find_zone(spec.timeZone)
    if zone is None:
        message = f'invalid timeZone: "{spec.timeZone}": unknown time zone {spec.timeZone}'
        return None, [("Warning", "UnknownTimeZone", message)]
    notes: list[Note] = []
    if "TZ" in spec.schedule:
        message = (
            f'CRON_TZ or TZ used in schedule "{spec.schedule}" is not officially supported, see'
            " https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
        notes.append(("Warning", "UnsupportedSchedule", message))
    try:
        return Times(cron, parse_schedule(spec.schedule), zone), notes
    except CronError as error:
        message = f'unparseable schedule: "{spec.schedule}" : {error}'
        return None, [*notes, ("Warning", "UnparseableSchedule", message)]


# --- the controller


class CronJobController:
    def __init__(
        self, cache: Cache, writer: Writer, events: ControllerEvents, clock: Clock
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._clock = clock
        self._schedules: dict[Key, tuple[str, str, str]] = {}
        """UID, schedule and time zone of the last sync. A new schedule starts at its next time."""

    @property
    def name(self) -> str:
        return COMPONENT

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {CronJob: own_key, Job: controller_key(CronJob)}

    async def sync(self, key: Key) -> float | None:
        cron = self._cache.get(CronJob, *key)
        if cron is None:
            self._schedules.pop(key, None)
            return None
        uid = cron.metadata.uid
        jobs = sorted(self._cache.owned(Job, uid), key=lambda job: job.metadata.name)
        status = cron.status
        for job in expired_jobs(cron, jobs):
            if await self._delete(cron, job) is None:
                jobs.remove(job)
                status = without_active(status, job)
        status, notes = review(structs.replace(cron, status=status), jobs)
        self._record(cron, notes)
        status, again = await self._start(structs.replace(cron, status=status))
        if status != cron.status:
            item = structs.replace(cron, status=status)
            await self._writer.update(CronJob, item, subresource="status")
        return again

    async def _start(self, cron: CronJob) -> tuple[CronJobStatus, float | None]:
        """Start a Job if one is due. Return the status, and the seconds until the next sync."""
        status, spec, meta = cron.status, cron.spec, cron.metadata
        if meta.deletionTimestamp is not None or spec.suspend:
            return status, None
        times, notes = read_times(cron)
        self._record(cron, notes)
        if times is None:
            return status, None
        now, key = self._clock.now(), (meta.namespace, meta.name)
        schedule = (meta.uid, spec.schedule, spec.timeZone)
        before = self._schedules.get(key, schedule)
        self._schedules[key] = schedule
        if before != schedule and before[0] == meta.uid:
            return status, times.seconds_to_next(now)
        try:
            start = choose_start(times, now)
        except ScheduleError as error:
            message = f"invalid schedule: {spec.schedule} : {error}"
            self._record(cron, [("Warning", "InvalidSchedule", message)])
            return status, None
        self._record(cron, start.notes)
        if start.time is not None:
            status = await self._start_job(cron, start.time)
            times = Times(structs.replace(cron, status=status), times.schedule, times.zone)
        return status, times.seconds_to_next(now)

    async def _start_job(self, cron: CronJob, time: datetime) -> CronJobStatus:
        status, namespace = cron.status, cron.metadata.namespace
        if cron.spec.concurrencyPolicy == "Replace":
            for entry in status.active:
                job = self._cache.get(Job, namespace, entry.name)
                if job is not None and (error := await self._delete(cron, job)) is not None:
                    raise error
            status = structs.replace(status, active=())
        try:
            job = await self._writer.create(Job, new_job(cron, time))
        except ApiError as error:
            if error.code != 409:
                message = f"Error creating job: {error}"
                self._record(cron, [("Warning", "FailedCreate", message)])
                raise
            # The status was not written after the Job had been created.
            job = self._cache.get(Job, namespace, job_name(cron, time))
            if job is None:
                raise
            owner = controller_of(job)
            if owner is None or owner.uid != cron.metadata.uid:
                return status
        else:
            created = ("Normal", "SuccessfulCreate", f"Created job {job.metadata.name}")
            self._record(cron, [created])
        active = status.active
        if not is_finished(job):
            active = (*active, reference(job))
        return structs.replace(status, active=active, lastScheduleTime=rfc3339(time))

    async def _delete(self, cron: CronJob, job: Job) -> ApiError | None:
        try:
            await self._writer.delete(Job, job, policy="Background")
        except ApiError as error:
            self._record(cron, [("Warning", "FailedDelete", f"Deleted job: {error}")])
            return error
        message = f"Deleted job {job.metadata.name}"
        self._record(cron, [("Normal", "SuccessfulDelete", message)])
        return None

    def _record(self, cron: CronJob, notes: Iterable[Note]) -> None:
        for event_type, reason, message in notes:
            self._events.record(COMPONENT, cron, event_type, reason, message)
