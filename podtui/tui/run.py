"""Start the screen; used by the command line."""

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

from podtui.client.unix import UnixClient
from podtui.resources import WEB_TERMINAL, shipped
from podtui.settings import Resolved, default_config_dir, default_root_dir

if TYPE_CHECKING:
    from podtui.client.cluster import ClusterClient
    from podtui.kubeconfig import Target
    from podtui.tui.app import PodtuiApp
    from podtui.tui.commands.agent import Agent
    from podtui.tui.commands.saved_pods import SavedPods
    from podtui.tui.preferences.preferences import Preferences
    from podtui.tui.screens.main.screen_memory import MemoryFile

SWITCH_SECONDS = 0.001
"""The interpreter's thread switch interval. Python's default of 5 ms would delay each key twice."""
TERMINAL_THEME = "podtui-terminal"
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


def run_tui(
    resolved: Resolved,
    *,
    reread: Callable[[], Resolved],
    agent: Agent,
) -> int:
    """Show the screen until the user leaves it; return the exit status.

    ``reread`` reads the settings again after their file changed.
    """
    settings = resolved.settings
    few = theme_for_terminal(os.environ)
    forced = few if os.environ.get("NO_COLOR") else None
    from podtui.tui.app import PodtuiApp
    from podtui.tui.commands.agent_supervisor import AgentSupervisor
    from podtui.tui.preferences.live import PreferencesFile
    from podtui.tui.preferences.preferences import preferences_of
    from podtui.tui.preferences.theme_catalogue import ThemeCatalogue

    preferences = preferences_of(resolved, theme=forced)
    memory = remembered(os.environ, str(settings.rootDir))
    app = PodtuiApp(
        UnixClient(settings.socket_path),
        themes=ThemeCatalogue(theme_folders(), theme_of(preferences, memory) or few or None),
        simulated=settings.engine == "memory",
        supervisor=AgentSupervisor(
            agent,
            settings.staticPodPath,
            compares_folder=compares_folder(resolved, Path.cwd()),
            asks_to_switch=asks_to_switch(resolved, os.environ),
        ),
        readonly=settings.readOnly,
        memory=memory,
        saved_pods=saved_pods(os.environ, str(settings.socket_path)),
        on_painted=tune_interpreter,
        preferences=preferences,
        preferences_file=PreferencesFile(
            resolved.path, lambda: preferences_of(reread(), theme=forced)
        ),
    )
    return show(app)


def compares_folder(resolved: Resolved, working: Path) -> bool:
    """Return whether the user expects a certain folder: a named one, or ``static_pods/`` here."""
    named = resolved.origins["staticPodPath"] != "default"
    return named or resolved.settings.staticPodPath.parent == working


def asks_to_switch(resolved: Resolved, environ: Mapping[str, str]) -> bool:
    """Return whether to offer at once to switch the agent's folder. A tab of ``podtui web`` does
    not offer it, because all tabs share the agent.
    """
    named = resolved.origins["staticPodPath"] == "command line"
    return named and environ.get("TERM_PROGRAM") != WEB_TERMINAL


def run_cluster(
    resolved: Resolved,
    *,
    reread: Callable[[], Resolved],
    target: Target,
    client: ClusterClient,
    contexts: tuple[str, ...],
) -> tuple[int, str]:
    """Show a cluster until the user leaves it. Return the exit status and the context to open next,
    empty for none.
    """
    settings = resolved.settings
    few = theme_for_terminal(os.environ)
    forced = few if os.environ.get("NO_COLOR") else None
    from podtui.client.protocol import CLUSTER, Server
    from podtui.tui.app import PodtuiApp
    from podtui.tui.preferences.live import PreferencesFile
    from podtui.tui.preferences.preferences import preferences_of
    from podtui.tui.preferences.theme_catalogue import ThemeCatalogue

    preferences = preferences_of(resolved, theme=forced)
    memory = remembered(os.environ, target.cluster.server)
    app = PodtuiApp(
        client,
        themes=ThemeCatalogue(theme_folders(), theme_of(preferences, memory) or few or None),
        readonly=settings.readOnly,
        memory=memory,
        saved_pods=saved_pods(os.environ, target.cluster.server),
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
        on_painted=tune_interpreter,
    )
    return show(app), app.next_context


def show(app: PodtuiApp) -> int:
    """Run the app until the user leaves it or a signal ends it; return the exit status. The
    terminal is restored in both cases.
    """

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in ENDING_SIGNALS:
            loop.add_signal_handler(number, app.exit_on_signal, number)
        await app.run_async()

    asyncio.run(run())
    return app.return_code or 0


def tune_interpreter() -> None:
    """After the first paint, tune the interpreter for a quick response to keys.

    One thread reads the keys and another writes the drawn output, so threads switch more often.
    Garbage collection is enabled, but skips the existing objects, which live until the end, and
    runs less often: with 1,000 pods a full collection blocks the event loop for up to 50 ms.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(5000, 20, 20)
    gc.enable()


def theme_for_terminal(environ: MutableMapping[str, str]) -> str:
    """Return the theme for a terminal with few or no colours (``NO_COLOR``), else empty.

    When Textual is imported, it decides by the theme in its environment whether to drop all
    colours; a theme selected later would be drawn black on black. So call this before that import.
    An empty ``NO_COLOR`` has no meaning; it is removed because Textual would obey it.
    """
    if environ.get("NO_COLOR"):
        environ["TEXTUAL_THEME"] = "ansi-dark"
        return TERMINAL_THEME
    environ.pop("NO_COLOR", None)
    return TERMINAL_THEME if has_few_colours(environ) else ""


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal reports no more than its sixteen colours."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return False
    term = environ.get("TERM", "").lower()
    return not (term.endswith(("256color", "direct")) or "kitty" in term)


def remembered(environ: Mapping[str, str], server: str) -> MemoryFile:
    """Read the saved layout for a root directory or a cluster from the user's state directory."""
    from podtui.tui.screens.main.screen_memory import MemoryFile

    file = MemoryFile(default_root_dir(environ) / "screen.json", server)
    file.read()
    return file


def saved_pods(environ: Mapping[str, str], server: str) -> SavedPods:
    """Return the pods of a server that an earlier screen may have left to create."""
    from podtui.tui.commands.saved_pods import SavedPods

    return SavedPods(default_root_dir(environ) / "recreate", server)


def theme_of(preferences: Preferences, memory: MemoryFile) -> str:
    """Return the initial theme: one given for this run, else the user's last choice."""
    if preferences.theme_is_fixed:
        return preferences.theme
    return memory.memory.theme_for(preferences.theme)


def theme_folders() -> list[Path]:
    """Return the folder of the themes shipped with podtui, then the user's own."""
    user_themes = default_config_dir(os.environ) / "themes"
    try:
        return [shipped("themes"), user_themes]
    except FileNotFoundError:
        return [user_themes]
