"""The pods, the revisions and the rollout of a workload, from its object and what it owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from podtui.api.pods import is_true
from podtui.api.selectors import labels_match
from podtui.api.times import epoch
from podtui.api.v1 import LabelSelector, ObjectMeta, OwnerReference, Pod
from podtui.client.any_kind import AnyObject
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Line,
    Row,
    Span,
    ValueKind,
    content_of,
    text_field,
)
from podtui.tui.widgets.sanitize import clean

BETWEEN: Final[Mapping[str, str]] = {"Deployment": "replicasets.apps", "CronJob": "jobs.batch"}
"""The kinds between a workload and its pods."""
HISTORIES: Final[Mapping[str, str]] = {
    "Deployment": "replicasets.apps",
    "StatefulSet": "controllerrevisions.apps",
    "DaemonSet": "controllerrevisions.apps",
}
"""The kinds that have the revisions of a workload."""
OWNING: Final = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job",
     "CronJob"}
)  # fmt: skip
"""Kinds that create pods."""
_SELECTING: Final = frozenset({"Service", "PodDisruptionBudget", "NetworkPolicy"})
_REVISION: Final = "deployment.kubernetes.io/revision"
CAUSE: Final = "kubernetes.io/change-cause"
_HASH: Final = "pod-template-hash"


def has_pods(kind: str) -> bool:
    """Return whether objects of a kind own, select or keep data for pods."""
    return kind in OWNING or kind in _SELECTING or kind == "PersistentVolumeClaim"


def owner_in(meta: ObjectMeta) -> OwnerReference | None:
    """Return the controller of an object, else its first owner."""
    owners = meta.ownerReferences
    return next((owner for owner in owners if owner.controller), owners[0] if owners else None)


def owned_by(meta: ObjectMeta, items: Iterable[AnyObject]) -> list[AnyObject]:
    """Return those of the objects that the object with this metadata controls."""
    return [
        item
        for item in items
        if (owner := owner_in(item.metadata)) is not None and owner.uid == meta.uid
    ]


def pods_of(item: AnyObject, between: Iterable[AnyObject], pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods of an object: those that it owns, itself or through the objects ``between``,
    selects, or keeps data for.
    """
    meta, kind = item.metadata, item.content.get("kind")
    if kind in _SELECTING or kind == "PersistentVolumeClaim":
        near = (pod for pod in pods if pod.metadata.namespace == meta.namespace)
        if kind == "PersistentVolumeClaim":
            return [pod for pod in near if meta.name in _claims(pod)]
        selector = _selector(item)
        return [pod for pod in near if labels_match(selector, pod.metadata.labels)]
    uids = {meta.uid, *(each.metadata.uid for each in owned_by(meta, between))}
    return [
        pod for pod in pods if (owner := owner_in(pod.metadata)) is not None and owner.uid in uids
    ]


def _claims(pod: Pod) -> set[str]:
    named = {
        volume.persistentVolumeClaim.claimName
        for volume in pod.spec.volumes
        if volume.persistentVolumeClaim is not None
    }
    return named | {
        f"{pod.metadata.name}-{volume.name}"
        for volume in pod.spec.volumes
        if volume.ephemeral is not None
    }


def _selector(item: AnyObject) -> LabelSelector | None:
    spec = spec_of(item)
    if item.content.get("kind") == "Service":
        # A Service without a selector has no pods of its own.
        labels = spec.get("selector")
        return LabelSelector(matchLabels=labels) if labels else None
    selector = spec.get("podSelector", spec.get("selector"))
    return None if selector is None else msgspec.convert(selector, LabelSelector)


def part_of(document: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return the mapping at a path of a document; empty if there is none."""
    part: Any = document
    for name in path:
        part = part.get(name) or {}
    return part


def spec_of(item: AnyObject) -> dict[str, Any]:
    return part_of(item.content, "spec")


def status_of(item: AnyObject) -> dict[str, Any]:
    return part_of(item.content, "status")


# --- revisions


class Revision(Struct, frozen=True):
    """A pod template that a workload has or had. ``data`` is its part of the workload, ``labels``
    are those by which its pods are found."""

    number: int
    name: str
    cause: str
    created: str
    template: dict[str, Any]
    labels: dict[str, str]
    current: bool = False

    @property
    def images(self) -> list[str]:
        return template_images(self.template)

    def rollback(self) -> dict[str, Any]:
        """Return the patch that gives the workload this template."""
        return rollback_patch(self.template, self.cause)


def rollback_patch(template: Mapping[str, Any], cause: str) -> dict[str, Any]:
    """Return the strategic merge patch that gives a workload a template and its change cause."""
    return {
        "metadata": {"annotations": {CAUSE: cause or None}},
        "spec": {"template": {**template, "$patch": "replace"}},
    }


def template_images(template: Mapping[str, Any]) -> list[str]:
    containers: Sequence[Mapping[str, Any]] = part_of(template, "spec").get("containers") or ()
    return [str(container.get("image", "")) for container in containers]


def revisions(item: AnyObject, history: Iterable[AnyObject]) -> list[Revision]:
    """Return the revisions of a workload, newest first."""
    owned = owned_by(item.metadata, history)
    if item.content.get("kind") == "Deployment":
        number = item.metadata.annotations.get(_REVISION, "")
        listed = [revision for each in owned if (revision := _of_replica_set(each, number))]
    else:
        last = max((_number(each) for each in owned), default=0)
        update = status_of(item).get("updateRevision")
        listed = [_of_controller_revision(each, last, update) for each in owned]
    return sorted(listed, key=lambda revision: -revision.number)


def _of_replica_set(item: AnyObject, current: str) -> Revision | None:
    meta = item.metadata
    number = meta.annotations.get(_REVISION, "")
    if not number.isdecimal():
        return None
    template = part_of(item.content, "spec", "template")
    inner = dict(part_of(template, "metadata"))
    labels = part_of(inner, "labels")
    # Each revision gets the label of its own hash from the controller.
    inner["labels"] = {name: value for name, value in labels.items() if name != _HASH}
    return Revision(
        int(number), meta.name, meta.annotations.get(CAUSE, ""), meta.creationTimestamp or "",
        {**template, "metadata": inner}, {_HASH: labels.get(_HASH, "")}, number == current,
    )  # fmt: skip


def _number(item: AnyObject) -> int:
    return int(item.content.get("revision") or 0)


def _of_controller_revision(item: AnyObject, last: int, update: str | None) -> Revision:
    meta = item.metadata
    template = part_of(item.content, "data", "spec", "template")
    label = "controller-revision-hash"
    current = meta.name == update if update else _number(item) == last
    # The pods of a StatefulSet have the name of the revision, those of a DaemonSet its hash.
    value = meta.name if update else meta.labels.get(label, "")
    return Revision(
        _number(item), meta.name, meta.annotations.get(CAUSE, ""), meta.creationTimestamp or "",
        {name: part for name, part in template.items() if name != "$patch"}, {label: value},
        current,
    )  # fmt: skip


class _Shown(Struct, frozen=True):
    """A revision with its pods."""

    revision: Revision
    pods: int
    ready: int


def _revision_number(shown: _Shown) -> ColumnValue:
    number, current = shown.revision.number, shown.revision.current
    cell = Cell(f"{number} ●" if current else f"{number}  ", "running" if current else "")
    return ColumnValue(cell, number, float(number))


def _revision_pods(shown: _Shown) -> ColumnValue:
    text = f"{shown.ready}/{shown.pods}"
    tone = "muted" if not shown.pods else "warning" if shown.ready < shown.pods else ""
    return ColumnValue(Cell(text, tone), shown.pods, text)


def _revision_age(shown: _Shown) -> ColumnValue:
    created = epoch(shown.revision.created)
    return ColumnValue(Cell("", "muted", created), -(created or 0.0), created)


REVISION_COLUMNS: Final = (
    Column("revision", "REVISION", 100, align="right", descending=True, kind=ValueKind.COUNT,
           of=_revision_number),
    Column("ready", "READY", 90, of=_revision_pods),
    Column("images", "IMAGES", 80, minimum=12, maximum=80, flexible=True,
           of=lambda shown: text_field(clean(", ".join(shown.revision.images)))),
    Column("cause", "CHANGE-CAUSE", 70, minimum=12, maximum=120, flexible=True,
           of=lambda shown: text_field(clean(shown.revision.cause) or "<none>",
                                       "" if shown.revision.cause else "muted")),
    Column("name", "NAME", 40, minimum=10, maximum=60, flexible=True,
           of=lambda shown: text_field(clean(shown.revision.name), "muted")),
    Column("age", "AGE", 60, align="right", kind=ValueKind.AGE, of=_revision_age),
)  # fmt: skip


def revision_row(revision: Revision, pods: Iterable[Pod]) -> Row:
    """Return the row of a revision; ``pods`` are those of the workload."""
    mine = [pod for pod in pods if revision.labels.items() <= pod.metadata.labels.items()]
    shown = _Shown(revision, len(mine), sum(is_true(pod, "Ready") for pod in mine))
    return Row(
        revision.name,
        *content_of(REVISION_COLUMNS, shown),
        search=f"{revision.number} {clean(revision.cause)} {clean(' '.join(revision.images))}",
    )


# --- the rollout


def rollout_text(item: AnyObject) -> tuple[str, bool]:
    """Return the state of a rollout in the words of ``kubectl rollout status``, and whether it has
    finished.
    """
    generation: int = item.content["metadata"].get("generation") or 0
    status, kind = status_of(item), str(item.content.get("kind"))
    if (status.get("observedGeneration") or 0) < generation:
        names = {"DaemonSet": "daemon set", "StatefulSet": "statefulset"}
        name = names.get(kind, "deployment")
        return f"Waiting for {name} spec update to be observed...", False
    texts = {"Deployment": _deployment_text, "DaemonSet": _daemon_set_text}
    return texts.get(kind, _stateful_set_text)(item.metadata.name, spec_of(item), status)


def _deployment_text(
    name: str, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> tuple[str, bool]:
    name = f'"{clean(name)}"'
    wanted: int = spec.get("replicas", 1)
    replicas, updated = status.get("replicas", 0), status.get("updatedReplicas", 0)
    available = status.get("availableReplicas", 0)
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    if any(c.get("reason") == "ProgressDeadlineExceeded" for c in conditions):
        return f"deployment {name} exceeded its progress deadline", False
    waiting = f"Waiting for deployment {name} rollout to finish: "
    if updated < wanted:
        return f"{waiting}{updated} out of {wanted} new replicas have been updated...", False
    if replicas > updated:
        return f"{waiting}{replicas - updated} old replicas are pending termination...", False
    if available < updated:
        return f"{waiting}{available} of {updated} updated replicas are available...", False
    return f"deployment {name} successfully rolled out", True


def _daemon_set_text(
    name: str, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> tuple[str, bool]:
    wanted, updated = (
        status.get("desiredNumberScheduled", 0),
        status.get("updatedNumberScheduled", 0),
    )
    available = status.get("numberAvailable", 0)
    waiting = f'Waiting for daemon set "{clean(name)}" rollout to finish: '
    if updated < wanted:
        return f"{waiting}{updated} out of {wanted} new pods have been updated...", False
    if available < wanted:
        return f"{waiting}{available} of {wanted} updated pods are available...", False
    return f'daemon set "{clean(name)}" successfully rolled out', True


def _stateful_set_text(
    name: str, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> tuple[str, bool]:
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    updated = status.get("updatedReplicas", 0)
    if ready < wanted:
        return f"Waiting for {wanted - ready} pods to be ready...", False
    partition: int = part_of(spec, "updateStrategy", "rollingUpdate").get("partition", 0)
    if partition:
        if updated < wanted - partition:
            return (
                f"Waiting for partitioned roll out to finish: {updated} out of"
                f" {wanted - partition} new pods have been updated..."
            ), False
        return f"partitioned roll out complete: {updated} new pods have been updated...", True
    if status.get("updateRevision") != status.get("currentRevision"):
        return (
            f"waiting for statefulset rolling update to complete {updated} pods at revision"
            f" {clean(str(status.get('updateRevision')))}..."
        ), False
    return (
        f"statefulset rolling update complete {status.get('currentReplicas', 0)} pods at revision"
        f" {clean(str(status.get('currentRevision')))}..."
    ), True


def strategy_text(item: AnyObject) -> str:
    """Return how a change of the pod template replaces the pods."""
    spec = spec_of(item)
    strategy = part_of(spec, "strategy") or part_of(spec, "updateStrategy")
    rolling = part_of(strategy, "rollingUpdate")
    match strategy.get("type", "RollingUpdate"):
        case "Recreate":
            return "All its pods end before new ones start (Recreate)."
        case "OnDelete":
            return "A pod is replaced when it is deleted (OnDelete)."
        case _:
            limits = ("maxSurge", "maxUnavailable", "partition")
            named = [f"{name} {rolling[name]}" for name in limits if name in rolling]
            how = f"RollingUpdate: {', '.join(named)}" if named else "RollingUpdate"
            return f"Its pods are replaced step by step ({clean(how)})."


def rollout_lines(item: AnyObject) -> list[Line]:
    """Return the state of the rollout and its strategy."""
    text, finished = rollout_text(item)
    lines: list[Line] = [
        (Span("● " if finished else "◐ ", "good" if finished else "warning"), Span(text))
    ]
    if spec_of(item).get("paused"):
        lines.append((Span("▲ paused: changes of the pod template have no effect", "warning"),))
    return [*lines, (Span(f"  {strategy_text(item)}", "muted"),)]
