"""Jobs and cron jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.batch import CronJob, Job, JobSpec
from podtui.api.v1 import LabelSelector
from podtui.manifest.defaults import Tree, default_template
from podtui.manifest.strategies.strategy import (
    Strategy,
    no_warnings,
    with_meta,
    with_old_spec,
    with_old_status,
    without_status,
)
from podtui.manifest.strategies.templates import prepared, supported
from podtui.manifest.validation.cron_jobs import cron_job_update, validate_cron_job
from podtui.manifest.validation.errors import Errors, invalid
from podtui.manifest.validation.job_status import job_status
from podtui.manifest.validation.jobs import (
    CONTROLLER_UID,
    INDEXED,
    JOB_NAME,
    OLD_CONTROLLER_UID,
    OLD_JOB_NAME,
    job_update,
    validate_job,
)
from podtui.manifest.validation.pod_template import template_tree_errors
from podtui.manifest.warnings import owner_name_warnings, template_warnings

_LIMIT: Final = 6
_NO_LIMIT: Final = 2**31 - 1
_MANY_INDEXES: Final = 100_000
_MUCH_PARALLELISM: Final = 10_000


def _spec_defaults(spec: Tree) -> None:
    """Apply the defaults that a Job template has too."""
    default_template(spec["template"])
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern["status"] = pattern.get("status") or "True"


def _job_defaults(tree: Tree) -> None:
    spec: Tree = tree["spec"]
    _spec_defaults(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else _LIMIT)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    replacement = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replacement)
    spec.setdefault("manualSelector", False)


def _cron_job_defaults(tree: Tree) -> None:
    spec: Tree = tree["spec"]
    _spec_defaults(spec["jobTemplate"]["spec"])
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def _job_tree_errors(tree: Tree) -> Errors:
    return template_tree_errors(tree["spec"]["template"], "spec.template")


def _cron_job_tree_errors(tree: Tree) -> Errors:
    spec: Tree = tree["spec"]
    if spec.get("timeZone") == "":
        yield invalid("spec.timeZone", "", "timeZone must be nil or non-empty string")
    template: Tree = spec["jobTemplate"]["spec"]["template"]
    yield from template_tree_errors(template, "spec.jobTemplate.spec.template")


def _prepare_create(item: Job) -> Job:
    item = prepared(without_status(item))
    return _labelled(item if item.spec.manualSelector else _with_selector(item))


def _prepare_update(new: Job, old: Job) -> Job:
    return _labelled(prepared(with_old_status(new, old), old))


def _labelled(item: Job) -> Job:
    """Return the Job with the labels of its pods, if it has no labels of its own."""
    labels = item.metadata.labels or item.spec.template.metadata.labels
    return with_meta(item, labels=labels)


def _with_selector(item: Job) -> Job:
    """Return a Job that selects the pods with its UID, and labels them so."""
    spec, uid, name = item.spec, item.metadata.uid, item.metadata.name
    generated = {
        OLD_JOB_NAME: name,
        JOB_NAME: name,
        OLD_CONTROLLER_UID: uid,
        CONTROLLER_UID: uid,
    }
    template = spec.template
    metadata = structs.replace(template.metadata, labels=generated | template.metadata.labels)
    selector = spec.selector or LabelSelector()
    labels = {CONTROLLER_UID: uid} | selector.matchLabels
    spec = structs.replace(
        spec,
        selector=structs.replace(selector, matchLabels=labels),
        template=structs.replace(template, metadata=metadata),
    )
    return structs.replace(item, spec=spec)


def _job_warnings(new: Job, old: Job | None) -> Iterable[str]:
    if old is None:
        yield from owner_name_warnings(new.metadata.name)
    if old is None or new.spec != old.spec:
        yield from _spec_warnings(new.spec, "spec")


def _cron_job_warnings(new: CronJob, old: CronJob | None) -> Iterable[str]:
    if old is None:
        yield from owner_name_warnings(new.metadata.name)
    if old is None or new.spec != old.spec:
        yield from _spec_warnings(new.spec.jobTemplate.spec, "spec.jobTemplate.spec")
    if old is not None and "TZ" in new.spec.schedule:
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see"
            " https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )


def _spec_warnings(spec: JobSpec, path: str) -> Iterable[str]:
    many = (spec.completions or 0) > _MANY_INDEXES
    if spec.completionMode == INDEXED and many and (spec.parallelism or 0) > _MUCH_PARALLELISM:
        yield (
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a"
            " parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes"
            " when a big number of indexes fail"
        )
    yield from template_warnings(spec.template, f"{path}.template")


def _prepare_cron_job(item: CronJob) -> CronJob:
    job = item.spec.jobTemplate
    spec = structs.replace(job.spec, template=supported(job.spec.template))
    job = structs.replace(job, spec=spec)
    return structs.replace(without_status(item), spec=structs.replace(item.spec, jobTemplate=job))


def _prepare_cron_job_update(new: CronJob, old: CronJob) -> CronJob:
    if new.spec.jobTemplate != old.spec.jobTemplate:
        new = _prepare_cron_job(new)
    return with_old_status(new, old)


def _no_errors(new: CronJob, old: CronJob) -> Errors:
    yield from ()


CRON_JOBS: Final = Strategy(
    struct=CronJob,
    defaults=_cron_job_defaults,
    tree_errors=_cron_job_tree_errors,
    prepare_create=_prepare_cron_job,
    prepare_update=_prepare_cron_job_update,
    validate_create=validate_cron_job,
    validate_update=cron_job_update,
    warnings=_cron_job_warnings,
)
CRON_JOB_STATUS: Final = replace(
    CRON_JOBS, prepare_update=with_old_spec, validate_update=_no_errors, warnings=no_warnings
)
JOBS: Final = Strategy(
    struct=Job,
    defaults=_job_defaults,
    tree_errors=_job_tree_errors,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=validate_job,
    validate_update=job_update,
    warnings=_job_warnings,
    orphans=True,
)
JOB_STATUS: Final = replace(
    JOBS, prepare_update=with_old_spec, validate_update=job_status, warnings=no_warnings
)
