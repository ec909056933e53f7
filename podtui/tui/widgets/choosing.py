"""The common key bindings of modal selection lists."""

from __future__ import annotations

from textual.binding import Binding


def moves(group: str) -> list[Binding]:
    """Return bindings for ``action_move(step)`` with ids prefixed by ``group``."""
    return [
        Binding("up,k", "move(-1)", "Up", show=False, id=f"{group}.up", tooltip="Up"),
        Binding("down,j", "move(1)", "Down", show=False, id=f"{group}.down", tooltip="Down"),
        Binding("pageup,ctrl+b", "move(-10)", "Page up", show=False, id=f"{group}.page-up",
                tooltip="Ten up"),
        Binding("pagedown,ctrl+f", "move(10)", "Page down", show=False, id=f"{group}.page-down",
                tooltip="Ten down"),
        Binding("home,g", "move(-1000)", "First", show=False, id=f"{group}.first",
                tooltip="The first"),
        Binding("end,G", "move(1000)", "Last", show=False, id=f"{group}.last", tooltip="The last"),
    ]  # fmt: skip
