"""The input and the output of a diagnosis, and the type of its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Generic, TypeVar

from podtui.api.health import WELL, Health
from podtui.api.local import Edit, Manifest
from podtui.api.places import Path, Position
from podtui.api.v1 import Event, Node, Pod
from podtui.editing.source import Source
from podtui.why.node_pods import NodePods


class Kind(StrEnum):
    """The effect of a cause on the pod."""

    FAILURE = "failure"
    """Something has to be changed."""
    WAIT = "wait"
    """It passes by itself."""
    TERMINATION = "termination"
    COMPLETION = "completion"
    NONE = "none"
    """All is as intended."""


FINE: Final = frozenset({Kind.COMPLETION, Kind.NONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The input of a diagnosis. ``now`` is in Unix seconds. ``events`` are those about the pod's
    name; ``node_pods`` are the pods of its node. ``logs`` has the last lines by container,
    oldest first; ``log_problems`` has the reason, by container, why a log could not be read."""

    pod: Pod
    now: float
    events: tuple[Event, ...] = ()
    manifest: Manifest | None = None
    node: Node | None = None
    node_pods: NodePods = field(default_factory=NodePods)
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    log_problems: Mapping[str, str] = field(default_factory=dict[str, str])
    in_cluster: bool = False
    """True for a cluster, which has more kinds of objects than podtui."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation. ``source`` is ``event``, ``state``, ``kubelet``, ``pod``, ``node``,
    ``manifest`` or ``log``. ``time`` is an RFC 3339 time or empty. ``warning`` marks a fault."""

    source: str
    text: str
    time: str = ""
    count: int = 1
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix that the user can apply. ``title`` begins with a verb; ``note`` is a caveat to read
    before. Without ``edits``, the user corrects ``line`` in the editor. ``weakens`` is set if it
    makes a check pass instead of curing what the check reports."""

    title: str
    edits: tuple[Edit, ...] = ()
    note: str = ""
    line: int | None = None
    weakens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The diagnosis of a pod. ``cause`` is the id of a rule, ``kind`` that of the rule; ``health``
    is the pod's, or None for a file without a pod. ``brief`` is the title in a few words, the fact
    first, for a table; it does not name the container. ``field`` is the path of the manifest
    field to change, at ``position`` in its text (or, if ``written`` is false, the position of its
    nearest ancestor)."""

    cause: str
    kind: Kind
    title: str
    brief: str = ""
    health: Health | None = None
    sentences: tuple[str, ...] = ()
    container: str = ""
    evidence: tuple[Evidence, ...] = ()
    field: str = ""
    position: Position | None = None
    written: bool = False
    fixes: tuple[Fix, ...] = ()
    advice: str = ""
    """Manual steps to fix the problem."""
    docs: str = ""
    wants_log: bool = False
    """True if the last lines of the container's log would improve the diagnosis."""
    log_problem: str = ""
    """The reason why that log could not be read."""
    state: str = ""
    """The state of an object that is no pod, in a word or two: ``suspended``, ``rolling out``."""
    parts: tuple[Part, ...] = ()
    """The diagnoses of other objects that explain this one, such as the pods of a Deployment."""
    node_labels: tuple[tuple[str, str], ...] = ()
    """Labels with which the pod's node would satisfy its selector and affinity."""

    @property
    def besides(self) -> bool:
        """True if the failure is not the pod's: its file or its node has one."""
        return self.kind is Kind.FAILURE and self.health in WELL


@dataclass(frozen=True, slots=True)
class Part:
    """The diagnosis of an object, such as ``pod/web-1``, within that of another. ``more`` are the
    names of objects with the same diagnosis."""

    name: str
    diagnosis: Diagnosis
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """The result of a rule's predicate. ``values`` fill the rule's templates; ``field`` overrides
    that of the rule if it is set."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    field: Path | None = None
    evidence: tuple[Evidence, ...] = ()


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[T]):
    """One possible cause. ``title``, ``brief`` and ``sentences`` are templates for `Match.values`.
    ``field`` is relative to the container in rules for containers. ``events`` are the reasons of
    the events that serve as evidence. ``docs`` is a link for further reading."""

    id: str
    match: Callable[[T], Match | None]
    title: str
    brief: str = ""
    sentences: tuple[str, ...] = ()
    advice: str = ""
    field: Path = ()
    events: tuple[str, ...] = ()
    logs: bool = False
    kind: Kind = Kind.FAILURE
    fixes: Callable[[T, Match, Source], Iterable[Fix | None]] | None = None
    docs: str = ""


def with_events(events: tuple[str, ...], *rules: Rule[T]) -> tuple[Rule[T], ...]:
    """Return the rules; those without ``events`` get these."""
    return tuple(rule if rule.events else replace(rule, events=events) for rule in rules)
