"""Verification of an applied fix: it is verified once the part that failed was seen to work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from podtui.api.pods import run_began
from podtui.api.times import epoch, short_duration
from podtui.why.cases import Case, cases
from podtui.why.types import FINE, Diagnosis, Facts, Fix, Kind

MARGIN: Final = 10.0
"""The number of seconds by which a container must outlive the failed run."""
LIVENESS: Final = "LivenessKilled"
OUT_OF_MEMORY: Final = "OutOfMemory"


class Verdict(StrEnum):
    PENDING = "pending"
    VERIFIED = "verified"
    FAILED_AGAIN = "failed again"
    OTHER_CAUSE = "other cause"


@dataclass(frozen=True, slots=True)
class Trial:
    """The state before a fix. ``ended`` is the id of the instance that ended last, ``runs`` that of
    the running one, and ``ran`` the duration of the failed run in seconds; empty or None if there
    is none. ``weakens`` is that of the fix."""

    cause: str
    container: str = ""
    uid: str = ""
    ended: str = ""
    runs: str = ""
    ran: float | None = None
    weakens: bool = False

    @property
    def watches_liveness(self) -> bool:
        """True if the liveness probe must be seen to pass, which no status shows."""
        return self.cause == LIVENESS


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    text: str


def begin_trial(facts: Facts | None, diagnosis: Diagnosis, fix: Fix | None = None) -> Trial:
    """Record the state before a fix; ``facts`` is None if there is no pod."""
    weakens = fix is not None and fix.weakens
    if facts is None:
        return Trial(diagnosis.cause, weakens=weakens)
    case = _case(facts, diagnosis.container)
    uid = facts.pod.metadata.uid
    if case is None:
        return Trial(diagnosis.cause, diagnosis.container, uid, weakens=weakens)
    end = case.ending
    began, ended = (epoch(run_began(end)), epoch(end.finishedAt)) if end else (None, None)
    return Trial(
        diagnosis.cause,
        diagnosis.container,
        uid,
        end.containerID if end is not None else "",
        case.status.containerID if case.status is not None and case.running else "",
        None if end is None else ended - began if began is not None and ended is not None else 0.0,
        weakens,
    )


def verify(trial: Trial, facts: Facts, diagnosis: Diagnosis, *, liveness_passed: bool) -> Outcome:
    """Return the progress of the fix, given the fixed pod and its diagnosis. ``liveness_passed`` is
    set if the container's liveness probe has passed since the fix."""
    outcome = _progress(trial, facts, diagnosis, liveness_passed)
    if trial.weakens and outcome.verdict is Verdict.VERIFIED:
        # That a weaker check passes says nothing about what the former one reported.
        return Outcome(Verdict.VERIFIED, "the weaker check passes; the reported fault may remain")
    return outcome


def _progress(trial: Trial, facts: Facts, diagnosis: Diagnosis, liveness_passed: bool) -> Outcome:
    if diagnosis.kind is Kind.FAILURE:
        return _failing(trial, facts, diagnosis, liveness_passed)
    if diagnosis.kind not in FINE:
        return Outcome(Verdict.PENDING, "waiting for the pod to become ready")
    case = _case(facts, trial.container)
    if case is None or case.completed or diagnosis.kind is Kind.COMPLETION:
        text = "completed" if diagnosis.kind is Kind.COMPLETION else "the pod is healthy"
        return Outcome(Verdict.VERIFIED, text)
    return _running(trial, case, facts.now, liveness_passed)


def _running(trial: Trial, case: Case, now: float, liveness_passed: bool) -> Outcome:
    if trial.watches_liveness:
        if liveness_passed:
            return Outcome(Verdict.VERIFIED, "the liveness probe passes")
        return Outcome(Verdict.PENDING, "the liveness probe has not passed yet")
    if trial.ran is not None and trial.cause != "StartupKilled":
        return _compare_run_time(trial, case, now)
    return Outcome(Verdict.VERIFIED, "the pod is healthy")


def _failing(trial: Trial, facts: Facts, diagnosis: Diagnosis, liveness_passed: bool) -> Outcome:
    if (diagnosis.cause, diagnosis.container) != (trial.cause, trial.container):
        return Outcome(Verdict.OTHER_CAUSE, "there is a different cause now")
    again = Outcome(Verdict.FAILED_AGAIN, "it failed again")
    if facts.pod.metadata.uid != trial.uid:
        return again
    # The pod continues under its fixed UID, so that its status still has the last run.
    case = _case(facts, trial.container)
    end = case.ending if case is not None else None
    if end is not None and end.containerID != trial.ended:
        return again
    if case is not None and case.running and case.status is not None and case.status.ready:
        # The pod counts as failing until the container has run for long: the fix may work already.
        return _running(trial, case, facts.now, liveness_passed)
    return Outcome(Verdict.PENDING, "the cause remains")


def _compare_run_time(trial: Trial, case: Case, now: float) -> Outcome:
    runs = case.status.state.running if case.status is not None else None
    began = epoch(runs.startedAt) if runs is not None else None
    if began is None or (case.status is not None and case.status.containerID == trial.runs):
        return Outcome(Verdict.PENDING, f"waiting for {case.name} to be restarted")
    before, age = trial.ran or 0.0, now - began
    # With twice the memory, a leak takes twice the time to fill it.
    needed = MARGIN + (2 * before if trial.cause == OUT_OF_MEMORY else before)
    failed = f"the previous run failed after {short_duration(before)}"
    if age < needed:
        return Outcome(Verdict.PENDING, f"{case.name} runs for {short_duration(age)}; {failed}")
    return Outcome(Verdict.VERIFIED, f"{case.name} has run for {short_duration(age)}; {failed}")


def _case(facts: Facts, container: str) -> Case | None:
    return next((case for case in cases(facts) if case.name == container), None)
