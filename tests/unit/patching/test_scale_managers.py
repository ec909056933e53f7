"""The managers of replicas, as a real API server (v1.36.2) moves them between an object and its
Scale."""

from __future__ import annotations

from typing import Any

import pytest

from podtui.patching.errors import PatchError
from podtui.patching.scale_managers import object_entries, scale_entries

VERSION = "apps/v1"
REPLICAS = {"f:spec": {"f:replicas": {}}}
REPLICAS_AND_MORE = {"f:spec": {"f:paused": {}, "f:replicas": {}}}
TIME = "2026-01-01T00:00:00Z"


def entry(manager: str, fields: Any, version: str = VERSION, **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def scale_entry(manager: str, **more: str) -> dict[str, Any]:
    return entry(manager, REPLICAS, "autoscaling/v1", **more)


def test_a_scale_has_the_managers_of_replicas_only() -> None:
    entries = [
        entry("a", REPLICAS_AND_MORE, time=TIME),
        entry("b", {"f:spec": {"f:paused": {}}}),
        entry("c", REPLICAS, version="extensions/v1beta1"),
    ]
    assert scale_entries(entries, VERSION) == [scale_entry("a", time=TIME)]
    assert scale_entries(None, VERSION) == []


def test_a_manager_that_scales_takes_the_field_from_the_others() -> None:
    before = [entry("a", REPLICAS_AND_MORE, time=TIME), entry("b", REPLICAS, time=TIME)]
    after = object_entries(before, [scale_entry("c", subresource="scale", time=TIME)], VERSION)
    assert after == [
        # A new entry has no time.
        entry("c", REPLICAS, subresource="scale"),
        entry("a", {"f:spec": {"f:paused": {}}}, time=TIME),
    ]


def test_an_applier_keeps_its_entry() -> None:
    applied = entry("a", REPLICAS_AND_MORE, operation="Apply", time=TIME)
    of_scale = scale_entries([applied], VERSION)
    assert of_scale == [scale_entry("a", operation="Apply", time=TIME)]
    assert object_entries([applied], of_scale, VERSION) == [applied]
    assert object_entries([applied], [], VERSION) == [
        entry("a", {"f:spec": {"f:paused": {}}}, operation="Apply", time=TIME)
    ]


def test_what_is_not_replicas_does_not_come_from_a_scale() -> None:
    labels = entry("a", {"f:metadata": {"f:labels": {}}}, "autoscaling/v1", subresource="scale")
    assert object_entries([], [labels], VERSION) == []


def test_entries_that_cannot_be_read_are_an_error() -> None:
    with pytest.raises(PatchError, match="operation must be"):
        scale_entries([entry("a", REPLICAS, operation="Guess")], VERSION)
