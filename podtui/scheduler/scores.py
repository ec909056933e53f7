"""Score the feasible nodes for a pod: the scheduler's scores, normalised and
weighted as kube-scheduler does by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from podtui.api.selectors import node_term_matches, tolerates
from podtui.api.v1 import Pod
from podtui.scheduler.affinity import affinity_scores
from podtui.scheduler.filters import Pending
from podtui.scheduler.infos import NodeInfo, Snapshot, scored_requests
from podtui.scheduler.spread import spread_scores

_MIB: Final = 1024 * 1024
_LEAST_IMAGES: Final = 23 * _MIB
_MOST_PER_CONTAINER: Final = 1000 * _MIB
Scores = Mapping[str, int]
"""By node, from 0 to 100."""


def total_scores(
    pending: Pending, snapshot: Snapshot, feasible: Sequence[NodeInfo]
) -> dict[str, int]:
    """Return the sum of the weighted scores by node."""
    pod = pending.pod
    weighted: tuple[tuple[int, Scores | None], ...] = (
        (3, _taint_scores(pod, feasible)),
        (2, _node_affinity_scores(pod, feasible)),
        (1, _least_allocated(pod, feasible)),
        (2, spread_scores(pod, snapshot.nodes, feasible)),
        (2, affinity_scores(pending.info, snapshot, feasible)),
        (1, _balanced_allocation(pending, feasible)),
        (1, _image_locality(pod, snapshot, feasible)),
    )
    return {
        node.name: sum(weight * scores[node.name] for weight, scores in weighted if scores)
        for node in feasible
    }


def _normalised(raw: Scores, *, reverse: bool = False) -> Scores:
    most = max(raw.values())
    if not most:
        return dict.fromkeys(raw, 100 if reverse else 0)
    shares = {name: 100 * score // most for name, score in raw.items()}
    return {name: 100 - share for name, share in shares.items()} if reverse else shares


def _taint_scores(pod: Pod, nodes: Sequence[NodeInfo]) -> Scores:
    """Prefer nodes with few taints that the pod should avoid."""
    avoided = {
        node.name: sum(
            taint.effect == "PreferNoSchedule" and not tolerates(pod.spec.tolerations, taint)
            for taint in node.facts.taints
        )
        for node in nodes
    }
    return _normalised(avoided, reverse=True)


def _node_affinity_scores(pod: Pod, nodes: Sequence[NodeInfo]) -> Scores | None:
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    terms = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else ()
    if not terms:
        return None
    weights = {
        node.name: sum(
            term.weight
            for term in terms
            if node_term_matches(term.preference, node.name, node.facts.labels)
        )
        for node in nodes
    }
    return _normalised(weights)


def _least_allocated(pod: Pod, nodes: Sequence[NodeInfo]) -> Scores:
    """Prefer nodes with much free cpu and memory."""
    wanted = scored_requests(pod)
    scores: dict[str, int] = {}
    for node in nodes:
        shares: list[int] = []
        for name, used in zip(("cpu", "memory"), node.scored, strict=True):
            capacity = node.facts.allocatable.get(name, 0)
            if capacity:
                shares.append(max(0, capacity - used - wanted[name]) * 100 // capacity)
        scores[node.name] = sum(shares) // len(shares) if shares else 0
    return scores


def _balanced_allocation(pending: Pending, nodes: Sequence[NodeInfo]) -> Scores | None:
    """Prefer nodes on which the pod brings the shares of cpu and memory closer together."""
    wanted = pending.requests
    if not any(wanted.get(name) for name in ("cpu", "memory")):
        return None
    return {
        node.name: 50 + (50 + _balance(node, wanted) - _balance(node, {})) // 2 for node in nodes
    }


def _balance(node: NodeInfo, more: Mapping[str, int]) -> int:
    shares = [
        min(1.0, (node.requested.get(name, 0) + more.get(name, 0)) / capacity)
        for name in ("cpu", "memory")
        if (capacity := node.facts.allocatable.get(name, 0))
    ]
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return int((1 - deviation) * 100.0)


def _image_locality(pod: Pod, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> Scores:
    """Prefer nodes that have the images; an image that many nodes have counts more."""
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    images = [
        *(container.image for container in containers),
        *(volume.image.reference for volume in pod.spec.volumes if volume.image),
    ]
    names = [_full_image_name(image) for image in images]
    spread = {
        name: sum(name in node.facts.images for node in snapshot.nodes.values()) for name in names
    }
    most = _MOST_PER_CONTAINER * len(containers)
    scores: dict[str, int] = {}
    for node in nodes:
        size = sum(
            int(node.facts.images[name] * (spread[name] / len(snapshot.nodes)))
            for name in names
            if name in node.facts.images
        )
        bounded = min(max(size, _LEAST_IMAGES), most)
        scores[node.name] = 100 * (bounded - _LEAST_IMAGES) // (most - _LEAST_IMAGES)
    return scores


def _full_image_name(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
