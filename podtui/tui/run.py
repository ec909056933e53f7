"""Opens the screen on this machine's agent; the command line's way in."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from podtui.resources import shipped
from podtui.settings import WEB_TERMINAL, Resolved, default_config_dir, default_root_dir
from podtui.tui.late_client import LateClient
from podtui.tui.tidying import take_over

if TYPE_CHECKING:
    from podtui.client.cluster import ClusterClient
    from podtui.kubeconfig import Target
    from podtui.tui.agent import Agent
    from podtui.tui.app import PodtuiApp
    from podtui.tui.looks.preferences import Preferences
    from podtui.tui.overview.screen_memory import MemoryFile

SWITCH_SECONDS = 0.001
"""After which a thread gives way to another; Python's own 5 ms would be felt twice for each key."""
TERMINAL_THEME = "podtui-terminal"
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


def run_tui(
    resolved: Resolved,
    *,
    reread: Callable[[], Resolved],
    agent: Agent,
) -> int:
    """Show the screen until the user leaves it; returns the exit status.

    ``reread`` reads the settings again when their file changed.
    """
    settings = resolved.settings
    few = theme_for_terminal(os.environ)
    forced = few if os.environ.get("NO_COLOR") else None
    from podtui.tui.app import PodtuiApp
    from podtui.tui.looks.preferences import preferences_of
    from podtui.tui.looks.preferred import PreferencesFile

    preferences, memory = preferences_of(resolved, theme=forced), remembered(os.environ)
    app = PodtuiApp(
        LateClient(settings.socket_path),
        theme=theme_of(preferences, memory) or few or None,
        theme_dirs=theme_folders(),
        simulated=settings.engine == "memory",
        asked_path=settings.staticPodPath,
        compares_folder=compares_folder(resolved, Path.cwd()),
        asks_to_switch=asks_to_switch(resolved, os.environ),
        readonly=settings.readOnly,
        agent=agent,
        memory=memory,
        on_painted=settle,
        preferences=preferences,
        preferences_file=PreferencesFile(
            resolved.path, lambda: preferences_of(reread(), theme=forced)
        ),
    )
    return show(app)


def compares_folder(resolved: Resolved, working: Path) -> bool:
    """Whether the user expects a certain folder: one that was named, or ``static_pods/`` here."""
    named = resolved.origins["staticPodPath"] != "default"
    return named or resolved.settings.staticPodPath.parent == working


def asks_to_switch(resolved: Resolved, environ: Mapping[str, str]) -> bool:
    """Whether to ask at once about the agent's folder. A tab of ``podtui web`` does not: all tabs
    share the agent."""
    named = resolved.origins["staticPodPath"] == "command line"
    return named and environ.get("TERM_PROGRAM") != WEB_TERMINAL


def run_cluster(
    resolved: Resolved,
    *,
    reread: Callable[[], Resolved],
    target: Target,
    make: Callable[[], ClusterClient],
    contexts: tuple[str, ...],
) -> tuple[int, str]:
    """Show a cluster until the user leaves it; the exit status, and the context to turn to, empty
    for none. ``make`` is called in a thread."""
    settings = resolved.settings
    few = theme_for_terminal(os.environ)
    forced = few if os.environ.get("NO_COLOR") else None
    from podtui.client.capabilities import CLUSTER, Server
    from podtui.tui.app import PodtuiApp
    from podtui.tui.looks.preferences import preferences_of
    from podtui.tui.looks.preferred import PreferencesFile

    preferences, memory = preferences_of(resolved, theme=forced), remembered(os.environ)
    app = PodtuiApp(
        LateClient(target=target.cluster.server, make=make),
        theme=theme_of(preferences, memory) or few or None,
        theme_dirs=theme_folders(),
        readonly=settings.readOnly,
        memory=memory,
        preferences=preferences,
        preferences_file=PreferencesFile(
            resolved.path, lambda: preferences_of(reread(), theme=forced)
        ),
        server=Server(
            capabilities=CLUSTER,
            host=urlsplit(target.cluster.server).netloc,
            context=target.context.name,
            cluster=target.cluster.name,
            user=target.user.name,
            contexts=contexts,
        ),
    )
    return show(app), app.turn_to


def show(app: PodtuiApp) -> int:
    """Run the app until the user leaves it or a signal ends it; returns the exit status. The
    terminal is restored either way."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in ENDING_SIGNALS:
            loop.add_signal_handler(number, app.end_by, number)
        await app.run_async()

    asyncio.run(run())
    return app.return_code or 0


def settle() -> None:
    """Once the first picture is there, let what goes on meanwhile hold up no key.

    One thread reads the keys and another writes what is drawn: they have their turns soon. Garbage
    is looked for from now on, but not among what there is: that stays to the end, and a look
    through all of it takes long.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    take_over()
    gc.enable()


def theme_for_terminal(environ: MutableMapping[str, str]) -> str:
    """The theme that a terminal with few colours or none (``NO_COLOR``) needs, else empty.

    Textual learns once, from the theme that its environment names when it is imported, whether to
    leave all colours out; a theme chosen later would be drawn black on black. So this goes first.
    An empty ``NO_COLOR`` asks for nothing, and is taken away because Textual would heed it.
    """
    if environ.get("NO_COLOR"):
        environ["TEXTUAL_THEME"] = "ansi-dark"
        return TERMINAL_THEME
    environ.pop("NO_COLOR", None)
    return TERMINAL_THEME if has_few_colours(environ) else ""


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows no more than its sixteen colours, as far as it says."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return False
    term = environ.get("TERM", "").lower()
    return not (term.endswith(("256color", "direct")) or "kitty" in term)


def remembered(environ: Mapping[str, str]) -> MemoryFile:
    """How the screen was left, from the user's state directory."""
    from podtui.tui.overview.screen_memory import MemoryFile

    file = MemoryFile(default_root_dir(environ) / "screen.json")
    file.read()
    return file


def theme_of(preferences: Preferences, memory: MemoryFile) -> str:
    """The theme to begin with: one given for this run, else the user's last choice."""
    if preferences.theme_is_fixed:
        return preferences.theme
    return memory.memory.theme_for(preferences.theme)


def theme_folders() -> list[Path]:
    """Those that ship with podtui, then the user's own."""
    own = default_config_dir(os.environ) / "themes"
    try:
        return [shipped("themes"), own]
    except FileNotFoundError:
        return [own]
