"""A runner of Pod manifests, as the features see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Seen:
    """One container: ``state`` is ``running``, ``exited`` or ``waiting``; None is not told."""

    state: str
    exit_code: int | None = None
    restarts: int = 0
    ready: bool | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the runner tells of a pod; no containers where it refused it."""

    containers: Mapping[str, Seen] = field(default_factory=dict[str, Seen])
    phase: str = ""
    errors: str = ""
    """All that the runner said of it, for a user to read."""


class Side(Protocol):
    """``name`` is the pod's in the manifest; the runner may lengthen it."""

    def play(self, name: str, manifest: str) -> None: ...

    def facts(self, name: str) -> Facts: ...

    def log(self, name: str, container: str) -> str: ...

    def remove(self, name: str) -> None:
        """End the pod as its user would, within its grace."""
        ...
