"""The kinds of the group batch."""

from __future__ import annotations

from datetime import datetime

from podtui.api.batch import CronJob, Job
from podtui.api.selectors import selector_text
from podtui.api.times import parse_time, short_duration, since
from podtui.manifest.strategies import batch
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import (
    AGE,
    CONTAINERS,
    NAME,
    NONE,
    Cell,
    Columns,
    TableColumn,
    container_names,
)

_STATES = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
"""What a Job's status says, by falling importance; the conditions, and Terminating."""


def _cron_job(item: CronJob, now: datetime) -> list[Cell]:
    spec, last = item.spec, item.status.lastScheduleTime
    return [
        item.metadata.name,
        spec.schedule,
        spec.timeZone or NONE,
        str(bool(spec.suspend)),
        len(item.status.active),
        since(last, now) if last else NONE,
        since(item.metadata.creationTimestamp, now),
        *container_names(spec.jobTemplate.spec.template.spec),
        selector_text(spec.jobTemplate.spec.selector),
    ]


def _job(item: Job, now: datetime) -> list[Cell]:
    spec, done, parallelism = item.spec, item.status.succeeded or 0, item.spec.parallelism or 0
    wanted = "1" if spec.completions is None else str(spec.completions)
    if spec.completions is None and parallelism > 1:
        wanted += f" of {parallelism}"
    return [
        item.metadata.name,
        _state(item),
        f"{done}/{wanted}",
        _duration(item, now),
        since(item.metadata.creationTimestamp, now),
        *container_names(spec.template.spec),
        selector_text(spec.selector),
    ]


def _state(item: Job) -> str:
    holding: dict[str, bool] = {}
    for condition in item.status.conditions:
        holding.setdefault(condition.type, condition.status == "True")
    holding["Terminating"] = item.metadata.deletionTimestamp is not None
    return next((state for state in _STATES if holding.get(state)), "Running")


def _duration(item: Job, now: datetime) -> str:
    start, end = parse_time(item.status.startTime), parse_time(item.status.completionTime)
    return "" if start is None else short_duration(((end or now) - start).total_seconds())


CRON_JOBS = Resource(
    api_version="batch/v1",
    plural="cronjobs",
    singular="cronjob",
    kind="CronJob",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Schedule", "Times of the jobs, in cron's format."),
            TableColumn("Timezone", "Time zone of the schedule."),
            TableColumn("Suspend", "Whether no further jobs are started.", type="boolean"),
            TableColumn("Active", "Number of running jobs.", type="integer"),
            TableColumn("Last Schedule", "Time since a job was due last."),
            AGE,
            *CONTAINERS,
            TableColumn("Selector", "Labels of the pods of a job.", wide=True),
        ),
        _cron_job,
    ),
    short_names=("cj",),
    categories=("all",),
    subresources={"status": ("get", "patch", "update")},
    record="cronjobs",
    strategy=batch.CRON_JOBS,
    updates={"status": batch.CRON_JOB_STATUS},
)
JOBS = Resource(
    api_version="batch/v1",
    plural="jobs",
    singular="job",
    kind="Job",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Status", "How the job ended, or what it does."),
            TableColumn("Completions", "Number of pods that succeeded, of those wanted."),
            TableColumn("Duration", "Time that the job took, or has taken so far."),
            AGE,
            *CONTAINERS,
            TableColumn("Selector", "Labels of the job's pods.", wide=True),
        ),
        _job,
    ),
    categories=("all",),
    fields=("status.successful",),
    subresources={"status": ("get", "patch", "update")},
    record="jobs",
    strategy=batch.JOBS,
    updates={"status": batch.JOB_STATUS},
)
