"""Simulate the admission of a pod without side effects: the verdict, the pods and programs that
block it, and the pods that would have to end.

The verdict comes from the kubelet's admission code (`podtui.kubelet.admission.predicates`,
kubelet.md §5). The rest helps the user to make room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from podtui.api.local import Lack, PodToRemove, PortHolder, WhatIf
from podtui.api.pod_resources import RequestsOf, pod_requests
from podtui.api.pods import host_ports, ports_clash
from podtui.api.v1 import ObjectMeta, Pod
from podtui.kubelet.admission.predicates import admit, lacks_of
from podtui.kubelet.admission.preemption import PODS
from podtui.kubelet.node.host import Listener
from podtui.kubelet.types import AdmitResult, NodeView

SETS_TRIED: Final = 5000
"""Maximum number of sets of one size to try."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that could end, and the resources that this would free."""

    key: str
    frees: Mapping[str, int]


def smallest_set(candidates: Iterable[Candidate], needs: Mapping[str, int]) -> tuple[str, ...]:
    """Return the keys of the smallest set of candidates that frees ``needs`` (amounts above zero).
    Among sets of the same size, prefer the one that frees the least beyond ``needs``. Return an
    empty tuple if all candidates together do not free enough.

    If there are too many sets to try, return a small set that may not be the smallest.
    """
    useful = [
        candidate
        for candidate in candidates
        if any(candidate.frees.get(name, 0) > 0 for name in needs)
    ]
    if not needs or not _covers(useful, needs):
        return ()
    greedy = _greedy(useful, needs)
    for size in range(1, len(greedy) + 1):
        if math.comb(len(useful), size) > SETS_TRIED:
            break
        enough = [some for some in combinations(useful, size) if _covers(some, needs)]
        if enough:
            best = min(
                enough,
                key=lambda some: (_excess(some, needs), [candidate.key for candidate in some]),
            )
            return tuple(candidate.key for candidate in best)
    return tuple(candidate.key for candidate in greedy)


def _freed(some: Iterable[Candidate], name: str) -> int:
    return sum(candidate.frees.get(name, 0) for candidate in some)


def _covers(some: Sequence[Candidate], needs: Mapping[str, int]) -> bool:
    return all(_freed(some, name) >= need for name, need in needs.items())


def _excess(some: Sequence[Candidate], needs: Mapping[str, int]) -> float:
    return sum(_freed(some, name) / need for name, need in needs.items())


def _greedy(useful: Sequence[Candidate], needs: Mapping[str, int]) -> list[Candidate]:
    """Add the most useful candidate until ``needs`` are covered, then drop the candidates that
    turned out to be unnecessary."""
    selected: list[Candidate] = []
    rest = list(useful)
    left = dict(needs)
    while left:
        best = max(
            rest,
            key=lambda candidate: sum(
                min(candidate.frees.get(name, 0), need) / need for name, need in left.items()
            ),
        )
        rest.remove(best)
        selected.append(best)
        left = {name: n for name, need in left.items() if (n := need - best.frees.get(name, 0)) > 0}
    for candidate in list(selected):
        others = [other for other in selected if other is not candidate]
        if _covers(others, needs):
            selected = others
    return selected


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionContext:
    """The node on which a pod is tried. ``active`` are the pods that count on the node,
    ``listeners`` the programs that occupy its ports."""

    node: NodeView
    active: Sequence[Pod]
    listeners: Sequence[Listener] = ()
    requests: RequestsOf = pod_requests
    gates: Mapping[str, bool] = field(default_factory=dict[str, bool])


def what_if(pod: Pod, context: AdmissionContext) -> WhatIf:
    """Try ``pod`` as if its manifest were in the manifest folder; nothing is changed."""
    others = [other for other in context.active if not _same_name(other, pod)]
    verdict = admit(pod, context.node, others, requests=context.requests, gates=context.gates)
    lacks = tuple(lacks_of(pod, context.node, others, context.requests))
    holders = tuple(_pod_holders(pod, others))
    programs = tuple(_programs(pod, context))
    leave = _pods_to_remove(lacks, holders, others, verdict, context.requests)
    return WhatIf(
        metadata=ObjectMeta(
            name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid
        ),
        admitted=verdict.admitted,
        reason=verdict.reason,
        message=verdict.message,
        replaces=len(others) < len(context.active),
        lacks=lacks,
        holders=(*holders, *programs),
        leave=leave,
        remarks=tuple(_remarks(verdict, lacks, programs, leave)),
    )


def _same_name(pod: Pod, other: Pod) -> bool:
    left, right = pod.metadata, other.metadata
    return (left.namespace, left.name) == (right.namespace, right.name)


def _pod_holders(pod: Pod, others: Iterable[Pod]) -> Iterator[PortHolder]:
    wanted = sorted(host_ports(pod))
    for other in others if wanted else ():
        for used in sorted(host_ports(other)):
            if any(ports_clash(port, used) for port in wanted):
                yield PortHolder(
                    protocol=used[0],
                    hostIP=used[1],
                    port=used[2],
                    namespace=other.metadata.namespace,
                    pod=other.metadata.name,
                )


def _programs(pod: Pod, context: AdmissionContext) -> Iterator[PortHolder]:
    """Yield the conflicting listeners that do not belong to a pod. `_pod_holders` covers ports that
    a pod declares."""
    wanted = host_ports(pod)
    of_pods = {port for other in context.active for port in host_ports(other)}
    seen: set[tuple[str, int, int | None]] = set()
    for listener in context.listeners:
        used = (listener.protocol, listener.ip, listener.port)
        key = (listener.protocol, listener.port, listener.pid)
        if key in seen or not any(ports_clash(port, used) for port in wanted):
            continue
        if any(ports_clash(port, used) for port in of_pods):
            continue
        seen.add(key)
        yield PortHolder(
            protocol=listener.protocol,
            hostIP=used[1],
            port=listener.port,
            process=listener.process,
            pid=listener.pid,
        )


def _pods_to_remove(
    lacks: Sequence[Lack],
    holders: Sequence[PortHolder],
    others: Sequence[Pod],
    verdict: AdmitResult,
    requests: RequestsOf,
) -> tuple[PodToRemove, ...]:
    """Return the pods that would have to end: all pods that hold a needed port, plus the fewest
    others that free the remaining resources."""
    if any(lack.exceeds_node for lack in lacks):
        return ()
    names = [lack.resource for lack in lacks]
    ports: dict[tuple[str, str], list[int]] = {}
    for holder in holders:
        ports.setdefault((holder.namespace, holder.pod), []).append(holder.port)
    frees = {
        pod.metadata.uid: {
            name: 1 if name == PODS else requests(pod).get(name, 0) for name in names
        }
        for pod in others
    }
    must = {pod.metadata.uid for pod in others if _full_name(pod) in ports}
    needs = {lack.resource: lack.missing - sum(frees[uid][lack.resource] for uid in must)
             for lack in lacks}  # fmt: skip
    needs = {name: need for name, need in needs.items() if need > 0}
    preempted = set(verdict.preempt)
    if verdict.admitted:
        gone = must | preempted
    else:
        free = (Candidate(uid, given) for uid, given in frees.items() if uid not in must)
        gone = must | set(smallest_set(free, needs))
    return tuple(
        PodToRemove(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            frees={name: n for name, n in frees[pod.metadata.uid].items() if n > 0},
            ports=tuple(sorted(set(ports.get(_full_name(pod), ())))),
            preempted=pod.metadata.uid in preempted,
        )
        for pod in others
        if pod.metadata.uid in gone
    )


def _full_name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def _remarks(
    verdict: AdmitResult,
    lacks: Sequence[Lack],
    programs: Sequence[PortHolder],
    leave: Sequence[PodToRemove],
) -> Iterator[str]:
    impossible = [lack.resource for lack in lacks if lack.exceeds_node]
    if impossible:
        names = " and ".join(impossible)
        yield f"It requests more {names} than the node can allocate to pods."
    if leave and not verdict.admitted and not lacks:
        yield "The kubelet preempts no pod because of a port."
    elif leave and not verdict.admitted:
        yield (
            "None of these would be preempted: a static pod is preempted only by a pod with a"
            " higher spec.priority, if both pods set it."
        )
    if leave and verdict.admitted:
        yield "The kubelet would preempt these pods to admit it."
    if not verdict.admitted and not leave and not lacks:
        yield "Removing other pods would not help."
    if programs and verdict.admitted:
        yield (
            "The kubelet does not check other programs: it would admit the pod, and its sandbox"
            " could not start while they have the port."
        )
    elif programs:
        yield "Other programs use ports that it needs: its sandbox could not start."
