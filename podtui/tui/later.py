"""Modules that keys and commands open, imported after the first paint.

The first paint needs a third of the screen's modules. Importing the others before it would delay
it, and importing them on a key press would make the first press slow. So a thread imports them in
the background.
"""

from __future__ import annotations

import importlib
from typing import Final

MODULES: Final = (
    "podtui.tui.screens.pods.pod_screen",
    "podtui.tui.screens.node.node_screen",
    "podtui.tui.screens.why_screen",
    "podtui.tui.screens.tree_screen",
    "podtui.tui.screens.explain_screen",
    "podtui.tui.screens.help_screen",
    "podtui.tui.screens.key_lines",
    "podtui.tui.screens.aliases_screen",
    "podtui.tui.commands.create_pod",
    "podtui.tui.commands.delete",
    "podtui.tui.screens.forwards_screen",
    "podtui.tui.screens.journal_screen",
    "podtui.tui.commands.restart",
    "podtui.tui.commands.shell",
    "podtui.tui.commands.copy_files",
    "podtui.tui.screens.trash_screen",
    "podtui.tui.widgets.columns",
)


def load() -> None:
    """Import all modules. Blocks; safe while another thread imports the same modules."""
    for name in MODULES:
        importlib.import_module(name)
