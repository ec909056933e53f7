"""Modules that keys and commands open, imported after the first paint.

The first paint needs a third of the screen's modules. Importing the others before it would delay
it, and importing them on a key press would make the first press slow. So a thread imports them in
the background.
"""

from __future__ import annotations

import importlib
from typing import Final

MODULES: Final = (
    "podtui.tui.pods.pod_screen",
    "podtui.tui.node.node_screen",
    "podtui.tui.why.why_screen",
    "podtui.tui.tree.tree_screen",
    "podtui.tui.explain.explain_screen",
    "podtui.tui.keys.help_screen",
    "podtui.tui.keys.key_lines",
    "podtui.tui.keys.aliases_screen",
    "podtui.tui.actions.creating",
    "podtui.tui.actions.deleting",
    "podtui.tui.actions.forwards_screen",
    "podtui.tui.actions.journal_screen",
    "podtui.tui.actions.restarting",
    "podtui.tui.actions.shells",
    "podtui.tui.actions.transferring",
    "podtui.tui.actions.trash_screen",
    "podtui.tui.widgets.columns_screen",
)


def load() -> None:
    """Import all modules. Blocks; safe while another thread imports the same modules."""
    for name in MODULES:
        importlib.import_module(name)
