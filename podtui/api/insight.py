"""An agent's report on a pod beyond its status: start timeline, probes, usage, connections.

Types of ``podtui.dev/v1alpha1``, like those of `podtui.api.local`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import field

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct, Time


class StepKind(StrEnum):
    """The steps of a pod's start, in order."""

    ADMIT = "Admit"
    VOLUMES = "Volumes"
    SANDBOX = "Sandbox"
    PULL = "Pull"
    CREATE = "Create"
    """A container is created and started."""
    POST_START = "PostStart"
    RUN = "Run"
    """A container runs, from its start to its end."""
    STARTUP = "Startup"
    """Waiting for a startup probe to succeed."""
    READY = "Ready"
    """Waiting for a readiness probe to succeed."""


class Step(Struct, frozen=True, kw_only=True):
    """``subject`` is a container, or the image of a pull; empty for steps of the pod itself.
    ``ended`` is None while the step is in progress. ``note`` is a short text about the result."""

    kind: StepKind
    began: Time
    subject: str = ""
    ended: Time | None = None
    init: bool = False
    """True if the pod's start waits for this container to terminate."""
    failed: bool = False
    note: str = ""


class PodStart(Struct, frozen=True, kw_only=True):
    """One start of a pod. It begins when its manifest was seen, or when its sandbox had to be
    recreated (``cause`` then says so; otherwise it is empty). ``ready`` is when all its containers
    were ready for the first time; ``over`` is when the pod was gone."""

    uid: str
    began: Time
    cause: str = ""
    ready: Time | None = None
    over: Time | None = None
    steps: tuple[Step, ...] = ()


class Timeline(Struct, frozen=True, kw_only=True):
    """The last starts of the pods with one namespace and name, newest first."""

    metadata: ObjectMeta
    starts: tuple[PodStart, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "Timeline"


class ProbeRun(Struct, frozen=True, kw_only=True):
    """One run of a probe. ``verdict`` is ``success``, ``warning``, ``failure``, ``error`` (the
    probe could not be run) or ``no engine``. ``seconds`` is its duration; ``output`` holds its
    first lines."""

    time: Time
    verdict: str
    seconds: float
    output: str = ""


class ProbeReport(Struct, frozen=True, kw_only=True):
    """The current state of one probe of one container. ``probe`` is ``Startup``, ``Liveness`` or
    ``Readiness``. ``result`` is the result in effect (``success``, ``failure``, empty before the
    first). ``inRow`` counts how often ``last`` occurred in a row; ``threshold`` is how often it
    must. ``nextIn`` is in seconds and None if no further run is planned; ``state`` then says why:
    ``passed``, ``failed``, ``not running``, ``waits for startup``, ``stopped``."""

    container: str
    probe: str
    result: str = ""
    last: str = ""
    inRow: int = 0
    threshold: int = 1
    nextIn: float | None = None
    state: str = ""
    running: bool = False
    history: tuple[ProbeRun, ...] = ()
    """Oldest first."""


class Outcome(StrEnum):
    """The end of an attempt to connect."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    UNREACHABLE = "unreachable"
    FAILED = "failed"


class ConnectionAttempt(Struct, frozen=True, kw_only=True):
    """An attempt to connect to an address by TCP. ``error`` is the system's text, unless it was
    accepted or timed out."""

    address: str
    outcome: Outcome
    seconds: float
    error: str = ""


class ConnectionCheck(Struct, frozen=True, kw_only=True):
    """A host and a port as a program in a pod sees them. ``name`` is the full name that the
    resolver found, ``source`` what answered: a name server, ``/etc/hosts``, or nothing if the host
    is an address. ``error`` is the reason why there is no address: ``NXDOMAIN``, ``SERVFAIL`` or
    another code of a name server, ``no address``, ``no answer`` or ``no name server``. ``servers``
    are the name servers that were asked. Without a port, nothing is connected."""

    host: str
    port: int = 0
    name: str = ""
    source: str = ""
    error: str = ""
    servers: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    attempts: tuple[ConnectionAttempt, ...] = ()


class UsageSeries(Struct, frozen=True, kw_only=True):
    """Usage of one container over time, sampled at ``times`` (Unix seconds, ascending). ``cpu`` is
    in milli cores, ``memory`` in bytes; ``read`` and ``written`` are disk traffic in bytes per
    second; ``storage`` is the size in bytes of its writable layer and its log. None marks a missing
    measurement."""

    container: str
    times: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    memory: tuple[int, ...] = ()
    read: tuple[float | None, ...] = ()
    written: tuple[float | None, ...] = ()
    storage: tuple[float | None, ...] = ()


class NetworkSeries(Struct, frozen=True, kw_only=True):
    """Network traffic of the pod in bytes per second. None marks a missing measurement."""

    times: tuple[float, ...] = ()
    received: tuple[float | None, ...] = ()
    sent: tuple[float | None, ...] = ()


class PodInsight(Struct, frozen=True, kw_only=True):
    """Starts, probes and current usage of a pod. ``time`` is the agent's clock in Unix seconds.
    ``version`` changes whenever there is new data. ``unmeasured`` gives the reason why there are no
    figures for ``network``, ``disk`` or ``storage``."""

    time: float
    version: str = ""
    starts: tuple[PodStart, ...] = ()
    """Newest first."""
    probes: tuple[ProbeReport, ...] = ()
    usage: tuple[UsageSeries, ...] = ()
    network: NetworkSeries = NetworkSeries()
    unmeasured: dict[str, str] = field(default_factory=dict[str, str])


class NodeInsight(Struct, frozen=True, kw_only=True):
    """Usage of the node, sampled at ``times`` (Unix seconds, ascending). ``cpu`` is in milli cores,
    ``memory`` in bytes, ``pods`` counts pods with a sandbox, and ``storage`` is in bytes of the
    engine's file system (None marks a missing measurement)."""

    time: float
    version: str = ""
    times: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    memory: tuple[int, ...] = ()
    pods: tuple[int, ...] = ()
    storage: tuple[float | None, ...] = ()


class InsightPart(StrEnum):
    """The part of a pod's insight that a query asks for."""

    ALL = ""
    STARTS = "starts"
    PROBES = "probes"
    USAGE = "usage"


class InsightQuery(Struct, frozen=True, kw_only=True):
    """``span`` is the length of history in seconds. ``wait`` makes it a long poll: the answer is
    delayed by up to that many seconds, until its version differs from ``seen``."""

    part: InsightPart = InsightPart.ALL
    span: float = 3600.0
    seen: str = ""
    wait: float = 0.0


AT_ONCE: Final = InsightQuery()
"""Asks for all parts, without waiting."""
