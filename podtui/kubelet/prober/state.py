"""What one probe of one container has come to (reference §8): counting, thresholds, holding.

Plain values that know no clock: a tick meets the container, asks whether a run is due, and puts the
run's result in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from podtui.api.v1 import Container, Probe
from podtui.kubelet.base.types import ProbeResult


class ProbeKind(StrEnum):
    """The values begin the texts of events."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


Turned = Callable[[str, str, ProbeKind, ProbeResult], None]
"""Hears of a result that turned: pod UID, container id, kind, result."""

INITIAL: Final = {
    ProbeKind.STARTUP: ProbeResult.UNKNOWN,
    ProbeKind.LIVENESS: ProbeResult.SUCCESS,
    ProbeKind.READINESS: ProbeResult.FAILURE,
}


def probe_of(container: Container, kind: ProbeKind) -> Probe | None:
    """The container's probe of this kind."""
    match kind:
        case ProbeKind.STARTUP:
            return container.startupProbe
        case ProbeKind.LIVENESS:
            return container.livenessProbe
        case ProbeKind.READINESS:
            return container.readinessProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Of one probe; times are seconds."""

    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3


def rules_of(probe: Probe) -> Rules:
    """The probe's numbers, with the API's defaults for those that are not set."""
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
    """One probe's standing. ``result`` is what others see of it; None before any container."""

    kind: ProbeKind
    container_id: str = ""
    result: ProbeResult | None = None
    held: bool = False
    """The verdict on this instance is final; only another one is probed."""
    last: ProbeResult | None = None
    in_row: int = 0
    """How often ``last`` came in succession."""

    def meet(self, container_id: str, *, known_good: bool = False) -> ProbeState:
        """The container's newest instance runs; for a new one everything begins anew.

        ``known_good``: an earlier kubelet had found this very instance started or ready.
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
        """This instance runs no more."""
        if container_id != self.container_id or self.held:
            return self
        return replace(self, result=ProbeResult.FAILURE, last=None, in_row=0)

    def is_due(self, rules: Rules, *, age: float, started: bool) -> bool:
        """Whether to probe the running instance now. ``age`` is in seconds since its start;
        ``started``: it has no startup probe or passed it."""
        if not self.container_id or self.held or age < rules.initial_delay:
            return False
        return started != (self.kind is ProbeKind.STARTUP)

    def observe(self, result: ProbeResult, rules: Rules) -> ProbeState:
        """Count one run's result, SUCCESS or FAILURE; at its threshold it becomes *the* result."""
        in_row = self.in_row + 1 if result is self.last else 1
        counted = replace(self, last=result, in_row=in_row)
        needed = rules.successes if result is ProbeResult.SUCCESS else rules.failures
        if in_row < needed:
            return counted
        final = self.kind is ProbeKind.STARTUP or (
            self.kind is ProbeKind.LIVENESS and result is ProbeResult.FAILURE
        )
        return replace(counted, result=result, held=final, in_row=0 if final else in_row)
