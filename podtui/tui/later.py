"""What keys and commands open, imported once there is something to look at.

The first picture needs a third of the screen's modules. The others would hold it up, and a key
that imports them itself would be slow the first time: so a thread takes them in meanwhile.
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
    """Import them all. Blocks; harmless beside an import of the same modules elsewhere."""
    for name in MODULES:
        importlib.import_module(name)
