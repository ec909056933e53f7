"""``podtui why``: requests the facts from the agent or a cluster, and prints the diagnoses."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import msgspec

from podtui.api.cluster import cluster_of
from podtui.api.insight import ConnectionCheck
from podtui.api.lenient import lenient_convert
from podtui.api.local import Manifest, ManifestIndex, Plan
from podtui.api.names import GROUP_VERSION
from podtui.api.objects import T
from podtui.api.v1 import Event, Node, PersistentVolumeClaim, Pod, Service
from podtui.cli.invocation import FAILED, OK, socket_of
from podtui.client.blocking import get_bytes, get_json, patch_bytes, post_bytes
from podtui.client.decoding import decode_response, decode_with, kind_of
from podtui.editing.findings import is_better
from podtui.errors import AgentUnavailable, ApiError, UsageError
from podtui.text.nearest import closest
from podtui.text.terminal_text import after_return, lines, one_line
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
from podtui.why.connection_checks import check_lines, fails
from podtui.why.diagnose import REJECTIONS, diagnose_waiting
from podtui.why.documents import manifest_of
from podtui.why.folder import is_unusable
from podtui.why.inventory import (
    WORKLOADS,
    Inventory,
    Noun,
    find_noun,
    nearest_noun,
    object_name,
)
from podtui.why.node_pods import NodePods, by_node
from podtui.why.objects import (
    diagnose_object,
    explain_pod,
    find_objects,
    owners_of,
    unwell,
)
from podtui.why.report import Report, render_json, render_text

LOG_LINES: Final = 8
CHECKS_SECONDS: Final = 15.0
"""Seconds after which no further connection is tried."""
CHECK_TIMEOUT: Final = 20.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The objects to explain. ``name`` is that of a pod, with or without the node name, of an
    object of the kind ``noun``, or of a file; empty for everything that is not as desired. An empty
    ``namespace`` means all."""

    name: str = ""
    noun: Noun | None = None
    namespace: str = ""

    @property
    def text(self) -> str:
        return f"{self.noun.singular} {self.name}" if self.noun is not None else self.name


def parse_wanted(first: str | None, second: str | None, namespace: str = "") -> Wanted:
    """Read the arguments as kubectl does: ``NAME``, ``NOUN/NAME`` or ``NOUN NAME``; also
    ``NAMESPACE/NAME`` for a pod. Raises `UsageError`."""
    if first is None:
        return Wanted(namespace=namespace)
    if second is not None:
        noun = find_noun(first)
        if noun is None:
            near = nearest_noun(first)
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"podtui why does not know the kind {first!r}{hint}")
        return Wanted(second, noun, namespace)
    before, slash, name = first.partition("/")
    noun = find_noun(before) if slash else None
    if noun is None or not name:
        return Wanted(first, None, namespace)
    return Wanted(name, noun, namespace)


def run(namespace: argparse.Namespace) -> int:
    """Print why objects are not as desired; return 1 if there is such an object. With ``--reach``,
    print whether a pod reaches a host; return 1 if not."""
    if namespace.reach is not None:
        if namespace.cluster:
            raise UsageError("--reach does not support clusters")
        wanted = parse_wanted(namespace.pod, namespace.name, namespace.namespace or "")
        text, well = reach(socket_of(namespace), wanted, namespace.reach, namespace.output)
    elif namespace.cluster:
        from podtui.cli import cluster

        wanted = parse_wanted(namespace.pod, namespace.name)
        _, target = cluster.find(namespace)
        scope = cluster.scope_of(namespace)
        with cluster.api_requests(target, scope) as ask:
            pods = cluster.pods_path(target, scope, ask)
            text, well = why_of_cluster(ask, pods, wanted, namespace.output)
    else:
        wanted = parse_wanted(namespace.pod, namespace.name, namespace.namespace or "")
        text, well = why(socket_of(namespace), wanted, namespace.output, namespace.label_node)
    print(text if namespace.output == "json" else lines(text))
    return OK if well else FAILED


def why(
    socket_path: Path, wanted: Wanted | str | None, output: str, label_node: bool = False
) -> tuple[str, bool]:
    """Return the text to print, and whether all requested objects are well. ``label_node`` labels
    the node so that the pods of the reports fit.

    Raises `UsageError` if there is no such object, and the errors of `get_json`.
    """
    agent = _Agent(socket_path)
    wanted = wanted if isinstance(wanted, Wanted) else parse_wanted(wanted, None)
    reports = _reports(agent, wanted)
    if label_node:
        return _label_node(agent, reports)
    return _print_reports(reports, wanted, output)


def reach(socket_path: Path, wanted: Wanted, host: str, output: str) -> tuple[str, bool]:
    """Return what ``HOST`` or ``HOST:PORT`` is from inside a pod, and whether it is reached. Raises
    the same errors as `why`."""
    agent = _Agent(socket_path)
    nodes = agent.items(Node) or []
    if not wanted.name or (wanted.noun is not None and wanted.noun.struct is not Pod):
        raise UsageError("--reach needs the name of a pod")
    pods = [
        pod
        for pod in agent.items(Pod) or []
        if _matches_name(pod, wanted.name, _node_of(pod, nodes))
        and wanted.namespace in ("", pod.metadata.namespace)
    ]
    if len(pods) != 1:
        names = " or ".join(_shown(pod.metadata.namespace, pod.metadata.name) for pod in pods)
        hint = f"; did you mean {names}?" if pods else ""
        raise UsageError(f"there is no single pod named {wanted.name!r}{hint}")
    check = agent.connection(pods[0], *parse_host(host))
    if output == "json":
        return json.dumps(msgspec.to_builtins(check), indent=2), not fails(check)
    return "\n".join(map(one_line, check_lines(check))), not fails(check)


def parse_host(text: str) -> tuple[str, int]:
    """Read ``HOST`` or ``HOST:PORT``; an IPv6 address with a port is in brackets. Raises
    `UsageError`."""
    bracketed = re.fullmatch(r"\[(.*)\](|:.*)", text)
    if bracketed is not None:
        host, port = bracketed[1], bracketed[2].removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not host or "[" in host or not (port or "0").isdecimal() or int(port or 0) > 65535:
        raise UsageError(f"--reach {text}: expected HOST or HOST:PORT")
    return host, int(port or 0)


def _print_reports(reports: list[Report], wanted: Wanted, output: str) -> tuple[str, bool]:
    if not wanted.name:
        reports = [report for report in reports if not report.is_healthy]
    well = all(report.is_healthy for report in reports)
    if output == "json":
        return json.dumps(render_json(reports), indent=2), well
    return render_text(reports) or "All pods and workloads are healthy.", well


def _label_node(agent: _Agent, reports: Sequence[Report]) -> tuple[str, bool]:
    """Set the labels that the pods of the reports ask for, and have rejected pods admitted
    again."""
    labels: dict[str, str] = {}
    for report in _with_parts(reports):
        labels |= dict(report.diagnosis.node_labels)
    nodes = agent.items(Node) or []
    if not labels or len(nodes) != 1:
        raise UsageError("no label of the node would help")
    name = nodes[0].metadata.name
    agent.label_node(name, labels)
    shown = ", ".join(f"{key}={value}" for key, value in labels.items())
    for report in reports:
        if report.diagnosis.node_labels and report.diagnosis.cause in REJECTIONS:
            namespace, _, pod = report.name.rpartition("/")
            agent.retry(namespace or "default", pod)
    return f"The node {name} has the labels {shown} now.", True


def _with_parts(reports: Iterable[Report]) -> Iterator[Report]:
    for report in reports:
        yield report
        yield from _with_parts(Report(p.name, p.diagnosis) for p in report.diagnosis.parts)


def why_of_cluster(
    ask: Callable[[str], bytes], pods: str, wanted: Wanted | str | None, output: str
) -> tuple[str, bool]:
    """Diagnose the objects of a cluster. ``ask`` requests an API path, ``pods`` is the path of the
    pods."""
    wanted = wanted if isinstance(wanted, Wanted) else parse_wanted(wanted, None)
    return _print_reports(_reports(_Cluster(ask, pods), wanted), wanted, output)


class _Agent:
    """Reads from the socket of an agent."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._checks: dict[tuple[str, str, int], ConnectionCheck | str] = {}
        self._until = time.monotonic() + CHECKS_SECONDS

    def items(self, kind: type[T]) -> list[T] | None:
        """List the objects of a kind; None if the agent is older and does not serve it."""
        return _listed(lambda path: get_json(self._socket_path, path), kind)

    def text(self, path: str) -> bytes:
        return get_bytes(self._socket_path, path)

    def plan(self, name: str, text: bytes) -> Plan:
        """Return the effects of a text if it were the content of a file of the folder."""
        path = f"/apis/{GROUP_VERSION}/manifests/{quote(name, safe='')}/plan"
        body = post_bytes(self._socket_path, path, text)
        return decode_response(path, body, Plan)

    def connection(self, pod: Pod, host: str, port: int) -> ConnectionCheck:
        """Look up a host from inside a pod, and connect to it if there is a port."""
        meta = pod.metadata
        names = f"namespaces/{quote(meta.namespace, safe='')}/pods/{quote(meta.name, safe='')}"
        path = (
            f"/apis/{GROUP_VERSION}/{names}/connections?{urlencode({'host': host, 'port': port})}"
        )
        body = post_bytes(self._socket_path, path, b"", CHECK_TIMEOUT)
        return decode_response(path, body, ConnectionCheck)

    def check_connection(self, pod: Pod, host: str, port: int) -> ConnectionCheck | str | None:
        """See `Inventory.check_connection`. Each is asked once; after a while, none is tried."""
        key = (pod.metadata.uid, host, port)
        if key not in self._checks and time.monotonic() < self._until:
            try:
                self._checks[key] = self.connection(pod, host, port)
            except (ApiError, AgentUnavailable) as error:
                self._checks[key] = str(error)
        return self._checks.get(key)

    def label_node(self, name: str, labels: dict[str, str]) -> None:
        body = json.dumps({"metadata": {"labels": labels}}).encode()
        patch_bytes(self._socket_path, f"/api/v1/nodes/{quote(name, safe='')}", body)

    def retry(self, namespace: str, pod: str) -> None:
        names = f"namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"
        post_bytes(self._socket_path, f"/apis/{GROUP_VERSION}/{names}/retry", b"")


class _Cluster:
    """Reads from an API server; other kinds than pods are limited to what the user may read."""

    def __init__(self, ask: Callable[[str], bytes], pods: str) -> None:
        self._ask = ask
        scope = pods.removesuffix("/pods").removeprefix("/api/v1")
        self.namespace = unquote(scope.removeprefix("/namespaces/"))

    def items(self, kind: type[T]) -> list[T] | None:
        if kind is Manifest:
            return []
        path = kind_of(kind).collection(self.namespace)
        try:
            body = self._ask(path)
        except ApiError as error:
            if error.code in (403, 404) and kind is not Pod:
                return None
            raise
        return _items(path, decode_response(path, body, dict[str, Any]), kind)

    def text(self, path: str) -> bytes:
        return self._ask(path)

    def check_connection(self, pod: Pod, host: str, port: int) -> str:
        return "this is a cluster"


def _items(path: str, document: dict[str, Any], kind: type[T]) -> list[T]:
    items: list[Any] = document.get("items") or []
    return decode_with(path, lambda: [lenient_convert(item, kind) for item in items])


def _reports(source: _Agent | _Cluster, wanted: Wanted) -> list[Report]:
    pods = source.items(Pod) or []
    manifests = source.items(Manifest) or []
    nodes = source.items(Node) or []
    events = source.items(Event) or []
    read: dict[type[Any], list[Any]] = {Pod: pods, Node: nodes, Event: events}
    facts_of = _facts_source(pods, manifests, nodes, events, isinstance(source, _Cluster))
    inventory = Inventory(
        read=lambda kind: read[kind] if kind in read else source.items(kind),
        now=time.time(),
        diagnose_pod=lambda pod: _of_pod(source, pod, facts_of(pod)).diagnosis,
        in_cluster=isinstance(source, _Cluster),
        scope=source.namespace if isinstance(source, _Cluster) else "",
        check_connection=source.check_connection,
    )
    if wanted.noun is not None and wanted.noun.struct is not Pod:
        return _of_objects(inventory, wanted)
    objects = [] if wanted.name else _of_unwell(inventory, wanted.namespace)
    covered = {report.uid for report in objects}
    selected = [
        pod
        for pod in pods
        if (not wanted.name or _matches_name(pod, wanted.name, _node_of(pod, nodes)))
        and wanted.namespace in ("", pod.metadata.namespace)
    ]
    reports = [_of_pod(source, pod, facts_of(pod)) for pod in selected]
    reported = {id(report.manifest) for report in reports}
    if wanted.name:
        reports = [
            replace(report, diagnosis=explain_pod(inventory, pod, report.diagnosis))
            for pod, report in zip(selected, reports, strict=True)
        ]
    else:
        reports = [
            report
            for pod, report in zip(selected, reports, strict=True)
            if not covered
            or covered.isdisjoint(owner.metadata.uid for owner in owners_of(inventory, pod))
        ]
    there = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
    unreported = [manifest for manifest in manifests if id(manifest) not in reported]
    name = wanted.name or None
    waiting = list(_of_waiting(unreported, there, nodes, name))
    reported |= {id(report.manifest) for report in waiting}
    files = [
        *_of_files((manifest for manifest in unreported if id(manifest) not in reported), name),
        *waiting,
    ]
    if wanted.namespace:
        files = []
    if name is not None and not reports and not files:
        raise UsageError(_missing(inventory, wanted))
    return [*objects, *reports, *files]


def unwell_objects(get: Callable[[str], Any]) -> list[Report]:
    """Return the reports on workloads, claims and autoscalers that are not as desired. ``get``
    requests a path of the agent; logs are not read."""
    events = _about_pods(_listed(get, Event) or ())
    nodes = _listed(get, Node) or []

    def diagnose_pod(pod: Pod) -> Diagnosis:
        about = events.get((pod.metadata.namespace, pod.metadata.name), [])
        node = _node_of(pod, nodes)
        return diagnose(Facts(pod=pod, now=time.time(), events=tuple(about), node=node))

    inventory = Inventory(lambda kind: _listed(get, kind), time.time(), diagnose_pod)
    return _of_unwell(inventory, "")


def _listed(get: Callable[[str], Any], kind: type[T]) -> list[T] | None:
    """List the objects of a kind; None if an older agent does not serve it."""
    path = kind_of(kind).collection("")
    try:
        return _items(path, get(path), kind)
    except ApiError as error:
        if error.code == 404:
            return None
        raise


def _elsewhere(inventory: Inventory, what: str) -> str:
    """Return where objects are that this node of a cluster has no copy of; empty at home."""
    if inventory.in_cluster:
        return ""
    url = next((url for node in inventory.list(Node) if (url := cluster_of(node))), "")
    return f"; this node belongs to the cluster at {url}, which has {what}" if url else ""


def _missing(inventory: Inventory, wanted: Wanted) -> str:
    """Return the error for a name that is no pod: the objects that have it, if there are any."""
    others = [
        object_name(item)
        for kind in (*WORKLOADS, Service, PersistentVolumeClaim)
        for item in inventory.list(kind)
        if item.metadata.name == wanted.name
    ]
    hint = f"; did you mean {' or '.join(others)}?" if others else ""
    hint = hint or _elsewhere(inventory, "the pods that are not bound to it")
    return f"there is no pod or file named {wanted.name!r}{hint}"


def _of_objects(inventory: Inventory, wanted: Wanted) -> list[Report]:
    """Return the reports on the objects of a kind with a name."""
    assert wanted.noun is not None
    items = find_objects(inventory, wanted.noun, wanted.name, wanted.namespace)
    if not items:
        names = [item.metadata.name for item in inventory.list(wanted.noun.struct)]
        near = closest(wanted.name, names)
        hint = f"; did you mean {near}?" if near else ""
        if not inventory.is_read(wanted.noun.struct):
            what = f"its {wanted.noun.plural}"
            hint = _elsewhere(inventory, what) or "; this kind cannot be listed"
        raise UsageError(f"there is no {wanted.noun.singular} named {wanted.name!r}{hint}")
    return [_report(inventory, item, diagnose_object(inventory, item)) for item in items]


def _of_unwell(inventory: Inventory, namespace: str) -> list[Report]:
    return [
        _report(inventory, item, diagnosis)
        for item, diagnosis in unwell(inventory)
        if namespace in ("", item.metadata.namespace)
    ]


def _report(inventory: Inventory, item: Any, diagnosis: Diagnosis) -> Report:
    name = object_name(item)
    namespace = item.metadata.namespace
    shown = f"{namespace}/{name}" if namespace not in ("", "default") else name
    manifest = manifest_of(inventory, item) if diagnosis.field else None
    return Report(shown, diagnosis, manifest, item.metadata.uid)


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
    events_about = _about_pods(events)

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


def _about_pods(events: Iterable[Event]) -> dict[tuple[str, str], list[Event]]:
    """Return the events about pods, by namespace and name."""
    about: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        involved = event.involvedObject
        if involved.kind == "Pod":
            about.setdefault((involved.namespace, involved.name), []).append(event)
    return about


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
