"""What an agent tells of one pod beyond its status: how it started, its probes, what it used.

Types of ``podtui.dev/v1alpha1``, as those of `podtui.api.local`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import field

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct, Time


class StepKind(StrEnum):
    """The steps of a start, in the order in which a pod takes them."""

    ADMIT = "Admit"
    VOLUMES = "Volumes"
    SANDBOX = "Sandbox"
    PULL = "Pull"
    CREATE = "Create"
    """Of a container: made and started."""
    POST_START = "PostStart"
    RUN = "Run"
    """Of a container: from its start to its end."""
    STARTUP = "Startup"
    """Waiting for a startup probe."""
    READY = "Ready"
    """Waiting for a readiness probe."""


class Step(Struct, frozen=True, kw_only=True):
    """``subject`` is a container, of a pull the image; empty for the pod's own steps. ``ended``
    None: under way. ``note`` says in a few words what came of it."""

    kind: StepKind
    began: Time
    subject: str = ""
    ended: Time | None = None
    init: bool = False
    """Whether the pod's start waits for this container to end."""
    failed: bool = False
    note: str = ""


class PodStart(Struct, frozen=True, kw_only=True):
    """One start of a pod. ``began``: its manifest was seen, or its sandbox had to be made anew
    (``cause`` says so). ``ready``: all its containers were for the first time; ``over``: it is
    gone."""

    uid: str
    began: Time
    cause: str = ""
    ready: Time | None = None
    over: Time | None = None
    steps: tuple[Step, ...] = ()


class Timeline(Struct, frozen=True, kw_only=True):
    """The last starts of one namespace and name, the newest first."""

    metadata: ObjectMeta
    starts: tuple[PodStart, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "Timeline"


class ProbeRun(Struct, frozen=True, kw_only=True):
    """One run of a probe. ``verdict``: ``success``, ``warning``, ``failure``, ``error`` (the
    question could not be put) or ``no engine``; ``seconds`` is how long it took; ``output`` its
    first lines."""

    time: Time
    verdict: str
    seconds: float
    output: str = ""


class ProbeReport(Struct, frozen=True, kw_only=True):
    """Where one probe of one container stands. ``probe`` is ``Startup``, ``Liveness`` or
    ``Readiness``; ``result`` what the kubelet goes by (``success``, ``failure``, empty before any);
    ``inRow`` how often ``last`` came in succession and ``threshold`` how often it must;
    ``nextIn`` seconds to the next run, None where there will be none, and ``state`` says why:
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


class UsageSeries(Struct, frozen=True, kw_only=True):
    """What one container used: at ``times`` (Unix seconds, rising) ``cpu`` in milli cores,
    ``memory`` in bytes, ``read`` and ``written`` from and to disks in bytes each second, and
    ``storage``, the bytes that it keeps in its own layer and its log. None: not measured then."""

    container: str
    times: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    memory: tuple[int, ...] = ()
    read: tuple[float | None, ...] = ()
    written: tuple[float | None, ...] = ()
    storage: tuple[float | None, ...] = ()


class NetworkSeries(Struct, frozen=True, kw_only=True):
    """What went over the pod's network, in bytes each second. None: not measured then."""

    times: tuple[float, ...] = ()
    received: tuple[float | None, ...] = ()
    sent: tuple[float | None, ...] = ()


class PodInsight(Struct, frozen=True, kw_only=True):
    """Starts, probes and usage of a pod, as of now; ``time`` is the agent's clock in Unix seconds.
    ``version`` is another one when there is something new. ``unmeasured`` says why there are no
    figures: of ``network``, ``disk`` or ``storage``."""

    time: float
    version: str = ""
    starts: tuple[PodStart, ...] = ()
    """The newest first."""
    probes: tuple[ProbeReport, ...] = ()
    usage: tuple[UsageSeries, ...] = ()
    network: NetworkSeries = NetworkSeries()
    unmeasured: dict[str, str] = field(default_factory=dict[str, str])


class NodeInsight(Struct, frozen=True, kw_only=True):
    """What the node used: at ``times`` (Unix seconds, rising) ``cpu`` in milli cores, ``memory`` in
    bytes, ``pods`` with a sandbox, ``storage`` in bytes of the engine's file system, None where it
    was not measured."""

    time: float
    version: str = ""
    times: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    memory: tuple[int, ...] = ()
    pods: tuple[int, ...] = ()
    storage: tuple[float | None, ...] = ()


class InsightPart(StrEnum):
    """What one wants to know of a pod."""

    ALL = ""
    STARTS = "starts"
    PROBES = "probes"
    USAGE = "usage"


class InsightQuery(Struct, frozen=True, kw_only=True):
    """``span`` is how many seconds of history; with ``wait``, the answer is waited for as many
    seconds until it is another one than ``seen`` (a ``version``)."""

    part: InsightPart = InsightPart.ALL
    span: float = 3600.0
    seen: str = ""
    wait: float = 0.0


AT_ONCE: Final = InsightQuery()
"""All of it, as it is now."""
