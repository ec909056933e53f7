"""Rules of the kinds that keep pods running: Deployment, ReplicaSet, StatefulSet, DaemonSet and
ReplicationController; and of the revisions of their templates.

The objects are decoded and defaulted. The errors have the API server's order. What every update
keeps in the metadata is checked elsewhere, and so is the status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.apps import (
    ControllerRevision,
    DaemonSet,
    DaemonSetSpec,
    DaemonSetUpdateStrategy,
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    RollingUpdateDaemonSet,
    RollingUpdateDeployment,
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from podtui.api.selectors import labels_match
from podtui.api.v1 import (
    IntOrString,
    LabelSelector,
    PersistentVolumeClaimVolumeSource,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerSpec,
    Volume,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.metadata import label_selector, object_meta
from podtui.manifest.validation.pod_template import pod_template_errors, template_meta_errors
from podtui.manifest.validation.volume_claims import claim_spec

_PERCENT: Final = re.compile("[0-9]+%")
_PERCENT_WORDS: Final = (
    "a valid percent string must be a numeric string followed by an ending '%'"
    " (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_MOST_DIGITS: Final = 18
"""Longer percentages are too high as well."""
_NEGATIVE: Final = "must be greater than or equal to 0"
_IMMUTABLE: Final = "field is immutable"
_TEMPLATE: Final = "spec.template"
_VOLUME: Final = re.compile(r"spec\.template\.spec\.volumes\[(\d+)\]")
_ROLLING: Final = "RollingUpdate"
POD_MANAGEMENT_POLICIES: Final = ("OrderedReady", "Parallel")
RETENTION_POLICIES: Final = ("Retain", "Delete")
_STATEFUL_FIXED: Final = ("podManagementPolicy", "selector", "serviceName", "volumeClaimTemplates")
_STATEFUL_WORDS: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
    " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and"
    " 'minReadySeconds' are forbidden"
)


def not_negative(number: int | None, path: str) -> Errors:
    if (number or 0) < 0:
        yield invalid(path, number, _NEGATIVE)


# --- Deployment and ReplicaSet


def validate_deployment(item: Deployment) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _deployment(item.spec)


def deployment_update(new: Deployment, old: Deployment) -> Errors:
    yield from _deployment(new.spec)
    yield from _same_selector(new.spec.selector, old.spec.selector)


def _deployment(spec: DeploymentSpec) -> Errors:
    yield from not_negative(spec.replicas, "spec.replicas")
    yield from _selector(spec.selector, "deployment")
    yield from _selected_template(spec.selector, spec.template)
    yield from _deployment_strategy(spec.strategy, "spec.strategy")
    yield from not_negative(spec.minReadySeconds, "spec.minReadySeconds")
    yield from not_negative(spec.revisionHistoryLimit, "spec.revisionHistoryLimit")
    seconds = spec.progressDeadlineSeconds
    if seconds is not None:
        path = "spec.progressDeadlineSeconds"
        yield from not_negative(seconds, path)
        if seconds <= (spec.minReadySeconds or 0):
            yield invalid(path, seconds, "must be greater than minReadySeconds")


def validate_replica_set(item: ReplicaSet) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _replica_set(item.spec)


def replica_set_update(new: ReplicaSet, old: ReplicaSet) -> Errors:
    yield from _replica_set(new.spec)
    yield from _same_selector(new.spec.selector, old.spec.selector)


def _replica_set(spec: ReplicaSetSpec) -> Errors:
    yield from not_negative(spec.replicas, "spec.replicas")
    yield from not_negative(spec.minReadySeconds, "spec.minReadySeconds")
    # The API server names the wrong kind.
    yield from _selector(spec.selector, "deployment")
    yield from _selected_template(spec.selector, spec.template)


def _selector(selector: LabelSelector | None, kind: str) -> Errors:
    if selector is None:
        yield required("spec.selector")
        return
    yield from label_selector(selector, "spec.selector")
    yield from _not_empty(selector, kind)


def _not_empty(selector: LabelSelector | None, kind: str) -> Errors:
    if selector is not None and not selector.matchLabels and not selector.matchExpressions:
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def _is_valid(selector: LabelSelector | None) -> bool:
    return not any(label_selector(selector, "spec.selector"))


def _selected_template(selector: LabelSelector | None, template: PodTemplateSpec) -> Errors:
    """Check the template of a Deployment or a ReplicaSet."""
    if not _is_valid(selector):
        yield invalid("spec.selector", selector, "invalid label selector")
        return
    yield from _selects(selector, template)
    yield from pod_template_errors(template, _TEMPLATE)
    yield from _always_restarted(template, "ReplicaSet")


def _selects(selector: LabelSelector | None, template: PodTemplateSpec) -> Errors:
    if not labels_match(selector, template.metadata.labels):
        yield _not_selected(template.metadata.labels)


def _not_selected(labels: Mapping[str, str]) -> FieldError:
    path, value = f"{_TEMPLATE}.metadata.labels", dict(sorted(labels.items())) or None
    return invalid(path, value, "`selector` does not match template `labels`")


def _always_restarted(template: PodTemplateSpec, kind: str) -> Errors:
    policy = template.spec.restartPolicy
    if policy != "Always":
        yield not_supported(f"{_TEMPLATE}.spec.restartPolicy", policy, ("Always",))
    if template.spec.activeDeadlineSeconds is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden(f"{_TEMPLATE}.spec.activeDeadlineSeconds", why)


def _same_selector(new: LabelSelector | None, old: LabelSelector | None) -> Errors:
    if new != old:
        yield invalid("spec.selector", new, _IMMUTABLE)


def _deployment_strategy(strategy: DeploymentStrategy, path: str) -> Errors:
    update = strategy.rollingUpdate
    match strategy.type:
        case "Recreate":
            if update is not None:
                why = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden(f"{path}.rollingUpdate", why)
        case "RollingUpdate":
            if update is not None:  # The defaults set it.
                yield from _rolling_deployment(update, f"{path}.rollingUpdate")
        case _:
            value = {"Type": strategy.type, "RollingUpdate": _in_go(update)}
            at = f"{path}.type"
            yield not_supported(path, value, ("Recreate", _ROLLING), at=at)


def _in_go(update: RollingUpdateDeployment | RollingUpdateDaemonSet | None) -> object:
    """Return a rolling update as messages of the API server show it."""
    if update is None:
        return None
    return {
        "MaxUnavailable": _or_zero(update.maxUnavailable),
        "MaxSurge": _or_zero(update.maxSurge),
    }


def _or_zero(value: IntOrString | None) -> IntOrString:
    return 0 if value is None else value


def _rolling_deployment(update: RollingUpdateDeployment, path: str) -> Errors:
    unavailable, surge = _or_zero(update.maxUnavailable), _or_zero(update.maxSurge)
    here = f"{path}.maxUnavailable"
    yield from _count_or_percent(unavailable, here)
    yield from _count_or_percent(surge, f"{path}.maxSurge")
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        yield invalid(here, unavailable, "may not be 0 when `maxSurge` is 0")
    yield from _at_most_all(unavailable, here)


def _count_or_percent(value: IntOrString, path: str) -> Errors:
    if isinstance(value, int):
        yield from not_negative(value, path)
    elif not _PERCENT.fullmatch(value):
        yield invalid(path, value, _PERCENT_WORDS)


def _percent(value: IntOrString) -> int | None:
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        digits = value.removesuffix("%").lstrip("0")[:_MOST_DIGITS]
        return int(digits or "0")
    return None


def _amount(value: IntOrString) -> int:
    """Return the number of a count or a percentage; 0 for any other text."""
    if isinstance(value, int):
        return value
    percent = _percent(value)
    if percent is not None:
        return percent
    return int(value) if re.fullmatch(r"[-+]?[0-9]{1,19}", value) else 0


def _at_most_all(value: IntOrString, path: str) -> Errors:
    if (_percent(value) or 0) > 100:
        yield invalid(path, value, "must not be greater than 100%")


# --- StatefulSet


def validate_stateful_set(item: StatefulSet) -> Errors:
    yield from object_meta(item.metadata, "metadata", name_rule=formats.dns_label)
    yield from _stateful_set(item.spec, is_new=True)


def stateful_set_update(new: StatefulSet, old: StatefulSet) -> Errors:
    yield from _stateful_set(new.spec, is_new=False)
    if any(getattr(new.spec, name) != getattr(old.spec, name) for name in _STATEFUL_FIXED):
        yield forbidden("spec", _STATEFUL_WORDS)


def _stateful_set(spec: StatefulSetSpec, *, is_new: bool) -> Errors:
    policy, path = spec.podManagementPolicy, "spec.podManagementPolicy"
    if not policy:
        yield required(path)
    elif policy not in POD_MANAGEMENT_POLICIES:
        yield invalid(path, policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _stateful_set_strategy(spec.updateStrategy, "spec.updateStrategy")
    yield from _retention(spec.persistentVolumeClaimRetentionPolicy)
    if is_new:
        for index, claim in enumerate(spec.volumeClaimTemplates):
            yield from claim_spec(claim.spec, f"spec.volumeClaimTemplates[{index}].spec")
    yield from not_negative(spec.replicas, "spec.replicas")
    yield from not_negative(spec.minReadySeconds, "spec.minReadySeconds")
    if spec.ordinals is not None:
        yield from not_negative(spec.ordinals.start, "spec.ordinals.start")
    if is_new and spec.serviceName:
        problems = formats.dns_label(spec.serviceName)
        yield from invalid_each("spec.serviceName", spec.serviceName, problems)
    yield from _selector(spec.selector, "statefulset")
    yield from _stateful_template(spec)
    yield from _always_restarted(spec.template, "StatefulSet")


def _stateful_set_strategy(strategy: StatefulSetUpdateStrategy, path: str) -> Errors:
    update = strategy.rollingUpdate
    match strategy.type:
        case "OnDelete" if update is not None:
            why = "only allowed for updateStrategy 'RollingUpdate'"
            yield invalid(f"{path}.rollingUpdate", _stateful_in_go(update), why)
        case "RollingUpdate" if update is not None:
            yield from not_negative(update.partition, f"{path}.rollingUpdate.partition")
        case "OnDelete" | "RollingUpdate":
            return
        case _:
            value = {"Type": strategy.type, "RollingUpdate": _stateful_in_go(update)}
            at = f"{path}.type"
            yield invalid(path, value, "must be 'RollingUpdate' or 'OnDelete'", at=at)


def _stateful_in_go(update: RollingUpdateStatefulSetStrategy | None) -> object:
    if update is None:
        return None
    return {"Partition": update.partition or 0, "MaxUnavailable": update.maxUnavailable}


def _retention(policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None) -> Errors:
    if policy is None:
        return
    path = "spec.persistentVolumeClaimRetentionPolicy"
    for moment, choice in (("whenDeleted", policy.whenDeleted), ("whenScaled", policy.whenScaled)):
        if choice not in RETENTION_POLICIES:
            yield not_supported(f"{path}.{moment}", choice, RETENTION_POLICIES)


def _stateful_template(spec: StatefulSetSpec) -> Errors:
    """Check the template as the controller uses it: with a volume for each claim template, and
    with the host names that it sets."""
    if not _is_valid(spec.selector):
        yield invalid("spec.selector", spec.selector, "")
        return
    yield from _selects(spec.selector, spec.template)
    names = dict.fromkeys(claim.metadata.name for claim in spec.volumeClaimTemplates)
    claims = tuple(
        Volume(name=name, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=name))
        for name in names
    )
    own = [(i, v) for i, v in enumerate(spec.template.spec.volumes) if v.name not in names]
    pod = structs.replace(
        spec.template.spec,
        volumes=(*claims, *(volume for _, volume in own)),
        hostname="",
        subdomain="",
    )
    places = [
        *(f"spec.volumeClaimTemplates[{index}].metadata" for index in range(len(claims))),
        *(f"{_TEMPLATE}.spec.volumes[{index}]" for index, _ in own),
    ]
    template = structs.replace(spec.template, spec=pod)
    for error in pod_template_errors(template, _TEMPLATE):
        match = _VOLUME.match(error.location)
        if match is None:
            yield error
        else:
            at = places[int(match[1])] + error.location[match.end() :]
            yield replace(error, at=at)
    yield from template_meta_errors(template, _TEMPLATE)


# --- DaemonSet


def validate_daemon_set(item: DaemonSet) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _daemon_set(item.spec)


def daemon_set_update(new: DaemonSet, old: DaemonSet) -> Errors:
    yield from _same_selector(new.spec.selector, old.spec.selector)
    yield from _daemon_set(new.spec)


def _daemon_set(spec: DaemonSetSpec) -> Errors:
    yield from label_selector(spec.selector, "spec.selector")
    if _is_valid(spec.selector):
        yield from _selects(spec.selector, spec.template)
    yield from _not_empty(spec.selector, "daemonset")
    yield from pod_template_errors(spec.template, _TEMPLATE)
    yield from _always_restarted(spec.template, "DaemonSet")
    yield from not_negative(spec.minReadySeconds, "spec.minReadySeconds")
    yield from _daemon_set_strategy(spec.updateStrategy, "spec.updateStrategy")
    yield from not_negative(spec.revisionHistoryLimit, "spec.revisionHistoryLimit")


def _daemon_set_strategy(strategy: DaemonSetUpdateStrategy, path: str) -> Errors:
    update = strategy.rollingUpdate
    match strategy.type:
        case "OnDelete":
            return
        case "RollingUpdate":
            if update is not None:  # The defaults set it.
                yield from _rolling_daemon_set(update, f"{path}.rollingUpdate")
        case _:
            value = {"Type": strategy.type, "RollingUpdate": _in_go(update)}
            at = f"{path}.type"
            yield not_supported(path, value, (_ROLLING, "OnDelete"), at=at)


def _rolling_daemon_set(update: RollingUpdateDaemonSet, path: str) -> Errors:
    limits = {
        f"{path}.maxUnavailable": _or_zero(update.maxUnavailable),
        f"{path}.maxSurge": _or_zero(update.maxSurge),
    }
    for here, value in limits.items():
        yield from _count_or_percent(value, here)
    for here, value in limits.items():
        yield from _at_most_all(value, here)
    unavailable, surge = map(_amount, limits.values())
    if unavailable and surge:
        why = "may not be set when maxUnavailable is non-zero"
        yield invalid(f"{path}.maxSurge", update.maxSurge, why)
    elif not unavailable and not surge:
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


# --- ReplicationController


def validate_replication_controller(item: ReplicationController) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _replication_controller(item.spec)


def replication_controller_update(new: ReplicationController, old: ReplicationController) -> Errors:
    yield from _replication_controller(new.spec)


def _replication_controller(spec: ReplicationControllerSpec) -> Errors:
    yield from not_negative(spec.minReadySeconds, "spec.minReadySeconds")
    if not spec.selector:
        yield required("spec.selector")
    if spec.replicas is None:
        yield required("spec.replicas")
    yield from not_negative(spec.replicas, "spec.replicas")
    template = spec.template
    if template is None:
        yield required(_TEMPLATE)
        return
    labels = template.metadata.labels
    if any(labels.get(key) != value for key, value in spec.selector.items()):
        yield _not_selected(labels)
    yield from pod_template_errors(template, _TEMPLATE)
    yield from _always_restarted(template, "ReplicationController")


# --- ControllerRevision


def validate_controller_revision(item: ControllerRevision) -> Errors:
    yield from _controller_revision(item)
    if item.data is None:
        yield required("data", "data is mandatory")


def controller_revision_update(new: ControllerRevision, old: ControllerRevision) -> Errors:
    yield from _controller_revision(new)
    if new.data != old.data:
        yield invalid("data", new.data, _IMMUTABLE)


def _controller_revision(item: ControllerRevision) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from not_negative(item.revision, "revision")
