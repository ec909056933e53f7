"""Rows of the pods table: pods, and manifest files that define no pod."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from podtui.api.local import Manifest, ManifestState
from podtui.api.times import epoch
from podtui.api.v1 import Pod
from podtui.tui.model.model import pod_key
from podtui.tui.model.usage import Usage, is_active, limited, requested
from podtui.tui.views.events import MANIFEST_KEY
from podtui.tui.views.labels import manifest_message, place_of, pod_label
from podtui.tui.views.pod_status import GLYPHS, Family, PodStatusLine, pod_status_line
from podtui.tui.widgets.cells import Cell, Column, Kind, Row, Span, Value, Visibility
from podtui.tui.widgets.format import address_key, mebibytes, millicores, natural_key
from podtui.tui.widgets.sanitize import clean

POD_COLUMNS: Final = (
    Column("namespace", "NAMESPACE", 60, maximum=32, shown=Visibility.WIDE),
    Column("name", "NAME", 100, minimum=14, maximum=64, flexible=True),
    Column("ready", "READY", 90, kind=Kind.SHARE),
    Column("status", "STATUS", 95, minimum=13, maximum=32, flexible=True, usual_width=19),
    Column("restarts", "RESTARTS", 70, maximum=18, descending=True, kind=Kind.COUNT,
           usual_width=12),
    Column("cpu", "CPU", 50, align="right", descending=True, kind=Kind.CPU, usual_width=5),
    Column("cpu-requests", "%CPU/R", 44, align="right", descending=True, kind=Kind.PERCENT,
           shown=Visibility.WIDE),
    Column("cpu-limits", "%CPU/L", 46, align="right", descending=True, kind=Kind.PERCENT,
           shown=Visibility.WIDE),
    Column("memory", "MEM", 55, align="right", descending=True, kind=Kind.BYTES, usual_width=5),
    Column("memory-requests", "%MEM/R", 45, align="right", descending=True, kind=Kind.PERCENT,
           shown=Visibility.WIDE),
    Column("memory-limits", "%MEM/L", 48, align="right", descending=True, kind=Kind.PERCENT,
           shown=Visibility.WIDE),
    Column("ip", "IP", 30, maximum=39, usual_width=12),
    Column("ports", "PORTS", 28, maximum=28, shown=Visibility.WIDE),
    Column("image", "IMAGE", 35, minimum=12, maximum=48, flexible=True, shown=Visibility.WIDE),
    Column("qos", "QOS", 25, shown=Visibility.WIDE),
    Column("node", "NODE", 20, maximum=32, shown=Visibility.WIDE),
    Column("labels", "LABELS", 15, minimum=12, maximum=64, flexible=True,
           shown=Visibility.ON_REQUEST),
    Column("age", "AGE", 80, align="right", kind=Kind.AGE, usual_width=5),
)  # fmt: skip
_IN_CLUSTERS: Final = {"namespace": 60, "node": 52}
CLUSTER_COLUMNS: Final = tuple(
    replace(column, shown=Visibility.ALWAYS, rank=_IN_CLUSTERS[column.key])
    if column.key in _IN_CLUSTERS
    else column
    for column in POD_COLUMNS
)
"""The columns for a cluster: with several namespaces and nodes, both are always shown."""
STATUS: Final = next(n for n, column in enumerate(POD_COLUMNS) if column.key == "status")
"""Index of the status column, whose tone is the pod's family."""

WARN: Final = 70
CRITICAL: Final = 90
"""Percentage of a request or limit from which a number is highlighted."""

_NEVER: Final = -1.0
_KEYS: Final = tuple(column.key for column in POD_COLUMNS)
_PLACES: Final = {key: place for place, key in enumerate(_KEYS)}
_BLANK: Final = Cell("-", "muted")
_WRONG: Final = frozenset({ManifestState.INVALID, ManifestState.LAST_GOOD, ManifestState.DUPLICATE})
_MANIFEST_WORDS: Final = {
    ManifestState.INVALID: ("✖ InvalidManifest", "error"),
    ManifestState.LAST_GOOD: ("▲ KeepsLastGood", "warning"),
    ManifestState.DUPLICATE: ("▲ DuplicatePod", "warning"),
    ManifestState.IGNORED: ("- Ignored", "muted"),
    ManifestState.ACCEPTED: ("◔ Waiting", "pending"),
}


class _Field(NamedTuple):
    """One column of a row: the cell, its sort key, and its value for filters."""

    cell: Cell
    sort: Any
    value: Value


_NOT_MEASURED: Final = _Field(_BLANK, _NEVER, None)


class RequestsAndLimits(Struct, frozen=True):
    """The requests and limits of a pod, in millicores and bytes; a limit of 0 means no limit."""

    cpu: int
    memory: int
    cpu_limit: int
    memory_limit: int


def requests_and_limits(pod: Pod) -> RequestsAndLimits:
    return RequestsAndLimits(
        requested(pod, "cpu"),
        requested(pod, "memory"),
        limited(pod, "cpu"),
        limited(pod, "memory"),
    )


def pod_row(
    pod: Pod,
    usage: Usage | None,
    *,
    now: float,
    ask: RequestsAndLimits | None = None,
    namespaced: bool = False,
) -> Row:
    """Return the row for `POD_COLUMNS`.

    ``ask`` are the pod's requests and limits, if the caller has them. With ``namespaced``, the name
    is shown without the namespace, which has its own column.
    """
    line = pod_status_line(pod, now)
    name = clean(pod.metadata.name) if namespaced else pod_label(pod)
    word = clean(line.word)
    address = clean(pod.status.podIP or (pod.status.podIPs[0].ip if pod.status.podIPs else ""))
    fields = {
        "namespace": _text(clean(pod.metadata.namespace), "muted"),
        "name": _Field(Cell(name, "name"), natural_key(name), name),
        "status": _Field(Cell(f"{GLYPHS[line.family]} {word}", line.family.value), word, word),
        **_progress(pod, line),
        **_usage_fields(usage, ask or requests_and_limits(pod)),
        "ip": _Field(Cell(address or "-", "muted"), address_key(address), address),
        **_spec_fields(pod),
    }
    return Row(
        pod_key(pod),
        *_in_columns(fields),
        search=f"{name} {word} {address}",
        labels=pod.metadata.labels,
        pin=1,
        identity=pod_label(pod),
        fault=not line.health.well,
        markable=True,
    )


def measured_row(row: Row, usage: Usage | None, ask: RequestsAndLimits) -> Row:
    """Return the row with only the usage cells updated."""
    cells, sort, values = list(row.cells), list(row.sort), list(row.values)
    for key, field in _usage_fields(usage, ask).items():
        place = _PLACES[key]
        cells[place], sort[place], values[place] = field
    return replace(row, cells=tuple(cells), sort=tuple(sort), values=tuple(values))


def _in_columns(
    fields: Mapping[str, _Field],
) -> tuple[tuple[Cell, ...], tuple[Any, ...], tuple[Value, ...]]:
    """Return (cells, sort, values) in the order of the columns."""
    cells, sort, values = zip(*(fields[key] for key in _KEYS), strict=True)
    return cells, sort, values


def _text(text: str, tone: str) -> _Field:
    return _Field(Cell(text, tone) if text else _BLANK, text, text)


def _progress(pod: Pod, line: PodStatusLine) -> dict[str, _Field]:
    whole = line.ready == line.wanted or line.family is Family.COMPLETED
    share = line.ready / max(1, line.wanted)
    created = epoch(pod.metadata.creationTimestamp) or epoch(pod.status.startTime)
    return {
        "ready": _Field(
            Cell(f"{line.ready}/{line.wanted}", "" if whole else line.family.value), share, share
        ),
        "restarts": _Field(
            Cell(
                str(line.restarts),
                "warning" if line.restarts else "muted",
                line.last_restart if line.restarts else None,
            ),
            line.restarts,
            float(line.restarts),
        ),
        "age": _Field(
            Cell("", "muted", created) if created is not None else _BLANK,
            -(created or 0.0),
            created,
        ),
    }


def _usage_fields(usage: Usage | None, ask: RequestsAndLimits) -> dict[str, _Field]:
    """Return the usage, absolute and as a percentage of requests and limits."""
    cpu, memory = (usage.cpu, usage.memory) if usage else (None, None)
    return {
        "cpu": _amount(cpu, ask.cpu_limit, millicores),
        "memory": _amount(memory, ask.memory_limit, mebibytes),
        "cpu-requests": _percentage(cpu, ask.cpu),
        "cpu-limits": _percentage(cpu, ask.cpu_limit),
        "memory-requests": _percentage(memory, ask.memory),
        "memory-limits": _percentage(memory, ask.memory_limit),
    }


def _amount(used: int | None, limit: int, shown: Any) -> _Field:
    if used is None:
        return _NOT_MEASURED
    glyph, tone = _level(100 * used / limit) if limit else ("", "")
    return _Field(Cell(glyph + shown(used), tone), float(used), float(used))


def _percentage(used: int | None, whole: int) -> _Field:
    if used is None or whole <= 0:
        return _NOT_MEASURED
    percent = 100 * used / whole
    return _Field(_percent_cell(round(percent), *_level(percent)), percent, percent)


@lru_cache(maxsize=1024)
def _percent_cell(percent: int, glyph: str, tone: str) -> Cell:
    """Return a cell; cached because there are few percentages and many pods."""
    return Cell(f"{glyph}{percent}%", tone)


def _level(percent: float) -> tuple[str, str]:
    """Return (glyph, tone) for a percentage of a request or limit."""
    if percent >= CRITICAL:
        return "✖", "error"
    return ("▲", "warning") if percent >= WARN else ("", "")


def _spec_fields(pod: Pod) -> dict[str, _Field]:
    """Return the fields from the spec, the labels and the QoS class."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(pod.metadata.labels.items()))
    images = [clean(container.image) for container in pod.spec.containers]
    image = images[0] + (f" +{len(images) - 1}" if len(images) > 1 else "") if images else ""
    return {
        "ports": _text(_ports(pod), "muted"),
        "image": _Field(Cell(image or "-", "muted"), image, " ".join(images)),
        "qos": _text(clean(pod.status.qosClass), "muted"),
        "node": _text(clean(pod.spec.nodeName), "muted"),
        "labels": _text(clean(labels), "muted"),
    }


def _ports(pod: Pod) -> str:
    """Return a text such as ``8080→80,9000/UDP``, the host's port before the container's."""
    found: list[str] = []
    for container in (*pod.spec.initContainers, *pod.spec.containers):
        for port in container.ports:
            host = f"{port.hostPort}→" if port.hostPort else ""
            protocol = f"/{clean(port.protocol)}" if port.protocol not in ("", "TCP") else ""
            found.append(f"{host}{port.containerPort}{protocol}")
    return ",".join(found)


def is_wrong(manifest: Manifest) -> bool:
    """Return whether the file needs a correction: it defines no pod, or an older version runs."""
    return manifest.status.state in _WRONG


def manifest_row(manifest: Manifest, waits_for: str = "", *, on_top: bool = True) -> Row | None:
    """Return the row of a file without a usable pod; None for other files.

    An accepted file whose pod cannot start yet is among the pods, with ``waits_for`` as the reason.
    An invalid file is above the pods, or below them if ``on_top`` is false.
    """
    state = manifest.status.state
    accepted = state is ManifestState.ACCEPTED
    if accepted and not waits_for:
        return None
    word, tone = _MANIFEST_WORDS[state]
    place, message = place_of(manifest), waits_for or manifest_message(manifest)
    ignored = state is ManifestState.IGNORED
    fields = {column.key: _empty_field(column) for column in POD_COLUMNS} | {
        "name": _Field(Cell(place, "muted" if tone == "muted" else "name"), natural_key(place),
                       place),
        "ready": _Field(_BLANK, _NEVER, None),
        "status": _Field(Cell(word, tone), word, word[2:]),
    }  # fmt: skip
    return Row(
        MANIFEST_KEY + manifest.metadata.name,
        *_in_columns(fields),
        search=f"{place} {word[2:]} {message}",
        pin=1 if accepted else 3 if ignored else 0 if on_top else 2,
        tail=Span(message, "muted" if tone == "muted" else ""),
        tail_from=STATUS + 1,
        fault=not ignored and not accepted,
    )


def _empty_field(column: Column) -> _Field:
    """Return an empty field that sorts below all others of its column."""
    blank = Cell("", "muted")
    if column.key == "ip":
        return _Field(blank, address_key(""), None)
    return _Field(blank, "" if column.kind is Kind.TEXT else _NEVER, None)


FAMILIES: Final = {family.value: family for family in Family}


class _Part(Struct, frozen=True):
    family: Family
    cpu: int
    memory: int


class Totals:
    """Totals: pods by family (``counts``), requested ``cpu`` in millicores and ``memory`` in
    bytes.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Family, 0)
        self.cpu = 0
        self.memory = 0
        self._parts: dict[str, _Part] = {}

    def put(self, pod: Pod, row: Row, ask: RequestsAndLimits) -> None:
        """Add or update a pod; ``row`` is its row in the table."""
        self.drop(row.key)
        holds = is_active(pod)
        part = _Part(FAMILIES[row.cells[STATUS].tone], holds * ask.cpu, holds * ask.memory)
        self._parts[row.key] = part
        self._add(part, 1)

    def drop(self, key: str) -> None:
        """Remove a pod."""
        part = self._parts.pop(key, None)
        if part is not None:
            self._add(part, -1)

    def _add(self, part: _Part, sign: int) -> None:
        self.counts[part.family] += sign
        self.cpu += sign * part.cpu
        self.memory += sign * part.memory
