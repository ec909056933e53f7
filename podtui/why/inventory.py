"""The objects of the API at one time, indexed by name and owner, as the rules for objects that are
no pods see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.events import event_count, event_order, last_seen
from podtui.api.insight import ConnectionCheck
from podtui.api.networking import Ingress, NetworkPolicy
from podtui.api.objects import Object
from podtui.api.policy import PodDisruptionBudget
from podtui.api.v1 import (
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
    Noun(Ingress, "ingresses", ("ing",), "networking.k8s.io"),
    Noun(NetworkPolicy, "networkpolicies", ("netpol",), "networking.k8s.io"),
    Noun(PodDisruptionBudget, "poddisruptionbudgets", ("pdb",), "policy"),
    Noun(PersistentVolumeClaim, "persistentvolumeclaims", ("pvc",)),
    Noun(PersistentVolume, "persistentvolumes", ("pv",)),
    Noun(HorizontalPodAutoscaler, "horizontalpodautoscalers", ("hpa",), "autoscaling"),
    Noun(ServiceAccount, "serviceaccounts", ("sa",)),
    Noun(ResourceQuota, "resourcequotas", ("quota",)),
    Noun(Node, "nodes", ()),
)
WORKLOADS: Final = (
    Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, CronJob, Job,
)  # fmt: skip
"""The kinds that create pods."""
_BY_NAME: Final = {name: noun for noun in NOUNS for name in noun.names}


def find_noun(text: str) -> Noun | None:
    """Return the noun of a word as kubectl reads it: ``deploy``, ``Deployment``,
    ``deployments.apps``, ``deployments.v1.apps``."""
    name, _, rest = text.lower().partition(".")
    noun = _BY_NAME.get(name)
    if noun is None:
        return None
    without_version = rest.partition(".")[2]
    return noun if rest == "" or noun.group in (rest, without_version) else None


def with_long_kind(field: str) -> str:
    """Replace the short name of a kind at the beginning of a field's path: ``Deployment.spec`` for
    ``deploy.spec``."""
    kind, dot, rest = field.partition(".")
    noun = find_noun(kind)
    return f"{noun.struct.__name__}{dot}{rest}" if noun and kind in noun.short else field


def nearest_noun(text: str) -> str:
    """Return the noun that is most similar to a word; empty if none is."""
    return closest(text.lower(), _BY_NAME)


def object_name(item: Any) -> str:
    """Return ``deploy/web``."""
    if isinstance(item, Pod):
        return f"pod/{item.metadata.name}"
    kind = type(item).__name__
    noun = find_noun(kind)
    return f"{noun.shown if noun is not None else kind.lower()}/{item.metadata.name}"


Checker = Callable[[Pod, str, int], ConnectionCheck | str | None]


def _unchecked(pod: Pod, host: str, port: int) -> None:
    return None


@dataclass(frozen=True)
class Inventory:
    """``read`` returns the objects of a kind, or None if they cannot be listed; it is called once
    for each kind that a rule needs. ``diagnose_pod`` explains a pod, ``now`` is in Unix seconds.
    With ``scope``, only the objects of that namespace are read. ``check_connection`` connects to a
    host and a port from inside a pod; it returns a text if that is not possible, and None if it was
    not tried."""

    read: Callable[[type[Any]], Iterable[Any] | None]
    now: float
    diagnose_pod: Callable[[Pod], Diagnosis]
    in_cluster: bool = False
    scope: str = ""
    check_connection: Checker = _unchecked
    _lists: dict[type[Any], list[Any]] = field(default_factory=dict[type[Any], list[Any]])
    _unread: set[type[Any]] = field(default_factory=set[type[Any]])
    _owned: dict[type[Any], dict[str, list[Any]]] = field(
        default_factory=dict[type[Any], dict[str, list[Any]]]
    )
    _diagnoses: dict[str, Diagnosis] = field(default_factory=dict[str, Diagnosis])

    def list(self, kind: type[T], namespace: str | None = None) -> list[T]:
        """List the objects of a kind, sorted by name, of one namespace or of all."""
        if kind not in self._lists:
            items = self.read(kind)
            if items is None:
                self._unread.add(kind)
            by_name = sorted(items or (), key=lambda i: (i.metadata.namespace, i.metadata.name))
            self._lists[kind] = by_name
        items = self._lists[kind]
        if namespace is None:
            return items
        return [item for item in items if item.metadata.namespace == namespace]

    def is_read(self, kind: type[Any]) -> bool:
        """Return whether a kind could be listed. If not, that an object is absent means nothing."""
        self.list(kind)
        return kind not in self._unread

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        return next((item for item in self.list(kind, namespace) if _meta(item).name == name), None)

    def owned(self, kind: type[T], owner: Any) -> list[T]:
        """List the objects of a kind that an owner controls, sorted by name."""
        if kind not in self._owned:
            owned: defaultdict[str, list[Any]] = defaultdict(list)
            for item in self.list(kind):
                for ref in _meta(item).ownerReferences:
                    if ref.controller:
                        owned[ref.uid].append(item)
            self._owned[kind] = owned
        return self._owned[kind].get(owner.metadata.uid, [])

    def owner(self, item: Any) -> Any | None:
        """Return the object that controls another; None if there is none, it is gone, or its kind
        is not known."""
        ref = next((ref for ref in _meta(item).ownerReferences if ref.controller), None)
        noun = find_noun(ref.kind) if ref is not None else None
        if ref is None or noun is None or noun.group != ref.apiVersion.rpartition("/")[0]:
            return None
        owner = self.get(noun.struct, item.metadata.namespace, ref.name)
        return owner if owner is not None and owner.metadata.uid == ref.uid else None

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
        """List the events about objects that a quota of the namespace refused."""
        return [
            event_evidence(event)
            for (_, where, _), events in self._events.items()
            if where == namespace
            for event in events
            if "exceeded quota: " in event.message
        ]

    @cached_property
    def _events(self) -> dict[tuple[str, str, str], list[Event]]:
        events: defaultdict[tuple[str, str, str], list[Event]] = defaultdict(list)
        for event in sorted(self.list(Event), key=event_order):
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
