"""What an agent tells of one pod beyond its status: how it started, its probes, what it used.

Types of ``podtui.dev/v1alpha1``, as those of `podtui.api.local`.
"""

from __future__ import annotations

from enum import StrEnum

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
    """What one container used: at ``times`` (Unix seconds, rising) ``cpu`` in milli cores and
    ``memory`` in bytes."""

    container: str
    times: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    memory: tuple[int, ...] = ()


class PodInsight(Struct, frozen=True, kw_only=True):
    """Probes and usage of a pod, as of now; ``time`` is the agent's clock in Unix seconds."""

    time: float
    probes: tuple[ProbeReport, ...] = ()
    usage: tuple[UsageSeries, ...] = ()
