"""What goes into a diagnosis, what comes out of it, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from podtui.api.health import Health
from podtui.api.local import Manifest
from podtui.api.places import Path, Place
from podtui.api.v1 import Event, Node, Pod

if TYPE_CHECKING:
    from podtui.why.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The input of a diagnosis. ``now`` is Unix seconds; ``events`` are those about the pod's name;
    ``others`` the other pods of the node; ``logs`` the last lines by container, oldest first;
    ``log_problems`` by container why its log could not be read."""

    pod: Pod
    now: float
    events: tuple[Event, ...] = ()
    manifest: Manifest | None = None
    node: Node | None = None
    others: tuple[Pod, ...] = ()
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    log_problems: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation. ``source`` is ``event``, ``state``, ``kubelet``, ``pod``, ``node``,
    ``manifest`` or ``log``; ``time`` RFC 3339 where it has one; ``warning``: it is a fault."""

    source: str
    text: str
    time: str = ""
    count: int = 1
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``old`` at a place by ``new``; both may have several lines."""

    line: int
    column: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Fix:
    """What a key may do. ``title`` begins with a verb; ``note`` is what one should know before."""

    title: str
    edits: tuple[Edit, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a pod is as it is. ``cause`` is the id of a rule; ``field`` the path of the manifest to
    change, at ``place`` of its text (or the nearest place above where ``written`` is false)."""

    cause: str
    health: Health
    title: str
    sentences: tuple[str, ...] = ()
    container: str = ""
    evidence: tuple[Evidence, ...] = ()
    field: str = ""
    place: Place | None = None
    written: bool = False
    fixes: tuple[Fix, ...] = ()
    advice: str = ""
    """What to do by hand."""
    docs: str = ""
    wants_log: bool = False
    """Whether the last lines of the container's log would tell more."""
    log_problem: str = ""
    """Why that log could not be read."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule's predicate found: ``words`` fill the rule's sentences in, ``field`` stands for
    the rule's own where it depends on what was found."""

    words: Mapping[str, str] = field(default_factory=dict[str, str])
    field: Path | None = None
    health: Health | None = None


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[T]):
    """One cause. ``title`` and ``sentences`` are templates for `Found.words`; ``field`` is below
    the container for the rules about one; ``events`` are the reasons of the events that bear
    witness; ``docs`` is where to read more."""

    id: str
    match: Callable[[T], Found | None]
    title: str
    sentences: tuple[str, ...] = ()
    advice: str = ""
    field: Path = ()
    events: tuple[str, ...] = ()
    logs: bool = False
    health: Health = Health.BROKEN
    fixes: Callable[[T, Found, Source], Iterable[Fix | None]] | None = None
    docs: str = ""
