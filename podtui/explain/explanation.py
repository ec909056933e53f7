"""The explanation of one field, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from podtui.explain import facts
from podtui.explain.facts import Example
from podtui.explain.places import PodField, find_pod_field, type_text

SUPPORT_TEXTS: Final = {
    "honoured": "Supported",
    "no-effect": "Accepted without effect; reported once",
    "refused": "Refused, with the reason",
    "mixed": "Some of its fields are supported, others are not",
}
"""The texts for the support of a field."""
POD_WORDS: Final = "Containers that run together: one IP, shared volumes, one lifecycle."


class Child(msgspec.Struct, frozen=True):
    name: str
    path: str
    type: str
    required: bool
    support: str
    description: str
    has_fields: bool


class Explanation(msgspec.Struct, frozen=True):
    """``support`` is ``honoured``, ``no-effect``, ``refused``, ``mixed`` or empty. ``values`` lists
    all valid values; it is empty if any value is valid. ``rules`` are texts of the validation."""

    path: str
    type: str
    required: bool
    description: str
    support: str
    default: str
    values: tuple[str, ...]
    rules: tuple[str, ...]
    departures: tuple[str, ...]
    example: Example | None
    fields: tuple[Child, ...]

    @property
    def support_text(self) -> str:
        return SUPPORT_TEXTS.get(self.support, "")


def explain(text: str) -> Explanation:
    """Explain the field that ``text`` names (see `find_pod_field`). Raises `UsageError`."""
    return explain_pod_field(find_pod_field(text))


def explain_pod_field(
    pod_field: PodField, describe: Callable[[PodField], str] = facts.description
) -> Explanation:
    """Explain a field, or the Pod or another object itself. ``describe`` returns the purpose of a
    field, or of the object."""
    children = tuple(_child(child, describe) for child in pod_field.children)
    if pod_field.field is None:
        is_pod = pod_field.kind == "Pod"
        path, purpose = ("", POD_WORDS) if is_pod else (pod_field.kind, describe(pod_field))
        return Explanation(path, "object", True, purpose, "", "", (), (), (), None, children)
    return Explanation(
        path=pod_field.text,
        type=type_text(pod_field.field),
        required=_is_required(pod_field),
        description=describe(pod_field),
        support=facts.support(pod_field),
        default=facts.default(pod_field),
        values=facts.values(pod_field),
        rules=facts.rules(pod_field),
        departures=facts.departures(pod_field),
        example=facts.example(pod_field),
        fields=children,
    )


def _is_required(pod_field: PodField) -> bool:
    if pod_field.kind == "Pod" or pod_field.field is None:
        return facts.required(pod_field)
    return pod_field.field.required


def _child(pod_field: PodField, describe: Callable[[PodField], str]) -> Child:
    assert pod_field.field is not None  # Only the Pod itself has no field, and it is not a child.
    return Child(
        pod_field.path[-1],
        pod_field.text,
        type_text(pod_field.field),
        _is_required(pod_field),
        facts.support(pod_field),
        describe(pod_field),
        pod_field.struct is not None,
    )
