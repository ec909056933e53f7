"""``podtui check``: report errors in manifests, and whether this node would admit the pods."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

from podtui.api.local import Diagnostic, ManifestState, Severity
from podtui.api.pod_resources import amounts
from podtui.api.quantity import Format, Quantity
from podtui.api.v1 import Node, Pod
from podtui.cli.fix import fix, fix_stdin
from podtui.cli.invocation import FAILED, OK, confirm, settings_of
from podtui.client.blocking import get_json
from podtui.errors import AgentUnavailable, ApiError, UsageError
from podtui.kubelet.admission.predicates import admit
from podtui.kubelet.node.node_status import node_resources
from podtui.kubelet.types import NodeResources, NodeView
from podtui.manifest.check import FileCheck, check_paths, render_json, render_text
from podtui.runtime.protocol import EngineInfo
from podtui.settings import Settings
from podtui.text.terminal_text import json_text
from podtui.why.amounts import plain


def run(namespace: argparse.Namespace) -> int:
    """Print the findings, after fixing what can be fixed with ``--fix``; return 1 for errors, and
    for pods that would not run."""
    settings = settings_of(namespace)
    if namespace.fix and [str(path) for path in namespace.paths] == ["-"]:
        good = fix_stdin(settings, err=lambda text: print(text, file=sys.stderr))
        return OK if good else FAILED
    missing = [path for path in namespace.paths if str(path) != "-" and not path.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file or folder")
    settled = not namespace.fix or _fix(namespace, settings)
    text, errors = check(
        namespace.paths, settings, output=namespace.output, color=sys.stdout.isatty()
    )
    print(json_text(text) if namespace.output == "json" else text)
    return FAILED if errors or not settled else OK


def _fix(namespace: argparse.Namespace, settings: Settings) -> bool:
    """Fix files before they are checked; return whether nothing remains to be written."""
    stream = sys.stderr if namespace.output == "json" else sys.stdout
    return fix(
        namespace.paths,
        settings,
        yes=namespace.yes,
        color=stream.isatty(),
        confirm=confirm,
        out=lambda text: print(text, file=stream),
    )


@dataclass(frozen=True, slots=True)
class TrialNode:
    """The node on which pods are tried, its active pods, and a description of the source."""

    node: NodeView
    active: tuple[Pod, ...]
    known_from: str


def check(
    paths: Sequence[Path], settings: Settings, *, output: str, color: bool
) -> tuple[str, bool]:
    """Check the manifests. Return the findings as text or JSON, and whether there are errors, or
    pods in the files that would not run."""
    results = check_paths(
        paths,
        node_name=settings.nodeName,
        strict=settings.kubeletStrict,
        stdin=sys.stdin.buffer,
    )
    results = try_admission(results, target_node(settings))
    if output == "json":
        text = render_json(results).decode().rstrip("\n")
    else:
        text = render_text(results, color, strict=settings.kubeletStrict).rstrip("\n")
    return text, any(result.errors or result.unread for result in results)


def try_admission(results: Sequence[FileCheck], on: TrialNode) -> list[FileCheck]:
    """Try to admit the pods in order, beside the node's active pods. Pods that are already on the
    node are replaced, not counted twice."""
    coming = {(p.metadata.namespace, p.metadata.name) for r in results for p in r.pods}
    active = [p for p in on.active if (p.metadata.namespace, p.metadata.name) not in coming]
    tried: list[FileCheck] = []
    for result in results:
        diagnostics = list(result.diagnostics)
        for pod in result.pods if result.state is ManifestState.ACCEPTED else ():
            verdict = admit(pod, on.node, active)
            if verdict.admitted:
                active.append(pod)
                continue
            named = f"the pod {pod.metadata.name}" if len(result.pods) > 1 else "the pod"
            problem = Diagnostic(
                severity=Severity.WARNING,
                path=result.path,
                code=verdict.reason,
                message=f"this node ({on.known_from}) would not admit {named}:"
                f" {lacking_text(verdict.lacks) or verdict.message}",
                fix="lower the requests, or run it on a larger node" if verdict.lacks else "",
            )
            diagnostics.append(problem)
        tried.append(replace(result, diagnostics=tuple(diagnostics)))
    return tried


def lacking_text(lacks: Iterable[tuple[str, int, int, int]]) -> str:
    """Format missing resources, such as ``memory: 64Ti requested, 23.4Gi of 23.4Gi free``. Amounts
    are (resource, requested, used, capacity), CPU in millicores."""

    def shown(name: str, amount: int) -> str:
        if name == "cpu":
            return plain(Quantity.of_milli(amount))
        binary = name in ("memory", "ephemeral-storage")
        return plain(Quantity.of(amount, Format.BINARY_SI) if binary else Quantity.of(amount))

    return "; ".join(
        f"{name}: {shown(name, requested)} requested,"
        f" {shown(name, capacity - used)} of {shown(name, capacity)} free"
        for name, requested, used, capacity in lacks
    )


def target_node(settings: Settings) -> TrialNode:
    """Return the running agent's node, or this machine if no agent runs."""
    try:
        nodes = _items(get_json(settings.socket_path, "/api/v1/nodes", timeout=2.0))
        pods = _items(get_json(settings.socket_path, "/api/v1/pods", timeout=5.0))
    except (AgentUnavailable, ApiError):
        return TrialNode(
            _this_machine(settings), (), "this machine without pods; no agent is running"
        )
    if not nodes:
        known_from = "this machine without pods; its agent is starting"
        return TrialNode(_this_machine(settings), (), known_from)
    node = msgspec.convert(nodes[0], Node)
    view = NodeView(
        name=settings.nodeName,
        labels=node.metadata.labels,
        resources=NodeResources(
            capacity=amounts(node.status.capacity), allocatable=amounts(node.status.allocatable)
        ),
        allowed_unsafe_sysctls=settings.allowedUnsafeSysctls,
    )
    records = [msgspec.convert(item, Pod) for item in pods]
    active = [pod for pod in records if pod.status.phase not in ("Succeeded", "Failed")]
    return TrialNode(view, tuple(active), f"node {node.metadata.name}")


def _items(listing: dict[str, Any]) -> list[Any]:
    return listing.get("items") or []


def _this_machine(settings: Settings) -> NodeView:
    machine = EngineInfo(
        name="none",
        version="",
        api_version="",
        os="linux",
        architecture=platform.machine(),
        kernel=platform.release(),
        cgroup_version=2,
        cgroup_driver="",
        rootless=False,
        local=True,
        cpus=os.cpu_count() or 1,
        memory=psutil.virtual_memory().total,
        root_dir="/",
    )
    resources = node_resources(
        machine,
        system_reserved=settings.systemReserved,
        kube_reserved=settings.kubeReserved,
        eviction_hard=settings.evictionHard,
        max_pods=settings.maxPods,
        disk_capacity=psutil.disk_usage("/").total,
    )
    return NodeView(
        name=settings.nodeName,
        labels={
            "kubernetes.io/hostname": settings.nodeName,
            "kubernetes.io/os": "linux",
            **settings.nodeLabels,
        },
        resources=resources,
        allowed_unsafe_sysctls=settings.allowedUnsafeSysctls,
    )
