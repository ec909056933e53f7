"""The kinds of the group scheduling.k8s.io."""

from __future__ import annotations

from typing import Final

from podtui.api.scheduling import PriorityClass
from podtui.server.resources.strategies.strategy import Strategy

PRIORITY_CLASSES: Final = Strategy(struct=PriorityClass)
