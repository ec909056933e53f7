"""The overview of the node: its resources, its conditions, and facts about the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtui.api.names import WOULD_EVICT
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import Node, NodeCondition
from podtui.tui.views.node.gauges import TITLES, Gauge
from podtui.tui.views.node.lines import bar
from podtui.tui.widgets.cells import Line, Span, sized, wrap
from podtui.tui.widgets.format import percent
from podtui.tui.widgets.sanitize import clean

_LABEL: Final = 8
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
        words = "1 pod was rejected" if rejected == 1 else f"{rejected} pods were rejected"
        rest = [
            (Span(f"✖ {words}  ", "error"), Span("5", "hint-key"),
             Span(": details", "muted")),
            (),
        ]  # fmt: skip
    rest += [*condition_lines(node, now, width), (), *machine_lines(node, width)]
    roomy = 1 + 3 * len(gauges) + len(rest) <= height
    lines = resource_lines(gauges, width, roomy=roomy)
    return [*lines, *rest] if roomy else [*lines, (), *rest]


def resource_lines(gauges: Sequence[Gauge], width: int, *, roomy: bool) -> list[Line]:
    """Return a table with a bar below each resource, and with ``roomy`` a blank line after it."""
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
                Span(f"{TITLES[gauge.resource]:<{_LABEL}}", "key"),
                Span(f"{gauge.text(gauge.capacity):>{plain[0]}}"),
                Span(f"{gauge.text(gauge.allocatable):>{plain[1]}}"),
                _shared(gauge, gauge.requested, shared, watched=True),
                _shared(gauge, gauge.limits or None, shared),
                _shared(gauge, gauge.used, shared, watched=True),
            )
        )
        cells = max(8, min(_LEAST + 5 * air, width) - _LABEL - 1)
        lines.append((Span(" " * _LABEL), *bar(gauge, cells)))
        if roomy:
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
    kinds = max((len(one.type) for one in node.status.conditions), default=0)
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
            Span(" would be evicted first under this pressure; static pods are let run", "warning"),
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
    addresses = [one.address for one in node.status.addresses if one.type != "Hostname"]
    facts += [
        ("Addresses", " ".join(addresses)),
        ("Lacks", node.metadata.annotations.get(_LACKS, "")),
    ]
    lines: list[Line] = [(Span("Machine", "heading"),)]
    for key, value in facts:
        if value.strip():
            tone = "warning" if key == "Lacks" else "soft"
            lines += wrap((Span(f"{key:<11}", "key"), Span(clean(value), tone)), width, indent=11)
    return lines
