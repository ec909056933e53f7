"""Read the engine's JSON answers, in which a missing field may be absent or null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from podtui.runtime.docker.errors import parsing

Json = dict[str, Any]


@parsing("labels")
def labels_of(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a container, volume or configuration. The field may be null."""
    return cast(Mapping[str, str] | None, answer.get("Labels")) or {}


@parsing("an object")
def mapping(answer: Mapping[str, Any], key: str) -> Json:
    """Return a nested object; empty if it is missing or null."""
    return cast(Json | None, answer.get(key)) or {}


def label_filter(wanted: Mapping[str, str]) -> list[str]:
    """Format a ``label`` filter. Check the result with `labelled`."""
    return [f"{key}={value}" for key, value in wanted.items()]


@parsing("a list")
def labelled(entries: Iterable[Json], wanted: Mapping[str, str]) -> list[Json]:
    """Keep entries with all the labels: Podman combines several label filters with OR."""
    return [entry for entry in entries if wanted.items() <= labels_of(entry).items()]
