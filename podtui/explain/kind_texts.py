"""The texts about kinds other than Pod: their purpose and that of their fields, and the parameters
of requests. The API's OpenAPI documents have the same texts."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import msgspec

from podtui.explain import facts
from podtui.explain.places import PodField


class KindTexts(msgspec.Struct, frozen=True):
    types: dict[str, str]
    fields: dict[str, dict[str, str]]
    parameters: dict[str, dict[str, str]]


@cache
def texts() -> KindTexts:
    data = tomllib.loads(Path(__file__).with_name("kind_texts.toml").read_text("utf-8"))
    return msgspec.convert(data, KindTexts)


def field_description(owner: str, name: str) -> str:
    """Return the purpose of a field of a type; empty if it is not documented."""
    fields = texts().fields
    description = fields.get(owner, {}).get(name)
    if description is not None:
        return description
    plain = "Container" if owner == "EphemeralContainer" else owner
    text = facts.texts().fields.get(f"{owner}.{name}") or facts.texts().fields.get(
        f"{plain}.{name}"
    )
    return text or fields["every"].get(name, "")


def purpose(field: PodField) -> str:
    """Return the purpose of a field of any kind."""
    if field.kind == "Pod":
        return facts.description(field)
    if field.owner is None or field.field is None:
        return texts().types.get(field.kind, "")
    return field_description(field.owner.__name__, field.field.name)
