"""Differences between a pod's file, its record and its containers; there are none in steady
state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podtui.api.local import Manifest, ManifestState
from podtui.api.pods import all_containers
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import ContainerStatus, Pod, PodCondition, ResourceRequirements
from podtui.tui.views.labels import place_of
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.format import ago
from podtui.tui.widgets.sanitize import clean


@dataclass(frozen=True, slots=True)
class Drift:
    """A difference. ``what`` describes it with both values; ``since`` is its time (RFC 3339, empty
    if unknown); ``then`` is what podtui will do about it.
    """

    what: str
    then: str
    since: str = ""


def drifts(pod: Pod, manifest: Manifest | None) -> tuple[Drift, ...]:
    """Return all differences that the records of the pod and of its file show."""
    return (*_of_file(manifest), *_of_amounts(pod))


def drift_lines(drifts: tuple[Drift, ...], now: float) -> Iterator[Line]:
    """Yield lines such as ``▲ main limits.cpu: file 100m, container 500m · since 3m ago · …``."""
    for drift in drifts:
        when = f" · since {ago(drift.since, now)}" if drift.since else ""
        yield (
            Span("▲ ", "warning"),
            Span(clean(drift.what)),
            Span(when, "muted"),
            Span(f" · {clean(drift.then)}", "soft"),
        )


def _of_file(manifest: Manifest | None) -> Iterator[Drift]:
    if manifest is not None and manifest.status.state is ManifestState.LAST_GOOD:
        yield Drift(
            f"{place_of(manifest)} is invalid: its last good version runs",
            "the file takes effect once it is fixed",
        )


def _of_amounts(pod: Pod) -> Iterator[Drift]:
    """Yield pending resizes; if there are none, amounts that were changed outside podtui."""
    amounts = ", ".join(_amounts(pod))
    resizes = tuple(_resizes(pod, amounts))
    if resizes:
        yield from resizes
    elif amounts:
        yield Drift(amounts, "ignored; the file's value applies at the next start of the container")


def _resizes(pod: Pod, amounts: str) -> Iterator[Drift]:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending" and condition.status == "True":
            yield _pending(condition, amounts)
        elif condition.type == "PodResizeInProgress" and condition.status == "True":
            detail = f": {condition.message}" if condition.message else ""
            then = "retried" if condition.reason == "Error" else "in progress"
            what = f"resize not completed{detail}"
            yield Drift(
                f"{what} ({amounts})" if amounts else what, then, condition.lastTransitionTime or ""
            )


def _pending(condition: PodCondition, amounts: str) -> Drift:
    # The reason of the delay is long, and is listed with the conditions.
    detail = amounts or condition.message
    waits = condition.reason != "Infeasible"
    return Drift(
        f"resize {'deferred' if waits else 'infeasible'}: {detail}",
        "retried when resources are available" if waits else "not retried: change the file",
        condition.lastTransitionTime or "",
    )


def _amounts(pod: Pod) -> Iterator[str]:
    statuses = {
        status.name: status
        for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    }
    for _, container in all_containers(pod):
        status = statuses.get(container.name)
        if status is None or status.state.running is None:
            continue
        for kind, requested, held in _kinds(container.resources, status):
            for resource in ("cpu", "memory"):
                if differ(requested.get(resource), held.get(resource)):
                    yield (
                        f"{container.name} {kind}.{resource}:"
                        f" file {requested.get(resource, 'none')},"
                        f" container {held.get(resource, 'none')}"
                    )


def _kinds(
    requested: ResourceRequirements, status: ContainerStatus
) -> Iterator[tuple[str, Mapping[str, str], Mapping[str, str]]]:
    if status.resources is not None:
        yield "requests", requested.requests, status.resources.requests
        yield "limits", requested.limits, status.resources.limits


def differ(requested: str | None, held: str | None) -> bool:
    """Return whether two quantities differ. A missing quantity does not count as a difference."""
    if requested is None or held is None:
        return False
    try:
        return parse_quantity(requested) != parse_quantity(held)
    except ValueError:
        return requested != held
