"""The objects of the API at one time, indexed by name and owner, as the rules for objects that are
no pods see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.discovery import EndpointSlice
from podtui.api.events import event_count, event_order, last_seen
from podtui.api.objects import Object
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.api.storage import StorageClass
from podtui.api.v1 import (
    Endpoints,
    Event,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    ResourceQuota,
    Service,
    ServiceAccount,
)
from podtui.text.nearest import closest
from podtui.why.types import Diagnosis, Evidence

T = TypeVar("T", bound=Object)
MAX_EVENTS: Final = 4


@dataclass(frozen=True, slots=True)
class Noun:
    """A kind of objects that can be explained, with the names by which kubectl knows it."""

    struct: type[Any]
    plural: str
    short: tuple[str, ...] = ()
    group: str = ""

    @property
    def singular(self) -> str:
        return self.struct.__name__.lower()

    @property
    def shown(self) -> str:
        """The name in ``NOUN/NAME``."""
        return self.short[0] if self.short else self.singular

    @property
    def names(self) -> tuple[str, ...]:
        return (self.plural, self.singular, *self.short)


NOUNS: Final = (
    Noun(Pod, "pods", ("po",)),
    Noun(Deployment, "deployments", ("deploy",), "apps"),
    Noun(ReplicaSet, "replicasets", ("rs",), "apps"),
    Noun(StatefulSet, "statefulsets", ("sts",), "apps"),
    Noun(DaemonSet, "daemonsets", ("ds",), "apps"),
    Noun(ReplicationController, "replicationcontrollers", ("rc",)),
    Noun(Job, "jobs", (), "batch"),
    Noun(CronJob, "cronjobs", ("cj",), "batch"),
    Noun(Service, "services", ("svc",)),
    Noun(PersistentVolumeClaim, "persistentvolumeclaims", ("pvc",)),
    Noun(PersistentVolume, "persistentvolumes", ("pv",)),
    Noun(HorizontalPodAutoscaler, "horizontalpodautoscalers", ("hpa",), "autoscaling"),
    Noun(ServiceAccount, "serviceaccounts", ("sa",)),
    Noun(ResourceQuota, "resourcequotas", ("quota",)),
)
CONTEXT: Final[tuple[type[Any], ...]] = (
    Node,
    Event,
    Endpoints,
    EndpointSlice,
    StorageClass,
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
)
"""Kinds that the rules read, but that are not explained themselves."""
KINDS: Final[tuple[type[Any], ...]] = (*(noun.struct for noun in NOUNS), *CONTEXT)
_BY_NAME: Final = {name: noun for noun in NOUNS for name in noun.names}
_BY_STRUCT: Final = {noun.struct: noun for noun in NOUNS}


def find_noun(text: str) -> Noun | None:
    """Return the noun of a word as kubectl reads it: ``deploy``, ``Deployment``,
    ``deployments.apps``, ``deployments.v1.apps``."""
    name, _, rest = text.lower().partition(".")
    noun = _BY_NAME.get(name)
    if noun is None:
        return None
    group = rest.rpartition(".")[2]
    return noun if group in ("", noun.group) else None


def nearest_noun(text: str) -> str:
    """Return the noun that is most similar to a word; empty if none is."""
    return closest(text.lower(), _BY_NAME)


def object_name(item: Any) -> str:
    """Return ``deploy/web``."""
    kind: type[Any] = type(item)
    noun = _BY_STRUCT.get(kind)
    shown = noun.shown if noun is not None else kind.__name__.lower()
    return f"{'pod' if kind is Pod else shown}/{item.metadata.name}"


@dataclass(frozen=True)
class Inventory:
    """``items`` are the objects by their type. ``unread`` has the kinds that could not be listed:
    that one of their objects is absent means nothing. ``diagnose_pod`` explains a pod, ``now`` is
    in Unix seconds."""

    items: Mapping[type[Any], tuple[Any, ...]]
    now: float
    diagnose_pod: Callable[[Pod], Diagnosis]
    unread: frozenset[type[Any]] = frozenset()
    in_cluster: bool = False
    _diagnoses: dict[str, Diagnosis] = field(default_factory=dict[str, Diagnosis])

    def list(self, kind: type[T], namespace: str | None = None) -> list[T]:
        """List the objects of a kind, sorted by name, of one namespace or of all."""
        items = self._sorted(kind)
        if namespace is None:
            return items
        return [item for item in items if _meta(item).namespace == namespace]

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        return next((item for item in self.list(kind, namespace) if _meta(item).name == name), None)

    def owned(self, kind: type[T], owner: Any) -> list[T]:
        """List the objects that an owner controls, sorted by name."""
        return [item for item in self._owned.get(owner.metadata.uid, ()) if isinstance(item, kind)]

    def owner(self, item: Any) -> Any | None:
        """Return the object that controls another; None if there is none, or it is gone."""
        uid = next((o.uid for o in item.metadata.ownerReferences if o.controller), "")
        return self._by_uid.get(uid) if uid else None

    def pod_diagnosis(self, pod: Pod) -> Diagnosis:
        key = pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"
        if key not in self._diagnoses:
            self._diagnoses[key] = self.diagnose_pod(pod)
        return self._diagnoses[key]

    def events(self, item: Any, *reasons: str) -> list[Event]:
        """List the events about an object, oldest first, of some reasons or of all."""
        meta = item.metadata
        events = self._events.get((type(item).__name__, meta.namespace, meta.name), ())
        return [
            event
            for event in events
            if event.involvedObject.uid in ("", meta.uid)
            and (not reasons or event.reason in reasons)
        ]

    def evidence(self, item: Any, *reasons: str) -> tuple[Evidence, ...]:
        return tuple(map(event_evidence, self.events(item, *reasons)[-MAX_EVENTS:]))

    def quota_events(self, namespace: str) -> list[Evidence]:
        """List the events about objects that a quota of the namespace refused, oldest first."""
        return [
            event_evidence(event)
            for (_, where, _), events in self._events.items()
            if where == namespace
            for event in events
            if "exceeded quota: " in event.message
        ]

    def _sorted(self, kind: type[T]) -> list[T]:
        return self._lists.setdefault(
            kind,
            sorted(self.items.get(kind, ()), key=lambda i: (i.metadata.namespace, i.metadata.name)),
        )

    @cached_property
    def _lists(self) -> dict[type[Any], list[Any]]:
        return {}

    @cached_property
    def _by_uid(self) -> dict[str, Any]:
        return {item.metadata.uid: item for items in self.items.values() for item in items}

    @cached_property
    def _owned(self) -> dict[str, list[Any]]:
        owned: defaultdict[str, list[Any]] = defaultdict(list)
        for kind in self.items:
            for item in self._sorted(kind):
                for owner in _meta(item).ownerReferences:
                    if owner.controller:
                        owned[owner.uid].append(item)
        return owned

    @cached_property
    def _events(self) -> dict[tuple[str, str, str], list[Event]]:
        events: defaultdict[tuple[str, str, str], list[Event]] = defaultdict(list)
        for event in sorted(self.items.get(Event, ()), key=event_order):
            about = event.involvedObject
            events[about.kind, about.namespace, about.name].append(event)
        return events


def _meta(item: Any) -> ObjectMeta:
    return item.metadata


def event_evidence(event: Event) -> Evidence:
    return Evidence(
        "event",
        f"{event.reason}: {event.message.strip()}",
        last_seen(event),
        event_count(event),
        event.type == "Warning",
    )


def collect(items: Iterable[Any]) -> dict[type[Any], tuple[Any, ...]]:
    """Return objects by their type."""
    by_type: defaultdict[type[Any], list[Any]] = defaultdict(list)
    for item in items:
        by_type[type(item)].append(item)
    return {kind: tuple(of_kind) for kind, of_kind in by_type.items()}
