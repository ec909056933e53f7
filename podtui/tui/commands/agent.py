"""The agent beside its API: its folder, its process and the time of the last contact."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Final, Protocol

from podtui.api.names import STATIC_POD_PATH
from podtui.api.pods import is_api_pod
from podtui.api.times import short_duration
from podtui.api.v1 import Node, Pod
from podtui.text.terminal_text import plural
from podtui.tui.views.endings import ending_text, losses
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Line, Span, line_width
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.sanitize import clean

MIN_HEAD_CELLS: Final = 8
"""Cells of the header that remain visible beside the line for a lost agent."""


class Agent(Protocol):
    """The agent's process. Every property and method blocks briefly."""

    @property
    def problem(self) -> str:
        """The reason why the agent started by this screen ended; empty while it runs."""
        ...

    @property
    def crashed(self) -> bool:
        """True if the agent started by this screen was killed or failed, and no agent runs."""
        ...

    def restart(self, folder: str = "") -> None:
        """Start the agent if none runs. With ``folder``, stop the running agent and start one that
        watches that folder. Raises `PodtuiError`.
        """
        ...


def watched_path(node: Node | None) -> str:
    """Return the folder or file that the agent watches, from its node's record; empty if
    unknown.
    """
    return "" if node is None else node.metadata.annotations.get(STATIC_POD_PATH, "")


def is_other(watched: str, requested: Path | None) -> bool:
    """Return whether the agent watches a different folder than ``requested``. Reads the disk."""
    return bool(watched and requested) and os.path.realpath(watched) != os.path.realpath(
        str(requested)
    )


def folder_of(path: Path) -> Path:
    """Return the manifest folder; ``path`` may also be a single file in it."""
    return path.parent if path.is_file() else path


def shortened(path: Path) -> str:
    """Return the path relative to the working or home directory, if it is below one of them."""
    for base, sign in ((Path.cwd(), "."), (Path.home(), "~")):
        if path.is_relative_to(base) and path != base:
            return f"{sign}/{path.relative_to(base)}"
    return str(path)


def stale_line(contact: float, now: float, key: str, width: int) -> Line:
    """Return the header line for a lost agent, for a terminal of ``width`` cells. ``key`` restarts
    the agent; empty if not available. The key outlasts the details.
    """
    ago = short_duration(max(0.0, now - contact))
    at = datetime.fromtimestamp(contact).astimezone()
    states = (f" STALE since {at:%H:%M:%S} ({ago} ago) ", f" STALE for {ago} ", " STALE ")
    offers = (f" {key} restarts the agent ", f" {key} restarts ", f" {key} ") if key else (" ",)
    lines: list[Line] = [
        (Span(state, "simulated"), Span(offer, "error"))
        for state, offer in zip_longest(states, offers, fillvalue=offers[-1])
    ]
    fitting = (line for line in lines if line_width(line) <= width - MIN_HEAD_CELLS)
    return next(fitting, lines[-1])


def switch_dialog(
    watched: str,
    requested: str,
    pods: Sequence[Pod],
    forwards: Sequence[str] = (),
) -> Dialog:
    """Return the dialog that asks whether the agent should watch another folder.

    The static pods end: their files are in the old folder. Pods of the API keep running.
    ``forwards`` are the running port-forwards of this screen.
    """
    static = [pod for pod in pods if not is_api_pod(pod)]
    others = [pod for pod in pods if is_api_pod(pod)]
    lines: list[Line] = [
        (Span("The agent restarts and watches "), Span(clean(requested), "key"),
         Span(" instead of "), Span(clean(watched), "key"), Span(".")),
        (Span(f"No file is changed. The pods of {clean(requested)} start.", "muted"),),
    ]  # fmt: skip
    if others:
        verb = "keeps" if len(others) == 1 else "keep"
        names = ", ".join(map(pod_label, others))
        lines.append((Span("= ", "muted"), Span(names, "name"),
                      Span(f"  {verb} running: created through the API", "muted")))  # fmt: skip
    if static:
        verb = "ends" if len(static) == 1 else "end"
        lines += [(), (Span(f"{plural(len(static), 'static pod')} {verb}:", "soft"),)]
    lines += [
        (Span("✖ ", "error"), Span(pod_label(pod), "name"),
         Span(f"  {ending_text(pod)}", "muted"))
        for pod in static
    ]  # fmt: skip
    lines += losses(static)
    lines += [
        (Span("✖ ", "error"), Span(f"connections of {clean(address)}", "name"),
         Span("  are cut", "muted"))
        for address in forwards
    ]  # fmt: skip
    return confirmation("Switch the agent to another folder?", lines, "Switch")
