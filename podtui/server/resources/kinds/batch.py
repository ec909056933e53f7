"""The kinds of the group batch."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import batch

CRON_JOBS = Resource(
    api_version="batch/v1",
    plural="cronjobs",
    singular="cronjob",
    kind="CronJob",
    namespaced=True,
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
    categories=("all",),
    fields=("status.successful",),
    subresources={"status": ("get", "patch", "update")},
    record="jobs",
    strategy=batch.JOBS,
    updates={"status": batch.JOB_STATUS},
)
