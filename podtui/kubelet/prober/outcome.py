"""What one run of a handler came to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    SUCCESS = "success"
    WARNING = "warning"
    """Success, with something to be said."""
    FAILURE = "failure"
    ERROR = "error"
    """The question could not be put: counts for nothing."""
    NO_ENGINE = "no engine"
    """As ERROR, but for the loss of the engine, of which the node speaks."""


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    text: str = ""


SUCCESS = Outcome(Verdict.SUCCESS)


def failure(text: str) -> Outcome:
    return Outcome(Verdict.FAILURE, text)


def error(text: str) -> Outcome:
    return Outcome(Verdict.ERROR, text)
