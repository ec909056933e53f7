"""The kinds of the group apps: controllers of pods, and the revisions of their templates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import (
    Strategy,
    no_warnings,
    with_meta,
    with_old_spec,
    with_old_status,
    without_status,
)
from podtui.manifest.strategies.templates import (
    prepared,
    template_tree,
    written_warnings,
)
from podtui.manifest.validation.workload_status import (
    daemon_set_status,
    deployment_status,
    replica_set_status,
    stateful_set_status,
)
from podtui.manifest.validation.workloads import (
    controller_revision_update,
    daemon_set_update,
    deployment_update,
    replica_set_update,
    stateful_set_update,
    validate_controller_revision,
    validate_daemon_set,
    validate_deployment,
    validate_replica_set,
    validate_stateful_set,
)
from podtui.manifest.warnings import claim_warnings
from podtui.manifest.workload_defaults import (
    daemon_set_defaults,
    deployment_defaults,
    replica_set_defaults,
    stateful_set_defaults,
)

GENERATION: Final = "deprecated.daemonset.template.generation"
"""The annotation of a DaemonSet that counts the changes of its template."""

# --- ControllerRevision


CONTROLLER_REVISIONS: Final = Strategy(
    struct=ControllerRevision,
    validate_create=validate_controller_revision,
    validate_update=controller_revision_update,
)

# --- DaemonSet


def _daemon_set_defaults(tree: Tree) -> None:
    """Complete a DaemonSet. An API server keeps the count of its template as a number, which it
    writes as an annotation: one that the request leaves out is 0."""
    daemon_set_defaults(tree)
    annotations: Tree = tree.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(GENERATION, "0")


def _template_generation(item: DaemonSet) -> int:
    text = item.metadata.annotations.get(GENERATION, "")
    return int(text) if text.removeprefix("-").isdecimal() else 0


def _with_generation(item: DaemonSet, number: int) -> DaemonSet:
    return with_meta(item, annotations={**item.metadata.annotations, GENERATION: str(number)})


def _prepare_daemon_set(item: DaemonSet) -> DaemonSet:
    new = prepared(without_status(item))
    return _with_generation(new, max(1, _template_generation(item)))


def _prepare_daemon_set_update(new: DaemonSet, old: DaemonSet) -> DaemonSet:
    new = prepared(with_old_status(new, old), old)
    changed = new.spec.template != old.spec.template
    return _with_generation(new, _template_generation(old) + changed)


def _prepare_daemon_set_status(new: DaemonSet, old: DaemonSet) -> DaemonSet:
    return _with_generation(with_old_spec(new, old), _template_generation(old))


def _daemon_set_warnings(new: DaemonSet, old: DaemonSet | None) -> Iterable[str]:
    if old is None or new.spec.template != old.spec.template:
        yield from written_warnings(new, None, new.spec.template, names_pods=False)


DAEMON_SETS: Final = Strategy(
    struct=DaemonSet,
    defaults=_daemon_set_defaults,
    tree_errors=template_tree,
    prepare_create=_prepare_daemon_set,
    prepare_update=_prepare_daemon_set_update,
    validate_create=validate_daemon_set,
    validate_update=daemon_set_update,
    warnings=_daemon_set_warnings,
)
DAEMON_SET_STATUS: Final = replace(
    DAEMON_SETS,
    prepare_update=_prepare_daemon_set_status,
    validate_update=daemon_set_status,
    warnings=no_warnings,
)

# --- Deployment


def _prepare_deployment(item: Deployment) -> Deployment:
    return prepared(without_status(item))


def _prepare_deployment_update(new: Deployment, old: Deployment) -> Deployment:
    """Changed annotations count as well, because ReplicaSets get copies of them."""
    new = prepared(new, old)
    changed = new.spec != old.spec or new.metadata.annotations != old.metadata.annotations
    generation = (old.metadata.generation or 0) + changed
    return with_meta(structs.replace(new, status=old.status), generation=generation)


def _prepare_deployment_status(new: Deployment, old: Deployment) -> Deployment:
    return with_meta(with_old_spec(new, old), labels=old.metadata.labels)


def _deployment_warnings(new: Deployment, old: Deployment | None) -> Iterable[str]:
    yield from written_warnings(new, old, new.spec.template)


DEPLOYMENTS: Final = Strategy(
    struct=Deployment,
    defaults=deployment_defaults,
    tree_errors=template_tree,
    prepare_create=_prepare_deployment,
    prepare_update=_prepare_deployment_update,
    validate_create=validate_deployment,
    validate_update=deployment_update,
    warnings=_deployment_warnings,
)
DEPLOYMENT_STATUS: Final = replace(
    DEPLOYMENTS,
    prepare_update=_prepare_deployment_status,
    validate_update=deployment_status,
    warnings=no_warnings,
)

# --- ReplicaSet


def _prepare_replica_set(item: ReplicaSet) -> ReplicaSet:
    return prepared(without_status(item))


def _prepare_replica_set_update(new: ReplicaSet, old: ReplicaSet) -> ReplicaSet:
    return with_old_status(prepared(new, old), old)


def _replica_set_warnings(new: ReplicaSet, old: ReplicaSet | None) -> Iterable[str]:
    yield from written_warnings(new, old, new.spec.template)


REPLICA_SETS: Final = Strategy(
    struct=ReplicaSet,
    defaults=replica_set_defaults,
    tree_errors=template_tree,
    prepare_create=_prepare_replica_set,
    prepare_update=_prepare_replica_set_update,
    validate_create=validate_replica_set,
    validate_update=replica_set_update,
    warnings=_replica_set_warnings,
)
REPLICA_SET_STATUS: Final = replace(
    REPLICA_SETS,
    prepare_update=with_old_spec,
    validate_update=replica_set_status,
    warnings=no_warnings,
)

# --- StatefulSet


def _prepare_stateful_set(item: StatefulSet) -> StatefulSet:
    return _without_max_unavailable(prepared(without_status(item)))


def _prepare_stateful_set_update(new: StatefulSet, old: StatefulSet) -> StatefulSet:
    return with_old_status(_without_max_unavailable(prepared(new, old)), old)


def _without_max_unavailable(item: StatefulSet) -> StatefulSet:
    """Drop a field whose feature gate is off by default."""
    strategy = item.spec.updateStrategy
    update = strategy.rollingUpdate
    if update is None or update.maxUnavailable is None:
        return item
    update = structs.replace(update, maxUnavailable=None)
    strategy = structs.replace(strategy, rollingUpdate=update)
    return structs.replace(item, spec=structs.replace(item.spec, updateStrategy=strategy))


def _stateful_set_warnings(new: StatefulSet, old: StatefulSet | None) -> Iterable[str]:
    yield from written_warnings(new, old, new.spec.template, names_pods=False)
    for index, claim in enumerate(new.spec.volumeClaimTemplates):
        # The API server's paths.
        path = f"spec.volumeClaimTemplates[{index}]"
        yield from claim_warnings(claim.spec, path if old is None else f"{path}.Spec")
    if (new.spec.revisionHistoryLimit or 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a"
            " value >= 0 is recommended"
        )


STATEFUL_SETS: Final = Strategy(
    struct=StatefulSet,
    defaults=stateful_set_defaults,
    tree_errors=template_tree,
    prepare_create=_prepare_stateful_set,
    prepare_update=_prepare_stateful_set_update,
    validate_create=validate_stateful_set,
    validate_update=stateful_set_update,
    warnings=_stateful_set_warnings,
)
STATEFUL_SET_STATUS: Final = replace(
    STATEFUL_SETS,
    prepare_update=with_old_spec,
    validate_update=stateful_set_status,
    warnings=no_warnings,
)
