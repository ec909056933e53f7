"""Warnings about fields without effect: on Linux, on a static pod, which uses neither an API server
nor a scheduler, or because they name a port that no container has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from podtui.api.local import Severity
from podtui.api.v1 import Container, Pod
from podtui.manifest.document import Path, Problem, printable
from podtui.manifest.problems import not_named
from podtui.text.nearest import suggestion

_NO_SCHEDULER: Final = "has no effect: static pods are not scheduled"
_NO_TAINTS: Final = "has no effect: static pods are not affected by taints"
_NO_CHOICE: Final = "has no effect: for static pods, preemption depends on the priority only"
_NO_PRIORITY: Final = (
    "has no effect: static pods cannot use PriorityClass objects; set priority to a number instead"
)
_COUNTED: Final = (
    "counts against allocatable, but is not enforced: container engines have no such limit"
)
_CHOOSES: Final = ("topologySpreadConstraints", "schedulingGroup")
_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_KEPT_CLASS: Final = "system-node-critical"
"""The only priority class whose name alone means something to a kubelet (kubelet.md §13.3)."""
Tree = dict[str, Any]
_KEPT_BY_A_SERVER: Final = (
    "generateName",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "selfLink",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_NO_SERVER: Final = "has no effect: the API server sets it in the mirror pod"
_HOOKS: Final = ("postStart", "preStop")
_NO_TOKENS: Final = "has no effect: static pods have neither a service account nor a token"
_NO_RELABELLING: Final = "has no effect: podtui does not set SELinux labels on volumes"
_NO_WINDOWS: Final = "has no effect: the node runs Linux"


def unscheduled_fields(spec: Tree, node_name: str) -> list[Problem]:
    """Return a warning for each such field that is set. ``spec`` is decoded and defaulted, but its
    ``nodeName`` is still the manifest's."""
    return [
        Problem(code="NoEffect", message=message, path=path, severity=Severity.WARNING, at_key=True)
        for path, message in _scheduling_fields(spec, node_name)
    ]


def _scheduling_fields(spec: Tree, node_name: str) -> Iterator[tuple[Path, str]]:
    named = spec.get("nodeName")
    if named and named != node_name:
        yield (
            ("spec", "nodeName"),
            f"has no effect: a static pod runs on the node that reads its manifest, {node_name}",
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
        holders += [
            (("spec", kind, index), container) for index, container in enumerate(containers)
        ]
    for path, holder in holders:
        for name in _tree(_tree(holder, "resources"), "limits"):
            if name.startswith("hugepages-"):
                yield (*path, "resources", "limits", name), _COUNTED


def no_effect_fields(pod: Pod, *, strict: bool) -> list[Problem]:
    """Return a warning for each such field that the pod sets."""
    return [
        Problem(code="NoEffect", message=message, path=path, severity=Severity.WARNING, at_key=True)
        for path, message in _fields(pod, strict=strict)
    ]


def _fields(pod: Pod, *, strict: bool) -> Iterator[tuple[Path, str]]:
    meta, spec = pod.metadata, pod.spec
    for name in _KEPT_BY_A_SERVER:
        if getattr(meta, name):
            yield ("metadata", name), _NO_SERVER
    if spec.automountServiceAccountToken and strict:
        yield ("spec", "automountServiceAccountToken"), _NO_TOKENS
    if spec.os is not None and spec.os.name == "windows":
        return
    shared = spec.securityContext
    if shared is not None and shared.seLinuxChangePolicy:
        yield ("spec", "securityContext", "seLinuxChangePolicy"), _NO_RELABELLING
    if shared is not None and shared.windowsOptions is not None:
        yield ("spec", "securityContext", "windowsOptions"), _NO_WINDOWS
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(getattr(spec, kind)):
            context = container.securityContext
            if context is not None and context.windowsOptions is not None:
                yield ("spec", kind, index, "securityContext", "windowsOptions"), _NO_WINDOWS


def missing_ports(pod: Pod) -> Iterator[Problem]:
    """Yield a warning for each probe and hook that names a port which its container does not
    have."""
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(getattr(pod.spec, kind)):
            names = [port.name for port in container.ports if port.name]
            for path, port in _named_ports(container):
                if port in names:
                    continue
                owner = f"the container {printable(container.name, 60)}"
                yield Problem(
                    code="FieldValueNotFound",
                    message=not_named("port", port, names, owner),
                    path=("spec", kind, index, *path),
                    fix=printable(suggestion(port, names)),
                    severity=Severity.WARNING,
                )


def _named_ports(container: Container) -> Iterator[tuple[Path, str]]:
    """Yield the named ports of the container's probes and hooks, with their paths."""
    handlers: list[tuple[Path, Any]] = [
        ((name,), getattr(container, name))
        for name in ("livenessProbe", "readinessProbe", "startupProbe")
    ]
    hooks = container.lifecycle
    handlers += [(("lifecycle", name), getattr(hooks, name, None)) for name in _HOOKS]
    for path, handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            target = getattr(handler, action, None)
            if target is not None and isinstance(target.port, str) and not target.port.isdecimal():
                yield (*path, action, "port"), target.port
