"""The revisions of a Deployment: a ReplicaSet for each template that it had.

The ReplicaSet whose template equals that of the Deployment is the new one, all others are old. A
label with a hash of the template keeps the pods of the ReplicaSets apart. ``kubectl rollout`` reads
numbers and causes of the revisions from annotations.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import structs

from podtui.api.apps import Deployment, ReplicaSet, ReplicaSetSpec
from podtui.api.v1 import LabelSelector, ObjectMeta, PodTemplateSpec
from podtui.controllers.history import safe_text
from podtui.controllers.pods import owner_reference, with_labels

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
"""The earlier numbers of a revision that an undo has brought back, with commas."""
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX: Final = "deployment.kubernetes.io/max-replicas"
HASH_LABEL: Final = "pod-template-hash"
_NOT_COPIED: Final = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAX,
    )
)
_MAX_HISTORY: Final = 2000
"""The longest list of earlier numbers, in characters."""
_MAX_NAME: Final = 253
_UNLIMITED: Final = 2**31 - 1


def template_hash(template: PodTemplateSpec, collisions: int | None) -> str:
    """Return a hash in letters and digits that make no words. ``collisions`` is the number of other
    templates that had the same hash."""
    encoded = msgspec.json.encode(template, order="sorted")
    if collisions is not None:
        encoded += str(collisions).encode()
    return safe_text(str(zlib.crc32(encoded)))


def same_template(first: PodTemplateSpec, second: PodTemplateSpec) -> bool:
    """Compare templates without the label of the hash."""
    return _without_hash(first) == _without_hash(second)


def _without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    meta = template.metadata
    if HASH_LABEL not in meta.labels:
        return template
    labels = {name: value for name, value in meta.labels.items() if name != HASH_LABEL}
    return structs.replace(template, metadata=structs.replace(meta, labels=labels))


def by_age(items: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Sort from old to new; equal ages by name."""
    return sorted(items, key=_age)


def _age(item: ReplicaSet) -> tuple[str, str]:
    return item.metadata.creationTimestamp or "", item.metadata.name


def new_and_old(
    deployment: Deployment, items: Iterable[ReplicaSet]
) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
    """Return the ReplicaSet with the Deployment's template, the oldest if there are several, and
    the others from old to new."""
    ordered = by_age(items)
    template = deployment.spec.template
    for index, item in enumerate(ordered):
        if same_template(item.spec.template, template):
            return item, ordered[:index] + ordered[index + 1 :]
    return None, ordered


def revision_of(item: ReplicaSet) -> int | None:
    """Return the number of the revision: 0 without annotation, None if it is not a number."""
    return _number(item.metadata.annotations.get(REVISION, "0"))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


def next_revision(old: Iterable[ReplicaSet]) -> int:
    return max((revision_of(item) or 0 for item in old), default=0) + 1


def replicas_annotation(item: ReplicaSet, name: str) -> int | None:
    """Return the value of the annotation `DESIRED` or `MAX`, None if it is absent or invalid."""
    number = _number(item.metadata.annotations.get(name, ""))
    return number if number is not None and number <= _UNLIMITED else None


def revision_annotations(
    deployment: Deployment, annotations: Mapping[str, str], revision: int
) -> dict[str, str]:
    """Return the annotations of the new ReplicaSet: copies of the Deployment's, and the number of
    its revision. The number only grows; the earlier one goes to the history."""
    copied = {
        name: value
        for name, value in deployment.metadata.annotations.items()
        if name not in _NOT_COPIED
    }
    result = {**annotations, **copied}
    text = annotations.get(REVISION)
    current = _number(text or "0")
    if current is None or current >= revision:
        return result
    result[REVISION] = str(revision)
    if text is not None:
        result[HISTORY] = _with_number(annotations.get(HISTORY, ""), text)
    return result


def _with_number(history: str, number: str) -> str:
    """Append a number, without the first ones if the list becomes too long."""
    numbers = history.split(",") if history else []
    numbers.append(number)
    while len(numbers) > 1 and len(",".join(numbers)) > _MAX_HISTORY:
        del numbers[0]
    return ",".join(numbers)


def new_replica_set(deployment: Deployment, revision: int) -> ReplicaSet:
    """Return the ReplicaSet for the Deployment's template, without replicas."""
    meta, spec = deployment.metadata, deployment.spec
    value = template_hash(spec.template, deployment.status.collisionCount)
    template = with_labels(spec.template, {HASH_LABEL: value})
    selector = spec.selector or LabelSelector()
    labels = {**selector.matchLabels, HASH_LABEL: value}
    prefix = meta.name[: _MAX_NAME - 1 - len(value)]
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{prefix}-{value}",
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations=revision_annotations(deployment, {}, revision),
            ownerReferences=(owner_reference(deployment),),
        ),
        spec=ReplicaSetSpec(
            replicas=0,
            minReadySeconds=spec.minReadySeconds,
            selector=structs.replace(selector, matchLabels=labels),
            template=template,
        ),
    )


def superfluous(deployment: Deployment, old: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the old ReplicaSets to delete, so that ``revisionHistoryLimit`` of them remain. One
    with pods stays."""
    limit = deployment.spec.revisionHistoryLimit
    if limit is None or limit == _UNLIMITED:
        return []
    alive = [item for item in old if item.metadata.deletionTimestamp is None]
    alive.sort(key=lambda item: (revision_of(item) or 0, _age(item)))
    return [item for item in alive[: max(0, len(alive) - limit)] if _is_unused(item)]


def _is_unused(item: ReplicaSet) -> bool:
    observed = (item.status.observedGeneration or 0) >= (item.metadata.generation or 0)
    return observed and not item.status.replicas and not item.spec.replicas
