"""Rows of the pods table: pods, and manifest files that define no pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from podtui.api.local import UNUSABLE, Manifest, ManifestState
from podtui.api.names import MIRROR_PROBLEM
from podtui.api.pods import is_mirror
from podtui.api.times import epoch
from podtui.api.v1 import Pod
from podtui.text.terminal_text import plural
from podtui.tui.model.model import pod_key
from podtui.tui.model.usage import Usage, is_active, limited, requested
from podtui.tui.views.events import MANIFEST_KEY
from podtui.tui.views.labels import manifest_message, place_of, pod_label
from podtui.tui.views.pod_status import GLYPHS, Family, PodStatusLine, pod_status_line
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    Span,
    ValueKind,
    Visibility,
    content_of,
    in_columns,
    text_field,
)
from podtui.tui.widgets.format import address_key, mebibytes, millicores, natural_key
from podtui.tui.widgets.sanitize import clean

WARN: Final = 70
CRITICAL: Final = 90
"""Percentage of a request or limit from which a number is highlighted."""

_NEVER: Final = -1.0
_BLANK: Final = Cell("-", "muted")
_MANIFEST_WORDS: Final = {
    ManifestState.INVALID: ("✖ InvalidManifest", "error"),
    ManifestState.LAST_GOOD: ("▲ KeepsLastGood", "warning"),
    ManifestState.DUPLICATE: ("▲ Duplicate", "warning"),
    ManifestState.IGNORED: ("- Ignored", "muted"),
    ManifestState.ACCEPTED: ("○ Pending", "pending"),
}


_FAILING_FIRST: Final = (
    Family.ERROR, Family.UNSTABLE, Family.UNREADY, Family.PENDING, Family.INIT,
    Family.TERMINATING, Family.RUNNING, Family.COMPLETED,
)  # fmt: skip
"""The order of a table that is sorted by status."""
_EXPLAINED: Final = frozenset(
    {Family.ERROR, Family.UNSTABLE, Family.UNREADY, Family.PENDING, Family.INIT}
)
"""The families whose cause, if there is one, is shown in the table."""
_NOT_MEASURED: Final = ColumnValue(_BLANK, _NEVER, None)


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


class _Measured(Struct, frozen=True):
    """The object of the measured columns: what a pod uses, and its requests and limits."""

    cpu: int | None
    memory: int | None
    ask: RequestsAndLimits


class _PodSubject(_Measured, frozen=True):
    """The object of all columns: a pod with its status line, its name as it is shown, and the
    cause of its failure."""

    pod: Pod
    line: PodStatusLine
    name: str
    cause: str


def _muted(text: str) -> ColumnValue:
    return ColumnValue(Cell(text, "muted") if text else _BLANK, text, text)


def _ready(subject: _PodSubject) -> ColumnValue:
    line = subject.line
    whole = line.ready == line.wanted or line.family is Family.COMPLETED
    share = line.ready / max(1, line.wanted)
    tone = "" if whole else line.family.value
    return ColumnValue(Cell(f"{line.ready}/{line.wanted}", tone), share, share)


def _status(subject: _PodSubject) -> ColumnValue:
    family, word = subject.line.family, clean(subject.line.word)
    cell = Cell(f"{GLYPHS[family]} {word}", family.value)
    return ColumnValue(cell, (_FAILING_FIRST.index(family), word), word)


def _restarts(subject: _PodSubject) -> ColumnValue:
    count, last = subject.line.restarts, subject.line.last_restart
    cell = Cell(str(count), "warning", last) if count else Cell("0", "muted")
    return ColumnValue(cell, count, float(count))


def _age(subject: _PodSubject) -> ColumnValue:
    pod = subject.pod
    created = epoch(pod.metadata.creationTimestamp) or epoch(pod.status.startTime)
    cell = Cell("", "muted", created) if created is not None else _BLANK
    return ColumnValue(cell, -(created or 0.0), created)


def _address(pod: Pod) -> str:
    return clean(pod.status.podIP or (pod.status.podIPs[0].ip if pod.status.podIPs else ""))


def _ip(subject: _PodSubject) -> ColumnValue:
    address = _address(subject.pod)
    return ColumnValue(Cell(address or "-", "muted"), address_key(address), address)


def _image(subject: _PodSubject) -> ColumnValue:
    images = [clean(container.image) for container in subject.pod.spec.containers]
    image = images[0] + (f" +{len(images) - 1}" if len(images) > 1 else "") if images else ""
    return ColumnValue(Cell(image or "-", "muted"), image, " ".join(images))


def _source(subject: _PodSubject) -> ColumnValue:
    """Return whether a pod is from the folder or from the API; on a node of a cluster also that its
    static pods have no mirror pod there: ``not yet``, ``refused``, ``unknown``."""
    text = "file" if is_mirror(subject.pod) else "api"
    problem = subject.pod.metadata.annotations.get(MIRROR_PROBLEM, "")
    if not problem:
        return _muted(text)
    text = f"{text}, {clean(problem.partition(':')[0])}"
    return ColumnValue(Cell(text, "warning"), text, text)


def _labels(subject: _PodSubject) -> ColumnValue:
    labels = subject.pod.metadata.labels
    return _muted(clean(",".join(f"{key}={value}" for key, value in sorted(labels.items()))))


def _ports(pod: Pod) -> str:
    """Return a text such as ``8080→80,9000/UDP``, the host's port before the container's."""
    ports: list[str] = []
    for container in (*pod.spec.initContainers, *pod.spec.containers):
        for port in container.ports:
            host = f"{port.hostPort}→" if port.hostPort else ""
            protocol = f"/{clean(port.protocol)}" if port.protocol not in ("", "TCP") else ""
            ports.append(f"{host}{port.containerPort}{protocol}")
    return ",".join(ports)


def _amount(used: int | None, limit: int, shown: Any) -> ColumnValue:
    if used is None:
        return _NOT_MEASURED
    glyph, tone = _level(100 * used / limit) if limit else ("", "")
    return ColumnValue(Cell(glyph + shown(used), tone), float(used), float(used))


def _percentage(used: int | None, whole: int) -> ColumnValue:
    if used is None or whole <= 0:
        return _NOT_MEASURED
    percent = 100 * used / whole
    return ColumnValue(_percent_cell(round(percent), *_level(percent)), percent, percent)


@lru_cache(maxsize=1024)
def _percent_cell(percent: int, glyph: str, tone: str) -> Cell:
    """Return a cell; cached because there are few percentages and many pods."""
    return Cell(f"{glyph}{percent}%", tone)


def _level(percent: float) -> tuple[str, str]:
    """Return (glyph, tone) for a percentage of a request or limit."""
    if percent >= CRITICAL:
        return "✖", "error"
    return ("▲", "warning") if percent >= WARN else ("", "")


POD_COLUMNS: Final = (
    Column("namespace", "NAMESPACE", 72, maximum=32, shown=Visibility.WIDE,
           of=lambda subject: _muted(clean(subject.pod.metadata.namespace))),
    Column("name", "NAME", 100, minimum=14, maximum=64, flexible=True, middle_cut=True,
           of=lambda subject: ColumnValue(
               Cell(subject.name, "name"), natural_key(subject.name), subject.name)),
    Column("ready", "READY", 90, kind=ValueKind.SHARE, of=_ready),
    Column("status", "STATUS", 95, minimum=13, maximum=32, flexible=True, usual_width=19,
           of=_status),
    Column("restarts", "RESTARTS", 70, maximum=18, descending=True, kind=ValueKind.COUNT,
           usual_width=13, of=_restarts),
    Column("cpu", "CPU", 50, align="right", descending=True, kind=ValueKind.CPU, usual_width=5,
           measured=True,
           of=lambda subject: _amount(subject.cpu, subject.ask.cpu_limit, millicores)),
    Column("cpu-requests", "%CPU/R", 44, align="right", descending=True, kind=ValueKind.PERCENT,
           shown=Visibility.WIDE, measured=True,
           of=lambda subject: _percentage(subject.cpu, subject.ask.cpu)),
    Column("cpu-limits", "%CPU/L", 46, align="right", descending=True, kind=ValueKind.PERCENT,
           shown=Visibility.WIDE, measured=True,
           of=lambda subject: _percentage(subject.cpu, subject.ask.cpu_limit)),
    Column("memory", "MEM", 55, align="right", descending=True, kind=ValueKind.BYTES, usual_width=5,
           measured=True,
           of=lambda subject: _amount(subject.memory, subject.ask.memory_limit, mebibytes)),
    Column("memory-requests", "%MEM/R", 45, align="right", descending=True, kind=ValueKind.PERCENT,
           shown=Visibility.WIDE, measured=True,
           of=lambda subject: _percentage(subject.memory, subject.ask.memory)),
    Column("memory-limits", "%MEM/L", 48, align="right", descending=True, kind=ValueKind.PERCENT,
           shown=Visibility.WIDE, measured=True,
           of=lambda subject: _percentage(subject.memory, subject.ask.memory_limit)),
    Column("ip", "IP", 30, maximum=39, usual_width=12, of=_ip),
    Column("ports", "PORTS", 28, maximum=28, shown=Visibility.WIDE,
           of=lambda subject: _muted(_ports(subject.pod))),
    Column("image", "IMAGE", 35, minimum=12, maximum=48, flexible=True, shown=Visibility.WIDE,
           of=_image),
    Column("qos", "QOS", 25, shown=Visibility.WIDE,
           of=lambda subject: _muted(clean(subject.pod.status.qosClass))),
    Column("node", "NODE", 20, maximum=32, shown=Visibility.WIDE,
           of=lambda subject: _muted(clean(subject.pod.spec.nodeName))),
    Column("source", "SOURCE", 87, shown=Visibility.ON_REQUEST, of=_source),
    Column("labels", "LABELS", 15, minimum=12, maximum=64, flexible=True,
           shown=Visibility.ON_REQUEST, of=_labels),
    Column("age", "AGE", 80, align="right", kind=ValueKind.AGE, usual_width=5, of=_age),
    Column("why", "WHY", 85, minimum=24, maximum=40, flexible=True, filling=True, optional=True,
           of=lambda subject: text_field(subject.cause, "soft")),
)  # fmt: skip
_MEASURED_COLUMNS: Final = tuple(
    (index, column.of) for index, column in enumerate(POD_COLUMNS) if column.measured
)
_IN_CLUSTERS: Final = {"namespace": 72, "node": 52}
CLUSTER_COLUMNS: Final = tuple(
    replace(column, shown=Visibility.ALWAYS, rank=_IN_CLUSTERS[column.key])
    if column.key in _IN_CLUSTERS
    else column
    for column in POD_COLUMNS
)
"""The columns for a cluster: with several namespaces and nodes, both are always shown."""
STATUS: Final = next(n for n, column in enumerate(POD_COLUMNS) if column.key == "status")
"""Index of the status column, whose tone is the pod's family."""


def pod_row(
    pod: Pod,
    usage: Usage | None,
    *,
    now: float,
    ask: RequestsAndLimits | None = None,
    namespaced: bool = False,
    cause_of: Callable[[Pod], str] = lambda _: "",
) -> Row:
    """Return the row for `POD_COLUMNS`.

    ``ask`` are the pod's requests and limits, if the caller has them. With ``namespaced``, the name
    is shown without the namespace, which has its own column. ``cause_of`` returns the cause of a
    failure.
    """
    line = pod_status_line(pod, now)
    label = pod_label(pod)
    name = clean(pod.metadata.name) if namespaced else label
    cpu, memory = (usage.cpu, usage.memory) if usage else (None, None)
    cause = cause_of(pod) if line.family in _EXPLAINED else ""
    subject = _PodSubject(cpu, memory, ask or requests_and_limits(pod), pod, line, name, cause)
    return Row(
        pod_key(pod),
        *content_of(POD_COLUMNS, subject),
        search=f"{name} {clean(line.word)} {_address(pod)}",
        labels=pod.metadata.labels,
        pin=1,
        identity=label,
        fault=not line.health.well,
        markable=True,
    )


def measured_row(row: Row, usage: Usage | None, ask: RequestsAndLimits) -> Row:
    """Return the row with only the usage cells updated."""
    cells, sort, values = list(row.cells), list(row.sort), list(row.values)
    measured = _Measured(usage.cpu, usage.memory, ask) if usage else _Measured(None, None, ask)
    for index, of in _MEASURED_COLUMNS:
        cells[index], sort[index], values[index] = of(measured)
    return replace(row, cells=tuple(cells), sort=tuple(sort), values=tuple(values))


def is_wrong(manifest: Manifest) -> bool:
    """Return whether the file needs a correction: it defines no pod, or an older version runs."""
    return manifest.status.state in UNUSABLE


def manifest_row(manifest: Manifest, waits_for: str = "") -> Row | None:
    """Return the row of a file without a usable pod; None for other files.

    An accepted file whose pod cannot start yet is among the pods, with ``waits_for`` as the reason.
    An invalid file is above the pods.
    """
    state = manifest.status.state
    accepted = state is ManifestState.ACCEPTED
    if accepted and not waits_for:
        return None
    word, tone = _MANIFEST_WORDS[state]
    location, message = place_of(manifest), waits_for or manifest_message(manifest)
    ignored = state is ManifestState.IGNORED
    family = Family.PENDING if accepted else Family.COMPLETED if ignored else Family.ERROR
    fields = {column.key: _empty_field(column) for column in POD_COLUMNS} | {
        "name": ColumnValue(Cell(location, "muted" if tone == "muted" else "name"),
                            natural_key(location), location),
        "ready": ColumnValue(_BLANK, _NEVER, None),
        "status": ColumnValue(Cell(word, tone), (_FAILING_FIRST.index(family), word[2:]), word[2:]),
    }  # fmt: skip
    return Row(
        MANIFEST_KEY + manifest.metadata.name,
        *in_columns(fields.values()),
        search=f"{location} {word[2:]} {message}",
        pin=1 if accepted else 2 if ignored else 0,
        tail=Span(message, "muted" if tone == "muted" else ""),
        tail_from=STATUS + 1,
        fault=not ignored and not accepted,
    )


FILES_KEY: Final = "files"
"""The key of the row that stands for all invalid files."""
FILES_SHARE: Final = 4
"""Invalid files share one row if they are more than one in this number of rows,"""
FILES_SHARE_BESIDE_PODS: Final = 10
"""and already than one in this number if the pods need the space."""


def shares_row(files: int, pods: int, height: int) -> bool:
    """Return whether invalid files share one row of a table with ``height`` rows."""
    fits = files + pods <= height
    return files > max(1, height // (FILES_SHARE if fits else FILES_SHARE_BESIDE_PODS))


def files_text(files: Sequence[Manifest]) -> str:
    """Return what invalid files mean for their pods."""
    states = Counter(manifest.status.state for manifest in files)
    texts = {
        ManifestState.INVALID: "invalid, without a pod",
        ManifestState.LAST_GOOD: "invalid, an earlier version runs",
        ManifestState.DUPLICATE: "ignored, another file has the pod",
    }
    return " · ".join(f"{states[state]} {text}" for state, text in texts.items() if states[state])


def files_row(files: Sequence[Manifest], *, expanded: bool) -> Row:
    """Return the row that stands for all invalid files; ``expanded``: they are listed below it."""
    names = ", ".join(map(place_of, files))
    sign, verb = ("▾", "folds") if expanded else ("▸", "lists")
    text = f"{sign} ▲ {plural(len(files), 'file')} need attention, enter {verb} them: {names}"
    fields = {column.key: _empty_field(column) for column in POD_COLUMNS}
    return Row(
        FILES_KEY,
        *in_columns(fields.values()),
        search=names,
        pin=-1,
        tail=Span(text, "warning"),
        fault=True,
    )


def _empty_field(column: Column) -> ColumnValue:
    """Return an empty field that sorts below all others of its column."""
    blank = Cell("", "muted")
    if column.key == "ip":
        return ColumnValue(blank, address_key(""), None)
    if column.key == "status":
        return ColumnValue(blank, (0, ""), None)
    if column.key == "name":
        return ColumnValue(blank, natural_key(""), None)
    return ColumnValue(blank, "" if column.kind is ValueKind.TEXT else _NEVER, None)


FAMILIES: Final = {family.value: family for family in Family}


class _Part(Struct, frozen=True):
    namespace: str
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
        family = FAMILIES[row.cells[STATUS].tone]
        part = _Part(pod.metadata.namespace, family, holds * ask.cpu, holds * ask.memory)
        self._parts[row.key] = part
        self._add(part, 1)

    def counts_in(self, namespace: str) -> dict[Family, int]:
        """Return the number of pods of a namespace by family; empty for those of all."""
        if not namespace:
            return self.counts
        counts = dict.fromkeys(Family, 0)
        for part in self._parts.values():
            counts[part.family] += part.namespace == namespace
        return counts

    def drop(self, key: str) -> None:
        """Remove a pod."""
        part = self._parts.pop(key, None)
        if part is not None:
            self._add(part, -1)

    def _add(self, part: _Part, sign: int) -> None:
        self.counts[part.family] += sign
        self.cpu += sign * part.cpu
        self.memory += sign * part.memory
