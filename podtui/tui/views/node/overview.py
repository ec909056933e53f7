"""The overview of the node: its resources, its conditions, and facts about the machine."""

from __future__ import annotations

import string
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from podtui.api.cluster import cluster_of
from podtui.api.cpus import CPUS, CpuMap, decode_cpu_map, format_cpu_set
from podtui.api.names import WOULD_EVICT
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import Node, NodeCondition
from podtui.tui.views.node.allocation import Gauge, RejectedPod, title_of
from podtui.tui.widgets.cells import Line, Span, level, line_width, sized, width_of, wrap
from podtui.tui.widgets.format import percent
from podtui.tui.widgets.sanitize import clean

SPACIOUS = 16
"""Minimum height to show a second line per resource and the list of the pods' shares."""

_LABEL: Final = 8


def node_lines(
    gauges: Sequence[Gauge],
    rejected: Sequence[RejectedPod],
    *,
    width: int,
    height: int,
    selected: str = "",
) -> list[Line]:
    """Return the lines for a pane of ``width`` by ``height`` cells; there may be more lines."""
    lines: list[Line] = []
    spacious = height >= SPACIOUS
    for gauge in gauges:
        lines.append(_bar_line(gauge, width, selected))
        if spacious:
            lines.append(_figures(gauge, width))
            lines.append(())
    if rejected:
        if spacious:
            lines.append((Span(f"rejected pods ({len(rejected)})", "heading"),))
        for rejection in rejected:
            lines += _rejection(rejection, width)
        lines.append(())
    if spacious and gauges:
        lines += _shares(gauges, width, selected)
    legend = _legend()
    if gauges and (spacious or (len(lines) < height and line_width(legend) <= width)):
        lines.append(legend)
    return lines


def _legend() -> Line:
    return (
        Span("█", "bar-one"), Span("▓", "bar-two"), Span(" requested, by pod   ", "muted"),
        Span("█", "bar-chosen"), Span(" the selected pod   ", "muted"),
        Span("┃", "bar-used"), Span(" used   ", "muted"),
        Span("░", "bar-free"), Span(" free", "muted"),
    )  # fmt: skip


def _bar_line(gauge: Gauge, width: int, selected: str) -> Line:
    whole = gauge.allocatable
    requested = f"{gauge.text(gauge.requested)} of {gauge.text(whole)}"
    texts = [
        Span(f" █ {requested:<15}"),
        Span(f"{percent(gauge.requested, whole):>4}", level(gauge.requested, whole)),
    ]
    room = 40
    if width - _LABEL - room < 10:
        room = 22
    elif gauge.used is not None:
        texts += [
            Span(f"  ┃ {gauge.text(gauge.used):<8}"),
            Span(f"{percent(gauge.used, whole):>4}", level(gauge.used, whole)),
        ]
    if width - _LABEL - room >= 40:
        # Add words if the bar stays long enough.
        texts[0] = Span(f" █ requested {requested:<15}")
        if len(texts) > 2 and gauge.used is not None:
            texts[2] = Span(f"  ┃ used {gauge.text(gauge.used):<8}")
        room += 15
    cells = max(6, min(60, width - _LABEL - room))
    return (
        _title(gauge),
        *bar(gauge, cells, selected),
        *texts,
    )


def _title(gauge: Gauge) -> Span:
    return Span(f"{sized(title_of(gauge.resource), _LABEL - 1)} ", "key")


def bar(gauge: Gauge, cells: int, selected: str = "") -> list[Span]:
    """Return a bar of ``cells`` cells with the shares and the usage marker."""
    whole = max(1, gauge.allocatable)
    marks: list[tuple[str, str]] = []
    for number, total, is_chosen in _filling(gauge, cells, selected):
        end = min(cells, round(total * cells / whole))
        if is_chosen:
            mark = ("█", "bar-chosen")
        else:
            mark = ("█", "bar-one") if number % 2 else ("▓", "bar-two")
        marks += [mark] * (end - len(marks))
    marks += [("░", "bar-free")] * (cells - len(marks))
    if gauge.used is not None:
        at = min(cells - 1, int(gauge.used * cells / whole))
        marks[at] = ("┃", "bar-used")
    spans: list[Span] = []
    for text, tone in marks:
        if spans and spans[-1].tone == tone:
            spans[-1] = Span(spans[-1].text + text, tone)
        else:
            spans.append(Span(text, tone))
    return spans


def _filling(gauge: Gauge, cells: int, selected: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the shares that end in another cell than the share before.

    Each is (number, cumulative requests, True for the chosen pod). The chosen pod comes first, so
    that it is easy to see. Of a thousand shares in fifty cells, most end in the same cell as the
    share before and are skipped.
    """
    shares, totals, whole = gauge.shares, gauge.totals, max(1, gauge.allocatable)
    index = next((n for n, share in enumerate(shares) if selected and share.key == selected), -1)
    first = shares[index].requested if index >= 0 else 0
    if index >= 0:
        yield 0, first, True
    filled = min(cells, round(first * cells / whole))
    # The shares before the chosen one are moved by its size, since it is drawn first.
    for start, stop, moved in ((0, max(0, index), first), (index + 1, len(shares), 0)):
        at = start
        while filled < cells:
            at = bisect_left(totals, (filled + 0.49) * whole / cells - moved, at, stop)
            while at < stop and round((totals[at] + moved) * cells / whole) <= filled:
                at += 1
            if at == stop:
                break
            total = totals[at] + moved
            yield at + (start == 0 and index >= 0), total, False
            filled = min(cells, round(total * cells / whole))


def _figures(gauge: Gauge, width: int) -> Line:
    parts = [f"capacity {gauge.text(gauge.capacity)}"]
    if gauge.reserved:
        parts.append(f"reserved {gauge.text(gauge.reserved)}")
    parts.append(f"free {gauge.text(max(0, gauge.allocatable - gauge.requested))}")
    if gauge.limits:
        parts.append(f"limits {gauge.text(gauge.limits)}")
    text = " · ".join(parts)
    return (
        Span(" " * _LABEL),
        Span(sized(text, max(0, min(width - _LABEL, width_of(text)))), "muted"),
    )


def _rejection(rejection: RejectedPod, width: int) -> list[Line]:
    line = [
        Span("✖ ", "error"),
        Span(rejection.name + " ", "name"),
        Span(rejection.reason + " ", "error"),
        Span(rejection.missing, "soft"),
    ]
    if rejection.fits:
        line.append(Span(" · fits now, r retries the admission", "good"))
    return wrap(line, width, indent=2)


def _shares(gauges: Sequence[Gauge], width: int, selected: str) -> list[Line]:
    """Return the pods with their requests and usage, largest CPU request first."""
    cpu = next((g for g in gauges if g.resource == "cpu"), None)
    memory = next((g for g in gauges if g.resource == "memory"), None)
    if cpu is None or memory is None or not cpu.shares:
        return []
    of_memory = {share.key: share for share in memory.shares}
    name_width = max(12, min(40, width - 40, max(width_of(s.name) for s in cpu.shares)))
    head = f"{'POD':<{name_width}}  {'CPU REQ':>8} {'USED':>7}   {'MEM REQ':>8} {'USED':>8}"
    lines: list[Line] = [(Span(head[:width], "heading"),)]
    for share in cpu.shares:
        other = of_memory[share.key]
        tone = "bar-chosen" if share.key == selected else "name"
        lines.append(
            (
                Span(sized(share.name, name_width), tone),
                Span(f"  {_or_dash(cpu, share.requested):>8}"),
                Span(f" {_or_dash(cpu, cpu.used_by(share)):>7}", "soft"),
                Span(f"   {_or_dash(memory, other.requested):>8}"),
                Span(f" {_or_dash(memory, memory.used_by(other)):>8}", "soft"),
            )
        )
    lines.append(())
    return lines


def _or_dash(gauge: Gauge, count: int | None) -> str:
    return gauge.text(count) if count else "-"


_PLAIN: Final = (9, 12)
"""Widths of the columns for capacity and allocatable."""
_SHARED: Final = 15
_LEAST: Final = _LABEL + sum(_PLAIN) + 3 * _SHARED
_LACKS: Final = "podtui.dev/engine-lacks"


def overview_lines(
    node: Node, gauges: Sequence[Gauge], rejected: int, now: float, width: int, height: int
) -> list[Line]:
    """Return lines of at most ``width`` cells; omit blank lines if they do not fit in ``height``
    rows."""
    rest: list[Line] = []
    if rejected:
        text = "1 pod was rejected" if rejected == 1 else f"{rejected} pods were rejected"
        rest = [
            (Span(f"✖ {text}  ", "error"), Span("5", "hint-key"),
             Span(": details", "muted")),
            (),
        ]  # fmt: skip
    cpus = decode_cpu_map(node.metadata.annotations.get(CPUS, ""))
    if cpus is not None:
        rest += [*cpu_map_lines(cpus, width), ()]
    rest += [*condition_lines(node, now, width), (), *machine_lines(node, width)]
    spacious = 1 + 3 * len(gauges) + len(rest) <= height
    lines = resource_lines(gauges, width, spacious=spacious)
    return [*lines, *rest] if spacious else [*lines, (), *rest]


def resource_lines(gauges: Sequence[Gauge], width: int, *, spacious: bool) -> list[Line]:
    """Return a table with a bar below each resource; ``spacious`` adds a blank line after each."""
    air = max(0, min(8, (width - _LEAST) // 5))
    plain, shared = [cells + air for cells in _PLAIN], _SHARED + air
    titles = ("REQUESTED", "LIMITS", "USED")
    head = f"{'':{_LABEL}}{'CAPACITY':>{plain[0]}}{'ALLOCATABLE':>{plain[1]}}" + "".join(
        f"{title:>{shared - 1}} " for title in titles
    )
    lines: list[Line] = [(Span(sized(head, width).rstrip(), "heading"),)]
    for gauge in gauges:
        lines.append(
            (
                _title(gauge),
                Span(f"{gauge.text(gauge.capacity):>{plain[0]}}"),
                Span(f"{gauge.text(gauge.allocatable):>{plain[1]}}"),
                _shared(gauge, gauge.requested, shared, watched=True),
                _shared(gauge, gauge.limits or None, shared),
                _shared(gauge, gauge.used, shared, watched=True),
            )
        )
        cells = max(8, min(_LEAST + 5 * air, width) - _LABEL - 1)
        lines.append((Span(" " * _LABEL), *bar(gauge, cells)))
        if spacious:
            lines.append(())
    return lines


def _shared(gauge: Gauge, amount: int | None, cells: int, *, watched: bool = False) -> Span:
    """Format an amount and its percentage of allocatable; mark it if little is left."""
    if amount is None:
        return Span(f"{'- ':>{cells}}", "muted")
    share = amount / gauge.allocatable if gauge.allocatable > 0 else 0.0
    mark, tone = " ", ""
    if watched and share >= 0.7:
        mark, tone = ("▲", "warning") if share < 0.9 else ("✖", "error")
    text = f"{gauge.text(amount)} {percent(amount, gauge.allocatable):>4}{mark}"
    return Span(f"{text:>{cells}}", tone)


def condition_lines(node: Node, now: float, width: int) -> list[Line]:
    """Return all conditions with their age, reason and message."""
    lines: list[Line] = [(Span("Conditions", "heading"),)]
    kinds = max((len(condition.type) for condition in node.status.conditions), default=0)
    for condition in node.status.conditions:
        well = is_well(condition)
        since = epoch(condition.lastTransitionTime)
        age = "" if since is None else f"for {short_duration(now - since)}"
        line = (
            Span("✔ " if well else "✖ ", "good" if well else "error"),
            Span(f"{clean(condition.type):<{kinds}}  ", "name"),
            Span(f"{clean(condition.status):<8}", "" if well else "error"),
            Span(f"{age:<12}", "muted"),
            Span(clean(condition.reason), "reason" if well else "error"),
            Span(f" · {clean(condition.message)}", "soft"),
        )
        lines += wrap(line, width, indent=4)
    victim = clean(node.metadata.annotations.get(WOULD_EVICT, ""))
    if victim:
        line = (
            Span("▲ ", "warning"),
            Span(victim, "name"),
            Span(
                " would be evicted first under this pressure; static pods are not evicted",
                "warning",
            ),
        )
        lines += wrap(line, width, indent=2)
    return lines


def is_well(condition: NodeCondition) -> bool:
    """Return True if a condition is healthy: ``Ready`` is True, or any other is False."""
    return condition.status == ("True" if condition.type == "Ready" else "False")


def machine_lines(node: Node, width: int) -> list[Line]:
    """Return the known facts about the machine."""
    info = node.status.nodeInfo
    facts: list[tuple[str, str]] = []
    if info is not None:
        facts += [
            ("Engine", info.containerRuntimeVersion.replace("://", " ")),
            ("System", f"{info.osImage or info.operatingSystem} · {info.architecture}"),
            ("Kernel", info.kernelVersion),
            ("Kubelet", info.kubeletVersion),
        ]
    addresses = [address.address for address in node.status.addresses if address.type != "Hostname"]
    facts += [
        ("Addresses", " ".join(addresses)),
        ("Cluster", cluster_of(node)),
        ("Lacks", node.metadata.annotations.get(_LACKS, "")),
    ]
    lines: list[Line] = [(Span("Machine", "heading"),)]
    for key, value in facts:
        if value.strip():
            tone = "warning" if key == "Lacks" else "soft"
            lines += wrap((Span(f"{key:<11}", "key"), Span(clean(value), tone)), width, indent=11)
    return lines


_LETTERS: Final = string.ascii_uppercase
_TONES: Final = ("bar-one", "bar-two")
_MAP_LABEL: Final = 9


def cpu_map_lines(cpu_map: CpuMap, width: int) -> list[Line]:
    """Return the lines of the map. The CPUs of a core are adjacent; after 26 users the letters
    begin again."""
    marks: dict[int, Span] = {cpu: Span("▒", "muted") for cpu in cpu_map.reserved}
    for number, user in enumerate(cpu_map.users):
        mark = Span(_LETTERS[number % len(_LETTERS)], _TONES[number % len(_TONES)])
        marks |= dict.fromkeys(user.cpus, mark)
    lines: list[Line] = [(Span("CPUs", "heading"),)]
    for node, cores in sorted(cpu_map.nodes.items()):
        line = [Span(f"{f'NUMA {node}':<{_MAP_LABEL}}", "key")]
        for core in cores:
            line += [marks.get(cpu, Span("·", "soft")) for cpu in core]
            line.append(Span(" "))
        lines += wrap(line, width, indent=_MAP_LABEL)
    return [*lines, *_map_legend(cpu_map, marks, width)]


def _map_legend(cpu_map: CpuMap, marks: dict[int, Span], width: int) -> list[Line]:
    every = {cpu for cores in cpu_map.nodes.values() for core in cores for cpu in core}
    general: list[Span] = []
    if shared := every - marks.keys():
        general += [Span("· ", "soft"), Span(f"shared {format_cpu_set(shared)}   ", "muted")]
    if cpu_map.reserved:
        reserved = f"reserved, shared {format_cpu_set(cpu_map.reserved)}"
        general += [Span("▒ ", "muted"), Span(reserved, "muted")]
    lines = wrap(general, width, indent=2)
    for user in cpu_map.users:
        mark = marks[user.cpus[0]]
        name = clean(f"{user.pod.removeprefix('default/')} {user.container}")
        cpus = Span(f" {format_cpu_set(user.cpus)}", "muted")
        lines += wrap((Span(f"{mark.text} ", mark.tone), Span(name, "name"), cpus), width, indent=2)
    return lines
