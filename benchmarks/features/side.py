"""The interface to a program that runs Pod manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Seen:
    """One container: ``state`` is ``running``, ``exited`` or ``waiting``; None if unknown."""

    state: str
    exit_code: int | None = None
    restarts: int = 0
    ready: bool | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The reported state of a pod; no containers if it was rejected."""

    containers: Mapping[str, Seen] = field(default_factory=dict[str, Seen])
    phase: str = ""
    errors: str = ""
    """The complete output about the pod, as a user reads it."""


class Side(Protocol):
    """``name`` is the pod's name in the manifest; the program may append to it."""

    def play(self, name: str, manifest: str) -> None: ...

    def facts(self, name: str) -> Facts: ...

    def log(self, name: str, container: str) -> str: ...

    def remove(self, name: str) -> None:
        """Terminate the pod as a user would, within its grace period."""
        ...
