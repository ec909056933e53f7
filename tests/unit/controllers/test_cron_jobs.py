"""CronJobs: the times that are due, the Jobs of the past, and the controller on a store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from controller_store import ControllerStore, RecordedEvents
from fixed_clock import FixedClock
from msgspec import structs

from podtui.api.batch import (
    CronJob,
    CronJobSpec,
    Job,
    JobCondition,
    JobSpec,
    JobStatus,
    JobTemplateSpec,
)
from podtui.api.cron import parse_schedule
from podtui.api.times import rfc3339
from podtui.api.v1 import ObjectMeta, PodSpec, PodTemplateSpec
from podtui.client.cache import Cache
from podtui.controllers.cron_jobs import (
    SCHEDULED,
    CronJobController,
    Missed,
    ScheduleError,
    Times,
    job_name,
    new_job,
    read_times,
)
from podtui.controllers.events import ControllerEvents
from podtui.errors import ApiError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ("ns", "c")
TEMPLATE = JobTemplateSpec(
    metadata=ObjectMeta(labels={"a": "b"}, annotations={"c": "d"}),
    spec=JobSpec(template=PodTemplateSpec(spec=PodSpec(containers=()))),
)


def cron(schedule: str = "*/10 * * * *", *, created: datetime = NOON, **fields: Any) -> CronJob:
    meta = ObjectMeta(name="c", namespace="ns", uid="cron", creationTimestamp=rfc3339(created))
    defaults = {"concurrencyPolicy": "Allow"}
    return CronJob(
        metadata=meta,
        spec=CronJobSpec(schedule=schedule, jobTemplate=TEMPLATE, **cast("Any", defaults | fields)),
    )


def times(item: CronJob) -> Times:
    found, _ = read_times(item)
    assert found is not None
    return found


class World:
    def __init__(self, item: CronJob) -> None:
        self.cache = Cache()
        self.clock = FixedClock(NOON)
        for kind in (CronJob, Job):
            self.cache.add_kind(kind)
        self.store = ControllerStore(self.cache, self.clock)
        self.events = RecordedEvents()
        events = cast("ControllerEvents", self.events)
        self.controller = CronJobController(self.cache, self.store, events, self.clock)
        self.store.add(item)

    @property
    def cron(self) -> CronJob:
        item = self.cache.get(CronJob, *KEY)
        assert item is not None
        return item

    @property
    def jobs(self) -> list[str]:
        return sorted(job.metadata.name for job in self.cache.list(Job))

    @property
    def active(self) -> list[str]:
        return [entry.name for entry in self.cron.status.active]

    def sync(self, minutes: float = 0) -> float | None:
        self.clock.advance(minutes * 60)
        return asyncio.run(self.controller.sync(KEY))

    def change(self, **fields: Any) -> None:
        self.store.change(self.cron, spec=structs.replace(self.cron.spec, **fields))

    def finish(self, name: str, condition: str = "Complete") -> None:
        job = self.cache.get(Job, "ns", name)
        assert job is not None
        ended = JobCondition(type=condition, status="True")
        now = rfc3339(self.clock.now())
        self.store.change(
            job, status=JobStatus(conditions=(ended,), startTime=now, completionTime=now)
        )


def name_at(minutes: int) -> str:
    return job_name(cron(), NOON + timedelta(minutes=minutes))


def test_a_job_starts_at_each_time_of_the_schedule() -> None:
    world = World(cron())
    assert world.sync() == pytest.approx(600.1)
    assert world.jobs == []
    assert world.sync(10) == pytest.approx(600.1)
    assert world.jobs == world.active == [name_at(10)]
    assert world.cron.status.lastScheduleTime == "2026-01-01T12:10:00Z"
    assert world.events.texts == [f"Normal SuccessfulCreate: Created job {name_at(10)}"]
    world.sync()
    assert world.jobs == [name_at(10)]
    world.sync(10)
    assert world.active == [name_at(10), name_at(20)]


def test_a_job_is_made_from_the_template() -> None:
    job = new_job(cron(timeZone="Europe/Berlin"), NOON)
    assert job.metadata.name == f"c-{int(NOON.timestamp()) // 60}"
    assert job.metadata.labels == {"a": "b"}
    assert job.metadata.annotations == {"c": "d", SCHEDULED: "2026-01-01T13:00:00+01:00"}
    assert new_job(cron(), NOON).metadata.annotations[SCHEDULED] == "2026-01-01T12:00:00Z"
    (owner,) = job.metadata.ownerReferences
    assert (owner.kind, owner.uid, owner.controller) == ("CronJob", "cron", True)


def test_the_time_zone_decides_what_noon_is() -> None:
    item = cron("0 13 * * *", timeZone="Europe/Berlin", created=NOON - timedelta(hours=1))
    assert times(item).due(NOON, with_deadline=True).time == NOON
    assert times(cron("0 13 * * *")).due(NOON, with_deadline=True).time is None


def test_ended_jobs_leave_the_active_ones() -> None:
    world = World(cron())
    world.sync(10)
    world.finish(name_at(10))
    world.sync()
    assert world.active == []
    assert world.cron.status.lastSuccessfulTime == "2026-01-01T12:10:00Z"
    message = f"Saw completed job: {name_at(10)}, condition: Complete"
    assert world.events.texts[-1] == f"Normal SawCompletedJob: {message}"
    world.sync(10)
    job = world.cache.get(Job, "ns", name_at(20))
    assert job is not None
    world.cache.remove(job)
    world.sync()
    message = f"Active job went missing: {name_at(20)}"
    assert world.events.texts[-1] == f"Normal MissingJob: {message}"
    assert world.active == []


def test_a_job_that_a_user_made_is_unexpected() -> None:
    world = World(cron())
    job = new_job(world.cron, NOON)
    world.store.add(structs.replace(job, metadata=structs.replace(job.metadata, name="manual")))
    world.sync()
    message = "Saw a job that the controller did not create or forgot: manual"
    assert world.events.texts == [f"Warning UnexpectedJob: {message}"]
    world.finish("manual")
    world.sync()
    assert world.cron.status.lastSuccessfulTime == rfc3339(NOON)


@pytest.mark.parametrize(
    ("policy", "jobs", "event"),
    [
        ("Allow", [name_at(10), name_at(20)], f"SuccessfulCreate: Created job {name_at(20)}"),
        (
            "Forbid",
            [name_at(10)],
            (
                "JobAlreadyActive: Not starting job because prior execution is running and"
                " concurrency policy is Forbid"
            ),
        ),
        ("Replace", [name_at(20)], f"SuccessfulCreate: Created job {name_at(20)}"),
    ],
)
def test_the_concurrency_policy(policy: str, jobs: list[str], event: str) -> None:
    world = World(cron(concurrencyPolicy=policy))
    world.sync(10)
    world.sync(10)
    assert world.jobs == world.active == jobs
    assert world.events.texts[-1] == f"Normal {event}"


def test_a_suspended_cron_job_starts_nothing() -> None:
    world = World(cron(suspend=True))
    assert world.sync(10) is None
    assert world.jobs == []


def test_the_last_missed_time_is_made_up_for() -> None:
    world = World(cron())
    world.sync(35)
    assert world.jobs == [name_at(30)]


def test_after_many_missed_times_a_warning() -> None:
    world = World(cron("* * * * *"))
    world.sync(101)
    assert len(world.jobs) == 1
    message = (
        "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock"
        " skew"
    )
    assert world.events.texts[0] == f"Warning TooManyMissedTimes: {message}"


def test_a_time_that_is_too_long_ago_is_missed() -> None:
    world = World(cron(startingDeadlineSeconds=60))
    world.sync(12)
    assert world.jobs == []
    assert world.events.texts == []  # The deadline is after the time: nothing is due.
    world = World(cron(startingDeadlineSeconds=60))
    world.sync(11)
    assert world.jobs == []


def test_a_new_schedule_begins_with_its_next_time() -> None:
    world = World(cron("0 0 1 1 *"))
    world.sync(35)
    world.change(schedule="*/10 * * * *")
    assert world.sync() == pytest.approx(300.1)
    assert world.jobs == []
    world.sync(5)
    assert world.jobs == [name_at(40)]


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        (
            {"timeZone": "Nowhere/City"},
            'UnknownTimeZone: invalid timeZone: "Nowhere/City": unknown time zone Nowhere/City',
        ),
        (
            {"schedule": "x"},
            (
                'UnparseableSchedule: unparseable schedule: "x" : expected exactly 5 fields,'
                " found 1: [x]"
            ),
        ),
        (
            {"schedule": "0 0 31 2 *"},
            (
                "InvalidSchedule: invalid schedule: 0 0 31 2 * : time difference between two"
                " schedules is less than 1 second"
            ),
        ),
    ],
)
def test_what_cannot_be_scheduled_is_a_warning(fields: dict[str, Any], event: str) -> None:
    world = World(cron(**fields))
    assert world.sync(10) is None
    assert world.events.texts == [f"Warning {event}"]


def test_old_jobs_go() -> None:
    world = World(cron(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0))
    for minute in (10, 20, 30, 40):
        world.sync(10)
        world.finish(name_at(minute), "Failed" if minute == 40 else "Complete")
    world.sync()
    assert world.jobs == [name_at(20), name_at(30)]
    assert world.active == []
    assert f"Normal SuccessfulDelete: Deleted job {name_at(10)}" in world.events.texts


def test_a_job_without_its_status_is_found_again() -> None:
    world = World(cron())
    world.sync()
    world.clock.advance(600)
    world.store.add(new_job(world.cron, NOON + timedelta(minutes=10)))
    world.sync()
    assert world.active == [name_at(10)]
    assert world.cron.status.lastScheduleTime == "2026-01-01T12:10:00Z"


def test_a_refused_job_is_an_event_and_an_error() -> None:
    world = World(cron())
    world.store.failures = [ApiError(403, "Forbidden", "exceeded quota")]
    with pytest.raises(ApiError):
        world.sync(10)
    assert world.events.texts == ["Warning FailedCreate: Error creating job: exceeded quota"]


@pytest.mark.parametrize(
    ("minutes", "time", "missed"),
    [
        (9, None, Missed.NONE),
        (10, 10, Missed.NONE),
        (25, 20, Missed.FEW),
        (1015, 1010, Missed.MANY),
    ],
)
def test_missed_times_are_estimated(minutes: int, time: int | None, missed: Missed) -> None:
    due = times(cron()).due(NOON + timedelta(minutes=minutes), with_deadline=False)
    assert due.missed is missed
    assert due.time == (None if time is None else NOON + timedelta(minutes=time))


def test_irregular_schedules_find_their_last_time() -> None:
    item = cron("30 6-16/4 * * 1-5", created=datetime(2026, 1, 2, 13, tzinfo=UTC))
    now = datetime(2026, 1, 5, 11, tzinfo=UTC)
    assert times(item).due(now, with_deadline=False).time == datetime(
        2026, 1, 5, 10, 30, tzinfo=UTC
    )


def test_a_day_that_never_comes_is_an_error() -> None:
    schedule = parse_schedule("0 0 31 2 *")
    schedule_times = times(cron())
    with pytest.raises(ScheduleError):
        Times(schedule_times.cron, schedule, schedule_times.zone).due(NOON, with_deadline=True)
