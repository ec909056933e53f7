"""The interface of the prober, and the state of one probe of one container (kubelet.md §8).

States are immutable values without a clock: a tick calls `state_of`, `is_due`, runs the probe and
passes the result to `observe`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.v1 import Container, Pod, Probe
from podtui.kubelet.types import ObservedPod, ProbeResult, ProbeView


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTotal:
    """The number of runs of one probe with one result: ``prober_probe_total``."""

    probe_type: str
    result: str
    container: str
    pod: str
    namespace: str
    pod_uid: str
    count: int


class Probes(Protocol):
    """The probes of every pod. The implementation wakes the pod's worker when a result changes."""

    def view(self, pod: Pod, observed: ObservedPod) -> ProbeView:
        """Return the latest results of the pod's containers."""
        ...

    async def run(self) -> None:
        """Run background tasks beside the kubelet's own, if any."""
        ...

    def start(self, pod: Pod) -> None:
        """Start the probes of a running pod. Called in every sync, so repeated calls must be
        cheap."""
        ...

    def stop(self, uid: str, *, readiness: bool) -> None:
        """Stop liveness and startup probes; with ``readiness``, all of them."""
        ...

    def reports(self, pod: Pod) -> tuple[ProbeReport, ...]:
        """Return a user-facing report of each probe of the pod."""
        ...

    def totals(self) -> tuple[ProbeTotal, ...]:
        """Return the counters of the current probes."""
        ...

    async def run_once(self, uid: str, container: str, probe: str) -> ProbeRun:
        """Run a probe once without counting it. Raises `LookupError`."""
        ...


# --- one probe


class ProbeKind(StrEnum):
    """The kinds of probes; event messages start with the value."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


OnProbeResult = Callable[[str, str, ProbeKind, ProbeResult], None]
"""Callback for a changed result: pod UID, container id, kind, result."""


INITIAL: Final = {
    ProbeKind.STARTUP: ProbeResult.UNKNOWN,
    ProbeKind.LIVENESS: ProbeResult.SUCCESS,
    ProbeKind.READINESS: ProbeResult.FAILURE,
}


def probe_of(container: Container, kind: ProbeKind) -> Probe | None:
    match kind:
        case ProbeKind.STARTUP:
            return container.startupProbe
        case ProbeKind.LIVENESS:
            return container.livenessProbe
        case ProbeKind.READINESS:
            return container.readinessProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of one probe; times are in seconds."""

    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3


def rules_of(probe: Probe) -> Rules:
    """Return the probe's settings, with the API's defaults for unset ones."""
    default = Rules()
    return Rules(
        initial_delay=float(probe.initialDelaySeconds or 0),
        period=float(probe.periodSeconds or default.period),
        timeout=float(probe.timeoutSeconds or default.timeout),
        successes=probe.successThreshold or default.successes,
        failures=probe.failureThreshold or default.failures,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeState:
    """The state of one probe. ``result`` is the published result; None before the first
    container."""

    kind: ProbeKind
    container_id: str = ""
    result: ProbeResult | None = None
    held: bool = False
    """True if the result of this instance is final; only another instance is probed again."""
    last: ProbeResult | None = None
    in_row: int = 0
    """The number of successive runs with the result ``last``."""

    def state_of(self, container_id: str, *, known_good: bool = False) -> ProbeState:
        """Return the state for the running instance; a new instance starts fresh.

        ``known_good``: an earlier kubelet recorded this instance as started or ready.
        """
        if container_id == self.container_id:
            return self
        if known_good:
            return ProbeState(
                kind=self.kind,
                container_id=container_id,
                result=ProbeResult.SUCCESS,
                held=self.kind is ProbeKind.STARTUP,
            )
        return ProbeState(kind=self.kind, container_id=container_id, result=INITIAL[self.kind])

    def down(self, container_id: str) -> ProbeState:
        """Return the state after this instance has stopped."""
        if container_id != self.container_id or self.held:
            return self
        return replace(self, result=ProbeResult.FAILURE, last=None, in_row=0)

    def is_due(self, rules: Rules, *, age: float, started: bool) -> bool:
        """Return whether to probe the running instance now. ``age`` is the time since its start in
        seconds; ``started``: it has no startup probe or passed it."""
        if not self.container_id or self.held or age < rules.initial_delay:
            return False
        return started != (self.kind is ProbeKind.STARTUP)

    def observe(self, result: ProbeResult, rules: Rules) -> ProbeState:
        """Count the result of one run, SUCCESS or FAILURE; at its threshold it becomes
        ``result``."""
        in_row = self.in_row + 1 if result is self.last else 1
        counted = replace(self, last=result, in_row=in_row)
        needed = rules.successes if result is ProbeResult.SUCCESS else rules.failures
        if in_row < needed:
            return counted
        final = self.kind is ProbeKind.STARTUP or (
            self.kind is ProbeKind.LIVENESS and result is ProbeResult.FAILURE
        )
        return replace(counted, result=result, held=final, in_row=0 if final else in_row)


# --- one run


class ProbeVerdict(StrEnum):
    SUCCESS = "success"
    WARNING = "warning"
    """Success with a warning event."""
    FAILURE = "failure"
    ERROR = "error"
    """The probe could not be run; the result does not count."""
    NO_ENGINE = "no engine"
    """Like ERROR, but because the engine is lost; the node's status reports that."""


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    verdict: ProbeVerdict
    text: str = ""


SUCCESS = ProbeOutcome(ProbeVerdict.SUCCESS)


def failure(text: str) -> ProbeOutcome:
    return ProbeOutcome(ProbeVerdict.FAILURE, text)


def error(text: str) -> ProbeOutcome:
    return ProbeOutcome(ProbeVerdict.ERROR, text)
