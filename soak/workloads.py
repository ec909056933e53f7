"""The workloads of the rollouts, and the rules that their pods keep at every moment.

The rules are computed from the manifests alone, not from what the controllers report. A workload
that was scaled may have pods for the size before and after, until it has settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from soak.engine import IMAGE

NAMESPACE: Final = "soak"
_WORK: Final = "trap 'exit 0' TERM; touch /tmp/ready; while :; do sleep 3600 & wait $!; done"
_SLOW: Final = f"sleep 0.5; {_WORK}"
_JOB: Final = "sleep 1; echo done"
_READY: Final = {
    "exec": {"command": ["test", "-e", "/tmp/ready"]},
    "periodSeconds": 1,
    # On a busy machine a probe is late, but a pod that was ready stays so.
    "timeoutSeconds": 60,
    "failureThreshold": 60,
}
_CLAIM: Final = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """``sizes`` are the numbers of replicas that it is scaled to.
    ``surge`` and ``unavailable`` are its maxSurge and maxUnavailable; for a StatefulSet,
    ``unavailable`` is what its controller keeps to. ``completions`` is that of a Job, whose
    ``sizes`` are its parallelism.

    The first part of a pod's name, up to a hyphen, is the name of its workload.
    """

    kind: str
    name: str
    sizes: tuple[int, ...] = (1,)
    surge: int | str = 0
    unavailable: int | str = 0
    recreates: bool = False
    ordered: bool = False
    min_ready: int = 0
    completions: int = 0

    @property
    def path(self) -> str:
        group = "batch/v1" if self.kind == "Job" else "apps/v1"
        return f"/apis/{group}/namespaces/{NAMESPACE}/{self.kind.lower()}s/{self.name}"

    def most(self, size: int) -> int:
        """Return the most pods that are not being deleted."""
        return size + _amount(self.surge, size, math.ceil)

    def least(self, size: int) -> int:
        """Return the fewest ready pods, once it had ``size`` of them."""
        return size - _amount(self.unavailable, size, math.floor)

    def manifest(self, version: int, size: int) -> dict[str, Any]:
        labels = {"app": self.name}
        pod: dict[str, Any] = {
            "terminationGracePeriodSeconds": 5,
            "containers": [self._container(version)],
        }
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec: dict[str, Any] = {"template": template, **self._special(size)}
        if self.kind == "Job":
            pod["restartPolicy"] = "Never"
        else:
            spec |= {
                "selector": {"matchLabels": labels},
                "revisionHistoryLimit": 2,
                "minReadySeconds": self.min_ready,
            }
        api = "batch/v1" if self.kind == "Job" else "apps/v1"
        meta = {"name": self.name, "namespace": NAMESPACE}
        return {"apiVersion": api, "kind": self.kind, "metadata": meta, "spec": spec}

    def _container(self, version: int) -> dict[str, Any]:
        work = {"Job": _JOB, "StatefulSet": _SLOW}.get(self.kind, _WORK)
        container: dict[str, Any] = {
            "name": "app",
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", work],
            "env": [{"name": "VERSION", "value": str(version)}],
        }
        if self.ordered:
            container["readinessProbe"] = _READY
            container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        return container

    def _special(self, size: int) -> dict[str, Any]:
        """Return the fields that only this kind has."""
        rolling = {"maxSurge": self.surge, "maxUnavailable": self.unavailable}
        update = {"type": "RollingUpdate", "rollingUpdate": rolling}
        match self.kind:
            case "Deployment":
                strategy = {"type": "Recreate"} if self.recreates else update
                return {"replicas": size, "strategy": strategy}
            case "DaemonSet":
                return {"updateStrategy": update}
            case "StatefulSet":
                policy = "OrderedReady" if self.ordered else "Parallel"
                fields = {"replicas": size, "serviceName": self.name, "podManagementPolicy": policy}
                return fields | ({"volumeClaimTemplates": [_CLAIM]} if self.ordered else {})
            case _:
                return {"parallelism": size, "completions": self.completions}


WORKLOADS: Final = (
    Workload(kind="Deployment", name="web", sizes=(3, 2, 4), surge=1, unavailable=1),
    Workload(kind="Deployment", name="api", sizes=(2, 3), surge="34%", min_ready=1),
    Workload(kind="Deployment", name="half", sizes=(2, 3), unavailable="50%"),
    Workload(kind="Deployment", name="single", sizes=(2, 1), recreates=True),
    Workload(kind="StatefulSet", name="db", sizes=(3, 1), unavailable=1, ordered=True),
    # A parallel set that gets a new template during an update deletes its highest old pod, also
    # while another pod is not available. The API drops its maxUnavailable (docs/controllers.md).
    Workload(kind="StatefulSet", name="cache", sizes=(2, 3, 1), unavailable="100%"),
    Workload(kind="DaemonSet", name="each", unavailable=1),
    Workload(kind="DaemonSet", name="beside", surge=1),
)


def job(number: int) -> Workload:
    return Workload(kind="Job", name=f"job{number}", sizes=(2,), completions=4)


def _amount(value: int | str, size: int, rounded: Any) -> int:
    if isinstance(value, int):
        return value
    return rounded(size * int(value.removesuffix("%")) / 100)


@dataclass(frozen=True, slots=True)
class Limits:
    """The rules of a workload now. ``least`` applies to a workload that was complete before."""

    workload: Workload
    most: int
    least: int


def limits(workload: Workload, sizes: Iterable[int], *, complete: bool) -> Limits:
    """Return the limits while a workload goes from one of ``sizes`` to another. ``complete`` says
    that it was complete before, and since then no deletion was requested."""
    sizes = [*sizes]
    least = min(map(workload.least, sizes)) if complete and not workload.recreates else 0
    return Limits(workload, max(map(workload.most, sizes)), max(0, least))


# --- pods of the API


def workload_name(pod_name: str) -> str:
    return pod_name.partition("-")[0]


def ordinal(pod_name: str) -> int:
    return int(pod_name.rpartition("-")[2])


def revision(pod_name: str) -> str:
    """Return the part of a Deployment's pod name that names its ReplicaSet."""
    return pod_name.rpartition("-")[0]


def broken_by_pods(limit: Limits, pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the rules that the pod records of a workload break."""
    workload, problems = limit.workload, list[str]()
    living = [pod for pod in pods if not _is_finished(pod)]
    active = [pod for pod in living if not _is_terminating(pod)]
    ready = [pod for pod in active if _is_ready(pod)]
    if len(active) > limit.most:
        problems.append(f"{workload.name} has {len(active)} pods, at most {limit.most}")
    if len(ready) < limit.least:
        problems.append(f"{workload.name} has {len(ready)} ready pods, at least {limit.least}")
    if workload.recreates and len({revision(_name(pod)) for pod in living}) > 1:
        problems.append(f"{workload.name} has pods of two revisions: {sorted(map(_name, living))}")
    if workload.kind == "DaemonSet" and not workload.surge and len(living) > 1:
        problems.append(f"{workload.name} has two pods on a node")
    if workload.kind == "StatefulSet" and len({*map(_name, living)}) < len(living):
        problems.append(f"{workload.name} has two pods of one ordinal")
    if workload.ordered:
        ranks = {ordinal(_name(pod)) for pod in ready}
        problems += [
            f"{_name(pod)} exists before {workload.name}-{lower} is ready"
            for pod in active
            if not _is_ready(pod)
            for lower in range(ordinal(_name(pod)))
            if lower not in ranks
        ]
    return problems


def is_complete(workload: Workload, record: Mapping[str, Any], size: int) -> bool:
    """Return whether the status of a workload says that the last change is done."""
    status = record.get("status", {})
    if workload.kind == "Job":
        conditions = status.get("conditions", [])
        done = any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)
        return done and status.get("succeeded") == workload.completions
    if status.get("observedGeneration") != record["metadata"]["generation"]:
        return False
    names = {
        "Deployment": ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
        "StatefulSet": ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
        "DaemonSet": ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"),
    }[workload.kind]
    counted = all(status.get(name, 0) == size for name in names)
    return counted and status.get("currentRevision") == status.get("updateRevision")


def _name(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _is_terminating(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_finished(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


# --- containers of the engine


@dataclass(frozen=True, slots=True)
class Instance:
    """An app container that runs, by the labels that the engine has."""

    pod: str
    uid: str


def broken_by_start(limit: Limits, running: Iterable[Instance], new: Instance) -> list[str]:
    """Return the rules that the start of a container breaks. ``running`` are the other containers
    of the workload."""
    workload, others = limit.workload, [*running]
    problems: list[str] = []
    if any(one.uid == new.uid for one in others):
        problems.append(f"{new.pod} runs twice ({new.uid})")
    if workload.kind == "StatefulSet":
        if any(one.pod == new.pod and one.uid != new.uid for one in others):
            problems.append(f"two containers of the ordinal {new.pod} run")
        lower = {f"{workload.name}-{number}" for number in range(ordinal(new.pod))}
        if workload.ordered and (missing := lower - {one.pod for one in others}):
            problems.append(f"{new.pod} starts while {sorted(missing)} do not run")
    if workload.kind == "DaemonSet" and not workload.surge and others:
        problems.append(f"{new.pod} starts beside {[one.pod for one in others]}")
    if workload.kind == "Job" and len(others) + 1 > limit.most:
        problems.append(f"{len(others) + 1} pods of {workload.name} run, at most {limit.most}")
    old = {one.pod for one in others if revision(one.pod) != revision(new.pod)}
    if workload.recreates and old:
        problems.append(f"{new.pod} starts while old pods run: {sorted(old)}")
    return problems


def broken_by_end(limit: Limits, running: Iterable[Instance]) -> list[str]:
    """Return the rules that the end of a container breaks; ``running`` are those that remain."""
    count = len([*running])
    if count < limit.least:
        return [f"{count} pods of {limit.workload.name} run, at least {limit.least}"]
    return []
