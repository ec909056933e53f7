"""The reasons why a node, or the whole cluster, cannot take a pod, and their message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Code = Literal["Unschedulable", "UnschedulableAndUnresolvable"]
UNSCHEDULABLE: Final = "Unschedulable"
UNRESOLVABLE: Final = "UnschedulableAndUnresolvable"
"""Ending other pods on the node would not help."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A plugin's refusal of a node."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDiagnosis:
    """The reasons why no node can take the pod. Nodes that are not in ``nodes`` were refused for
    ``absent``."""

    total: int
    nodes: Mapping[str, Rejection] = field(default_factory=dict[str, Rejection])
    absent: Rejection = Rejection("", UNRESOLVABLE, ())
    before: str = ""
    """The reason that holds for all nodes, found before the filters ran."""
    plugins: frozenset[str] = frozenset()

    def rejection(self, node: str) -> Rejection:
        return self.nodes.get(node, self.absent)

    def message(self, preemption: str = "") -> str:
        """Return the message of the scheduler, followed by the one of the preemption."""
        text = f"0/{self.total} nodes are available:"
        reasons = self.before or self._counted()
        if reasons:
            text += f" {reasons}."
        return f"{text} {preemption}" if preemption else text

    def _counted(self) -> str:
        counts = Counter(
            reason for rejection in self.nodes.values() for reason in rejection.reasons
        )
        if len(self.nodes) < self.total:
            for reason in self.absent.reasons:
                counts[reason] += self.total - len(self.nodes)
        return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
