"""A one-line explanation of a pod's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from podtui.api.local import Manifest
from podtui.api.printing import ending
from podtui.api.times import short_duration
from podtui.api.v1 import Node, Pod
from podtui.tui.model.model import Model
from podtui.tui.views.events import manifest_message, place_of
from podtui.tui.views.pod_status import is_rejected
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.format import epoch
from podtui.tui.widgets.sanitize import clean
from podtui.why import Diagnosis, Facts, Health, diagnose
from podtui.why.waiting import diagnose_waiting

FRESH_SECONDS: Final = 2.0
"""Seconds after which the explanation of an unhealthy pod is updated at the latest."""
GLYPHS: Final = {
    Health.HEALTHY: ("●", "running"),
    Health.DONE: ("✔", "completed"),
    Health.WAITING: ("◔", "pending"),
    Health.BROKEN: ("✖", "error"),
}


def facts_of(
    model: Model,
    pod: Pod,
    now: float,
    logs: Mapping[str, tuple[str, ...]] | None = None,
    log_problems: Mapping[str, str] | None = None,
) -> Facts:
    """Return the facts about a pod that the screen has."""
    return Facts(
        pod=pod,
        now=now,
        events=tuple(model.events_of(pod)),
        manifest=model.manifest_of(pod),
        node=model.home_of(pod),
        others=tuple(model.neighbours_of(pod)),
        logs=logs or {},
        log_problems=log_problems or {},
    )


class Explanations:
    """The explanation of the pod under the cursor, cached while its inputs are unchanged."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._basis: tuple[object, ...] = ()
        self._well = False
        self._line: Line = ()

    def of(self, pod: Pod, now: float) -> Line:
        model = self._model
        # A healthy pod stays healthy until its record changes; a wait may exceed its deadline.
        turn = None if self._well else now // FRESH_SECONDS
        basis = (pod, model.home_of(pod), len(model.events), turn)
        if len(basis) != len(self._basis) or any(
            a is not b and a != b for a, b in zip(basis, self._basis, strict=True)
        ):
            facts = facts_of(model, pod, now)
            said = diagnose(facts)
            self._well = said.health is Health.HEALTHY
            self._basis = (*basis[:-1], None if self._well else now // FRESH_SECONDS)
            self._line = _told(facts, said)
        return self._line


def explain_pod(facts: Facts) -> Line:
    """Return the cause and the fix of a problem; for a healthy pod, its containers."""
    return _told(facts, diagnose(facts))


def titled_explanation(facts: Facts) -> tuple[str, Line]:
    """Return a title for the kind of explanation, and the explanation of `explain_pod`."""
    said = diagnose(facts)
    title = {Health.DONE: "Ended", Health.HEALTHY: "Runs"}.get(said.health, "Why")
    return title, _told(facts, said)


def _told(facts: Facts, said: Diagnosis) -> Line:
    if said.health is Health.DONE:
        return _endings(facts.pod, facts.now)
    if said.health is Health.HEALTHY:
        return _contents(facts.pod)
    return (*_cause(facts.pod, said), *_cure(said))


def _cause(pod: Pod, said: Diagnosis) -> Line:
    rejected = is_rejected(pod)
    head = (Span("rejected ", "error"),) if rejected else ()
    return (*head, Span(clean(said.title)))


def _cure(said: Diagnosis) -> Line:
    if said.fixes:
        return (Span("  X ", "hint-key"), Span(clean(said.fixes[0].title), "soft"))
    return (Span("  X", "hint-key"), Span(": details", "muted"))


def _endings(pod: Pod, now: float) -> Line:
    spans: list[Span] = []
    for status in pod.status.containerStatuses:
        ended = status.state.terminated
        if ended is None:
            continue
        when = epoch(ended.finishedAt)
        ago = f" {short_duration(now - when)} ago" if when is not None else ""
        reason = "" if ended.exitCode == 0 else f" ({clean(ending(ended))})"
        spans += [
            Span("  ·  " if spans else "", "muted"),
            Span(clean(status.name) + " ", "key"),
            Span(f"ended with exit code {ended.exitCode}{reason}{ago}", "soft"),
        ]
    return tuple(spans) or _contents(pod)


def _contents(pod: Pod) -> Line:
    spans: list[Span] = []
    for container in pod.spec.containers:
        if spans:
            spans.append(Span("  ·  ", "muted"))
        spans.append(Span(clean(container.name) + " ", "key"))
        spans.append(Span(clean(container.image), "soft"))
    return tuple(spans)


def explain_manifest(manifest: Manifest, node: Node | None = None) -> Line:
    """Return the problem of a file with podtui's reaction, or what its pod waits for."""
    waits = diagnose_waiting(manifest, node)
    if waits is not None:
        return (Span(f"{clean(waits.title)} "), Span(place_of(manifest), "key"), *_cure(waits))
    state = manifest.status.message
    return (
        Span(f"{manifest_message(manifest)}  "),
        Span(place_of(manifest), "key"),
        Span(f"  {clean(state)}" if state and manifest.status.diagnostics else "", "muted"),
    )


def health_word(health: Health) -> Line:
    """Return a glyph and a word for the health of a pod."""
    glyph, tone = GLYPHS[health]
    return (Span(f"{glyph} {health}", tone),)


def newest_of(pods: Sequence[Pod], uid: str) -> Pod | None:
    """Return the pod that its manifest currently defines, else the last one."""
    for pod in pods:
        if uid and pod.metadata.uid == uid:
            return pod
    return pods[-1] if pods else None
