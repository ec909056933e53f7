"""The API server's rules for a PodDisruptionBudget."""

from __future__ import annotations

from typing import Final

from podtui.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from podtui.manifest.validation import formats
from podtui.manifest.validation.conditions import validate_conditions
from podtui.manifest.validation.errors import Errors, invalid, invalid_each, not_supported
from podtui.manifest.validation.metadata import label_selector

_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate_budget(item: PodDisruptionBudget) -> Errors:
    spec = item.spec
    if spec.minAvailable is not None and spec.maxUnavailable is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    yield from number_or_percent(spec.minAvailable, "spec.minAvailable")
    yield from number_or_percent(spec.maxUnavailable, "spec.maxUnavailable")
    yield from label_selector(spec.selector, "spec.selector")
    policy = spec.unhealthyPodEvictionPolicy
    if policy and policy not in _POLICIES:
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)


def budget_status(status: PodDisruptionBudgetStatus) -> Errors:
    yield from validate_conditions(status.conditions, "status.conditions")
    for name in _COUNTS:
        yield from formats.nonnegative(getattr(status, name), f"status.{name}")


def number_or_percent(value: int | str | None, path: str) -> Errors:
    """A number of pods, or a percentage of at most 100 %."""
    if isinstance(value, int):
        yield from formats.nonnegative(value, path)
    elif value is not None:
        problems = formats.PERCENT.problems(value)
        yield from invalid_each(path, value, problems)
        if not problems and int(value.removesuffix("%")) > 100:
            yield invalid(path, value, "must not be greater than 100%")
