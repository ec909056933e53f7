"""The agent beside its API: its folder, its process and the time of the last contact."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Protocol

from podtui.api.names import STATIC_POD_PATH
from podtui.api.times import short_duration
from podtui.api.v1 import Node, Pod
from podtui.terminal_text import plural
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.sanitize import clean


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


def stale_line(contact: float, now: float, key: str) -> Line:
    """Return the header line for a lost agent. ``key`` restarts the agent; empty if not
    available.
    """
    ago = short_duration(max(0.0, now - contact))
    at = datetime.fromtimestamp(contact).astimezone()
    offer = f" {key} restarts the agent " if key else " "
    return (Span(f" STALE since {at:%H:%M:%S} ({ago} ago) ", "simulated"), Span(offer, "error"))


MOST_NAMED = 12


def switch_dialog(watched: str, requested: str, pods: list[Pod]) -> Dialog:
    """Return the dialog that asks whether the agent should watch another folder."""
    lines: list[Line] = [
        (Span("The agent restarts and watches "), Span(clean(requested), "key"),
         Span(" instead of "), Span(clean(watched), "key"), Span(".")),
        (),
    ]  # fmt: skip
    for pod in pods[:MOST_NAMED]:
        grace = pod.spec.terminationGracePeriodSeconds
        seconds = 30 if grace is None else grace
        lines.append((Span("✖ ", "error"), Span(pod_label(pod), "name"),
                      Span(f"  terminates (up to {seconds} s)", "muted")))  # fmt: skip
    if len(pods) > MOST_NAMED:
        lines.append((Span(f"✖ and {plural(len(pods) - MOST_NAMED, 'more pod')}", "error"),))
    lines += [
        *([()] if pods else []),
        (Span(f"No file is changed. The pods of {clean(requested)} start.", "muted"),),
    ]
    return confirmation("Switch the agent to another folder?", lines, "Switch")
