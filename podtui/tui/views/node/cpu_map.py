"""The map of the node's CPUs: a cell for each CPU, a line for each NUMA node, and a legend."""

from __future__ import annotations

import string
from typing import Final

from podtui.api.cpus import CpuMap, format_cpu_set
from podtui.tui.widgets.cells import Line, Span, wrap
from podtui.tui.widgets.sanitize import clean

_LETTERS: Final = string.ascii_uppercase
_TONES: Final = ("bar-one", "bar-two")
_LABEL: Final = 9


def cpu_map_lines(found: CpuMap, width: int) -> list[Line]:
    """Return the lines of the map. CPUs of one core stand together; after 26 users the letters
    begin again."""
    marks: dict[int, Span] = {cpu: Span("▒", "muted") for cpu in found.reserved}
    for number, user in enumerate(found.users):
        mark = Span(_LETTERS[number % len(_LETTERS)], _TONES[number % len(_TONES)])
        marks |= dict.fromkeys(user.cpus, mark)
    lines: list[Line] = [(Span("CPUs", "heading"),)]
    for node, cores in sorted(found.nodes.items()):
        line = [Span(f"{f'NUMA {node}':<{_LABEL}}", "key")]
        for core in cores:
            line += [marks.get(cpu, Span("·", "soft")) for cpu in core]
            line.append(Span(" "))
        lines += wrap(line, width, indent=_LABEL)
    return [*lines, *_legend(found, marks, width)]


def _legend(found: CpuMap, marks: dict[int, Span], width: int) -> list[Line]:
    every = {cpu for cores in found.nodes.values() for core in cores for cpu in core}
    general: list[Span] = []
    if shared := every - marks.keys():
        general += [Span("· ", "soft"), Span(f"shared {format_cpu_set(shared)}   ", "muted")]
    if found.reserved:
        reserved = f"reserved, shared {format_cpu_set(found.reserved)}"
        general += [Span("▒ ", "muted"), Span(reserved, "muted")]
    lines = wrap(general, width, indent=2)
    for user in found.users:
        mark = marks[user.cpus[0]]
        name = clean(f"{user.pod.removeprefix('default/')} {user.container}")
        cpus = Span(f" {format_cpu_set(user.cpus)}", "muted")
        lines += wrap((Span(f"{mark.text} ", mark.tone), Span(name, "name"), cpus), width, indent=2)
    return lines
