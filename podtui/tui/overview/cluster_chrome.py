"""The text of header, status line and empty panes for a cluster."""

from __future__ import annotations

from typing import Final

from podtui.tui.model import Link, Model
from podtui.tui.node.nodes import is_ready
from podtui.tui.widgets.cells import Line, Span, line_width, sized
from podtui.tui.widgets.sanitize import clean

ALL: Final = "all"


def cluster_head(model: Model, width: int) -> Line:
    """Return the context, and cluster and user as far as they fit."""
    server = model.server
    context, cluster, user = clean(server.context), clean(server.cluster), clean(server.user)
    state = {
        Link.CONNECTED: Span("● ", "good"),
        Link.STARTING: Span("◔ ", "init"),
        Link.LOST: Span("? ", "warning"),
    }[model.link]
    spans = [Span(" podtui ", "brand"), Span(" cluster ", "muted"), state, Span(context, "name")]
    for words in (f" {cluster}" if cluster != context else "", f" as {user}" if user else ""):
        if words and line_width(spans) + len(words) <= width:
            spans.append(Span(words, "muted"))
    nodes = nodes_words(model)
    if nodes is not None and line_width(spans) + len(nodes.text) <= width:
        spans.append(nodes)
    return tuple(spans)


def nodes_words(model: Model) -> Span | None:
    """Return the number of nodes and of those that are ready."""
    if not model.nodes:
        return None
    ready, count = sum(map(is_ready, model.nodes.values())), len(model.nodes)
    noun = "node" if count == 1 else "nodes"
    if ready == count:
        return Span(f" · {count} {noun}", "muted")
    return Span(f" · {ready} of {count} {noun} ready", "error")


def cluster_status(model: Model, namespace: str | None, width: int) -> Line:
    """Return namespace, connection and host; a lost connection has priority."""
    server = model.server
    spans = [Span(" ")]
    if namespace is not None:
        spans += [Span("namespace ", "muted"), Span(clean(namespace) or ALL, "soft")]
        spans.append(Span(" · ", "muted"))
    spans.append(Span("API server ", "muted"))
    if model.link is Link.CONNECTED:
        spans.append(Span("connected", "good"))
    elif model.link is Link.STARTING and not model.lost_reason:
        spans.append(Span("asking…", "init"))
    else:
        room = max(12, width - line_width(spans) - 6)
        spans.append(Span(sized(f"lost: {clean(model.lost_reason)}", room).rstrip(), "error"))
    for label, text in (("", server.host), ("cluster ", server.cluster), ("user ", server.user)):
        words = f" · {label}{clean(text)}"
        if text and line_width(spans) + len(words) <= width:
            spans.append(Span(words, "muted"))
    return tuple(spans)


def cluster_waiting(model: Model) -> tuple[Line, ...]:
    """Return the text of a pane before the cluster answers, or after the connection is lost."""
    host = clean(model.server.host)
    if not model.lost_reason:
        return ((Span(f"◔ asking {host}…", "init"),),)
    return (
        (Span("✖ the cluster does not answer as it should", "error"),),
        (Span(clean(model.lost_reason), "soft"),),
        (Span("retrying; the last state stays on the screen", "muted"),),
    )
