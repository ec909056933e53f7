"""The explanation of one field, as plain data."""

from __future__ import annotations

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


def explain_pod_field(pod_field: PodField) -> Explanation:
    """Explain a field, or the Pod itself."""
    children = tuple(map(_child, pod_field.children))
    if pod_field.field is None:
        return Explanation("", "object", True, POD_WORDS, "", "", (), (), (), None, children)
    return Explanation(
        path=pod_field.text,
        type=type_text(pod_field.field),
        required=facts.required(pod_field),
        description=facts.description(pod_field),
        support=facts.support(pod_field),
        default=facts.default(pod_field),
        values=facts.values(pod_field),
        rules=facts.rules(pod_field),
        departures=facts.departures(pod_field),
        example=facts.example(pod_field),
        fields=children,
    )


def _child(pod_field: PodField) -> Child:
    assert pod_field.field is not None  # Only the Pod itself has no field, and it is not a child.
    return Child(
        pod_field.path[-1],
        pod_field.text,
        type_text(pod_field.field),
        facts.required(pod_field),
        facts.support(pod_field),
        facts.description(pod_field),
        pod_field.struct is not None,
    )
