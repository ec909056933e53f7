"""The API server's rules for a Job, and for the Job template of a CronJob."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.batch import (
    Job,
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from podtui.api.selectors import labels_match
from podtui.api.v1 import Affinity, PodSpec, PodTemplateSpec
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    OMITTED,
    Errors,
    GoText,
    duplicate,
    invalid,
    not_supported,
    quoted,
    required,
    too_long,
    too_many,
)
from podtui.manifest.validation.job_status import INDEXED, count_indexes, is_true
from podtui.manifest.validation.metadata import label_name, label_selector, object_meta
from podtui.manifest.validation.pod_template import pod_template_errors
from podtui.manifest.validation.spec_diff import internal_form

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
OLD_CONTROLLER_UID: Final = "controller-uid"
OLD_JOB_NAME: Final = "job-name"
_MODES: Final = ("NonIndexed", INDEXED)
_RESTART_POLICIES: Final = ("OnFailure", "Never")
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_IMMUTABLE: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_MANY: Final = 100_000
_FEW: Final = 10_000
"""The largest parallelism, and number of failed indexes, of a Job with `_MANY` indexes."""
_MOST_RULES: Final = 20
_MOST_PATTERNS: Final = 20
_MOST_CODES: Final = 255
_MANAGER_BYTES: Final = 63
_INDEXES_BYTES: Final = 64 * 1024
_FIXED: Final = "field is immutable"


def validate_job(item: Job) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _generated_selector(item)
    yield from _own_spec(item.spec)
    spec = item.spec
    if spec.completionMode == INDEXED and (spec.completions or 0) > 0:
        # The names of the pods, and their host names, end in the index.
        last = f"{item.metadata.name}-{(spec.completions or 0) - 1}"
        if formats.dns_label(last):
            why = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid("metadata.name", item.metadata.name, why)


def job_update(new: Job, old: Job) -> Errors:
    yield from validate_job(new)
    after, before = new.spec, old.spec
    yield from _changed_completions(after, before)
    if after.selector != before.selector:
        yield invalid("spec.selector", after.selector, _FIXED)
    yield from _changed_template(new, old)
    for name in _IMMUTABLE:
        value = getattr(after, name)
        if value != getattr(before, name):
            shown = GoText(value) if name == "completionMode" else value or None
            yield invalid(f"spec.{name}", shown, _FIXED)


def job_spec_errors(spec: JobSpec, path: str) -> Errors:
    """The rules of a Job that are those of a Job template too."""
    for name in _COUNTS:
        yield from formats.nonnegative(getattr(spec, name), f"{path}.{name}")
    if spec.maxFailedIndexes is not None and spec.backoffLimitPerIndex is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.managedBy:
        yield from formats.domain_prefixed_path(spec.managedBy, f"{path}.managedBy")
        if formats.size(spec.managedBy) > _MANAGER_BYTES:
            yield too_long(f"{path}.managedBy", _MANAGER_BYTES)
    yield from _completion_mode(spec, path)
    if spec.podFailurePolicy is not None:
        yield from _failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.successPolicy is not None:
        yield from _success_policy(spec, f"{path}.successPolicy")
    policy = spec.podReplacementPolicy
    allowed = _REPLACEMENTS if spec.podFailurePolicy is None else _REPLACEMENTS[:1]
    if policy and policy not in allowed:
        yield not_supported(f"{path}.podReplacementPolicy", policy, allowed)
    yield from pod_template_errors(spec.template, f"{path}.template")
    yield from _restart_policy(spec, f"{path}.template.spec.restartPolicy")


def _own_spec(spec: JobSpec) -> Errors:
    yield from job_spec_errors(spec, "spec")
    if spec.selector is None:
        yield required("spec.selector")
    problems = list(label_selector(spec.selector, "spec.selector"))
    yield from problems
    labels = dict(sorted(spec.template.metadata.labels.items()))
    if not problems and not labels_match(spec.selector, labels):
        why = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels or None, why)


def _generated_selector(item: Job) -> Errors:
    """Check that a generated selector selects the pods of this Job only."""
    spec, meta = item.spec, item.metadata
    if spec.manualSelector or spec.selector is None:
        return
    labels, path = spec.template.metadata.labels, "spec.template.metadata.labels"
    expected = {
        OLD_CONTROLLER_UID: meta.uid,
        OLD_JOB_NAME: meta.name,
        CONTROLLER_UID: meta.uid,
        JOB_NAME: meta.name,
    }
    for key, value in expected.items():
        if key not in labels:
            yield required(f"{path}[{key}]", f"must be '{value}'")
        elif labels[key] != value:
            shown = dict(sorted(labels.items()))
            yield invalid(f"{path}[{key}]", shown, f"must be '{value}'")
    problems = any(label_selector(spec.selector, "spec.selector"))
    if not problems and not labels_match(spec.selector, expected):
        yield invalid("spec.selector", spec.selector, "`selector` not auto-generated")


def _completion_mode(spec: JobSpec, path: str) -> Errors:
    mode, most_failed = spec.completionMode, spec.maxFailedIndexes
    if mode and mode not in _MODES:
        yield not_supported(f"{path}.completionMode", mode, _MODES)
    if mode in ("", "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            value = getattr(spec, name)
            if value is not None:
                yield invalid(f"{path}.{name}", value, "requires indexed completion mode")
    if mode != INDEXED:
        return
    completions, parallelism = spec.completions, spec.parallelism or 0
    if completions is None:
        yield required(f"{path}.completions", f"when completion mode is {INDEXED}")
    if parallelism > _MANY:
        why = f"must be less than or equal to {_MANY} when completion mode is {INDEXED}"
        yield invalid(f"{path}.parallelism", parallelism, why)
    if completions is not None and most_failed is not None and most_failed > completions:
        why = "must be less than or equal to completions"
        yield invalid(f"{path}.maxFailedIndexes", most_failed, why)
    if most_failed is not None and most_failed > _MANY:
        why = f"must be less than or equal to {_MANY}"
        yield invalid(f"{path}.maxFailedIndexes", most_failed, why)
    if (completions or 0) > _MANY and spec.backoffLimitPerIndex is not None:
        yield from _many_indexes(spec, path)


def _many_indexes(spec: JobSpec, path: str) -> Errors:
    if spec.maxFailedIndexes is None:
        why = f"must be specified when completions is above {_MANY}"
        yield required(f"{path}.maxFailedIndexes", why)
    why = (
        f"must be less than or equal to {_FEW} when completions are above {_MANY} and used with"
        " backoff limit per index"
    )
    for name in ("parallelism", "maxFailedIndexes"):
        value = getattr(spec, name)
        if value is not None and value > _FEW:
            yield invalid(f"{path}.{name}", value, why)


def _restart_policy(spec: JobSpec, path: str) -> Errors:
    policy = spec.template.spec.restartPolicy
    if policy in ("", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in _RESTART_POLICIES:
        yield not_supported(path, policy, _RESTART_POLICIES)
    elif spec.podFailurePolicy is not None and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(path, GoText(policy), why)


def _failure_policy(spec: JobSpec, path: str) -> Errors:
    assert spec.podFailurePolicy is not None
    rules, pod = spec.podFailurePolicy.rules, spec.template.spec
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", len(rules), _MOST_RULES)
    names = {container.name for container in (*pod.containers, *pod.initContainers)}
    for index, rule in enumerate(rules):
        yield from _failure_rule(spec, rule, f"{path}.rules[{index}]", names)


def _failure_rule(spec: JobSpec, rule: PodFailurePolicyRule, path: str, names: set[str]) -> Errors:
    if not rule.action:
        yield required(f"{path}.action", f"valid values: {_go_list(_ACTIONS)}")
    elif rule.action not in _ACTIONS:
        yield not_supported(f"{path}.action", rule.action, _ACTIONS)
    elif rule.action == "FailIndex" and spec.backoffLimitPerIndex is None:
        why = "requires the backoffLimitPerIndex to be set"
        yield invalid(f"{path}.action", GoText(rule.action), why)
    if rule.onExitCodes is not None:
        yield from _exit_codes(rule.onExitCodes, f"{path}.onExitCodes", names)
    if len(rule.onPodConditions) > _MOST_PATTERNS:
        yield too_many(f"{path}.onPodConditions", len(rule.onPodConditions), _MOST_PATTERNS)
    for index, pattern in enumerate(rule.onPodConditions):
        yield from _condition_pattern(pattern, f"{path}.onPodConditions[{index}]")
    if rule.onExitCodes is not None and rule.onPodConditions:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield invalid(path, OMITTED, why)
    if rule.onExitCodes is None and not rule.onPodConditions:
        why = "specifying one of OnExitCodes and OnPodConditions is required"
        yield invalid(path, OMITTED, why)


def _condition_pattern(pattern: PodFailurePolicyOnPodConditionsPattern, path: str) -> Errors:
    yield from label_name(pattern.type, f"{path}.type")
    if not pattern.status:
        yield required(f"{path}.status", f"valid values: {_go_list(_STATUSES)}")
    elif pattern.status not in _STATUSES:
        yield not_supported(f"{path}.status", pattern.status, _STATUSES)


def _exit_codes(
    codes: PodFailurePolicyOnExitCodesRequirement, path: str, names: set[str]
) -> Errors:
    if not codes.operator:
        yield required(f"{path}.operator", f"valid values: {_go_list(_OPERATORS)}")
    elif codes.operator not in _OPERATORS:
        yield not_supported(f"{path}.operator", codes.operator, _OPERATORS)
    if codes.containerName and codes.containerName not in names:
        why = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", codes.containerName, why)
    values = codes.values
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield too_many(f"{path}.values", len(values), _MOST_CODES)
    for index, value in enumerate(values):
        here = f"{path}.values[{index}]"
        if codes.operator == "In" and value == 0:
            yield invalid(here, value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield duplicate(here, value)
    if list(values) != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _success_policy(spec: JobSpec, path: str) -> Errors:
    assert spec.successPolicy is not None
    rules = spec.successPolicy.rules
    if spec.completionMode != INDEXED:
        yield invalid(path, spec.successPolicy, "requires indexed completion mode")
        return
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", why)
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _success_rule(rule, spec.completions or 0, f"{path}.rules[{index}]")


def _success_rule(rule: SuccessPolicyRule, completions: int, path: str) -> Errors:
    count, indexes = rule.succeededCount, rule.succeededIndexes
    if count is None and not indexes:
        why = "at least one of succeededCount or succeededIndexes must be specified"
        yield required(path, why)
    total = 0
    if indexes:
        here = f"{path}.succeededIndexes"
        if formats.size(indexes) > _INDEXES_BYTES:
            yield too_long(here, _INDEXES_BYTES)
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            yield invalid(here, indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    here = f"{path}.succeededCount"
    yield from formats.nonnegative(count, here)
    if count > completions:
        why = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid(here, count, why)
    if indexes and count > total:
        why = f"must be less than or equal to {total} (the number of indexes in the specified"
        yield invalid(here, count, f"{why} succeededIndexes field)")


def _changed_completions(after: JobSpec, before: JobSpec) -> Errors:
    path, completions = "spec.completions", after.completions
    if completions == before.completions:
        return
    if after.completionMode != INDEXED:
        yield invalid(path, completions, _FIXED)
    elif completions is not None and completions != after.parallelism:
        yield invalid(path, completions, "can only be modified in tandem with spec.parallelism")


def _changed_template(new: Job, old: Job) -> Errors:
    """The template may change in part while a Job is suspended and has no pods."""
    template, before = new.spec.template, old.spec.template
    if not old.spec.suspend or not is_idle(old):
        if template != before:
            yield invalid("spec.template", template_value(template), _FIXED)
        return
    spec = _with_directives(before.spec, template.spec)
    spec = _with_resources(spec, template.spec)
    if spec != template.spec:
        yield invalid("spec.template.spec", internal_form(template.spec), _FIXED)


def is_idle(item: Job) -> bool:
    """Return whether a suspended Job has no pods, and never had or has given them up."""
    status = item.status
    suspended = status.startTime is None or is_true(item, "Suspended")
    return suspended and not status.active


def _with_directives(spec: PodSpec, other: PodSpec) -> PodSpec:
    """Return a spec with the scheduling directives of another one that may change."""
    mine, theirs = spec.affinity, other.affinity
    affinity = structs.replace(mine or Affinity(), nodeAffinity=theirs and theirs.nodeAffinity)
    if affinity == Affinity() and theirs is None:
        affinity = None
    return structs.replace(
        spec,
        affinity=affinity,
        nodeSelector=other.nodeSelector,
        tolerations=other.tolerations,
        schedulingGates=other.schedulingGates,
    )


def _with_resources(spec: PodSpec, other: PodSpec) -> PodSpec:
    changes = {}
    for name in ("containers", "initContainers"):
        mine, theirs = getattr(spec, name), getattr(other, name)
        if len(mine) == len(theirs):
            changes[name] = tuple(
                structs.replace(container, resources=changed.resources)
                if container.name == changed.name
                else container
                for container, changed in zip(mine, theirs, strict=True)
            )
    return structs.replace(spec, **changes)


def template_value(template: PodTemplateSpec) -> dict[str, object]:
    """Return a pod template as messages show it: the metadata beside the spec."""
    meta = template.metadata
    shown = {name: getattr(meta, name) for name in ("name", "generateName", "namespace")}
    shown |= {name: dict(sorted(getattr(meta, name).items())) for name in ("labels", "annotations")}
    shown["finalizers"] = meta.finalizers
    set_fields: dict[str, object] = {name: value for name, value in shown.items() if value}
    return set_fields | {"Spec": internal_form(template.spec)}


def _go_list(values: tuple[str, ...]) -> str:
    return f"[{' '.join(map(quoted, values))}]"
