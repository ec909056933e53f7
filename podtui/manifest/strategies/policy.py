"""Disruption budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.policy import PodDisruptionBudget
from podtui.manifest.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)
from podtui.manifest.validation.disruption_budgets import budget_status, validate_budget
from podtui.manifest.validation.errors import Errors


def _update_errors(new: PodDisruptionBudget, old: PodDisruptionBudget) -> Errors:
    yield from validate_budget(new)


def _status_errors(new: PodDisruptionBudget, old: PodDisruptionBudget) -> Errors:
    yield from budget_status(new.status)


POD_DISRUPTION_BUDGETS: Final = Strategy(
    struct=PodDisruptionBudget,
    prepare_create=without_status,
    prepare_update=with_old_status,
    validate_create=validate_budget,
    validate_update=_update_errors,
    unconditional_update=False,
)
POD_DISRUPTION_BUDGET_STATUS: Final = replace(
    POD_DISRUPTION_BUDGETS, prepare_update=with_old_spec, validate_update=_status_errors
)
