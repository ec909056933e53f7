"""The scheduler's queueing hints: decide whether a change of the cluster may help a refused pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.api.pods import ports_clash
from podtui.api.selectors import node_matches, tolerates
from podtui.api.v1 import Pod
from podtui.scheduler import affinity, filters, spread
from podtui.scheduler.affinity import matches_all
from podtui.scheduler.claims import VOLUME_BINDING, VOLUME_RESTRICTIONS, Key, claim_keys
from podtui.scheduler.filters import Pending, disks_clash, fits_empty, untolerated
from podtui.scheduler.infos import NodeFacts, PodInfo, counted_requests


@dataclass(frozen=True, slots=True)
class PodChange:
    """Another pod that has a node (or one kept free for it) was added, removed or changed."""

    before: PodInfo | None
    after: PodInfo | None


@dataclass(frozen=True, slots=True)
class NodeChange:
    before: NodeFacts | None
    after: NodeFacts | None


@dataclass(frozen=True, slots=True)
class OwnChange:
    """The waiting pod itself was updated."""

    before: Pod
    after: Pod


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """A claim was added, removed or changed; without a key, a volume or a class of claims."""

    key: Key | None = None


Change = PodChange | NodeChange | OwnChange | ClaimChange


def helps(pending: Pending, plugin: str, change: Change) -> bool:
    """Return whether a pod that the plugin refused may fit after the change."""
    hint = HINTS.get(plugin)
    return hint is not None and hint(pending, change)


def _schedulable_node(pending: Pending, change: Change) -> bool:
    match change:
        case NodeChange(before, NodeFacts() as after):
            return not after.unschedulable and (before is None or before.unschedulable)
        case OwnChange():
            return _has_new_tolerations(change) and tolerates(
                change.after.spec.tolerations, filters.UNSCHEDULABLE_TAINT
            )
        case _:
            return False


def _has_new_tolerations(change: OwnChange) -> bool:
    return len(change.before.spec.tolerations) != len(change.after.spec.tolerations)


def _new_node(_: Pending, change: Change) -> bool:
    return isinstance(change, NodeChange) and change.before is None


def _tolerated_node(pending: Pending, change: Change) -> bool:
    match change:
        case NodeChange(before, NodeFacts() as after):
            was_kept_away = before is None or untolerated(pending.pod, before)
            return was_kept_away and not untolerated(pending.pod, after)
        case OwnChange():
            return _has_new_tolerations(change)
        case _:
            return False


def _matching_node(pending: Pending, change: Change) -> bool:
    match change:
        case NodeChange(before, NodeFacts() as after):
            pod = pending.pod
            return node_matches(pod, after.name, after.labels) and (
                before is None or not node_matches(pod, before.name, before.labels)
            )
        case _:
            return False


def _free_port(pending: Pending, change: Change) -> bool:
    match change:
        case PodChange(PodInfo() as gone, None):
            return gone.reserved and any(
                ports_clash(port, freed) for port in pending.ports for freed in gone.ports
            )
        case _:
            return _new_node(pending, change)


def _free_resources(pending: Pending, change: Change) -> bool:
    match change:
        case NodeChange(before, NodeFacts() as after):
            if not fits_empty(pending, after):
                return False
            return before is None or any(
                after.allocatable.get(name, 0) > before.allocatable.get(name, 0)
                for name in (*pending.requests, "pods")
            )
        case PodChange(PodInfo() as gone, None):
            return gone.reserved
        case PodChange(PodInfo() as before, PodInfo() as after):
            return bool(after.node) and any(
                before.requests.get(name, 0) > after.requests.get(name, 0)
                for name in pending.requests
            )
        case OwnChange(before, after):
            now = counted_requests(after, in_use=True)
            then = counted_requests(before, in_use=True)
            return any(amount > now.get(name, -1) for name, amount in then.items())
        case _:
            return False


def _free_disk(pending: Pending, change: Change) -> bool:
    match change:
        case PodChange(PodInfo() as gone, None):
            if gone.namespace != pending.info.namespace:
                return False
            return bool(gone.claims & pending.info.claims) or any(
                disks_clash(disk, freed) for disk in pending.info.disks for freed in gone.disks
            )
        case _:
            return _new_node(pending, change)


def _better_spread(pending: Pending, change: Change) -> bool:
    wanted = spread.constraints(pending.pod, "DoNotSchedule")

    def relevant(pod: PodInfo) -> bool:
        return pod.reserved and pod.namespace == pending.info.namespace

    match change:
        case PodChange(PodInfo() as before, PodInfo() as after):
            return relevant(after) and any(
                constraint.matches(before.labels) != constraint.matches(after.labels)
                for constraint in wanted
            )
        case PodChange(before, after):
            pod = after or before
            return pod is not None and relevant(pod) and any(c.matches(pod.labels) for c in wanted)
        case OwnChange(before, after):
            honors = any(constraint.spec.nodeTaintsPolicy == "Honor" for constraint in wanted)
            if honors and _has_new_tolerations(change):
                return True
            old, new = before.metadata.labels, after.metadata.labels
            return any(constraint.matches(old) != constraint.matches(new) for constraint in wanted)
        case NodeChange(NodeFacts() as before, NodeFacts() as after):
            had, has = spread.has_keys(before.labels, wanted), spread.has_keys(after.labels, wanted)
            moved = any(before.labels.get(c.key) != after.labels.get(c.key) for c in wanted)
            return had != has or (has and (moved or before.taints != after.taints))
        case NodeChange(before, after):
            node = after or before
            return node is not None and spread.has_keys(node.labels, wanted)
        case ClaimChange():
            return False


def _affinity_changed(pending: Pending, change: Change) -> bool:
    terms, anti_terms = pending.info.affinity, pending.info.anti_affinity
    match change:
        case PodChange(PodInfo() as before, PodInfo() as after):
            came = not matches_all(terms, before) and matches_all(terms, after)
            left = matches_all(anti_terms, before) and not matches_all(anti_terms, after)
            return after.reserved and (came or left)
        case PodChange(None, PodInfo() as after):
            return after.reserved and matches_all(terms, after)
        case PodChange(PodInfo() as gone, None):
            return gone.reserved and (
                matches_all(anti_terms, gone) or matches_all(gone.anti_affinity, pending.info)
            )
        case OwnChange(before, after):
            return before.metadata.labels != after.metadata.labels
        case NodeChange(before, NodeFacts() as after):
            return _other_domain(pending, before, after)
        case _:
            return False


def _other_domain(pending: Pending, before: NodeFacts | None, after: NodeFacts) -> bool:
    keys = {term.topology_key for term in pending.info.affinity}
    anti_keys = {term.topology_key for term in pending.info.anti_affinity}
    if before is None:
        return bool(anti_keys) or any(key in after.labels for key in keys)
    old, new = before.labels, after.labels
    return any(key in new and old.get(key) != new[key] for key in keys) or any(
        key in old and new.get(key) != old[key] for key in anti_keys
    )


def _changed_claim(pending: Pending, change: Change) -> bool:
    return isinstance(change, ClaimChange) and (
        change.key is None or change.key in claim_keys(pending.pod)
    )


def _claim_or_node(pending: Pending, change: Change) -> bool:
    match change:
        case NodeChange(before, NodeFacts() as after):
            return before is None or before.labels != after.labels
        case _:
            return _changed_claim(pending, change)


def _claim_or_disk(pending: Pending, change: Change) -> bool:
    return _changed_claim(pending, change) or _free_disk(pending, change)


def _new_features(_: Pending, change: Change) -> bool:
    match change:
        case NodeChange(before, NodeFacts() as after):
            return before is None or before.features != after.features
        case _:
            return False


HINTS: Final[Mapping[str, Callable[[Pending, Change], bool]]] = {
    "NodeUnschedulable": _schedulable_node,
    "NodeName": _new_node,
    "TaintToleration": _tolerated_node,
    filters.NODE_AFFINITY: _matching_node,
    "NodePorts": _free_port,
    "NodeResourcesFit": _free_resources,
    VOLUME_RESTRICTIONS: _claim_or_disk,
    VOLUME_BINDING: _claim_or_node,
    spread.PLUGIN: _better_spread,
    affinity.PLUGIN: _affinity_changed,
    "NodeDeclaredFeatures": _new_features,
}
"""By plugin."""
