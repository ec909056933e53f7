"""Judges from the objects of an agent whether workloads have started, and finds what podtui says
about those that have not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corpus.apps import Map, Workload
from podtui.why.inventory import find_noun

NODE: Final = "corpus"
LISTS: Final = {
    "Pod": "/api/v1/pods",
    "ReplicationController": "/api/v1/replicationcontrollers",
    "Deployment": "/apis/apps/v1/deployments",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "CronJob": "/apis/batch/v1/cronjobs",
}
Objects = Mapping[str, Sequence[Map]]
"""The items of each list, with their kind."""
_IN_PROGRESS: Final = frozenset({"", "Creating", "OnItsWay", "Starting", "ProbePending"})
NOT_APPLIED: Final = ("Refused", "Ignored", "Waits")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``problem`` is empty if the workload has started; ``pods`` are those that do not run."""

    problem: str = ""
    pods: tuple[str, ...] = ()

    @property
    def started(self) -> bool:
        return not self.problem


@dataclass(frozen=True, slots=True)
class Said:
    """``cause`` is podtui's short name of the cause; ``text`` is what a user reads."""

    cause: str
    text: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of explanations for failed starts: the files of the folder, the diagnoses of
    ``podtui why``, and events."""

    files: Sequence[Map]
    reports: Sequence[Map]
    events: Sequence[Map]


def verdict(workload: Workload, objects: Objects) -> Verdict:
    """A workload has started if as many pods as it asks for run or have completed."""
    item = _find(workload, objects)
    if item is None:
        return Verdict("was not created")
    if workload.kind == "Pod":
        return Verdict() if runs(item) else Verdict("the pod does not run", (_shown(item),))
    jobs = [item] if workload.kind == "Job" else _owned(item, objects, "Job")
    if any(_is_complete(job) for job in jobs):
        return Verdict()
    pods, wanted = list(_pods_of(item, objects)), _wanted(item)
    running = sum(map(runs, pods))
    if running >= wanted:
        return Verdict()
    waiting = tuple(_shown(pod) for pod in pods if not runs(pod))
    if waiting:
        return Verdict(f"{running} of {wanted} pods run", waiting)
    return Verdict(f"{len(pods)} of {wanted} pods were created")


def runs(pod: Map) -> bool:
    """Return whether every container runs, or has ended with 0."""
    status: Map = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return True
    states: list[Map] = [c.get("state") or {} for c in status.get("containerStatuses") or ()]
    return (
        status.get("phase") == "Running"
        and len(states) == len(pod["spec"]["containers"])
        and all(
            "running" in state or (state.get("terminated") or {}).get("exitCode") == 0
            for state in states
        )
    )


def shape(objects: Objects) -> object:
    """Return what changes while an app starts."""
    return [
        (
            item["metadata"]["uid"],
            status.get("phase"),
            [
                sorted(container.get("state") or ())
                for name in ("initContainerStatuses", "containerStatuses")
                for container in status.get(name) or ()
            ],
        )
        for items in objects.values()
        for item in items
        for status in [item.get("status") or {}]
    ]


def said(workload: Workload, found: Verdict, sources: Sources, objects: Objects) -> Said:
    """Return the first of: the outcome of the document, an error of its file, the diagnosis of a
    pod or of the workload, the newest Warning about it or what it owns."""
    for file in sources.files if _find(workload, objects) is None else ():
        if (text := _of_document(workload, file)) is not None:
            return text
    names = {*found.pods, _report_name(workload)}
    for report in sources.reports:
        if report["name"] in names:
            return Said(_cause(report), " ".join(_sentences(report)))
    uids = {item["metadata"]["uid"] for item in _family(workload, objects)}
    warnings = [
        event
        for event in sources.events
        if event["type"] == "Warning" and event["involvedObject"].get("uid") in uids
    ]
    if warnings:
        newest = max(warnings, key=lambda event: event.get("lastTimestamp") or "")
        return Said(newest["reason"], newest["message"])
    return Said("", "")


def _report_name(workload: Workload) -> str:
    """Return the name of a workload as ``podtui why`` prints it."""
    noun = find_noun(workload.kind)
    name = f"{noun.shown if noun is not None else workload.kind}/{workload.name}"
    return name if workload.namespace == "default" else f"{workload.namespace}/{name}"


def _sentences(report: Map) -> Iterator[str]:
    """Yield what a report says, with its first part, as deep as it goes."""
    yield report["title"]
    yield from report["sentences"]
    yield from filter(None, [report["advice"]])
    for part in report["parts"][:1]:
        yield from _sentences(part)


def _cause(report: Map) -> str:
    return _cause(report["parts"][0]) if report["parts"] else report["cause"]


def is_in_progress(text: Said) -> bool:
    """Return whether podtui still works on it: it says nothing yet, or that it is starting."""
    return text.cause in _IN_PROGRESS


def not_applied(files: Sequence[Map]) -> tuple[tuple[str, str, str], ...]:
    """Return outcome, object and message of each document that is not applied."""
    return tuple(
        (item["outcome"], f"{item['kind']} {item['name']}".strip(), item.get("message") or "")
        for file in files
        for item in _documents(file)
        if item["outcome"] in NOT_APPLIED
    )


def _of_document(workload: Workload, file: Map) -> Said | None:
    documents = _documents(file)
    names = (workload.name, f"{workload.name}-{NODE}") if workload.kind == "Pod" else workload.name
    for item in documents:
        same = (item["kind"], item["namespace"] or "default") == (workload.kind, workload.namespace)
        if not same or item["name"] not in names or item["outcome"] not in NOT_APPLIED:
            continue
        if item["outcome"] == "Waits":
            for other in documents:
                if other["outcome"] == "Refused":
                    text = f"{item['message']}: {other['kind']} {other['name']}: {other['message']}"
                    return Said("Waits", text)
        return Said(item["outcome"], item.get("message") or "")
    if file["metadata"]["name"] != workload.file:
        return None
    for problem in file["status"].get("diagnostics") or ():
        if problem["severity"] == "Error":
            return Said(problem["code"], problem["message"])
    return None


def _documents(file: Map) -> list[Map]:
    items: list[Map] = file["status"].get("objects") or []
    return items


def _find(workload: Workload, objects: Objects) -> Map | None:
    """Return the object; a pod of the folder has the node's name in its own."""
    static = f"{workload.name}-{NODE}" if workload.kind == "Pod" else workload.name
    for item in objects[workload.kind]:
        meta = item["metadata"]
        named = meta["name"] in (workload.name, static)
        generated = workload.name and meta.get("generateName") == workload.name
        if (named or generated) and meta["namespace"] == workload.namespace:
            return item
    return None


def _family(workload: Workload, objects: Objects) -> Iterator[Map]:
    item = _find(workload, objects)
    if item is not None:
        yield item
        for kind in ("ReplicaSet", "Job"):
            yield from _owned(item, objects, kind)
        yield from _pods_of(item, objects)


def _pods_of(owner: Map, objects: Objects) -> Iterator[Map]:
    for item in (owner, *_owned(owner, objects, "ReplicaSet"), *_owned(owner, objects, "Job")):
        yield from _owned(item, objects, "Pod")


def _owned(owner: Map, objects: Objects, kind: str) -> list[Map]:
    uid = owner["metadata"]["uid"]
    return [
        item
        for item in objects[kind]
        if any(ref["uid"] == uid for ref in item["metadata"].get("ownerReferences") or ())
    ]


def _wanted(item: Map) -> int:
    """Return the number of pods that a workload asks for."""
    spec: Map = item["spec"]
    if spec.get("suspend"):
        return 0
    match item["kind"]:
        case "DaemonSet" | "CronJob":
            return 1
        case "Job":
            return min(spec.get("parallelism", 1), spec.get("completions") or 1)
        case _:
            return int(spec.get("replicas", 1))


def _is_complete(job: Map) -> bool:
    conditions: list[Any] = (job.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def _shown(item: Map) -> str:
    """Return the name of a pod as ``podtui why`` prints it."""
    meta = item["metadata"]
    prefix = "" if meta["namespace"] == "default" else f"{meta['namespace']}/"
    return f"{prefix}{meta['name']}"
