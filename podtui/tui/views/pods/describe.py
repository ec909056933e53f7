"""A full description of a pod as lines, like ``kubectl describe``, with the state first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from podtui.api.local import Manifest
from podtui.api.times import short_duration
from podtui.api.v1 import Event, Pod, Volume
from podtui.tui.model.usage import Usage
from podtui.tui.views.events import event_count, last_seen, manifest_message, place_of, pod_label
from podtui.tui.views.pod_status import GLYPHS, pod_status_line
from podtui.tui.views.pods.describe_container import container_lines, pair
from podtui.tui.views.pods.drift import drift_lines, drifts
from podtui.tui.views.pulls import Pull, pull_line
from podtui.tui.views.why import titled_explanation
from podtui.tui.widgets.cells import Line, Span, line_width, wrap
from podtui.tui.widgets.format import ago, mebibytes, millicores, plural
from podtui.tui.widgets.sanitize import clean
from podtui.why import Facts

_INDENT = "  "
_TWO_COLUMNS = 150
"""From this width on, containers are beside the rest."""
_GAP = 3


def describe_pod(
    pod: Pod,
    *,
    events: Iterable[Event],
    manifest: Manifest | None,
    usage: Usage | None,
    now: float,
    width: int,
    pull: Pull | None = None,
) -> list[Line]:
    """Return lines of at most ``width`` cells; ``pull`` is the pull that the pod waits for."""
    events = tuple(events)
    facts = Facts(pod=pod, now=now, events=events, manifest=manifest)
    summary = _section("", _summary(facts, usage, pull), width)
    spec = pod.spec
    containers = (
        ("Init containers", container_lines(pod, spec.initContainers, now)),
        ("Containers", container_lines(pod, spec.containers, now)),
        ("Ephemeral containers", container_lines(pod, spec.ephemeralContainers, now)),
    )
    rest = (
        ("Conditions", _conditions(pod, now)),
        ("Volumes", _volumes(pod.spec.volumes)),
        ("Labels and annotations", _labels(pod)),
    )
    happened = _section("Events", _events(events, now), width)
    if width < _TWO_COLUMNS:
        return [*summary, *_sections((*containers, *rest), width), *happened]
    left = (width - _GAP) * 11 // 20
    both = _beside(_sections(containers, left), _sections(rest, width - _GAP - left), left)
    return [*summary, *both, *happened]


def _sections(parts: Iterable[tuple[str, list[Line]]], width: int) -> list[Line]:
    return [line for title, part in parts for line in _section(title, part, width)]


def _section(title: str, part: list[Line], width: int) -> list[Line]:
    """Return the wrapped lines below their title; empty if there are no lines."""
    if not part:
        return []
    head: list[Line] = [(), (Span(title, "heading"),)] if title else []
    return head + [row for line in part for row in wrap(line, width, indent=_indent_of(line))]


def _beside(left: list[Line], right: list[Line], width: int) -> list[Line]:
    return [
        (*one, Span(" " * (width + _GAP - line_width(one))), *other) if other else one
        for one, other in zip_longest(left, right, fillvalue=())
    ]


def _indent_of(line: Line) -> int:
    """Return the column of the value, where continuation lines start."""
    return len(line[0].text) if line and len(line) > 1 else 4


def _summary(facts: Facts, usage: Usage | None, pull: Pull | None) -> list[Line]:
    pod, manifest, now = facts.pod, facts.manifest, facts.now
    line = pod_status_line(pod, now)
    state = Span(f"{GLYPHS[line.family]} {clean(line.word)}", line.family.value)
    parts = [f"{line.ready}/{line.wanted} ready"]
    if line.restarts:
        parts.append(plural(line.restarts, "restart"))
    if pod.metadata.creationTimestamp:
        parts.append(f"created {ago(pod.metadata.creationTimestamp, now)}")
    title, explanation = titled_explanation(facts)
    lines = [
        pair("Status", state, Span(" · " + " · ".join(parts))),
        pair(title, *explanation),
        pair("Address", Span(clean(pod.status.podIP) or "-"),
              Span(f" on {clean(pod.spec.nodeName) or 'no node'}", "soft"),
              Span(f" {clean(pod.status.hostIP)}", "muted")),
        pair("Class", Span(clean(pod.status.qosClass) or "-"),
              Span(f" · restarts {clean(pod.spec.restartPolicy) or 'Always'}", "soft")),
    ]  # fmt: skip
    if pull is not None:
        lines.insert(1, pair("Image", *pull_line(pull)))
    for number, differs in enumerate(drift_lines(drifts(pod, manifest), now)):
        lines.append(pair("" if number else "Differs", *differs))
    if usage is not None:
        text = f"cpu {millicores(usage.cpu)} · memory {mebibytes(usage.memory)}"
        lines.append(pair("Uses", Span(text)))
    if manifest is not None:
        lines.append(pair("Manifest", Span(clean(manifest.spec.path), "soft")))
        if manifest.status.diagnostics:
            lines.append(
                pair(
                    "",
                    Span(f"▲ {place_of(manifest)} ", "warning"),
                    Span(manifest_message(manifest)),
                )
            )
    lines.append(pair("UID", Span(clean(pod.metadata.uid), "muted")))
    return lines


def _conditions(pod: Pod, now: float) -> list[Line]:
    lines: list[Line] = []
    for condition in pod.status.conditions:
        good = condition.status == "True"
        text = clean(" ".join(part for part in (condition.reason, condition.message) if part))
        when = ago(condition.lastTransitionTime, now)
        lines.append(
            (
                Span(f"{_INDENT}{'✔' if good else '✖'} ", "good" if good else "warning"),
                Span(f"{clean(condition.type):<26} "),
                Span(f"{clean(condition.status):<6}", "soft" if good else "warning"),
                Span(f" {when:<9}", "muted"),
                Span(f" {text}", "soft"),
            )
        )
    return lines


def _volumes(volumes: Sequence[Volume]) -> list[Line]:
    lines: list[Line] = []
    for volume in volumes:
        kind = next(
            (
                field
                for field in volume.__struct_fields__
                if field != "name" and getattr(volume, field) not in (None, "", ())
            ),
            "emptyDir",
        )
        where = f" {clean(volume.hostPath.path)}" if volume.hostPath is not None else ""
        lines.append(pair(clean(volume.name), Span(f"{kind}{where}", "soft"), indent=_INDENT))
    return lines


def _labels(pod: Pod) -> list[Line]:
    pairs = [*sorted(pod.metadata.labels.items()), *sorted(pod.metadata.annotations.items())]
    return [
        (Span(f"{_INDENT}{clean(key)}", "key"), Span("=", "muted"), Span(clean(value), "soft"))
        for key, value in pairs
    ]


def _events(events: Iterable[Event], now: float) -> list[Line]:
    lines: list[Line] = []
    for event in sorted(events, key=last_seen, reverse=True)[:40]:
        warning = event.type == "Warning"
        count = event_count(event)
        lines.append(
            (
                Span(f"{_INDENT}{short_duration(now - last_seen(event)):>6} ", "muted"),
                Span(f"{f'×{count}' if count > 1 else '':<5}", "muted"),
                Span(f"{'▲' if warning else '·'} {clean(event.reason)} ",
                     "warning" if warning else "reason"),
                Span(clean(event.message.strip()), "" if warning else "soft"),
            )
        )  # fmt: skip
    return lines


def title_of(pod: Pod, now: float) -> Line:
    """Return name and state, for the header of a screen."""
    line = pod_status_line(pod, now)
    return (
        Span(f"{pod_label(pod)}  ", "name"),
        Span(f"{GLYPHS[line.family]} {clean(line.word)}", line.family.value),
        Span(f"  {line.ready}/{line.wanted} ready", "soft"),
    )
