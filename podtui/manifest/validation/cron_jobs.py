"""The API server's rules for a CronJob."""

from __future__ import annotations

import re
from typing import Final

from podtui.api.batch import CronJob, CronJobSpec, JobTemplateSpec
from podtui.api.cron import CronError, find_zone, parse_schedule
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import Errors, invalid, not_supported, required
from podtui.manifest.validation.jobs import job_spec_errors
from podtui.manifest.validation.metadata import object_meta

_POLICIES: Final = ("Allow", "Forbid", "Replace")
_NAME_BYTES: Final = 52
_ZONE_PART: Final = re.compile(r"[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}")


def validate_cron_job(item: CronJob) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _spec(item.spec, None)
    name = item.metadata.name
    if formats.size(name) > _NAME_BYTES:
        yield invalid("metadata.name", name, f"must be no more than {_NAME_BYTES} characters")


def cron_job_update(new: CronJob, old: CronJob) -> Errors:
    yield from _spec(new.spec, old.spec)


def _spec(spec: CronJobSpec, before: CronJobSpec | None) -> Errors:
    yield from _schedule(spec, before)
    yield from formats.nonnegative(spec.startingDeadlineSeconds, "spec.startingDeadlineSeconds")
    if spec.timeZone and (before is None or before.timeZone != spec.timeZone):
        yield from _time_zone(spec.timeZone)
    policy, path = spec.concurrencyPolicy, "spec.concurrencyPolicy"
    if policy not in _POLICIES:
        yield not_supported(path, policy, _POLICIES)
    yield from _job_template(spec.jobTemplate, "spec.jobTemplate")
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from formats.nonnegative(getattr(spec, name), f"spec.{name}")


def _schedule(spec: CronJobSpec, before: CronJobSpec | None) -> Errors:
    path, text = "spec.schedule", spec.schedule
    if not text:
        yield required(path)
        return
    try:
        parse_schedule(text)
    except CronError as error:
        yield invalid(path, text, str(error))
    if "TZ" not in text:
        return
    if before is None or "TZ" not in before.schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(path, text, why)
    elif spec.timeZone:
        why = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid(path, text, why)


def _time_zone(name: str) -> Errors:
    path = "spec.timeZone"
    parts = name.split("/")
    if any(part in (".", "..") or not _ZONE_PART.fullmatch(part) for part in parts):
        yield invalid(path, name, f"unknown time zone {name}")
        return
    if name.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in"
        yield invalid(path, name, f"{why} https://www.iana.org/time-zones")
    if name != "Local" and find_zone(name) is None:
        yield invalid(path, name, f"unknown time zone {name}")


def _job_template(template: JobTemplateSpec, path: str) -> Errors:
    yield from job_spec_errors(template.spec, f"{path}.spec")
    if template.spec.selector is not None:
        why = "`selector` will be auto-generated"
        yield invalid(f"{path}.spec.selector", template.spec.selector, why)
    if template.spec.manualSelector:
        yield not_supported(f"{path}.spec.manualSelector", True, ("nil", "false"))
