"""Totals over all pods, updated incrementally: number by state, requested resources."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from podtui.api.v1 import Pod
from podtui.tui.model.usage import is_active
from podtui.tui.views.pod_status import Family
from podtui.tui.views.pods.rows import STATUS, Asked
from podtui.tui.widgets.cells import Row

FAMILIES: Final = {family.value: family for family in Family}


class _Part(Struct, frozen=True):
    family: Family
    cpu: int
    memory: int


class Totals:
    """Totals: pods by family (``counts``), requested ``cpu`` in millicores and ``memory`` in
    bytes.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Family, 0)
        self.cpu = 0
        self.memory = 0
        self._parts: dict[str, _Part] = {}

    def put(self, pod: Pod, row: Row, ask: Asked) -> None:
        """Add or update a pod; ``row`` is its row in the table."""
        self.drop(row.key)
        holds = is_active(pod)
        part = _Part(FAMILIES[row.cells[STATUS].tone], holds * ask.cpu, holds * ask.memory)
        self._parts[row.key] = part
        self._add(part, 1)

    def drop(self, key: str) -> None:
        """Remove a pod."""
        part = self._parts.pop(key, None)
        if part is not None:
            self._add(part, -1)

    def _add(self, part: _Part, sign: int) -> None:
        self.counts[part.family] += sign
        self.cpu += sign * part.cpu
        self.memory += sign * part.memory
