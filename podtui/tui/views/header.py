"""The text of the header and the status line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from podtui.api.cluster import cluster_of, cluster_problems
from podtui.api.names import CLUSTER_UNAVAILABLE
from podtui.api.v1 import Node
from podtui.text.terminal_text import plural
from podtui.tui.model.model import LinkState, Model
from podtui.tui.model.usage import Usage, amount
from podtui.tui.views.node.allocation import is_ready, node_state, whole_node, whole_use
from podtui.tui.views.pod_status import FAMILIES, GLYPHS, Family
from podtui.tui.views.pods.rows import Totals
from podtui.tui.widgets.cells import Line, Span, level, line_width, sized, suffix, width_of
from podtui.tui.widgets.format import cores, percent, size
from podtui.tui.widgets.sanitize import clean

ALL: Final = "all"
MAX_NAMESPACE_WIDTH: Final = 20


def cluster_head(model: Model, width: int) -> Line:
    """Return the context, and cluster and user as far as they fit."""
    server = model.server
    context, cluster, user = clean(server.context), clean(server.cluster), clean(server.user)
    state = {
        LinkState.CONNECTED: Span("● ", "good"),
        LinkState.STARTING: Span("◔ ", "init"),
        LinkState.LOST: Span("? ", "warning"),
    }[model.link]
    spans = [Span(" podtui ", "brand"), Span(" cluster ", "muted"), state, Span(context, "name")]
    for text in (f" {cluster}" if cluster != context else "", f" as {user}" if user else ""):
        if text and line_width(spans) + len(text) <= width:
            spans.append(Span(text, "muted"))
    nodes = nodes_text(model)
    if nodes is not None and line_width(spans) + len(nodes.text) <= width:
        spans.append(nodes)
    return tuple(spans)


def nodes_text(model: Model) -> Span | None:
    """Return the number of nodes and of those that are ready."""
    if not model.nodes:
        return None
    ready, count = sum(map(is_ready, model.nodes.values())), len(model.nodes)
    nodes = plural(count, "node")
    if ready == count:
        return Span(f" · {nodes}", "muted")
    return Span(f" · {ready} of {nodes} ready", "error")


def cluster_status(model: Model, namespace: str | None, width: int) -> Line:
    """Return namespace, connection and host; a lost connection has priority."""
    server = model.server
    spans = [Span(" ")]
    if namespace is not None:
        spans += [Span("namespace ", "muted"), Span(clean(namespace) or ALL, "soft")]
        spans.append(Span(" · ", "muted"))
    spans.append(Span("API server ", "muted"))
    if model.link is LinkState.CONNECTED:
        spans.append(Span("connected", "good"))
    elif model.link is LinkState.STARTING and not model.lost_reason:
        spans.append(Span("asking…", "init"))
    else:
        room = max(12, width - line_width(spans) - 6)
        spans.append(Span(sized(f"lost: {clean(model.lost_reason)}", room).rstrip(), "error"))
    for label, text in (("", server.host), ("cluster ", server.cluster), ("user ", server.user)):
        part = f" · {label}{clean(text)}"
        if text and line_width(spans) + len(part) <= width:
            spans.append(Span(part, "muted"))
    return tuple(spans)


WORDS: Final = {family: str(health) for health, family in FAMILIES.items()}
"""The word for each family is that of its health."""


def header(model: Model, totals: Totals, width: int, namespace: str = "") -> tuple[Line, Line]:
    """Return (left, right): node and pods by state; CPU and memory as far as they fit.

    If only one ``namespace`` is shown, its pods are counted; CPU and memory are the node's.
    """
    left: list[Span] = [Span(" podtui ", "brand"), Span(" ")]
    node, use = model.node, model.node_use
    if model.server.is_cluster:
        node, use = whole_node(model.nodes), whole_use(model)
        left = list(cluster_head(model, max(40, width * 6 // 10)))
    elif node is None:
        if model.link is LinkState.LOST:
            left += [Span("✖ agent lost", "error")]
        elif model.link is LinkState.CONNECTED:
            left += [Span("◔ the node has no status yet", "init")]
        else:
            left += [Span("◔ waiting for the agent…", "init")]
    else:
        ready, text = node_state(node)
        if model.link is LinkState.LOST:
            left.append(Span("? ", "warning"))
        else:
            left.append(Span("● ", "good") if ready else Span("✖ ", "error"))
        left.append(Span(clean(node.metadata.name), "name"))
        room = 28 if ready else max(28, width - line_width(left) - 2)
        left.append(Span(f" {sized(text, room).rstrip()}", "muted" if ready else "error"))
    left.append(Span("   "))
    if namespace:
        left.append(Span(f"{sized(clean(namespace), MAX_NAMESPACE_WIDTH).rstrip()} ", "name"))
    amounts = node_amounts(node, use, totals)
    right = meters(amounts, Detail.TINY)
    counts = {family: count for family, count in totals.counts_in(namespace).items() if count}
    for labels in (True, False):
        states = _states(counts, labels=labels)
        if line_width(left) + line_width(states) + line_width(right) <= width:
            break
    for detail in (Detail.LONG, Detail.PERCENT, Detail.SHORT, Detail.USED):
        longer = meters(amounts, detail)
        if line_width(left) + line_width(states) + line_width(longer) <= width:
            right = longer
            break
    return (*left, *states), right


def _states(counts: Mapping[Family, int], *, labels: bool) -> Line:
    spans: list[Span] = []
    for family, count in counts.items():
        spans.append(Span(f"{GLYPHS[family]} {count:,}", family.value))
        spans.append(Span(f" {WORDS[family]}  " if labels else "  ", "muted"))
    return tuple(spans)


class Detail(Enum):
    """The level of detail of a gauge. As in the node pane, the filled part is the requested amount
    and ``┃`` marks the used amount, both relative to the allocatable amount.
    """

    TINY = auto()
    """Percentage used, without the word."""
    USED = auto()
    """Percentage used."""
    SHORT = auto()
    """Percentages requested and used."""
    PERCENT = auto()
    """Percentages, with a bar."""
    LONG = auto()
    """Amounts with the total, and a bar."""


class Amounts(Struct, frozen=True):
    """One resource of the node, in millicores or bytes. ``used`` is None if it is not measured."""

    name: str
    used: int | None
    requested: int
    allocatable: int

    def text(self, amount: int) -> str:
        return cores(amount) if self.name == "cpu" else size(amount)


def node_amounts(node: Node | None, use: Usage | None, totals: Totals) -> tuple[Amounts, ...]:
    """Return CPU and memory, as far as the node reports their amounts."""
    if node is None:
        return ()
    used = {"cpu": use.cpu, "memory": use.memory} if use is not None else {}
    amounts = [
        Amounts(
            name,
            used.get(name),
            requested,
            amount(name, node.status.allocatable.get(name, node.status.capacity.get(name, "0"))),
        )
        for name, requested in (("cpu", totals.cpu), ("memory", totals.memory))
    ]
    return tuple(a for a in amounts if a.allocatable > 0)


def meters(amounts: Iterable[Amounts], detail: Detail) -> Line:
    """Return a gauge for each resource."""
    spans: list[Span] = []
    for resource in amounts:
        if resource.used is None and detail in (Detail.TINY, Detail.USED):
            continue
        spans.append(Span(f" {'cpu' if resource.name == 'cpu' else 'mem'} ", "muted"))
        cells = {Detail.LONG: 12, Detail.PERCENT: 6}.get(detail, 0)
        if cells:
            spans += [*_gauge(resource, cells), Span(" ")]
        spans += [*_figures(resource, detail), Span(" ")]
    return tuple(spans)


def _gauge(resource: Amounts, cells: int) -> Line:
    filled = min(cells, round(cells * resource.requested / resource.allocatable))
    text = "█" * filled + "░" * (cells - filled)
    if resource.used is None:
        return (Span(text[:filled], "bar-one"), Span(text[filled:], "bar-free"))
    at = min(cells - 1, int(cells * resource.used / resource.allocatable))
    end = max(filled, at + 1)
    before = (Span(text[: min(at, filled)], "bar-one"), Span(text[filled:at], "bar-free"))
    after = (Span(text[at + 1 : filled], "bar-one"), Span(text[end:], "bar-free"))
    return tuple(span for span in (*before, Span("┃", "bar-used"), *after) if span.text)


def _figures(resource: Amounts, detail: Detail) -> Line:
    whole = resource.allocatable
    requested_tone, tone = level(resource.requested, whole), level(resource.used or 0, whole)
    if detail is Detail.LONG:
        used = "?" if resource.used is None else resource.text(resource.used)
        return (
            Span(f"requested {resource.text(resource.requested)}", requested_tone),
            Span(f" ┃used {used}", tone),
            Span(f" of {resource.text(whole)}", "muted"),
        )
    used = Span("?" if resource.used is None else percent(resource.used, whole), tone)
    if detail is Detail.TINY:
        return (used,)
    if detail is Detail.USED:
        return (Span("used ", "muted"), used)
    requested = Span(percent(resource.requested, whole), requested_tone)
    return (Span("requested ", "muted"), requested, Span(" used ", "muted"), used)


def is_simulated(node: Node | None) -> bool:
    """Return whether the node reports that it is simulated."""
    if node is None:
        return False
    info = node.status.nodeInfo
    return "SIMULATED" in (info.osImage if info else "") or any(
        key.endswith("/simulated") and value == "true"
        for key, value in (*node.metadata.labels.items(), *node.metadata.annotations.items())
    )


def status_line(
    model: Model, target: str, folder: str, width: int, *, simulated: bool, other: str = ""
) -> Line:
    """Return node, engine, agent and the agent's folder.

    If space is short, first the labels and then the beginning of the folder are dropped. ``other``
    is the requested folder, if the agent watches another one.
    """
    if model.server.is_cluster:
        return cluster_status(model, model.namespace, width)
    fake = simulated or is_simulated(model.node)
    short = from_end(clean(other), max(8, width // 3))
    requested = Span(f"  ▲ not {short}", "warning") if other else Span("")
    width -= width_of(requested.text)
    line = _status(model, folder, width, labels=True, simulated=fake)
    if line_width(line) > width:
        line = _status(model, folder, width, labels=False, simulated=fake)
    if target and line_width(line) + 3 + width_of(target) <= width:
        line = (*line, Span(" · ", "muted"), Span(target, "muted"))
    return (*line, requested) if other else line


def _status(model: Model, folder: str, width: int, *, labels: bool, simulated: bool) -> Line:
    node = model.node
    info = node.status.nodeInfo if node is not None else None
    spans = [Span(" SIMULATED ", "simulated"), Span(" ")] if simulated else [Span(" ")]

    def add(label: str, text: str, tone: str = "soft") -> None:
        if spans[-1].text.strip():
            spans.append(Span(" · ", "muted"))
        if labels and label:
            spans.append(Span(f"{label} ", "muted"))
        spans.append(Span(text, tone))

    if node is not None:
        add("node", clean(node.metadata.name))
        add_cluster(node, add)
    if info is not None:
        add("engine", clean(info.containerRuntimeVersion.replace("://", " ")))
    if model.link is LinkState.CONNECTED:
        add("agent", "connected", "good")
    elif model.link is LinkState.STARTING:
        add("agent", "connecting…", "init")
    else:
        add("agent", sized(f"lost: {clean(model.lost_reason)}", 48).rstrip(), "error")
    if folder:
        room = width - line_width(spans) - 3
        add("folder", clean(folder) if labels else from_end(clean(folder), max(8, room)))
    return tuple(spans)


def add_cluster(node: Node, add: Callable[[str, str, str], None]) -> None:
    """Add the cluster that the node belongs to, or what is wrong between both."""
    problem = next(iter(cluster_problems(node)), None)
    if problem is not None:
        lost = " lost" if problem.type == CLUSTER_UNAVAILABLE else ""
        add("", sized(f"cluster{lost}: {clean(problem.message)}", 56).rstrip(), "error")
    elif url := cluster_of(node):
        add("cluster", clean(url).removeprefix("https://"), "good")


def from_end(text: str, width: int) -> str:
    """Return the end of a path, which is more specific than its beginning."""
    if width_of(text) <= width:
        return text
    return "…" + suffix(text, width - 1) if width > 1 else ""
