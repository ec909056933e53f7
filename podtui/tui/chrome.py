"""What the header and the status line say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podtui.api.v1 import Node
from podtui.tui.cells import Line, Span, line_width, sized, width_of
from podtui.tui.format import percent
from podtui.tui.model import Link, Model
from podtui.tui.node_pane import node_state
from podtui.tui.pod_status import GLYPHS, Family
from podtui.tui.sanitize import clean
from podtui.tui.usage import amount

WORDS: Final = {
    Family.RUNNING: "running",
    Family.UNREADY: "not ready",
    Family.PENDING: "pending",
    Family.INIT: "init",
    Family.ERROR: "failing",
    Family.TERMINATING: "terminating",
    Family.COMPLETED: "completed",
}
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"


def header(model: Model, counts: Mapping[Family, int], width: int) -> tuple[Line, Line]:
    """(left, right): node and pods by state; cpu and memory in use."""
    left: list[Span] = [Span(" podtui ", "brand"), Span(" ")]
    node = model.node
    if node is None:
        if model.link is Link.LOST:
            left += [Span("✖ agent lost", "error")]
        else:
            left += [Span("◔ starting the agent…", "init")]
    else:
        ready, text = node_state(node)
        if model.link is Link.LOST:
            left.append(Span("? ", "warning"))
        else:
            left.append(Span("● ", "good") if ready else Span("✖ ", "error"))
        left.append(Span(clean(node.metadata.name), "name"))
        room = 28 if ready else max(28, width - line_width(left) - 2)
        left.append(Span(f" {sized(text, room).rstrip()}", "muted" if ready else "error"))
    right = _meters(model, node)
    room = width - line_width(left) - line_width(right)
    words = room >= sum(len(f" {WORDS[f]} 000 ") for f in counts) + 4
    left.append(Span("   "))
    for family in Family:
        count = counts.get(family, 0)
        if count:
            left.append(Span(f"{GLYPHS[family]} {count:,}", family.value))
            left.append(Span(f" {WORDS[family]}  " if words else "  ", "muted"))
    return tuple(left), right


def _meters(model: Model, node: Node | None) -> Line:
    use = model.node_use
    if node is None or use is None:
        return ()
    spans: list[Span] = []
    for name, used in (("cpu", use.cpu), ("memory", use.memory)):
        whole = amount(name, node.status.allocatable.get(name, node.status.capacity.get(name, "0")))
        if whole <= 0:
            continue
        share = used / whole
        tone = "good" if share < 0.7 else "warning" if share < 0.9 else "error"
        spans += [
            Span(f"{'cpu' if name == 'cpu' else 'mem'} ", "muted"),
            Span(meter(share, 6), tone),
            Span(f"{percent(used, whole):>4}  "),
        ]
    return tuple(spans)


def meter(share: float, cells: int) -> str:
    """A bar in eighths of a cell."""
    eighths = max(0, min(cells * 8, round(share * cells * 8)))
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[rest] if rest else "")).ljust(cells, "·")[:cells]


def is_simulated(node: Node | None) -> bool:
    """Whether the node says that nothing on it is real."""
    if node is None:
        return False
    info = node.status.nodeInfo
    return "SIMULATED" in (info.osImage if info else "") or any(
        key.endswith("/simulated") and value == "true"
        for key, value in (*node.metadata.labels.items(), *node.metadata.annotations.items())
    )


def status_line(model: Model, target: str, folder: str, width: int, *, simulated: bool) -> Line:
    """Node, engine, agent and folder. Where room is short the words before them go, then the
    beginning of the folder."""
    fake = simulated or is_simulated(model.node)
    line = _status(model, folder, width, labels=True, simulated=fake)
    if line_width(line) > width:
        line = _status(model, folder, width, labels=False, simulated=fake)
    if target and line_width(line) + 3 + width_of(target) <= width:
        line = (*line, Span(" · ", "muted"), Span(target, "muted"))
    return line


def _status(model: Model, folder: str, width: int, *, labels: bool, simulated: bool) -> Line:
    node = model.node
    info = node.status.nodeInfo if node is not None else None
    spans = [Span(" SIMULATED ", "simulated"), Span(" ")] if simulated else [Span(" ")]

    def add(label: str, text: str, tone: str = "soft") -> None:
        if spans[-1].text.strip():
            spans.append(Span(" · ", "muted"))
        if labels:
            spans.append(Span(f"{label} ", "muted"))
        spans.append(Span(text, tone))

    if node is not None:
        add("node", clean(node.metadata.name))
    if info is not None:
        add("engine", clean(info.containerRuntimeVersion.replace("://", " ")))
    if model.link is Link.CONNECTED:
        add("agent", "connected", "good")
    elif model.link is Link.STARTING:
        add("agent", "starting…", "init")
    else:
        add("agent", sized(f"lost: {clean(model.lost_reason)}", 48).rstrip(), "error")
    if folder:
        room = width - line_width(spans) - 3
        add("folder", clean(folder) if labels else from_end(clean(folder), max(8, room)))
    return tuple(spans)


def from_end(text: str, width: int) -> str:
    """The end of a path, which tells more than its beginning."""
    if width_of(text) <= width:
        return text
    return "…" + text[len(text) - width + 1 :] if width > 1 else ""
