"""The API server's rules for the conditions in a status."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Condition
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    invalid,
    invalid_each,
    not_supported,
    required,
    too_long,
)
from podtui.manifest.validation.metadata import label_name

_STATUSES: Final = ("False", "True", "Unknown")
_REASON_BYTES: Final = 1024
_MESSAGE_BYTES: Final = 32 * 1024


def validate_conditions(conditions: tuple[Condition, ...], path: str) -> Errors:
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        here = f"{path}[{index}]"
        if condition.type in types:
            yield duplicate(f"{here}.type", condition.type)
        types.add(condition.type)
        yield from _condition(condition, here)


def _condition(condition: Condition, path: str) -> Errors:
    yield from label_name(condition.type, f"{path}.type")
    if condition.status not in _STATUSES:
        yield not_supported(f"{path}.status", condition.status, _STATUSES)
    generation = condition.observedGeneration
    if generation is not None and generation < 0:
        why = "must be greater than or equal to zero"
        yield invalid(f"{path}.observedGeneration", generation, why)
    if not condition.lastTransitionTime:
        yield required(f"{path}.lastTransitionTime")
    reason = condition.reason
    if not reason:
        yield required(f"{path}.reason")
    else:
        problems = formats.CONDITION_REASON.problems(reason)
        yield from invalid_each(f"{path}.reason", reason, problems)
        if formats.size(reason) > _REASON_BYTES:
            yield too_long(f"{path}.reason", _REASON_BYTES)
    if formats.size(condition.message) > _MESSAGE_BYTES:
        yield too_long(f"{path}.message", _MESSAGE_BYTES)
