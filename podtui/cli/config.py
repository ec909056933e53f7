"""``podtui config``: the effective settings, and the origin of each."""

from __future__ import annotations

import argparse
import json

from podtui.cli.invocation import OK, resolved_of
from podtui.settings import SETTINGS
from podtui.text.terminal_text import one_line


def run(namespace: argparse.Namespace) -> int:
    """Print each setting, ignored keys of the file, and keys and commands that do not apply."""
    resolved = resolved_of(namespace)
    settings = resolved.settings
    width = max(len(key) for key in SETTINGS)
    for key in SETTINGS:
        value = getattr(settings, key)
        shown = json.dumps(value, default=str)
        print(one_line(f"{key:<{width}}  {shown}  # {resolved.origins[key]}"))
    for line in resolved.ignored:
        print(one_line(f"# no effect here: {line}"))
    if settings.keys or settings.commands or settings.hotkeys:
        # Import the screen's library only if there are keys or commands to check.
        from podtui.tui.preferences.live import problems_of
        from podtui.tui.preferences.preferences import preferences_of

        for line in problems_of(preferences_of(resolved)):
            print(one_line(f"# not effective: {line}"))
    return OK
