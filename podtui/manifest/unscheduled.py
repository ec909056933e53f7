"""Warnings about fields for a scheduler or other controllers of a cluster. They have no effect on a
static pod, which is already bound to its node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from podtui.api.local import Severity
from podtui.manifest.document import Path, Problem

_NO_SCHEDULER: Final = "has no effect: no scheduler chooses a node for a static pod"
_NO_TAINTS: Final = "has no effect: taints do not keep static pods away"
_NO_CLASSES: Final = "has no effect: there is no API server that has the class"
_NO_CHOICE: Final = "has no effect: for static pods the node makes room by priority alone"
_NO_PRIORITY: Final = (
    "has no effect: there is no API server that has the class; give priority its number"
)
_COUNTED: Final = (
    "is counted against what the node has, but container engines have no such limit to set"
)
_CHOOSES: Final = ("topologySpreadConstraints", "schedulingGroup")
_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_KEPT_CLASS: Final = "system-node-critical"
"""The only priority class whose name alone means something to a kubelet (reference §13.3)."""

Tree = dict[str, Any]


def unscheduled_fields(spec: Tree, node_name: str) -> list[Problem]:
    """Return a warning for each such field that is set. ``spec`` is decoded and defaulted, but its
    ``nodeName`` is still the manifest's."""
    return [
        Problem(code="NoEffect", message=message, path=path, severity=Severity.WARNING, at_key=True)
        for path, message in _found(spec, node_name)
    ]


def _found(spec: Tree, node_name: str) -> Iterator[tuple[Path, str]]:
    named = spec.get("nodeName")
    if named and named != node_name:
        yield (
            ("spec", "nodeName"),
            f"has no effect: a static pod runs on the node whose folder it is in, {node_name}",
        )
    for name in _CHOOSES:
        if spec.get(name):
            yield ("spec", name), _NO_SCHEDULER
    if spec.get("schedulerName") != "default-scheduler":
        yield ("spec", "schedulerName"), _NO_SCHEDULER
    affinity = _tree(spec, "affinity")
    for name in _AFFINITIES:
        if affinity.get(name):
            yield ("spec", "affinity", name), _NO_SCHEDULER
    if _tree(affinity, "nodeAffinity").get(_PREFERRED):
        yield ("spec", "affinity", "nodeAffinity", _PREFERRED), _NO_SCHEDULER
    if spec.get("tolerations"):
        yield ("spec", "tolerations"), _NO_TAINTS
    if spec.get("runtimeClassName"):
        yield ("spec", "runtimeClassName"), _NO_CLASSES
    if spec.get("priorityClassName") not in (None, "", _KEPT_CLASS):
        yield ("spec", "priorityClassName"), _NO_PRIORITY
    if spec.get("preemptionPolicy"):
        yield ("spec", "preemptionPolicy"), _NO_CHOICE
    yield from _huge_pages(spec)


def _tree(holder: Tree, name: str) -> Tree:
    return holder.get(name) or {}


def _huge_pages(spec: Tree) -> Iterator[tuple[Path, str]]:
    holders: list[tuple[Path, Tree]] = [(("spec",), spec)]
    for kind in ("initContainers", "containers"):
        containers: list[Tree] = spec.get(kind) or []
        holders += [(("spec", kind, index), one) for index, one in enumerate(containers)]
    for path, holder in holders:
        for name in _tree(_tree(holder, "resources"), "limits"):
            if name.startswith("hugepages-"):
                yield (*path, "resources", "limits", name), _COUNTED
