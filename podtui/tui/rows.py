"""Pods, manifests and events as rows of tables."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from podtui.api.local import Manifest, ManifestState, Severity
from podtui.api.v1 import Event, Pod
from podtui.tui.cells import Cell, Column, Row, Span
from podtui.tui.format import epoch, mebibytes, millicores
from podtui.tui.pod_status import GLYPHS, pod_status_line
from podtui.tui.sanitize import clean
from podtui.tui.usage import Usage

POD_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=14, maximum=64, flexible=True),
    Column("ready", "READY", 90),
    Column("status", "STATUS", 95, minimum=13, maximum=32, flexible=True),
    Column("restarts", "RESTARTS", 70, maximum=18, descending=True),
    Column("cpu", "CPU", 50, align="right", descending=True),
    Column("memory", "MEM", 55, align="right", descending=True),
    Column("ip", "IP", 30, maximum=39),
    Column("age", "AGE", 80, align="right"),
)
EVENT_COLUMNS: Final = (
    Column("seen", "SEEN", 80, align="right", descending=True),
    Column("reason", "REASON", 90, minimum=16, maximum=32, flexible=True),
    Column("object", "OBJECT", 60, minimum=12, maximum=34, flexible=True),
    Column("message", "MESSAGE", 100, minimum=30, maximum=2000, flexible=True, filling=True),
)
NO_EVENT_OBJECT: Final = "Node"
MANIFEST_KEY: Final = "manifest:"
"""What the keys of manifest rows begin with."""

_NEVER: Final = -1.0
_MANIFEST_WORDS: Final = {
    ManifestState.INVALID: ("✖ InvalidManifest", "error"),
    ManifestState.LAST_GOOD: ("▲ KeepsLastGood", "warning"),
    ManifestState.DUPLICATE: ("▲ DuplicatePod", "warning"),
    ManifestState.IGNORED: ("- Ignored", "muted"),
    ManifestState.ACCEPTED: ("● Accepted", "running"),
}


def pod_key(pod: Pod) -> str:
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


def pod_label(pod: Pod) -> str:
    """The name, with its namespace where that is not the usual one."""
    name = clean(pod.metadata.name)
    namespace = pod.metadata.namespace
    return name if namespace in ("", "default") else f"{clean(namespace)}/{name}"


def pod_row(pod: Pod, usage: Usage | None) -> Row:
    """The cells of `POD_COLUMNS`."""
    line = pod_status_line(pod)
    name = pod_label(pod)
    word = clean(line.word)
    address = clean(pod.status.podIP or (pod.status.podIPs[0].ip if pod.status.podIPs else ""))
    created = epoch(pod.metadata.creationTimestamp) or epoch(pod.status.startTime)
    whole = line.ready == line.wanted or line.family.value == "completed"
    cells = (
        Cell(name, "name"),
        Cell(f"{line.ready}/{line.wanted}", "" if whole else line.family.value),
        Cell(f"{GLYPHS[line.family]} {word}", line.family.value),
        Cell(
            str(line.restarts),
            "warning" if line.restarts else "muted",
            line.last_restart if line.restarts else None,
        ),
        Cell(millicores(usage.cpu), "") if usage else Cell("-", "muted"),
        Cell(mebibytes(usage.memory), "") if usage else Cell("-", "muted"),
        Cell(address or "-", "muted"),
        Cell("", "muted", created) if created is not None else Cell("-", "muted"),
    )
    sort = (
        name,
        line.ready / max(1, line.wanted),
        word,
        line.restarts,
        usage.cpu if usage else _NEVER,
        usage.memory if usage else _NEVER,
        address,
        -(created or 0.0),
    )
    return Row(
        pod_key(pod),
        cells,
        sort,
        search=f"{name} {word} {address}",
        labels=pod.metadata.labels,
        pin=1,
        same=name,
    )


def place_of(manifest: Manifest) -> str:
    """``FILE:LINE:COLUMN`` of the first error, or of the first remark; else the file's name."""
    found = sorted(manifest.status.diagnostics, key=lambda d: d.severity is not Severity.ERROR)
    name = clean(PurePosixPath(manifest.spec.path).name or manifest.metadata.name)
    for diagnostic in found:
        if diagnostic.line is not None:
            column = f":{diagnostic.column}" if diagnostic.column is not None else ""
            return f"{name}:{diagnostic.line}{column}"
    return name


def manifest_message(manifest: Manifest) -> str:
    """The first thing to say about it, with what to write instead."""
    found = sorted(manifest.status.diagnostics, key=lambda d: d.severity is not Severity.ERROR)
    if not found:
        return clean(manifest.status.message)
    first = found[0]
    where = f"{first.field}: " if first.field and first.field not in first.message else ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    fix = f" → {first.fix}" if first.fix else ""
    return clean(f"{where}{first.message}{fix}{more}")


def manifest_row(manifest: Manifest) -> Row | None:
    """A row in the table of pods for a file that gives no pod as it stands; None for the rest."""
    state = manifest.status.state
    if state is ManifestState.ACCEPTED:
        return None
    word, tone = _MANIFEST_WORDS[state]
    place, message = place_of(manifest), manifest_message(manifest)
    blank = Cell("", "muted")
    return Row(
        MANIFEST_KEY + manifest.metadata.name,
        (
            Cell(place, "muted" if tone == "muted" else "name"),
            Cell("-", "muted"),
            Cell(word, tone),
            *([blank] * 5),
        ),
        (place, -1.0, word, -1, _NEVER, _NEVER, "", 0.0),
        search=f"{place} {word[2:]} {message}",
        pin=2 if state is ManifestState.IGNORED else 0,
        tail=Span(message, "muted" if tone == "muted" else ""),
        tail_from=3,
    )


def event_key(event: Event) -> str:
    return f"{event.metadata.namespace}/{event.metadata.name}"


def last_seen(event: Event) -> float:
    """Epoch seconds, from the finest time that the event has."""
    series = event.series.lastObservedTime if event.series else None
    for moment in (series, event.lastTimestamp, event.eventTime, event.firstTimestamp):
        found = epoch(moment)
        if found is not None:
            return found
    return epoch(event.metadata.creationTimestamp) or 0.0


def event_count(event: Event) -> int:
    return (event.series.count if event.series else None) or event.count or 1


def event_object(event: Event) -> str:
    """The pod, with the container where the event names one; the node by its kind."""
    involved = event.involvedObject
    if involved.kind == "Node":
        return f"node {clean(involved.name)}"
    _, brace, rest = involved.fieldPath.partition("{")
    container = clean(rest.removesuffix("}")) if brace else ""
    return clean(involved.name) + (f"/{container}" if container else "")


def event_row(event: Event) -> Row:
    """The cells of `EVENT_COLUMNS`. Events of one second keep the order they were written in."""
    warning = event.type == "Warning"
    count = event_count(event)
    seen = last_seen(event)
    reason, about = clean(event.reason), event_object(event)
    message = clean(event.message.strip())
    version = event.metadata.resourceVersion
    order = int(version) if version.isdecimal() else 0
    return Row(
        event_key(event),
        (
            Cell("", "muted", seen),
            Cell(
                f"{'▲' if warning else '·'} {reason}" + (f" ×{count}" if count > 1 else ""),
                "warning" if warning else "reason",
            ),
            Cell(about, "muted"),
            Cell(message, "" if warning else "soft"),
        ),
        ((seen, order), reason, about, message),
        search=f"{event.type} {reason} {about} {message}",
    )
