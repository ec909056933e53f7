"""The cluster as the scheduler knows it, including the pods that it has just bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from podtui.api.claims import reserved, with_selected_node
from podtui.api.selectors import Labels
from podtui.api.storage import StorageClass
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim
from podtui.scheduler.claims import ClaimPlan, Claims, Key, by_key
from podtui.scheduler.infos import NodeFacts, NodeInfo, PodInfo, Snapshot


class ClusterCache:
    """Nodes with their pods, and the pods that a node is kept free for.

    A pod counts on its node from the moment it is assumed there: before its binding is seen, even
    before it is made. A pod may be known before its node.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        self._nominated: dict[str, PodInfo] = {}
        self._namespaces: dict[str, Labels] = {}
        self._claims: dict[Key, PersistentVolumeClaim] = {}
        self._classes: dict[str, StorageClass] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._assumed_claims: dict[Key, PersistentVolumeClaim] = {}
        self._assumed_volumes: dict[str, PersistentVolume] = {}

    def snapshot(self) -> Snapshot:
        """Return the present state. It is shared: use it before the next change."""
        nominated: dict[str, list[PodInfo]] = {}
        for pod in self._nominated.values():
            nominated.setdefault(pod.nominated, []).append(pod)
        return Snapshot(
            nodes=self._nodes,
            nominated=nominated,
            namespaces=self._namespaces,
            claims=self.claims(assumed=True),
        )

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        return self._nodes

    @property
    def namespaces(self) -> Mapping[str, Labels]:
        return self._namespaces

    # --- nodes and namespaces

    def set_node(self, facts: NodeFacts) -> NodeFacts | None:
        """Add or replace a node; return its previous facts."""
        info = self._nodes.get(facts.name)
        if info is None:
            pods = (pod for pod in self._pods.values() if pod.node == facts.name)
            self._nodes[facts.name] = NodeInfo(facts, pods)
            return None
        before, info.facts = info.facts, facts
        return before

    def remove_node(self, name: str) -> NodeFacts | None:
        """Remove a node; return its facts. Its pods are kept, in case the node is added again."""
        gone = self._nodes.pop(name, None)
        return gone and gone.facts

    def set_namespaces(self, namespaces: Mapping[str, Labels]) -> None:
        self._namespaces = dict(namespaces)

    # --- claims

    def claims(self, *, assumed: bool = False) -> Claims:
        """Return claims, classes and volumes as the API reports them. ``assumed``: with the changes
        that are being written."""
        if not assumed or not (self._assumed_claims or self._assumed_volumes):
            return Claims(self._claims, self._classes, self._volumes)
        return Claims(
            self._claims | self._assumed_claims,
            self._classes,
            self._volumes | self._assumed_volumes,
        )

    def assume_claims(self, plan: ClaimPlan, node: str) -> None:
        """Count the volumes of a plan as taken, until the API reports their next versions or the
        plan is dropped."""
        for volume, claim in plan.reservations:
            self._assumed_volumes[volume.metadata.name] = reserved(volume, claim)
        for claim in plan.provisions:
            key = (claim.metadata.namespace, claim.metadata.name)
            self._assumed_claims[key] = with_selected_node(claim, node)

    def drop_claims(self, plan: ClaimPlan) -> None:
        for volume, _ in plan.reservations:
            self._assumed_volumes.pop(volume.metadata.name, None)
        for claim in plan.provisions:
            self._assumed_claims.pop((claim.metadata.namespace, claim.metadata.name), None)

    def replace_claims(self, claims: Iterable[PersistentVolumeClaim]) -> None:
        self._claims = by_key(claims)
        self._assumed_claims.clear()

    def set_claim(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        self._claims[key] = claim
        self._assumed_claims.pop(key, None)

    def remove_claim(self, claim: PersistentVolumeClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        self._claims.pop(key, None)
        self._assumed_claims.pop(key, None)

    def replace_volumes(self, volumes: Iterable[PersistentVolume]) -> None:
        self._volumes = {item.metadata.name: item for item in volumes}
        self._assumed_volumes.clear()

    def set_volume(self, item: PersistentVolume) -> None:
        self._volumes[item.metadata.name] = item
        self._assumed_volumes.pop(item.metadata.name, None)

    def remove_volume(self, item: PersistentVolume) -> None:
        self._volumes.pop(item.metadata.name, None)
        self._assumed_volumes.pop(item.metadata.name, None)

    def replace_classes(self, classes: Iterable[StorageClass]) -> None:
        self._classes = {item.metadata.name: item for item in classes}

    def set_class(self, item: StorageClass) -> None:
        self._classes[item.metadata.name] = item

    def remove_class(self, item: StorageClass) -> None:
        self._classes.pop(item.metadata.name, None)

    # --- pods with a node

    def pod(self, uid: str) -> PodInfo | None:
        """Return a pod that has a node, or is assumed to."""
        return self._pods.get(uid)

    @property
    def uids(self) -> frozenset[str]:
        """The pods that the API reported with a node."""
        return frozenset(self._pods) - self._assumed

    def set_pod(self, pod: PodInfo) -> PodInfo | None:
        """Add or replace a pod that the API reports with a node; return what was known of it as
        such a pod."""
        before = self._pods.get(pod.uid)
        was_assumed = pod.uid in self._assumed
        self._place(pod)
        self._assumed.discard(pod.uid)
        self._nominated.pop(pod.uid, None)
        return None if was_assumed else before

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod that has a node or is assumed to; return it."""
        self._assumed.discard(uid)
        gone = self._pods.pop(uid, None)
        if gone is not None and (node := self._nodes.get(gone.node)) is not None:
            node.remove(gone)
        return gone

    def _place(self, pod: PodInfo) -> None:
        self.remove_pod(pod.uid)
        self._pods[pod.uid] = pod
        if (node := self._nodes.get(pod.node)) is not None:
            node.add(pod)

    # --- pods that are about to have one

    def assume(self, pod: PodInfo, node: str) -> PodInfo:
        """Count a pod on the node to which it will be bound; return it as it is counted."""
        assumed = replace(pod, node=node)
        self._place(assumed)
        self._assumed.add(pod.uid)
        self._nominated.pop(pod.uid, None)
        return assumed

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Keep the node free for a pod; an empty name cancels this."""
        self._nominated.pop(pod.uid, None)
        if node:
            self._nominated[pod.uid] = replace(pod, nominated=node)

    def nominated_node(self, uid: str) -> str:
        pod = self._nominated.get(uid)
        return pod.nominated if pod else ""

    def less_important_on(self, node: str, priority: int) -> list[PodInfo]:
        """Return the pods of lower priority that the node is kept free for."""
        return [
            pod
            for pod in self._nominated.values()
            if pod.nominated == node and pod.priority < priority
        ]
