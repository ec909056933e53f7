"""The state of all screens: the API's objects, folded from the watches, and the pending changes.

Only the app's workers write to it (`Model.fold`). The app takes the changes a few times a second
(`Model.take`) and publishes them to the screens, which keep no state but their rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum, auto
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from podtui.api.cluster import cluster_of
from podtui.api.health import pod_health
from podtui.api.local import Manifest, ManifestIndex, NodeMetrics, PodMetrics
from podtui.api.times import epoch
from podtui.api.v1 import Event, Node, OwnerReference, Pod
from podtui.client.any_kind import ServedKind
from podtui.client.protocol import LOCAL, Delta, Lost, Removed, Server, Synced
from podtui.tui.model.usage import NodeHistory, Usage, node_usage, pod_usage


def pod_key(pod: Pod) -> str:
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


def event_key(event: Event) -> str:
    return f"{event.metadata.namespace}/{event.metadata.name}"


AT_ONCE: Final = 50
"""Maximum pods with only new usage per `Model.take`, or a twentieth of all pods if that is more."""


class LinkState(Enum):
    """The state of the connection to the agent."""

    STARTING = auto()
    CONNECTED = auto()
    LOST = auto()


class Changes(Struct, frozen=True):
    """Keys of the objects that were added, changed or removed since the last `Model.take`; for a
    screen that opens, those of all objects (`Model.all_changes`). ``measured`` is the subset of
    ``pods`` of which only the usage changed.
    """

    pods: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    manifests: frozenset[str] = frozenset()
    node: bool = False
    usage: bool = False
    link: bool = False
    measured: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(
            self.pods or self.events or self.manifests or self.node or self.usage or self.link
        )


def object_key(item: Any) -> str:
    """Return the key of an object. Pods are keyed by UID, since a name is reused by later pods."""
    if isinstance(item, Pod):
        return pod_key(item)
    if isinstance(item, Event):
        return event_key(item)
    return str(item.metadata.name)


class Model:
    """Objects by key. ``usage`` is keyed by namespace and name of the pod, ``node_uses`` by node.
    ``refusals`` maps a kind to the reason why the server refuses to list it.
    """

    def __init__(self, server: Server = LOCAL) -> None:
        self.server = server
        self.refusals: dict[type, str] = {}
        self.kinds: tuple[ServedKind, ...] = ()
        """The kinds of objects that the server can list; empty while they are unknown."""
        self.namespace: str | None = None
        """The namespace that is watched, empty for all; None while unknown."""
        self.node_uses: dict[str, Usage] = {}
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.events: dict[str, Event] = {}
        self.manifests: dict[str, Manifest] = {}
        self.usage: dict[tuple[str, str], Usage] = {}
        self.node_use: Usage | None = None
        self.node_history = NodeHistory()
        self.link = LinkState.STARTING
        self.lost_reason = ""
        self.contact_at: float | None = None
        """Epoch seconds of the agent's last answer; None before the first one."""
        self._synced: set[type] = set()
        self._dirty: dict[type, set[str]] = {Pod: set(), Event: set(), Manifest: set(), Node: set()}
        self._recovering: dict[str, float] = {}
        """Until when (epoch seconds) a restarted pod counts as unstable, by key."""
        self._measured: dict[str, None] = {}
        self._usage_changed = False
        self._link_changed = True
        self._events_about: dict[tuple[str, str], list[Event]] = {}
        """The events of pods by namespace and name, grouped when ``event_turns`` was
        ``_events_at``."""
        self._events_at = 0
        self._manifest_index: ManifestIndex | None = None
        """None after a change of the manifests."""
        self.event_turns = 0
        """Counts changes of the events: a cache derived from them is valid while it stays the same.
        """
        self.pod_turns = 0
        """Counts changes of the pods, as ``event_turns`` does."""

    def kind_named(self, qualified_name: str) -> ServedKind | None:
        """Return a kind by its name, such as ``deployments.apps``."""
        return next((kind for kind in self.kinds if kind.qualified_name == qualified_name), None)

    def kind_of(self, owner: OwnerReference) -> ServedKind | None:
        """Return the kind of an owner."""
        wanted = (owner.apiVersion, owner.kind)
        return next((kind for kind in self.kinds if (kind.api_version, kind.kind) == wanted), None)

    @property
    def node(self) -> Node | None:
        return next(iter(self.nodes.values()), None)

    @property
    def member_of(self) -> str:
        """The API server of the cluster that the agent's node belongs to; empty if there is none,
        or if the screen shows a cluster itself. The agent's objects are copies of the cluster's,
        and cannot be changed here."""
        return "" if self.server.is_cluster else cluster_of(self.node)

    def home_of(self, pod: Pod | None) -> Node | None:
        """Return the node of a pod; with a single-node server always its only node."""
        if len(self.nodes) == 1 and not self.server.capabilities.several_nodes:
            return self.node
        return self.nodes.get(pod.spec.nodeName) if pod is not None else None

    def use_of(self, node: Node) -> Usage | None:
        """Return the usage of a node; None if it is not measured."""
        if self.server.capabilities.several_nodes:
            return self.node_uses.get(node.metadata.name)
        return self.node_use

    def is_synced(self, kind: type) -> bool:
        """Return whether the first list of a kind was received."""
        return kind in self._synced

    def manifest_of(self, pod: Pod) -> Manifest | None:
        """Return the manifest file that a pod came from."""
        if self._manifest_index is None:
            self._manifest_index = ManifestIndex(self.manifests.values())
        return self._manifest_index.manifest_of(pod)

    def events_of(self, pod: Pod) -> list[Event]:
        """Return the pod's events, matched by name: the UID of a static pod differs from the UID in
        its record.
        """
        if self._events_at != self.event_turns:
            self._events_at = self.event_turns
            self._events_about = {}
            for event in self.events.values():
                involved = event.involvedObject
                if involved.kind == "Pod":
                    about = (involved.namespace, involved.name)
                    self._events_about.setdefault(about, []).append(event)
        return list(self._events_about.get((pod.metadata.namespace, pod.metadata.name), ()))

    def fold(self, kind: type, delta: Delta) -> None:
        """Apply a delta of one watch."""
        if isinstance(delta, Lost) and delta.refused:
            self.fold(kind, Synced(()))
            self.refusals[kind] = delta.reason
            return
        if isinstance(delta, Lost):
            self._set_link(LinkState.LOST if self._synced else LinkState.STARTING, delta.reason)
            return
        objects = self._objects(kind)
        dirty = self._dirty[kind]
        self.event_turns += kind is Event
        self.pod_turns += kind is Pod
        if kind is Manifest:
            self._manifest_index = None
        if isinstance(delta, Removed):
            for item in delta.items:
                key = object_key(item)
                if objects.pop(key, None) is not None:
                    dirty.add(key)
            return
        if isinstance(delta, Synced):
            self.refusals.pop(kind, None)
            fresh = {object_key(item): item for item in delta.items}
            for key in objects.keys() - fresh.keys():
                del objects[key]
                dirty.add(key)
            self._put(objects, dirty, delta.items)
            if kind not in self._synced:
                self._synced.add(kind)
                self._link_changed = True
            self._set_link(LinkState.CONNECTED, "")
            return
        self._put(objects, dirty, delta.items)

    def set_usage(self, pods: Iterable[PodMetrics], node: NodeMetrics | None) -> None:
        """Store the measured usage of the pods and of the single node."""
        usage = {(m.metadata.namespace, m.metadata.name): pod_usage(m) for m in pods}
        node_use = node_usage(node) if node is not None else None
        if node is not None and node_use is not None:
            self.node_history.add(epoch(node.timestamp) or 0.0, node_use)
        if usage == self.usage and node_use == self.node_use:
            return
        names = {
            name
            for name in usage.keys() | self.usage.keys()
            if usage.get(name) != self.usage.get(name)
        }
        self.usage, self.node_use = usage, node_use
        for key, pod in self.pods.items():
            if (pod.metadata.namespace, pod.metadata.name) in names:
                self._measured[key] = None
        self._usage_changed = True

    @property
    def waits(self) -> bool:
        """True if `take` has more to return: usage of many pods is returned in batches."""
        return bool(self._measured)

    def take(self) -> Changes:
        """Return the changes since the last call. New usage of many pods is returned in batches,
        since updating all rows at once would delay key presses.
        """
        for key in self._dirty[Pod]:
            self._measured.pop(key, None)
        measured = list(islice(self._measured, max(AT_ONCE, len(self.pods) // 20)))
        for key in measured:
            del self._measured[key]
        changes = Changes(
            frozenset(self._dirty[Pod].union(measured)),
            frozenset(self._dirty[Event]),
            frozenset(self._dirty[Manifest]),
            bool(self._dirty[Node]),
            self._usage_changed,
            self._link_changed,
            frozenset(measured),
        )
        for dirty in self._dirty.values():
            dirty.clear()
        self._usage_changed = self._link_changed = False
        return changes

    def set_node_usages(self, nodes: Iterable[NodeMetrics]) -> None:
        """Store the measured usage of several nodes."""
        uses = {metrics.metadata.name: node_usage(metrics) for metrics in nodes}
        if uses != self.node_uses:
            self.node_uses = uses
            self._usage_changed = True

    def all_changes(self) -> Changes:
        """Return all objects as changed, for a screen that opens."""
        return Changes(
            frozenset(self.pods),
            frozenset(self.events),
            frozenset(self.manifests),
            node=True,
            usage=True,
            link=True,
        )

    def _objects(self, kind: type) -> dict[str, Any]:
        kinds: dict[type, dict[str, Any]] = {
            Pod: self.pods,
            Event: self.events,
            Manifest: self.manifests,
            Node: self.nodes,
        }
        return kinds[kind]

    def _put(self, objects: dict[str, Any], dirty: set[str], items: Iterable[Any]) -> None:
        for item in items:
            key = object_key(item)
            if objects.get(key) != item:
                objects[key] = item
                dirty.add(key)
                if isinstance(item, Pod):
                    self._track_recovery(key, item)

    def _track_recovery(self, key: str, pod: Pod) -> None:
        # With the time -inf, no restarted container counts as stable yet, so ``until`` is set.
        until = pod_health(pod, -math.inf).until
        if until is None:
            self._recovering.pop(key, None)
        else:
            self._recovering[key] = until

    def recovered(self, now: float) -> frozenset[str]:
        """Return the keys of the pods that became stable since the last call, just by passing
        time.
        """
        stable = [key for key, until in self._recovering.items() if until <= now]
        for key in stable:
            del self._recovering[key]
        return frozenset(key for key in stable if key in self.pods)

    def _set_link(self, link: LinkState, reason: str) -> None:
        if (link, reason) != (self.link, self.lost_reason):
            self.link, self.lost_reason = link, reason
            self._link_changed = True


def is_about(event: Event, pod: Pod) -> bool:
    """Return whether an event is about a pod."""
    involved = event.involvedObject
    return (
        involved.kind == "Pod"
        and involved.name == pod.metadata.name
        and involved.namespace == pod.metadata.namespace
    )
