"""The explanation of one field, as plain data."""

from __future__ import annotations

from typing import Final

import msgspec

from podtui.explain import facts
from podtui.explain.facts import Example
from podtui.explain.places import Place, find_place, type_text

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
    """Explain the field that ``text`` names (see `find_place`). Raises `UsageError`."""
    return explain_place(find_place(text))


def explain_place(place: Place) -> Explanation:
    """Explain a field, or the Pod itself."""
    children = tuple(map(_child, place.children))
    if place.field is None:
        return Explanation("", "object", True, POD_WORDS, "", "", (), (), (), None, children)
    return Explanation(
        path=place.text,
        type=type_text(place.field),
        required=facts.required(place),
        description=facts.description(place),
        support=facts.support(place),
        default=facts.default(place),
        values=facts.values(place),
        rules=facts.rules(place),
        departures=facts.departures(place),
        example=facts.example(place),
        fields=children,
    )


def _child(place: Place) -> Child:
    assert place.field is not None  # Only the Pod itself has no field, and it is not a child.
    return Child(
        place.path[-1],
        place.text,
        type_text(place.field),
        facts.required(place),
        facts.support(place),
        facts.description(place),
        place.struct is not None,
    )
