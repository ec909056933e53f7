"""``podtui why``: requests the facts from the agent, and prints the diagnoses."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from podtui.api.lenient import lenient_convert
from podtui.api.local import Manifest, ManifestIndex, Plan
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import Event, Node, Pod
from podtui.cli.invocation import FAILED, OK, socket_of
from podtui.client.blocking import get_bytes, get_json, post_bytes
from podtui.client.decoding import decode_response, decode_with
from podtui.editing.findings import is_better
from podtui.errors import AgentUnavailable, ApiError, UsageError
from podtui.text.terminal_text import after_return, lines
from podtui.why import (
    Diagnosis,
    EditError,
    Facts,
    Fix,
    apply_edits,
    diagnose,
    diagnose_manifest,
)
from podtui.why.cases import log_failure
from podtui.why.diagnose import diagnose_waiting
from podtui.why.folder import is_unusable
from podtui.why.node_pods import NodePods, by_node
from podtui.why.report import Report, render_json, render_text

LOG_LINES: Final = 8
T = TypeVar("T")


def run(namespace: argparse.Namespace) -> int:
    """Print why pods are not running; return 1 if there is such a pod."""
    if namespace.cluster:
        from podtui.cli import cluster

        _, target = cluster.find(namespace)
        scope = cluster.scope_of(namespace)
        with cluster.api_requests(target, scope) as ask:
            pods = cluster.pods_path(target, scope, ask)
            text, well = why_of_cluster(ask, pods, namespace.pod, namespace.output)
    else:
        text, well = why(socket_of(namespace), namespace.pod, namespace.output)
    print(text if namespace.output == "json" else lines(text))
    return OK if well else FAILED


def why(socket_path: Path, wanted: str | None, output: str) -> tuple[str, bool]:
    """Return the text to print, and whether all requested pods and files are healthy.

    ``wanted`` is a pod's name, with or without the node name, ``NAMESPACE/NAME``, or a file's name;
    None requests everything that is unhealthy. Raises `UsageError` if there is no such pod, and the
    errors of `get_json`.
    """
    return _print_reports(_reports(_Agent(socket_path), wanted), wanted, output)


def _print_reports(reports: list[Report], wanted: str | None, output: str) -> tuple[str, bool]:
    if wanted is None:
        reports = [report for report in reports if not report.is_healthy]
    well = all(report.is_healthy for report in reports)
    if output == "json":
        return json.dumps(render_json(reports), indent=2), well
    return render_text(reports) or "All pods are healthy.", well


def why_of_cluster(
    ask: Callable[[str], bytes], pods: str, wanted: str | None, output: str
) -> tuple[str, bool]:
    """Diagnose the pods of a cluster. ``ask`` requests an API path, ``pods`` is the path of the
    pods."""
    return _print_reports(_reports(_Cluster(ask, pods), wanted), wanted, output)


class _Agent:
    """Reads from the socket of an agent."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path

    def items(self, plural: str, kind: type[T]) -> list[T]:
        root = f"/apis/{GROUP_VERSION}" if plural == "manifests" else "/api/v1"
        return _items(f"{root}/{plural}", get_json(self._socket_path, f"{root}/{plural}"), kind)

    def text(self, path: str) -> bytes:
        return get_bytes(self._socket_path, path)

    def plan(self, name: str, text: bytes) -> Plan:
        """Return the effects of a text if it were the content of a file of the folder."""
        path = f"/apis/{GROUP_VERSION}/manifests/{quote(name, safe='')}/plan"
        body = post_bytes(self._socket_path, path, text)
        return decode_response(path, body, Plan)


class _Cluster:
    """Reads from an API server; nodes and events are limited to what the user may read."""

    def __init__(self, ask: Callable[[str], bytes], pods: str) -> None:
        self._ask = ask
        self._pods = pods

    def items(self, plural: str, kind: type[T]) -> list[T]:
        if plural == "manifests":
            return []
        path = "/api/v1/nodes" if plural == "nodes" else self._pods.removesuffix("pods") + plural
        try:
            body = self._ask(path)
        except ApiError as error:
            if error.code == 403 and plural != "pods":
                return []
            raise
        return _items(path, decode_response(path, body, dict[str, Any]), kind)

    def text(self, path: str) -> bytes:
        return self._ask(path)


def _items(path: str, document: dict[str, Any], kind: type[T]) -> list[T]:
    items: list[Any] = document.get("items") or []
    return decode_with(path, lambda: [lenient_convert(item, kind) for item in items])


def _reports(source: _Agent | _Cluster, wanted: str | None) -> list[Report]:
    pods = source.items("pods", Pod)
    manifests = source.items("manifests", Manifest)
    nodes = source.items("nodes", Node)
    events = source.items("events", Event)
    selected = [
        pod for pod in pods if wanted is None or _matches_name(pod, wanted, _node_of(pod, nodes))
    ]
    facts_of = _facts_source(pods, manifests, nodes, events, isinstance(source, _Cluster))
    reports = [_of_pod(source, pod, facts_of(pod)) for pod in selected]
    reported = {id(report.manifest) for report in reports}
    there = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
    unreported = [manifest for manifest in manifests if id(manifest) not in reported]
    waiting = list(_of_waiting(unreported, there, nodes, wanted))
    reported |= {id(report.manifest) for report in waiting}
    files = [
        *_of_files((manifest for manifest in unreported if id(manifest) not in reported), wanted),
        *waiting,
    ]
    if wanted is not None and not reports and not files:
        raise UsageError(f"there is no pod or file named {wanted!r}")
    return [*reports, *files]


def _of_files(manifests: Iterable[Manifest], wanted: str | None) -> list[Report]:
    return [
        Report(manifest.metadata.name, diagnose_manifest(manifest), manifest)
        for manifest in manifests
        if (is_unusable(manifest) if wanted is None else manifest.metadata.name == wanted)
    ]


def _of_waiting(
    manifests: Iterable[Manifest],
    there: Container[tuple[str, str]],
    nodes: Sequence[Node],
    wanted: str | None,
) -> Iterator[Report]:
    """Yield reports on files whose pods do not exist yet, with the pods' future names."""
    node = nodes[0] if len(nodes) == 1 else None
    for manifest in manifests:
        namespace, name = manifest.status.podNamespace, manifest.status.podName
        if (namespace, name) in there or not (
            wanted in (None, manifest.metadata.name) or _is_name(namespace, name, wanted, node)
        ):
            continue
        diagnosis = diagnose_waiting(manifest, node)
        if diagnosis is not None:
            yield Report(_shown(namespace, name), diagnosis, manifest)


def _node_of(pod: Pod, nodes: Sequence[Node]) -> Node | None:
    """Return the pod's own node, or the only node there is."""
    if len(nodes) == 1:
        return nodes[0]
    return next((node for node in nodes if node.metadata.name == pod.spec.nodeName), None)


def _matches_name(pod: Pod, wanted: str, node: Node | None) -> bool:
    return _is_name(pod.metadata.namespace, pod.metadata.name, wanted, node)


def _is_name(namespace: str, name: str, wanted: str, node: Node | None) -> bool:
    there, parted, called = wanted.rpartition("/")
    if parted and there != namespace:
        return False
    suffix = f"-{node.metadata.name.lower()}" if node is not None else ""
    return name in (called, called + suffix)


def _shown(namespace: str, name: str) -> str:
    return name if namespace == "default" else f"{namespace}/{name}"


def _facts_source(
    pods: Sequence[Pod],
    manifests: Sequence[Manifest],
    nodes: Sequence[Node],
    events: Sequence[Event],
    in_cluster: bool,
) -> Callable[[Pod], Facts]:
    """Return a function that returns the facts about a pod. What pods have in common is indexed
    once.
    """
    index, pods_of = ManifestIndex(manifests), by_node(pods)
    events_about: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        involved = event.involvedObject
        if involved.kind == "Pod":
            events_about.setdefault((involved.namespace, involved.name), []).append(event)

    def facts(pod: Pod) -> Facts:
        meta, node = pod.metadata, _node_of(pod, nodes)
        home = pod.spec.nodeName or (node.metadata.name if node is not None else "")
        return Facts(
            pod=pod,
            now=time.time(),
            events=tuple(events_about.get((meta.namespace, meta.name), ())),
            manifest=index.manifest_of(pod),
            node=node,
            node_pods=pods_of.get(home) or NodePods(),
            in_cluster=in_cluster,
        )

    return facts


def _of_pod(source: _Agent | _Cluster, pod: Pod, facts: Facts) -> Report:
    """Diagnose a pod; repeat with its log if that may improve the result."""
    diagnosis = diagnose(facts)
    if diagnosis.wants_log and diagnosis.container:
        tail, problem = _log(source, pod, diagnosis.container)
        facts_with_log = replace(
            facts,
            logs={diagnosis.container: tail},
            log_problems={diagnosis.container: problem} if problem else {},
        )
        diagnosis = diagnose(facts_with_log)
    diagnosis = _with_harmless_fixes(diagnosis, facts.manifest, source)
    return Report(_shown(pod.metadata.namespace, pod.metadata.name), diagnosis, facts.manifest)


def _with_harmless_fixes(
    diagnosis: Diagnosis, manifest: Manifest | None, source: _Agent | _Cluster
) -> Diagnosis:
    """Leave out the fixes that would add a finding to the manifest, as the agent would read it."""
    if manifest is None or isinstance(source, _Cluster):
        return diagnosis
    fixes = tuple(
        fix for fix in diagnosis.fixes if not fix.edits or _is_harmless(fix, manifest, source)
    )
    return replace(diagnosis, fixes=fixes)


def _is_harmless(fix: Fix, manifest: Manifest, agent: _Agent) -> bool:
    try:
        text = apply_edits(manifest.spec.text, fix.edits)
        plan = agent.plan(manifest.metadata.name, text.encode())
    except (EditError, ApiError):
        return False
    return is_better(manifest.status.diagnostics, plan.diagnostics)


def _log(source: _Agent | _Cluster, pod: Pod, container: str) -> tuple[tuple[str, ...], str]:
    """Return the last log lines of a container, and the reason if they are unreadable; one of both
    is empty."""
    statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    status = next((status for status in statuses if status.name == container), None)
    query = {"container": container, "tailLines": LOG_LINES}
    if status is not None and status.ready and status.lastState.terminated is not None:
        query["previous"] = "true"
    meta = pod.metadata
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/log?{urlencode(query)}"
    try:
        text = source.text(path).removesuffix(b"\n")
        tail = tuple(after_return(line).decode(errors="replace") for line in text.split(b"\n"))
        tail = tail if text else ()
    except (ApiError, AgentUnavailable) as error:
        return (), str(error)
    problem = log_failure(tail)
    return ((), problem) if problem else (tail, "")
