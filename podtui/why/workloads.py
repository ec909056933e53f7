"""Diagnoses of Deployments, ReplicaSets, ReplicationControllers, StatefulSets and DaemonSets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.health import Health
from podtui.api.pods import is_finished, is_true
from podtui.api.selectors import node_matches, tolerates
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import Node, Pod, PodSpec, ReplicationController, Taint, Toleration
from podtui.text.terminal_text import plural
from podtui.why.claims import with_claims
from podtui.why.inventory import Inventory, object_name
from podtui.why.node_labels import label_command, labels_to_fit
from podtui.why.refusals import read_refusal
from podtui.why.types import Diagnosis, Evidence, Kind, Part

_DOCS: Final = "https://kubernetes.io/docs/concepts/workloads/controllers/"
MAX_PARTS: Final = 4
MAX_NAMES: Final = 4
_TEMPLATE_HASH: Final = "pod-template-hash"
_REVISION: Final = "controller-revision-hash"
_FAILED_CREATE: Final = "FailedCreate"
_CREATED: Final = "SuccessfulCreate"
_DAEMON_TOLERATIONS: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""The tolerations that the controller adds to the pods of every DaemonSet."""


# --- pods


def name_list(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    shown = ", ".join(names[:MAX_NAMES])
    rest = len(names) - MAX_NAMES
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def part_of(inventory: Inventory, pods: Iterable[Pod]) -> tuple[Part, ...]:
    """Return the diagnoses of the pods that are not fine, failures first, one for each cause."""
    groups: dict[tuple[str, str, str], list[tuple[str, Diagnosis]]] = {}
    for pod in pods:
        diagnosis = with_claims(inventory, pod, inventory.pod_diagnosis(pod))
        if is_fine(diagnosis):
            continue
        same = (diagnosis.cause, diagnosis.container, diagnosis.brief)
        groups.setdefault(same, []).append((object_name(pod), diagnosis))
    ordered = sorted(groups.values(), key=lambda group: group[0][1].kind is not Kind.FAILURE)
    return tuple(
        Part(group[0][0], group[0][1], tuple(name for name, _ in group[1:]))
        for group in ordered[:MAX_PARTS]
    )


def is_fine(diagnosis: Diagnosis) -> bool:
    return diagnosis.kind in (Kind.NONE, Kind.COMPLETION, Kind.TERMINATION)


def has_failure(parts: Iterable[Part]) -> bool:
    return any(part.diagnosis.kind is Kind.FAILURE for part in parts)


def alive(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that count as replicas: they have not ended, and are not being deleted."""
    return [pod for pod in pods if not pod.metadata.deletionTimestamp and not is_finished(pod)]


def is_available(pod: Pod, seconds: int | None, now: float) -> bool:
    """Return whether a pod has been ready for ``minReadySeconds``."""
    if not is_true(pod, "Ready"):
        return False
    ready = next(c for c in pod.status.conditions if c.type == "Ready")
    since = epoch(ready.lastTransitionTime)
    return not seconds or since is None or now - since >= seconds


# --- causes that several kinds share


def deleting(item: Any) -> Diagnosis | None:
    """Explain an object that is being deleted."""
    meta = item.metadata
    if not meta.deletionTimestamp:
        return None
    finalizers = ", ".join(meta.finalizers)
    waits = f"It waits for its finalizers: {finalizers}." if finalizers else ""
    return Diagnosis(
        cause="Deleting",
        kind=Kind.TERMINATION,
        health=Health.TERMINATING,
        state="terminating",
        title="It is being deleted.",
        sentences=(waits,) if waits else (),
        docs="https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/",
    )


def unobserved(item: Any) -> Diagnosis | None:
    """Explain a change that the controller has not seen."""
    observed, generation = item.status.observedGeneration, item.metadata.generation
    if not generation or (observed or 0) >= generation:
        return None
    return Diagnosis(
        cause="NotObserved",
        kind=Kind.WAIT,
        health=Health.PENDING,
        state="waiting for its controller",
        title="Its controller has not seen its latest change.",
        sentences=("If this persists, the controller does not run.",),
        advice="Check that enableControllers is not false (podtui config).",
    )


def refused(inventory: Inventory, item: Any, message: str, evidence: tuple[Evidence, ...] = ()
            ) -> Diagnosis:  # fmt: skip
    """Explain that the API server refuses the pods of an object."""
    refusal = read_refusal(inventory, item.metadata.namespace, message)
    return Diagnosis(
        cause=refusal.cause,
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="failing",
        title=f"Its pods cannot be created: {refusal.title.rstrip('.')}.",
        brief=refusal.title,
        sentences=(*refusal.sentences, "The controller tries again with back-off."),
        evidence=evidence[-2:] or (Evidence("state", message, warning=True),),
        advice=refusal.advice,
    )


def failed_create(inventory: Inventory, item: Any) -> Diagnosis | None:
    """Explain pods that could not be created, if no pod was created since."""
    events = inventory.events(item, _FAILED_CREATE, _CREATED)
    if not events or events[-1].reason != _FAILED_CREATE:
        return None
    message = events[-1].message.strip()
    return refused(inventory, item, message, inventory.evidence(item, _FAILED_CREATE))


def as_desired(title: str, *sentences: str, state: str = "as desired",
               health: Health = Health.RUNNING) -> Diagnosis:  # fmt: skip
    return Diagnosis(
        cause="AsDesired",
        kind=Kind.NONE,
        health=health,
        state=state,
        title=title,
        sentences=tuple(filter(None, sentences)),
    )


def _belongs(inventory: Inventory, item: Any) -> str:
    owner = inventory.owner(item)
    return f"It belongs to {object_name(owner)}." if owner is not None else ""


def _replicas(item: Deployment | ReplicaSet | ReplicationController | StatefulSet) -> int:
    return 1 if item.spec.replicas is None else item.spec.replicas


def _unfinished(
    cause: str,
    title: str,
    parts: tuple[Part, ...],
    *,
    sentences: Iterable[str] = (),
    evidence: tuple[Evidence, ...] = (),
    advice: str = "",
    state: str = "",
    docs: str = "",
) -> Diagnosis:
    """Return the diagnosis of a workload whose pods are not all available: a failure if one of
    them fails."""
    fails = has_failure(parts)
    return Diagnosis(
        cause=cause,
        kind=Kind.FAILURE if fails else Kind.WAIT,
        health=Health.FAILING if fails else Health.NOT_READY,
        state="failing" if fails else state,
        title=title,
        brief=parts[0].diagnosis.brief or parts[0].diagnosis.title if fails else "",
        sentences=tuple(filter(None, sentences)),
        evidence=evidence,
        advice=advice,
        parts=parts,
        docs=docs,
    )


# --- Deployments


def diagnose_deployment(inventory: Inventory, item: Deployment) -> Diagnosis:
    early = deleting(item) or unobserved(item)
    if early is not None:
        return early
    conditions = {condition.type: condition for condition in item.status.conditions}
    sets = inventory.owned(ReplicaSet, item)
    newest = _newest(item, sets)
    pods = {s.metadata.uid: inventory.owned(Pod, s) for s in sets}
    failure = conditions.get("ReplicaFailure")
    if failure is not None and failure.status == "True":
        of_sets = [e for s in sets for e in inventory.evidence(s, _FAILED_CREATE)]
        return refused(inventory, item, failure.message, tuple(of_sets))
    progress = conditions.get("Progressing")
    if progress is not None and progress.reason == "ReplicaSetCreateError":
        return refused(inventory, item, progress.message)
    wanted, status = _replicas(item), item.status
    updated, available = status.updatedReplicas or 0, status.availableReplicas or 0
    total = status.replicas or 0
    complete = updated == total == available == wanted
    counts = (
        f"{updated} of {plural(wanted, 'pod')} updated, {available} available"
        + (f", {total - updated} of an earlier revision" if total > updated else "")
        + "."
    )
    new_pods = pods.get(newest.metadata.uid, []) if newest is not None else []
    new_parts = part_of(inventory, alive(new_pods))
    other = [pod for s in sets if s is not newest for pod in pods[s.metadata.uid]]
    parts = (*new_parts, *part_of(inventory, alive(other)))[:MAX_PARTS]
    if progress is not None and progress.reason == "ProgressDeadlineExceeded":
        return _stuck(inventory, item, newest, progress.message, counts, parts)
    if item.spec.paused and not complete:
        return Diagnosis(
            cause="Paused",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="paused",
            title="It is paused: changes of its pod template are not rolled out.",
            brief="paused",
            sentences=(counts,),
            advice=f"kubectl rollout resume {_ref(item)}",
            parts=parts,
            docs=_DOCS + "deployment/#pausing-and-resuming-a-deployment",
        )
    if complete:
        if not wanted:
            return as_desired("It is scaled to 0.", state="scaled to 0")
        all_of = "The pod is" if wanted == 1 else f"All {wanted} pods are"
        paused = "It is paused: changes of its pod template are not rolled out."
        return as_desired(f"{all_of} up to date and available.", paused if item.spec.paused else "")
    ending = [pod for pod in other if pod.metadata.deletionTimestamp]
    if item.spec.strategy.type == "Recreate" and ending and not alive(new_pods):
        names = name_list([pod.metadata.name for pod in ending])
        return Diagnosis(
            cause="RecreateWaits",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="rolling out",
            title="Its strategy is Recreate: new pods are created when the earlier ones are gone.",
            brief="waits for terminating pods",
            sentences=(f"Still terminating: {names}.", *_longest_grace(ending, inventory.now)),
            parts=tuple(
                Part(object_name(pod), inventory.pod_diagnosis(pod)) for pod in ending[:MAX_PARTS]
            ),
            docs=_DOCS + "deployment/#recreate-deployment",
        )
    revision = newest is not None and total > updated
    what = "It is rolling out a new revision" if revision else "Not all of its pods are available"
    return _unfinished(
        "RollingOut" if revision else "FewerAvailable",
        f"{what}: {counts}",
        parts,
        sentences=(
            *_still_waiting(inventory, new_pods, item.spec.minReadySeconds),
            _deadline(item, progress.lastUpdateTime if progress else None, inventory.now),
        ),
        state="rolling out" if revision else "not available",
        docs=_DOCS + "deployment/#deployment-status",
    )


def _ref(item: Any) -> str:
    return f"{object_name(item)} -n {item.metadata.namespace}"


def _newest(item: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the ReplicaSet of the current pod template: the one with the highest revision."""

    def revision(candidate: ReplicaSet) -> int:
        text = candidate.metadata.annotations.get("deployment.kubernetes.io/revision", "")
        return int(text) if text.isdecimal() else 0

    return max(sets, key=revision, default=None)


def _stuck(
    inventory: Inventory,
    item: Deployment,
    newest: ReplicaSet | None,
    message: str,
    counts: str,
    parts: tuple[Part, ...],
) -> Diagnosis:
    seconds = item.spec.progressDeadlineSeconds or 0
    pods = inventory.owned(Pod, newest) if newest is not None else []
    old = (item.status.replicas or 0) - (item.status.updatedReplicas or 0)
    back = f" or go back to the earlier revision: kubectl rollout undo {_ref(item)}" if old else ""
    return Diagnosis(
        cause="ProgressDeadlineExceeded",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="failing",
        title=f"The rollout is stuck: no progress within progressDeadlineSeconds ({seconds} s).",
        brief=(parts[0].diagnosis.brief if parts else "") or "rollout is stuck",
        sentences=tuple(
            filter(
                None,
                (
                    counts,
                    *_still_waiting(inventory, pods, item.spec.minReadySeconds),
                    "The pods of the earlier revision keep running." if old else "",
                ),
            )
        ),
        evidence=(
            Evidence("state", f"Progressing: ProgressDeadlineExceeded: {message}", warning=True),
        ),
        advice=f"Correct the pod template{f',{back}' if back else '.'}",
        parts=parts,
        docs=_DOCS + "deployment/#failed-deployment",
    )


def _still_waiting(
    inventory: Inventory, pods: Iterable[Pod], min_ready: int | None
) -> tuple[str, ...]:
    """Return a sentence about pods that are ready, but not yet available."""
    if not min_ready:
        return ()
    waiting = [
        pod.metadata.name
        for pod in alive(pods)
        if is_true(pod, "Ready") and not is_available(pod, min_ready, inventory.now)
    ]
    if not waiting:
        return ()
    verbs = "is ready, and counts" if len(waiting) == 1 else "are ready, and count"
    return (f"{name_list(waiting)} {verbs} as available after minReadySeconds ({min_ready} s).",)


def _deadline(item: Deployment, since: str | None, now: float) -> str:
    began, seconds = epoch(since), item.spec.progressDeadlineSeconds
    if began is None or seconds is None or seconds >= 2**31 - 1:
        return ""
    left = began + seconds - now
    return f"The progress deadline is in {short_duration(left)}." if left > 0 else ""


def _longest_grace(pods: Iterable[Pod], now: float) -> tuple[str, ...]:
    ends = [epoch(pod.metadata.deletionTimestamp) for pod in pods]
    left = max((end - now for end in ends if end is not None), default=0.0)
    if left <= 0:
        return ()
    return (f"Their grace period ends in {short_duration(left)}.",)


# --- ReplicaSets


def diagnose_replica_set(
    inventory: Inventory, item: ReplicaSet | ReplicationController
) -> Diagnosis:
    early = deleting(item) or unobserved(item)
    if early is not None:
        return early
    failure = next((c for c in item.status.conditions if c.type == "ReplicaFailure"), None)
    if failure is not None and failure.status == "True":
        evidence = inventory.evidence(item, _FAILED_CREATE)
        return refused(inventory, item, failure.message, evidence)
    wanted, available = _replicas(item), item.status.availableReplicas or 0
    belongs = _belongs(inventory, item)
    if wanted == available == item.status.replicas:
        if not wanted:
            earlier = isinstance(inventory.owner(item), Deployment)
            why = "It is scaled to 0: an earlier revision." if earlier else "It is scaled to 0."
            return as_desired(why, belongs, state="scaled to 0")
        all_of = "The pod is" if wanted == 1 else f"All {wanted} pods are"
        return as_desired(f"{all_of} available.", belongs)
    pods = inventory.owned(Pod, item)
    return _unfinished(
        "FewerAvailable",
        f"{available} of {plural(wanted, 'pod')} available, {item.status.replicas} exist.",
        part_of(inventory, alive(pods)),
        sentences=(belongs, *_still_waiting(inventory, pods, item.spec.minReadySeconds)),
        state="not available",
        docs=_DOCS + "replicaset/",
    )


# --- StatefulSets


def diagnose_stateful_set(inventory: Inventory, item: StatefulSet) -> Diagnosis:
    early = deleting(item) or unobserved(item) or failed_create(inventory, item)
    if early is not None:
        return early
    pods = {ordinal(pod): pod for pod in inventory.owned(Pod, item)}
    wanted = _replicas(item)
    first = item.spec.ordinals.start or 0 if item.spec.ordinals is not None else 0
    ordinals = range(first, first + wanted)
    name, ordered = item.metadata.name, item.spec.podManagementPolicy != "Parallel"
    seconds, now = item.spec.minReadySeconds, inventory.now
    waiting = [
        n for n in ordinals
        if n not in pods or pods[n].metadata.deletionTimestamp
        or not is_available(pods[n], seconds, now)
    ]  # fmt: skip
    surplus = [n for n in sorted(pods) if n not in ordinals]
    if waiting:
        return _unavailable_ordinals(inventory, item, pods, waiting, ordered=ordered)
    if surplus:
        unready = [pods[n] for n in surplus if not is_available(pods[n], seconds, now)]
        if ordered and unready and pods[surplus[-1]] in unready[1:]:
            lowest, highest = unready[0], unready[-1]
            if not lowest.metadata.deletionTimestamp and not highest.metadata.deletionTimestamp:
                return _blocked_end(inventory, item, highest, lowest)
        names = name_list([f"{name}-{n}" for n in reversed(surplus)])
        order = "They end one after the other, the highest number first." if ordered else ""
        return Diagnosis(
            cause="ScalingDown",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="scaling down",
            title=f"It is scaling down to {plural(wanted, 'pod')}: {names} still to end.",
            sentences=(order,) if order else (),
            parts=part_of(inventory, [pods[n] for n in surplus]),
        )
    outdated = [n for n in ordinals if pods[n].metadata.labels.get(_REVISION)
                != item.status.updateRevision] if item.status.updateRevision else []  # fmt: skip
    if outdated:
        return _outdated(item, outdated)
    if not wanted:
        return as_desired("It is scaled to 0.", state="scaled to 0")
    all_of = "The pod is" if wanted == 1 else f"All {wanted} pods are"
    return as_desired(f"{all_of} up to date and available.")


def ordinal(pod: Pod) -> int:
    """Return the number in the name of a StatefulSet's pod; -1 if there is none."""
    match = re.search(r"-(\d+)$", pod.metadata.name)
    return int(match[1]) if match is not None else -1


def _unavailable_ordinals(
    inventory: Inventory,
    item: StatefulSet,
    pods: dict[int, Pod],
    waiting: Sequence[int],
    *,
    ordered: bool,
) -> Diagnosis:
    name, wanted = item.metadata.name, _replicas(item)
    there = [pods[n] for n in waiting if n in pods]
    parts = part_of(inventory, there)
    missing = [n for n in waiting if n not in pods]
    first = f"{name}-{waiting[0]}"
    sentences: list[str] = []
    count = f"{wanted - len(waiting)} of {plural(wanted, 'pod')} available"
    if ordered and there and missing:
        title = f"It waits for the pod {first} ({count})."
        names = name_list([f"{name}-{n}" for n in missing])
        sentences.append(
            f"podManagementPolicy is OrderedReady: {names} will be created, one after the other,"
            f" once {first} is available."
        )
    elif missing and not there:
        title = f"The pod {first} does not exist yet ({count})."
    else:
        title = f"Not all of its pods are available: {count}."
    sentences += _still_waiting(inventory, there, item.spec.minReadySeconds)
    revision = item.status.updateRevision
    stale = [
        pod.metadata.name
        for pod in there
        if revision and pod.metadata.labels.get(_REVISION) not in ("", revision)
    ]
    advice = ""
    if stale and ordered and has_failure(parts):
        sentences.append(f"{name_list(stale)} still has the pod template of an earlier revision.")
        advice = (
            "A pod that does not become ready may keep the update from reaching it; delete it:"
            f" kubectl delete pod {stale[0]} -n {item.metadata.namespace}"
        )
    return _unfinished(
        "OrderedWait" if ordered and there and missing else "FewerAvailable",
        title,
        parts,
        sentences=sentences,
        advice=advice,
        state="not available",
        docs=_DOCS + "statefulset/#deployment-and-scaling-guarantees",
    )


def _blocked_end(inventory: Inventory, item: StatefulSet, highest: Pod, lowest: Pod) -> Diagnosis:
    """Of pods that are to end, the highest one and a lower one are not available."""
    high, low = highest.metadata.name, lowest.metadata.name
    return _unfinished(
        "ScaleDownBlocked",
        f"It cannot scale down to {plural(_replicas(item), 'pod')}: neither {high} nor {low} is"
        " available.",
        part_of(inventory, [lowest, highest]),
        sentences=[
            "Its controller ends a pod that is not available only if all lower ones are available."
        ],
        advice=f"Delete it: kubectl delete pod {low} -n {item.metadata.namespace}",
        state="scaling down",
        docs=_DOCS + "statefulset/#deployment-and-scaling-guarantees",
    )


def _outdated(item: StatefulSet, outdated: Sequence[int]) -> Diagnosis:
    name = item.metadata.name
    names = name_list([f"{name}-{n}" for n in outdated])
    strategy = item.spec.updateStrategy
    if strategy.type == "OnDelete":
        return Diagnosis(
            cause="OnDelete",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="not updated",
            title=f"Its strategy is OnDelete: {names} keep the earlier template until you delete"
            " them.",
            brief="pods to delete for the update",
            advice=f"kubectl delete pod {name}-{outdated[-1]} -n {item.metadata.namespace}",
            docs=_DOCS + "statefulset/#on-delete",
        )
    rolling = strategy.rollingUpdate
    partition = rolling.partition or 0 if rolling is not None else 0
    if all(n < partition for n in outdated):
        return as_desired(
            f"Its pods are available; {names} keep the earlier template because of the partition"
            f" {partition}.",
            state="partitioned",
        )
    return Diagnosis(
        cause="RollingOut",
        kind=Kind.WAIT,
        health=Health.NOT_READY,
        state="rolling out",
        title=f"It is rolling out a new revision: {names} to be updated, the highest number first.",
        docs=_DOCS + "statefulset/#rolling-updates",
    )


# --- DaemonSets


def diagnose_daemon_set(inventory: Inventory, item: DaemonSet) -> Diagnosis:
    early = deleting(item) or unobserved(item) or failed_create(inventory, item)
    if early is not None:
        return early
    status, pods = item.status, inventory.owned(Pod, item)
    wanted, available = status.desiredNumberScheduled, status.numberAvailable or 0
    obstacles = {
        node.metadata.name: node_obstacle(item.spec.template.spec, node)
        for node in inventory.list(Node)
    }
    unfit = {node: why for node, why in obstacles.items() if why}
    others = tuple(f"No pod on {node}: {why}." for node, why in [*unfit.items()][:MAX_NAMES])
    if not wanted:
        return _nowhere(inventory, item, others)
    updated = status.updatedNumberScheduled or 0
    parts = part_of(inventory, alive(pods))
    nodes = plural(wanted, "node")
    if available < wanted:
        return _unfinished(
            "FewerAvailable",
            f"Its pods are available on {available} of {nodes}.",
            parts,
            sentences=(*_still_waiting(inventory, pods, item.spec.minReadySeconds), *others),
            state="not available",
            docs=_DOCS + "daemonset/",
        )
    if updated < wanted:
        on_delete = item.spec.updateStrategy.type == "OnDelete"
        how = (
            "Its strategy is OnDelete: a pod is updated when you delete it"
            if on_delete
            else "It is rolling out a new revision"
        )
        return _unfinished(
            "OnDelete" if on_delete else "RollingOut",
            f"{how}: updated on {updated} of {nodes}.",
            parts,
            sentences=others,
            state="not updated" if on_delete else "rolling out",
            docs="https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/",
        )
    if wanted == 1:
        return as_desired("Its pod is up to date and available.", *others)
    return as_desired(f"Its pods are up to date and available on {nodes}.", *others)


def _nowhere(inventory: Inventory, item: DaemonSet, others: tuple[str, ...]) -> Diagnosis:
    nodes = inventory.list(Node)
    advice, wanted = "", ()
    if len(nodes) == 1:
        pod = Pod(metadata=item.spec.template.metadata, spec=item.spec.template.spec)
        wanted = labels_to_fit(pod, nodes[0])
        if wanted:
            advice = label_command(nodes[0], wanted)
    return Diagnosis(
        cause="NoNodeFits",
        kind=Kind.WAIT,
        health=Health.PENDING,
        state="no node fits",
        title="It has no pods: no node fits." if nodes else "It has no pods: there is no node.",
        brief="no node fits",
        sentences=others,
        advice=advice,
        node_labels=wanted,
        docs=_DOCS + "daemonset/#running-pods-on-select-nodes",
    )


def node_obstacle(spec: PodSpec, node: Node) -> str:
    """Return why a DaemonSet has no pod on a node: its selector or a taint; empty if it fits."""
    labels = node.metadata.labels
    lacking = [f"{key}={value}" for key, value in spec.nodeSelector.items()
               if labels.get(key) != value]  # fmt: skip
    if lacking:
        return f"the node lacks the label {', '.join(lacking)}"
    if not node_matches(Pod(spec=spec), node.metadata.name, labels):
        return "its node affinity excludes the node"
    tolerations = (*spec.tolerations, *_DAEMON_TOLERATIONS)
    taint = next((t for t in node.spec.taints if _excludes(t, tolerations)), None)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return f"it does not tolerate the taint {taint.key}{value}:{taint.effect}"
    return ""


def _excludes(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint)
