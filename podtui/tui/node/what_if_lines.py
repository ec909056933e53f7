"""Format a what-if answer: whether the pod fits, lacking resources, port holders, victims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtui.api.what_if import Lack, Leaver, PortHolder, WhatIf
from podtui.tui.node.node_gauges import TITLES, in_unit
from podtui.tui.widgets.cells import Line, Span, sized, wrap
from podtui.tui.widgets.sanitize import clean

_COLUMN: Final = 10
_NAME: Final = 20


def verdict_lines(answer: WhatIf, width: int) -> list[Line]:
    """Return lines of at most ``width`` cells."""
    lines = [*_verdict(answer, width), ()]
    if answer.lacks:
        lines += [*_lacks(answer.lacks, width), ()]
    if answer.holders:
        lines += [*_holders(answer.holders, width), ()]
    if answer.leave:
        lines += [*_leavers(answer.leave, width, ends=answer.admitted), ()]
    for remark in answer.remarks:
        lines += wrap((Span("▸ ", "key"), Span(clean(remark), "soft")), width, indent=2)
    return lines


def _verdict(answer: WhatIf, width: int) -> list[Line]:
    name = clean(answer.metadata.name)
    if answer.admitted and answer.leave:
        head = (Span("▲ ", "warning"), Span(name, "name"), Span(" would be let in, ", "warning"),
                Span("and others would be ended for it", "warning"))  # fmt: skip
    elif answer.admitted and answer.holders:
        head = (Span("▲ ", "warning"), Span(name, "name"),
                Span(" would be let in, and could not start", "warning"))  # fmt: skip
    elif answer.admitted:
        head = (Span("✔ ", "good"), Span(name, "name"), Span(" fits", "good"))
    else:
        head = (Span("✖ ", "error"), Span(name, "name"), Span(" does not fit: ", "error"),
                Span(clean(answer.reason), "error"))  # fmt: skip
    lines = wrap(head, width, indent=2)
    if answer.message:
        lines += wrap((Span(f"  {clean(answer.message)}", "soft"),), width, indent=2)
    if answer.replaces:
        words = "  It would take the place of the pod of this name, which is not counted."
        lines += wrap((Span(words, "muted"),), width, indent=2)
    return lines


def _lacks(lacks: Sequence[Lack], width: int) -> list[Line]:
    head = f"{'Missing resources':<{_NAME}}" + "".join(
        f"{title:>{_COLUMN}}" for title in ("ASKS FOR", "FREE", "OF", "MISSING")
    )
    lines: list[Line] = [(Span(sized(head, width).rstrip(), "heading"),)]
    for lack in lacks:
        name = TITLES.get(lack.resource, clean(lack.resource))
        free = max(0, lack.capacity - lack.used)
        cells = [in_unit(lack.resource, n) for n in (lack.requested, free, lack.capacity)]
        lines.append(
            (
                Span(f"  {sized(name, _NAME - 2)}", "key"),
                Span("".join(f"{cell:>{_COLUMN}}" for cell in cells)),
                Span(f"{in_unit(lack.resource, lack.missing):>{_COLUMN}}", "error"),
            )
        )
    return lines


def _holders(holders: Sequence[PortHolder], width: int) -> list[Line]:
    lines: list[Line] = [(Span("Who has the port", "heading"),)]
    for holder in holders:
        place = f"{clean(holder.hostIP)}:{holder.port}" if holder.hostIP else str(holder.port)
        if holder.pod:
            who, kind = _label(holder.namespace, holder.pod), "pod"
        else:
            number = "" if holder.pid is None else f" (pid {holder.pid})"
            named = clean(holder.process) or "a program"
            who, kind = f"{named}{number}", "outside podtui"
        line = (
            Span(f"  {place}/{clean(holder.protocol)}  ", "key"),
            Span(f"{who} ", "name"),
            Span(kind, "muted"),
        )
        lines += wrap(line, width, indent=4)
    return lines


def _leavers(leave: Sequence[Leaver], width: int, *, ends: bool) -> list[Line]:
    words = "Who would be ended" if ends else "Who would have to go"
    lines: list[Line] = [
        (Span(words, "heading"), Span("  the smallest set that is enough", "muted"))
    ]
    for pod in leave:
        frees = [
            f"{TITLES.get(name, clean(name))} {in_unit(name, amount)}"
            for name, amount in pod.frees.items()
        ]
        frees += [f"port {port}" for port in pod.ports]
        line = (
            Span("  ✖ ", "warning"),
            Span(f"{_label(pod.namespace, pod.name)}  ", "name"),
            Span(f"frees {', '.join(frees)}", "soft"),
        )
        lines += wrap(line, width, indent=6)
    return lines


def _label(namespace: str, name: str) -> str:
    return clean(name) if namespace in ("", "default") else f"{clean(namespace)}/{clean(name)}"
