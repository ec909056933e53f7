"""The kinds of the group batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.batch import CronJob, Job
from podtui.server.resources.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)

CRON_JOBS: Final = Strategy(
    struct=CronJob,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
CRON_JOB_STATUS: Final = replace(CRON_JOBS, prepare_update=with_old_spec)
JOBS: Final = Strategy(
    struct=Job,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
JOB_STATUS: Final = replace(JOBS, prepare_update=with_old_spec)
