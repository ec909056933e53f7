"""The outcome of one run of a handler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    SUCCESS = "success"
    WARNING = "warning"
    """Success with a warning event."""
    FAILURE = "failure"
    ERROR = "error"
    """The probe could not be run; the result does not count."""
    NO_ENGINE = "no engine"
    """Like ERROR, but because the engine is lost; the node's status reports that."""


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    text: str = ""


SUCCESS = Outcome(Verdict.SUCCESS)


def failure(text: str) -> Outcome:
    return Outcome(Verdict.FAILURE, text)


def error(text: str) -> Outcome:
    return Outcome(Verdict.ERROR, text)
