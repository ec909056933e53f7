"""Opens the screen on this machine's agent; the command line's way in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from podtui.resources import shipped
from podtui.settings import Settings, default_config_dir
from podtui.tui.late_client import LateClient

LOG_BYTES = 8192


def run_tui(settings: Settings, *, agent: subprocess.Popen[bytes] | None = None) -> int:
    """Show the screen until the user leaves it; returns the exit status.

    ``agent`` is one that was just started and may still fail: then its log's end is shown.
    """
    theme = colourless_theme() or settings.theme or None
    from podtui.tui.app import PodtuiApp

    app = PodtuiApp(
        LateClient(settings.socket_path),
        theme=theme,
        theme_dirs=theme_folders(),
        simulated=settings.engine == "memory",
        folder=shortened(settings.staticPodPath),
        check_agent=lambda: start_error(agent, settings.agent_log_path),
    )
    app.run()
    return app.return_code or 0


def colourless_theme() -> str:
    """The theme for a terminal that wants no colours (``NO_COLOR``), else empty.

    Textual learns once, from the theme that its environment names when it is imported, whether to
    leave all colours out; a theme chosen later would be drawn black on black. So this goes first.
    """
    if not os.environ.get("NO_COLOR"):
        return ""
    os.environ["TEXTUAL_THEME"] = "ansi-dark"
    return "ansi-dark"


def theme_folders() -> list[Path]:
    """Those that ship with podtui, then the user's own."""
    own = default_config_dir(os.environ) / "themes"
    try:
        return [shipped("themes"), own]
    except FileNotFoundError:
        return [own]


def shortened(path: Path) -> str:
    """A path as one says it: from the working or the home directory where it lies there."""
    for base, sign in ((Path.cwd(), "."), (Path.home(), "~")):
        if path.is_relative_to(base) and path != base:
            return f"{sign}/{path.relative_to(base)}"
    return str(path)


def start_error(agent: subprocess.Popen[bytes] | None, log: Path) -> str:
    """The end of the agent's log where the agent ended, else empty."""
    if agent is None or agent.poll() is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        text = ""
    return text.strip() or f"it ended with status {agent.returncode}; see {log}"
