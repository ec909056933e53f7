"""Format the node's allocation: a bar for each resource, the rejected pods, the pods' shares.

In a bar, the shares of pods alternate in shade and the selected pod has the strongest one; ``┃``
marks the usage. The gauges of the header use the same scheme. Adjacent shares also differ by
character, for terminals without colours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from podtui.tui.views.node.gauges import TITLES, Gauge, Rejection
from podtui.tui.widgets.cells import Line, Span, level, line_width, sized, width_of, wrap
from podtui.tui.widgets.format import percent

ROOMY = 16
"""Minimum height to show a second line per resource and the list of the pods' shares."""
_LABEL = 8


def node_lines(
    gauges: Sequence[Gauge],
    rejected: Sequence[Rejection],
    *,
    width: int,
    height: int,
    chosen: str = "",
) -> list[Line]:
    """Return the lines for a pane of ``width`` by ``height`` cells; there may be more lines."""
    lines: list[Line] = []
    roomy = height >= ROOMY
    for gauge in gauges:
        lines.append(_bar_line(gauge, width, chosen))
        if roomy:
            lines.append(_figures(gauge, width))
            lines.append(())
    if rejected:
        if roomy:
            lines.append((Span(f"rejected pods ({len(rejected)})", "heading"),))
        for rejection in rejected:
            lines += _rejection(rejection, width)
        lines.append(())
    if roomy and gauges:
        lines += _shares(gauges, width, chosen)
    legend = _legend()
    if gauges and (roomy or (len(lines) < height and line_width(legend) <= width)):
        lines.append(legend)
    return lines


def _legend() -> Line:
    return (
        Span("█", "bar-one"), Span("▓", "bar-two"), Span(" requested, by pod   ", "muted"),
        Span("█", "bar-chosen"), Span(" the chosen pod   ", "muted"),
        Span("┃", "bar-used"), Span(" used   ", "muted"),
        Span("░", "bar-free"), Span(" free", "muted"),
    )  # fmt: skip


def _bar_line(gauge: Gauge, width: int, chosen: str) -> Line:
    whole = gauge.allocatable
    asked = f"{gauge.text(gauge.requested)} of {gauge.text(whole)}"
    texts = [
        Span(f" █ {asked:<15}"),
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
        texts[0] = Span(f" █ requested {asked:<15}")
        if len(texts) > 2 and gauge.used is not None:
            texts[2] = Span(f"  ┃ used {gauge.text(gauge.used):<8}")
        room += 15
    cells = max(6, min(60, width - _LABEL - room))
    return (
        Span(f"{TITLES[gauge.resource]:<{_LABEL}}", "key"),
        *bar(gauge, cells, chosen),
        *texts,
    )


def bar(gauge: Gauge, cells: int, chosen: str = "") -> list[Span]:
    """Return a bar of ``cells`` cells with the shares and the usage marker."""
    whole = max(1, gauge.allocatable)
    marks: list[tuple[str, str]] = []
    for number, total, is_chosen in _filling(gauge, cells, chosen):
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


def _filling(gauge: Gauge, cells: int, chosen: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the shares that end in another cell than the share before.

    Each is (number, cumulative requests, True for the chosen pod). The chosen pod comes first, so
    that it is easy to see. Of a thousand shares in fifty cells, most end in the same cell as the
    share before and are skipped.
    """
    shares, totals, whole = gauge.shares, gauge.totals, max(1, gauge.allocatable)
    place = next((n for n, share in enumerate(shares) if chosen and share.key == chosen), -1)
    first = shares[place].requested if place >= 0 else 0
    if place >= 0:
        yield 0, first, True
    filled = min(cells, round(first * cells / whole))
    # The shares before the chosen one are moved by its size, since it is drawn first.
    for start, stop, moved in ((0, max(0, place), first), (place + 1, len(shares), 0)):
        at = start
        while filled < cells:
            at = bisect_left(totals, (filled + 0.49) * whole / cells - moved, at, stop)
            while at < stop and round((totals[at] + moved) * cells / whole) <= filled:
                at += 1
            if at == stop:
                break
            total = totals[at] + moved
            yield at + (start == 0 and place >= 0), total, False
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


def _rejection(rejection: Rejection, width: int) -> list[Line]:
    line = [
        Span("✖ ", "error"),
        Span(rejection.name + " ", "name"),
        Span(rejection.reason + " ", "error"),
        Span(rejection.missing, "soft"),
    ]
    if rejection.fits:
        line.append(Span(" · would fit now, r starts it", "good"))
    return wrap(line, width, indent=2)


def _shares(gauges: Sequence[Gauge], width: int, chosen: str) -> list[Line]:
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
        tone = "bar-chosen" if share.key == chosen else "name"
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
