"""Events: one set of records, served as core ``v1`` and as ``events.k8s.io/v1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from podtui.api.v1 import Event
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import Errors, invalid, invalid_each, required
from podtui.manifest.validation.metadata import label_name, object_meta

_LIMITS: Final = (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024))
_MISMATCH: Final = "does not match event.namespace"
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count")
_FIXED: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
# The names of events.k8s.io by those of core v1, where they differ.
_NEW_NAMES: Final[Mapping[str, str]] = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
}
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}
GROUP: Final = "events.k8s.io"


def to_new(event: Event) -> Tree:
    """Return the event in the form of ``events.k8s.io/v1``."""
    tree: Tree = msgspec.to_builtins(event)
    for name in ("reportingComponent", "reportingInstance"):
        if not tree[name]:
            del tree[name]
    if event.series is not None:
        tree["series"] = {"count": 0, "lastObservedTime": None} | tree["series"]
    return {_NEW_NAMES.get(name, name): value for name, value in tree.items()} | {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Event",
    }


def from_new(tree: Tree) -> Tree:
    """Return a document of ``events.k8s.io/v1`` with the names of core ``v1``."""
    return {_OLD_NAMES.get(name, name): value for name, value in tree.items()}


def _legacy_errors(event: Event, component: str) -> Errors:
    namespace, involved = event.metadata.namespace, event.involvedObject.namespace
    if event.eventTime is None:
        if (involved and involved != namespace) or (
            not involved and namespace not in ("", "default")
        ):
            yield invalid("involvedObject.namespace", involved, _MISMATCH)
    else:
        if not involved and namespace not in ("default", "kube-system"):
            yield invalid("involvedObject.namespace", involved, _MISMATCH)
        if not event.reportingComponent:
            yield required(component)
        yield from label_name(event.reportingComponent, component)
        for name, limit in _LIMITS:
            value: str = getattr(event, name)
            if not value and name != "message":
                yield required(name)
            if formats.size(value) > limit:
                yield invalid(name, "", f"can have at most {limit} characters")
    yield from invalid_each("namespace", namespace, formats.dns_subdomain(namespace))


def _core_errors(event: Event) -> Errors:
    yield from _legacy_errors(event, "reportingComponent")


def _core_update_errors(new: Event, old: Event) -> Errors:
    yield from _legacy_errors(new, "reportingComponent")


def _strict_errors(event: Event) -> Errors:
    yield from _legacy_errors(event, "reportingController")
    yield from object_meta(event.metadata, "metadata")
    yield from _series_errors(event)
    if event.eventTime is None:
        yield required("eventTime")
    if event.type not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {event.type}")
    for name in _UNSET:
        if getattr(event, name):
            yield invalid(name, "", "needs to be unset")
    if event.source.component or event.source.host:
        yield invalid("source", "", "needs to be unset")


def _series_errors(event: Event) -> Errors:
    if event.series is None:
        return
    if (event.series.count or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if event.series.lastObservedTime is None:
        yield required("series.lastObservedTime")


def _strict_update_errors(new: Event, old: Event) -> Errors:
    yield from _legacy_errors(new, "reportingController")
    if new.series != old.series:
        yield from _series_errors(new)
    for name in _FIXED:
        value: object = getattr(new, name)
        if value != getattr(old, name):
            field = "reportingController" if name == "reportingComponent" else name
            yield invalid(field, value, "field is immutable")


CORE_EVENTS: Final = Strategy(
    struct=Event,
    validate_create=_core_errors,
    validate_update=_core_update_errors,
    owns=False,
    create_on_update=True,
)
NEW_EVENTS: Final = replace(
    CORE_EVENTS, validate_create=_strict_errors, validate_update=_strict_update_errors
)
