"""Causes that affect a whole pod, tried before or after those of its containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from podtui.api.events import first_seen, last_seen
from podtui.api.health import Health, pod_health
from podtui.api.names import AGENT_CLASH, KUBELET_NOT_READY, MIRROR_PROBLEM
from podtui.api.places import Path
from podtui.api.pods import is_finished
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import NodeCondition
from podtui.editing.source import Source
from podtui.why.cases import (
    cases,
    is_terminating,
    newest,
    pod_events,
)
from podtui.why.types import Facts, Fix, Kind, Match, Rule

_DOCS = "https://kubernetes.io/docs/"
_NO_NAMESPACE: Final = re.compile(r'^namespaces "([^"]+)" not found')
_STORAGE: Final = re.compile(
    r'^(?:Usage of EmptyDir volume "(?P<volume>[^"]*)" exceeds'
    r"|Pod ephemeral local storage usage exceeds"
    r"|Container (?P<container>\S+) exceeded its local ephemeral storage limit)"
)


# --- the node


def _ready(facts: Facts) -> NodeCondition | None:
    if facts.node is None:
        return None
    return next((c for c in facts.node.status.conditions if c.type == "Ready"), None)


def engine_advice(problem: str, reason: str = KUBELET_NOT_READY) -> str:
    """Return advice about an unusable engine: ``problem`` is its error, ``reason`` that of the
    node's condition."""
    if reason == AGENT_CLASH:
        return "Two agents cannot run the same pods on one engine: the message names the remedies."
    if "permission denied" in problem.lower():
        return (
            "The engine's socket belongs to another user: join its group (sudo usermod -aG docker"
            " $USER, then log in again), or use your own engine (rootless Docker or Podman) with"
            " DOCKER_HOST or --engine."
        )
    if "no answer in time" in problem:
        return (
            "The engine accepts connections and does not answer. Read its log, and restart it if"
            " this lasts."
        )
    return "Start the container engine; 'podtui doctor' lists the places that were tried."


def _engine(facts: Facts) -> Match | None:
    ready = _ready(facts)
    if ready is None or ready.status == "True" or is_finished(facts.pod):
        return None
    text = ready.message or ready.reason or "no reason is given"
    return Match({"text": text, "advice": engine_advice(text, ready.reason)})


# --- termination of the whole pod


def _ended(*reasons: str) -> Callable[[Facts], Match | None]:
    def match(facts: Facts) -> Match | None:
        status = facts.pod.status
        if status.phase != "Failed" or status.reason not in reasons:
            return None
        seconds = facts.pod.spec.activeDeadlineSeconds
        return Match({"text": status.message.strip(), "seconds": str(seconds or 0)})

    return match


def _exceeded_storage_limit(facts: Facts) -> Match | None:
    """Match an eviction because the pod itself exceeded a limit of local storage."""
    ended = _ended("Evicted")(facts)
    match = _STORAGE.search(facts.pod.status.message) if ended is not None else None
    if ended is None or match is None:
        return None
    volumes = [volume.name for volume in facts.pod.spec.volumes]
    names = [container.name for container in facts.pod.spec.containers]
    path: Path = ("spec", "containers")
    if match["volume"] in volumes:
        path = ("spec", "volumes", volumes.index(match["volume"]), "emptyDir", "sizeLimit")
    elif match["container"] in names:
        index = names.index(match["container"])
        path = (*path, index, "resources", "limits", "ephemeral-storage")
    return Match(ended.values, path)


def _raise_deadline(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    path: Path = ("spec", "activeDeadlineSeconds")
    seconds = facts.pod.spec.activeDeadlineSeconds
    if seconds:
        yield Fix(f"Allow twice as long: {2 * seconds} s", source.set(path, 2 * seconds))
    edit = source.remove(path)
    if edit is not None:
        yield Fix("Remove activeDeadlineSeconds", (edit,))


def _terminating(facts: Facts) -> Match | None:
    pod = facts.pod
    if not is_terminating(pod) or is_finished(pod):
        return None
    grace = pod.metadata.deletionGracePeriodSeconds or pod.spec.terminationGracePeriodSeconds or 30
    left = [case.name for case in cases(facts) if case.running]
    hook = newest(pod_events(facts, "FailedPreStopHook"))
    values = {
        "grace": str(grace),
        "left": f"{', '.join(left)} to exit" if left else "its volumes and network to be removed",
        "hook": "Its preStop hook failed; it is stopped anyway." if hook else "",
    }
    finalizers = ", ".join(pod.metadata.finalizers)
    values["finalizers"] = f"Finalizers keep its record: {finalizers}." * bool(finalizers)
    return Match(values)


def _stop_failed(facts: Facts) -> Match | None:
    """Match a pod that was to stop and has not stopped, because the engine failed to stop it."""
    failed = newest(pod_events(facts, "FailedKillPod"))
    stopping = newest(pod_events(facts, "Killing"))
    if failed is None or stopping is None or not is_terminating(facts.pod):
        return None
    if is_finished(facts.pod) or (epoch(last_seen(failed)) or 0) < (
        epoch(first_seen(stopping)) or 0
    ):
        return None
    return Match({"text": failed.message.removeprefix("error killing pod: ").strip()})


def _held_by_finalizers(facts: Facts) -> Match | None:
    """Match a deleted pod that has ended; only its record is left."""
    meta = facts.pod.metadata
    if not is_terminating(facts.pod) or not is_finished(facts.pod) or not meta.finalizers:
        return None
    return Match(
        {
            "finalizers": ", ".join(meta.finalizers),
            "name": meta.name,
            "namespace": meta.namespace or "default",
        }
    )


def _shorten_grace(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    grace = facts.pod.spec.terminationGracePeriodSeconds or 30
    if grace > 5:
        edits = source.set(("spec", "terminationGracePeriodSeconds"), 5)
        yield Fix("Shorten terminationGracePeriodSeconds to 5 for the next time", edits)


def _old_version(facts: Facts) -> Match | None:
    """Match a pod with the same name that has not terminated yet: the new version waits for it."""
    status = facts.pod.status
    if status.phase not in ("", "Pending") or status.containerStatuses or status.conditions:
        return None
    old = facts.node_pods.namesake(facts.pod)
    stopping = newest(pod_events(facts, "Killing"))
    if old is None and stopping is None:
        return None
    grace = (old or facts.pod).spec.terminationGracePeriodSeconds
    return Match({"grace": str(grace if grace is not None else 30)})


# --- remaining causes when all containers are healthy


def _gate(facts: Facts) -> Match | None:
    for item in facts.pod.status.conditions:
        if item.type == "Ready" and item.reason == "ReadinessGatesNotReady":
            gates = [gate.conditionType for gate in facts.pod.spec.readinessGates]
            index = next((i for i, gate in enumerate(gates) if f'"{gate}"' in item.message), 0)
            name = gates[index] if gates else ""
            return Match({"gate": name}, ("spec", "readinessGates", index, "conditionType"))
    return None


def _remove_gates(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    edit = source.remove(("spec", "readinessGates"))
    if edit is not None:
        yield Fix("Remove the readiness gates", (edit,))


def _failed(facts: Facts) -> Match | None:
    status = facts.pod.status
    text = status.message or status.reason or "no reason is given"
    return Match({"text": text}) if status.phase == "Failed" else None


def _done(facts: Facts) -> Match | None:
    return Match() if pod_health(facts.pod, facts.now).health is Health.COMPLETED else None


def _recovering(facts: Facts) -> Match | None:
    """Match a recent restart without a known cause."""
    state = pod_health(facts.pod, facts.now)
    if state.until is None:
        return None
    left = short_duration(state.until - facts.now)
    return Match({"name": state.container, "left": left})


def _healthy(facts: Facts) -> Match | None:
    if pod_health(facts.pod, facts.now).health is not Health.RUNNING:
        return None
    count = len(facts.pod.spec.containers)
    ready = sum(status.ready for status in facts.pod.status.containerStatuses)
    all_of = "its container is ready" if count == 1 else f"{count} of {count} containers are ready"
    if ready < count:
        all_of = f"{ready} of {count} containers are ready, the others completed"
    problem = facts.pod.metadata.annotations.get(MIRROR_PROBLEM, "")
    mirror = f"Its mirror pod in the cluster: {problem.rstrip('.')}." if problem else ""
    return Match({"all": all_of, "mirror": mirror, "simulated": _simulated(facts)})


def _mirror(facts: Facts) -> Match | None:
    """Match a static pod whose mirror pod the cluster refuses."""
    how, _, text = facts.pod.metadata.annotations.get(MIRROR_PROBLEM, "").partition(": ")
    if how != "refused":
        return None
    missing = _NO_NAMESPACE.search(text)
    advice, path = "Change what the message names, in the manifest or in the cluster.", None
    if missing is not None:
        advice = f"Create the namespace: kubectl create namespace {missing[1]}"
        path = ("metadata", "namespace")
    return Match({"text": text.rstrip("."), "advice": advice}, path)


def _simulated(facts: Facts) -> str:
    info = facts.node.status.nodeInfo if facts.node is not None else None
    memory = info is not None and info.containerRuntimeVersion.startswith("memory://")
    return "SIMULATED: the engine runs no programs." if memory else ""


def _starting(facts: Facts) -> Match | None:
    waits = [c.message for c in facts.pod.status.conditions if c.status == "False" and c.message]
    text = waits[-1] if waits else "its first status has not been written yet"
    return Match({"text": text, "simulated": _simulated(facts)})


ENGINE: Rule[Facts] = Rule(
    id="EngineLost",
    match=_engine,
    title="The node is not ready: {text}",
    brief="node not ready: {text}",
    sentences=(
        "The pod is shown in its last known state. Its containers may still run.",
        "podtui continues with them when the engine answers.",
    ),
    advice="{advice}",
    kind=Kind.FAILURE,
    docs=_DOCS + "concepts/architecture/nodes/#condition",
)
TERMINATIONS: tuple[Rule[Facts], ...] = (
    Rule(
        id="DeadlineExceeded",
        match=_ended("DeadlineExceeded"),
        title="It ran longer than activeDeadlineSeconds allows ({seconds} s), and was stopped.",
        brief="ran longer than {seconds} s",
        field=("spec", "activeDeadlineSeconds"),
        events=("DeadlineExceeded", "Killing"),
        fixes=_raise_deadline,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/",
    ),
    Rule(
        id="StorageLimit",
        match=_exceeded_storage_limit,
        title="It was evicted: {text}",
        brief="evicted: {text}",
        sentences=("An evicted pod is not started again.",),
        advice="Raise the limit, or write less; then delete the pod and create it again.",
        events=("Evicted",),
        docs=_DOCS + "concepts/storage/ephemeral-storage/",
    ),
    Rule(
        id="Evicted",
        match=_ended("Evicted"),
        title="It was evicted: {text}",
        brief="evicted: {text}",
        advice="Free the scarce resource; raise its requests to its usage, so it is evicted last.",
        field=("spec", "containers"),
        events=("Evicted",),
        docs=_DOCS + "concepts/scheduling-eviction/node-pressure-eviction/",
    ),
    Rule(
        id="Preempted",
        match=_ended("Preempting"),
        title="It was preempted by a pod of higher priority.",
        brief="preempted by higher priority",
        advice="Give it a higher spec.priority, or free resources for both.",
        field=("spec", "priority"),
        events=("Preempting", "Killing"),
        docs=_DOCS + "concepts/scheduling-eviction/pod-priority-preemption/",
    ),
    Rule(
        id="ShutDown",
        match=_ended("Terminated", "NodeShutdown"),
        title="It was stopped because the machine was shutting down.",
        brief="machine was shut down",
        events=("Killing",),
        docs=_DOCS + "concepts/cluster-administration/node-shutdown/",
    ),
    Rule(
        id="HeldByFinalizers",
        match=_held_by_finalizers,
        title="It was deleted and has ended; finalizers keep its record: {finalizers}.",
        sentences=("The component that set a finalizer removes it when its work is done.",),
        advice="If that component is gone: kubectl patch pod {name} -n {namespace} -p"
        ' \'{{"metadata":{{"finalizers":null}}}}\'',
        field=("metadata", "finalizers"),
        events=("Killing",),
        kind=Kind.TERMINATION,
        docs=_DOCS + "concepts/overview/working-with-objects/finalizers/",
    ),
    Rule(
        id="StopFailed",
        match=_stop_failed,
        title="It is terminating, but the last attempt to stop it failed: {text}",
        brief="stop failed: {text}",
        sentences=("The kubelet tries again. Its containers may still run.",),
        advice="If the attempts go on failing, read the engine's log.",
        events=("Killing", "FailedKillPod"),
        kind=Kind.TERMINATION,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/#pod-termination",
    ),
    Rule(
        id="Terminating",
        match=_terminating,
        title="It is terminating and waits for {left}.",
        sentences=(
            "Containers have {grace} s to exit after SIGTERM; then they are killed.",
            "{hook}",
            "{finalizers}",
        ),
        field=("spec", "terminationGracePeriodSeconds"),
        events=("Killing", "FailedPreStopHook", "FailedKillPod", "ExceededGracePeriod"),
        kind=Kind.TERMINATION,
        fixes=_shorten_grace,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/#pod-termination",
    ),
    Rule(
        id="WaitsForOldVersion",
        match=_old_version,
        title="It waits for the previous version to terminate.",
        sentences=(
            "Two versions of one pod never run at once; the old one gets {grace} s to stop.",
        ),
        field=("spec", "terminationGracePeriodSeconds"),
        events=("Killing", "FailedKillPod"),
        kind=Kind.WAIT,
        fixes=_shorten_grace,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/#pod-termination",
    ),
)
REMAINING: tuple[Rule[Facts], ...] = (
    Rule(
        id="ReadinessGate",
        match=_gate,
        title="All containers are ready, but the readiness gate {gate} is not.",
        brief="readiness gate {gate}",
        sentences=("An external component must set that condition through the API.",),
        advice="Remove the gate, or run the component that sets it.",
        fixes=_remove_gates,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/#pod-readiness-gate",
    ),
    Rule(
        id="Failed",
        match=_failed,
        title="It has failed: {text}",
        brief="failed: {text}",
        field=("spec",),
    ),
    Rule(
        id="Succeeded",
        match=_done,
        title="It succeeded: every container exited with code 0.",
        kind=Kind.COMPLETION,
    ),
    Rule(
        id="Recovering",
        match=_recovering,
        title="{name} runs again after a restart; it counts as healthy in {left}.",
        brief="runs again, healthy in {left}",
        events=("SandboxChanged", "Killing", "Started"),
        kind=Kind.WAIT,
    ),
    Rule(
        id="MirrorRefused",
        match=_mirror,
        title="The cluster refuses its mirror pod: {text}.",
        brief="no mirror pod: {text}",
        sentences=("It runs here, but the cluster and its scheduler do not know of it.",),
        advice="{advice}",
        field=("metadata", "name"),
        docs=_DOCS + "tasks/configure-pod-container/static-pod/",
    ),
    Rule(
        id="Healthy",
        match=_healthy,
        title="It is healthy: {all}.",
        sentences=("{mirror}", "{simulated}"),
        kind=Kind.NONE,
    ),
    Rule(
        id="OnItsWay",
        match=_starting,
        title="It is starting: {text}.",
        sentences=("{simulated}",),
        events=("Pulling", "Pulled", "Created", "Started", "SandboxChanged"),
        kind=Kind.WAIT,
    ),
)
