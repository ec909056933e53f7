"""The kinds of the group policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.policy import PodDisruptionBudget
from podtui.server.resources.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)

POD_DISRUPTION_BUDGETS: Final = Strategy(
    struct=PodDisruptionBudget,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
POD_DISRUPTION_BUDGET_STATUS: Final = replace(POD_DISRUPTION_BUDGETS, prepare_update=with_old_spec)
