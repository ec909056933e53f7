"""Compute the effect of a changed manifest on the running pods before it is applied. Pure.

A pod is replaced whenever its manifest changes, because its UID is a hash of the manifest
(kubelet.md §1.3). A pod whose manifest fixes the UID keeps running: only new images restart its
containers, and only cpu and memory are resized (kubelet.md §6.9, 13.6).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, cast

import msgspec

from podtui.api.local import (
    UNUSABLE,
    FieldChange,
    FilePlan,
    Manifest,
    ObjectPlan,
    Plan,
    PlanOutcome,
    PodPlan,
)
from podtui.api.names import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    CONFIG_SEEN,
    CONFIG_SOURCE,
    MANIFEST_PATH,
)
from podtui.api.objects import Object
from podtui.api.pods import full_name
from podtui.api.v1 import Container, ObjectMeta, Pod
from podtui.kubelet.resize.allocations import RESIZABLE
from podtui.manifest.document import MapKey, Path, path_text
from podtui.manifest.folder_state import Folder
from podtui.manifest.objects import Claim, references
from podtui.manifest.preview import Places, Preview

SHOWN: Final = 80
"""Maximum length of a displayed value, in characters."""
CONTEXT: Final = 24
"""Characters that are shown before the first difference of two long values."""
_LOCAL: Final = frozenset({CONFIG_HASH, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE, MANIFEST_PATH})
# Keys that identify list items; the first one that all items of both lists have is used.
_KEYS: Final = ("name", "mountPath", "containerPort", "key", "ip", "devicePath")
_FREE_MAPS: Final = frozenset(
    {"labels", "annotations", "limits", "requests", "nodeSelector", "matchLabels"}
)
_Tree = Mapping[str, Any]
AT_ONCE: Final = "at once, nothing restarts"
STARTS_OVER: Final = "when the pod starts over"
_READ_AGAIN: Final = frozenset(
    {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "restartPolicy"}
)
_CONTAINERS: Final = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class _Effect:
    text: str
    restarts: tuple[str, ...] = ()


def pods_to_admit(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return the namespace and name of each pod that the node would have to admit."""
    requested = (PlanOutcome.NEW, PlanOutcome.REPLACED)
    return tuple((pod.namespace, pod.name) for pod in plan.pods if pod.outcome in requested)


def plan_of(preview: Preview, rejections: Mapping[tuple[str, str], str] | None = None) -> Plan:
    """Return the effects of the change from ``preview.before`` to ``preview.after``.

    ``rejections`` maps the namespace and name of a pod to the reason why the node would reject it.
    """
    before, after = preview.before, preview.after
    record = after.manifests.get(preview.name)
    pods = tuple(_pods(preview, rejections or {}))
    old = before.manifests.get(preview.name)
    path = record.spec.path if record else old.spec.path if old else preview.name
    return Plan(
        metadata=ObjectMeta(name=preview.name),
        path=path,
        state=record.status.state if record else None,
        usable=record is None or record.status.state not in UNUSABLE,
        message=record.status.message if record else "",
        diagnostics=record.status.diagnostics if record else (),
        pods=pods,
        objects=tuple(_objects(before, after)),
        files=tuple(_files(preview.name, before.manifests, after.manifests)),
    )


def _pods(preview: Preview, rejections: Mapping[tuple[str, str], str]) -> Iterator[PodPlan]:
    """Yield the pods of the file first, then the other pods that are affected."""
    before = {full_name(pod): pod for pod in preview.before.pods.values()}
    after = {full_name(pod): pod for pod in preview.after.pods.values()}
    file_pods = {*_pods_of(preview.before, preview.name), *_pods_of(preview.after, preview.name)}
    for name in sorted({*before, *after}, key=lambda name: (name not in file_pods, name)):
        old, new = before.get(name), after.get(name)
        plan = _pod(old, new, preview, rejections)
        if plan.outcome is not PlanOutcome.UNCHANGED or name in file_pods:
            yield plan


def _pods_of(folder: Folder, name: str) -> Iterator[str]:
    """Yield the full names of the pods of a file."""
    record = folder.manifests.get(name)
    if record is None:
        return
    uids = {record.status.podUID, *(item.uid for item in record.status.objects)}
    for uid in uids:
        if (pod := folder.pods.get(uid)) is not None:
            yield full_name(pod)


def _pod(
    old: Pod | None, new: Pod | None, preview: Preview, rejections: Mapping[tuple[str, str], str]
) -> PodPlan:
    pod = new or old
    assert pod is not None
    meta = pod.metadata
    key = (meta.namespace, meta.name)
    grace = _grace(old) if old is not None else 0
    if old is None:
        outcome = PlanOutcome.NEW
    elif new is None:
        outcome = PlanOutcome.REMOVED
    elif old is new or old == new:
        outcome = PlanOutcome.UNCHANGED
    else:
        in_place = old.metadata.uid == new.metadata.uid
        outcome = PlanOutcome.IN_PLACE if in_place else PlanOutcome.REPLACED
    changes: tuple[FieldChange, ...] = ()
    restarts: tuple[str, ...] = ()
    if old is not None and new is not None and outcome is not PlanOutcome.UNCHANGED:
        differences = [
            difference
            for difference in pod_differences(old, new)
            if _is_written(difference, preview)
        ]
        effects = [_effect(difference, old, new) for difference in differences]
        # All of it starts anew: no field has an effect of its own.
        if outcome is PlanOutcome.REPLACED:
            effects = [_Effect("")] * len(differences)
        changes = tuple(
            _change(difference, effect, preview)
            for difference, effect in zip(differences, effects, strict=True)
        )
        restarts = tuple(dict.fromkeys(name for effect in effects for name in effect.restarts))
        if outcome is PlanOutcome.IN_PLACE and not differences:
            outcome = PlanOutcome.UNCHANGED
    return PodPlan(
        outcome=outcome,
        namespace=meta.namespace,
        name=meta.name,
        changes=changes,
        restarts=restarts,
        rejection=rejections.get(key, ""),
        grace=grace if outcome in (PlanOutcome.REPLACED, PlanOutcome.REMOVED) else 0,
    )


def _grace(pod: Pod) -> int:
    given = pod.spec.terminationGracePeriodSeconds
    return 30 if given is None else given


def _is_written(difference: FieldDifference, preview: Preview) -> bool:
    """Return True if the field is written in a manifest, not only derived by defaulting."""
    # Some defaults follow from other fields, as the pull policy from the image's tag. They would be
    # shown as changes that the user did not make.
    if not preview.old or not preview.new:
        return True
    return (
        _place(difference.path, preview.new) is not None
        or _place(difference.path, preview.old) is not None
    )


def _place(path: Path, places: Places) -> tuple[int, int] | None:
    return places.get(tuple(str(s) if isinstance(s, str) else s for s in path))


def _change(difference: FieldDifference, effect: _Effect, preview: Preview) -> FieldChange:
    position = _place(difference.path, preview.new) if not difference.gone else None
    gone = position is None and _place(difference.path, preview.old) is not None
    if gone:
        position = _place(difference.path, preview.old)
    line, column = position or (None, None)
    old, new = shown_pair(difference.old, difference.new)
    return FieldChange(
        field=difference.field,
        old=old,
        new=new,
        line=line,
        column=column,
        gone=gone,
        effect=effect.text,
    )


def _effect(difference: FieldDifference, old: Pod, new: Pod) -> _Effect:
    """Return the effect of a changed field on a pod that keeps running."""
    root, *steps = difference.path
    if root == "metadata" or not steps:
        return _Effect(AT_ONCE)
    name = str(steps[0])
    if name in _CONTAINERS and len(steps) > 1:
        spec = old.spec if difference.gone and len(steps) == 2 else new.spec
        containers: tuple[Container, ...] = getattr(spec, name)
        return _of_container(difference, containers[int(steps[1])], tuple(steps[2:]))
    if name in _READ_AGAIN:
        return _Effect(AT_ONCE)
    if name == "resources":
        return _Effect("resized in place")
    if name == "hostNetwork":
        names = tuple(container.name for container in new.spec.containers)
        return _Effect("the pod gets a new sandbox: every container restarts", names)
    return _Effect(STARTS_OVER)


def _of_container(difference: FieldDifference, container: Container, path: Path) -> _Effect:
    name = container.name
    if not path:
        if difference.new is None:
            return _Effect(f"{name} keeps running until the pod starts over")
        return _Effect(f"{name} is started")
    if path[0] == "image":
        return _Effect(f"{name} restarts", (name,))
    if path[0] == "resources":
        resources = [str(step) for step in path[2:3]] or list(RESIZABLE)
        policies = {policy.resourceName: policy.restartPolicy for policy in container.resizePolicy}
        if any(policies.get(resource) == "RestartContainer" for resource in resources):
            return _Effect(f"{name} restarts to be resized", (name,))
        if all(resource in RESIZABLE for resource in resources):
            return _Effect(f"{name} is resized in place")
    return _Effect(f"when {name} next restarts")


def _objects(before: Folder, after: Folder) -> Iterator[ObjectPlan]:
    old, new = _keyed(before), _keyed(after)
    for key in sorted({*old, *new}):
        if old.get(key) == new.get(key):
            continue
        outcome = PlanOutcome.IN_PLACE
        if key not in old or key not in new:
            outcome = PlanOutcome.NEW if key in new else PlanOutcome.REMOVED
        kind, namespace, name = key
        yield ObjectPlan(
            outcome=outcome,
            kind=kind,
            namespace=namespace,
            name=name,
            readers=tuple(_readers(key, after.pods.values())),
        )


def _keyed(folder: Folder) -> dict[Claim, Object]:
    documents: dict[Claim, Object] = {
        document.key: document.item for of_file in folder.documents.values() for document in of_file
    }
    for (namespace, name), config_map in folder.config_maps.items():
        documents["ConfigMap", namespace, name] = config_map
    for (namespace, name), secret in folder.secrets.items():
        documents["Secret", namespace, name] = secret
    return documents


def _readers(key: Claim, pods: Iterable[Pod]) -> Iterator[str]:
    for pod in pods:
        if key in references(pod).keys:
            yield pod.metadata.name


def _files(
    name: str, before: Mapping[str, Manifest], after: Mapping[str, Manifest]
) -> Iterator[FilePlan]:
    for other, record in after.items():
        old = before.get(other)
        if other != name and old is not None and old.status.state is not record.status.state:
            yield FilePlan(
                name=record.metadata.name,
                old=old.status.state,
                new=record.status.state,
                message=record.status.message,
            )


# --- differences of two versions of a pod


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field that differs; ``old`` or ``new`` is None where the field is absent.

    ``path`` belongs to the new pod or, if ``gone`` is set, to the old one.
    """

    path: Path
    old: Any
    new: Any
    gone: bool = False

    @property
    def field(self) -> str:
        return path_text(self.path)


def pod_differences(old: Pod, new: Pod) -> list[FieldDifference]:
    """Return the fields that differ between two defaulted pods, in the order of the new pod.

    Fields added by the node are ignored.
    """
    return list(_compare((), _manifest_part(old), _manifest_part(new)))


def shown_pair(old: Any, new: Any) -> tuple[str, str]:
    """Format a value before and after a change, each on one line of at most `SHOWN` characters.
    Long values are cut so that the first difference is visible; None gives an empty text."""
    before, after = _one_line(old), _one_line(new)
    if max(len(before), len(after)) <= SHOWN:
        return before, after
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    start = sum(1 for _ in same) - CONTEXT
    return _cut(before, start), _cut(after, start)


def _one_line(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else " " for c in text) or '""'


def _cut(text: str, start: int) -> str:
    """Return at most `SHOWN` characters from ``start`` on."""
    if len(text) > SHOWN and start > 0:
        text = "…" + text[start + 1 :]
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _manifest_part(pod: Pod) -> _Tree:
    """Return the part of a pod that comes from its manifest."""
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(pod))
    meta = tree.get("metadata", {})
    annotations = {k: v for k, v in meta.get("annotations", {}).items() if k not in _LOCAL}
    spec = dict(tree.get("spec", {}))
    return {
        "metadata": {"labels": meta.get("labels", {}), "annotations": annotations},
        "spec": spec,
    }


def _compare(path: Path, old: Any, new: Any) -> Iterator[FieldDifference]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _compare_maps(path, cast("_Tree", old), cast("_Tree", new))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(path, cast("list[Any]", old), cast("list[Any]", new))
    else:
        yield FieldDifference(path, old, new, gone=new is None)


def _compare_maps(path: Path, old: _Tree, new: _Tree) -> Iterator[FieldDifference]:
    free = bool(path) and path[-1] in _FREE_MAPS
    for key in dict.fromkeys((*new, *old)):
        step = MapKey(key) if free else key
        yield from _compare((*path, step), old.get(key), new.get(key))


def _compare_lists(path: Path, old: list[Any], new: list[Any]) -> Iterator[FieldDifference]:
    """Match list items by an identifying key; without such a key, compare the lists as a whole."""
    # By position, one inserted container would be a change of every container after it.
    key = next((k for k in _KEYS if _is_key(k, old) and _is_key(k, new)), None)
    if key is None:
        yield FieldDifference(path, old, new)
        return
    before = {item[key]: (index, item) for index, item in enumerate(old)}
    for index, item in enumerate(new):
        former = before.pop(item[key], None)
        yield from _compare((*path, index), None if former is None else former[1], item)
    for index, item in before.values():
        yield FieldDifference((*path, index), item, None, gone=True)


def _is_key(key: str, items: list[Any]) -> bool:
    identities = [cast("_Tree", item).get(key) for item in items if isinstance(item, dict)]
    values = [value for value in identities if value is not None]
    return len(values) == len(items) and len(set(values)) == len(values)
