"""An API pod as a manifest: the text that an edit changes, and the positions of its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml
from msgspec import structs

from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.places import Path, Position, write_places
from podtui.api.v1 import ObjectMeta, Pod, PodStatus
from podtui.tui.views.pods.describe import pod_yaml


def live_manifest(pod: Pod) -> Manifest:
    """Return the pod as a client would write it: without its status and what the server set."""
    meta = structs.replace(
        pod.metadata,
        creationTimestamp=None,
        deletionGracePeriodSeconds=None,
        deletionTimestamp=None,
        generation=None,
        resourceVersion="",
        uid="",
    )
    text = pod_yaml(structs.replace(pod, metadata=meta, status=PodStatus()))
    keys: dict[Path, Position] = {}
    values: dict[Path, Position] = {}
    for path, key, value in _fields(yaml.compose(text, yaml.SafeLoader), ()):
        values[path] = value
        if key is not None:
            keys[path] = key
    return Manifest(
        metadata=ObjectMeta(name=f"pod {pod.metadata.name}"),
        spec=ManifestSpec(path="", text=text),
        status=ManifestStatus(
            state=ManifestState.ACCEPTED,
            podNamespace=pod.metadata.namespace,
            podName=pod.metadata.name,
            podUID=pod.metadata.uid,
            places=write_places(keys, values),
        ),
    )


def identity_of(text: bytes) -> tuple[str, str]:
    """Return the namespace and the name in the text of a pod."""
    meta: Any = yaml.safe_load(text)["metadata"]
    return meta["namespace"], meta["name"]


def changes_resources_only(before: str, after: str) -> bool:
    """Return whether two texts of a pod differ in resources of containers, and in nothing else: a
    resize ignores all other changes."""
    return before != after and _without_resources(before) == _without_resources(after)


def restarted_containers(before: str, after: str) -> tuple[str, ...]:
    """Return the containers that an update in place or a resize from one text of a pod to another
    restarts: those with a new image, and those whose ``resizePolicy`` says so.
    """
    old = {container["name"]: container for container in _running(before)}
    return tuple(
        container["name"]
        for container in _running(after)
        if container["name"] in old and _restarts(old[container["name"]], container)
    )


def _running(text: str) -> Iterator[Any]:
    """Yield the containers that keep running: the regular ones and the sidecars."""
    spec: Any = yaml.safe_load(text)["spec"]
    yield from spec.get("containers") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def _restarts(old: Any, new: Any) -> bool:
    if old.get("image") != new.get("image"):
        return True
    policies = {
        policy["resourceName"]: policy["restartPolicy"] for policy in new.get("resizePolicy") or ()
    }
    return any(
        policy == "RestartContainer"
        and any(_amount(old, part, name) != _amount(new, part, name) for part in _PARTS)
        for name, policy in policies.items()
    )


_PARTS: Final = ("requests", "limits")


def _amount(container: Any, part: str, resource: str) -> object:
    resources: dict[str, Any] = container.get("resources") or {}
    amounts: dict[str, Any] = resources.get(part) or {}
    return amounts.get(resource)


def _without_resources(text: str) -> Any:
    document: Any = yaml.safe_load(text)
    spec = document["spec"]
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container.pop("resources", None)
    spec.pop("resources", None)
    return document


def _fields(node: Any, path: Path) -> Iterator[tuple[Path, Position | None, Position]]:
    """Yield the path of each field below a YAML node, with the positions of key and value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            yield here, _place(key), _place(value)
            yield from _fields(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*path, index), None, _place(item)
            yield from _fields(item, (*path, index))


def _place(node: Any) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1
