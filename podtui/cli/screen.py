"""``podtui`` without a command: the screen, on this machine's agent or on a cluster."""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any, cast

from podtui.agent import control
from podtui.agent.lock import is_held, read_agent
from podtui.cli.invocation import USAGE, confirm, resolved_of, root_words
from podtui.cli.parser import FLAGS
from podtui.errors import PodtuiError, UsageError
from podtui.resources import typed_program
from podtui.settings import SETTINGS, Resolved, Settings, config_words, flag_words
from podtui.text.terminal_text import lines, one_line

if TYPE_CHECKING:
    from podtui.client.cluster import ClusterClient
    from podtui.kubeconfig import Target


def run(namespace: argparse.Namespace) -> int:
    """Open the screen; start the agent if none runs. Return the exit status."""
    _require_terminal()
    if namespace.cluster:
        return _show_cluster(namespace)
    # `run_tui` enables garbage collection again after the first frame. Until then almost nothing is
    # garbage, and collecting takes a tenth of the start-up time.
    gc.disable()
    resolved = resolved_of(namespace)
    settings = resolved.settings
    ensure_folder(namespace, settings.staticPodPath)
    arguments = [*flag_words(settings), *config_words(resolved)]
    agent = control.AgentProcess(settings, arguments)
    if not is_held(settings.lock_path):
        named = {key for key, origin in resolved.origins.items() if origin == "command line"}
        agent.start(named)
    # Imported while the agent starts.
    from podtui.tui.run import run_tui

    status = run_tui(resolved, reread=lambda: resolved_of(namespace), agent=agent)
    child = agent.child
    starting = child if child is not None and child.poll() is None else None
    if not print_agent(namespace, settings, starting):
        if child is not None and child.poll() not in (None, 0):
            print(lines(control.tail(settings.agent_log_path)), file=sys.stderr)
        print("No agent is running.", file=sys.stderr)
    return status


def _require_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the screen needs a terminal; 'podtui status' and 'podtui agent' do not")
    term = os.environ.get("TERM", "")
    if term in ("dumb", "unknown"):
        raise UsageError(
            f"this terminal (TERM={term}) cannot show the screen; 'podtui status' and 'podtui why'"
            " print their answers, 'podtui agent' runs the pods without a screen, and 'podtui web'"
            " shows the screen in a browser"
        )
    if not sys.stderr.isatty():
        # Textual draws on standard error: `podtui 2>errors` would show nothing.
        cast("Any", sys).__stderr__ = sys.__stdout__


def screen_arguments(namespace: argparse.Namespace, resolved: Resolved) -> list[str]:
    """Return the arguments that start this screen in another process, whatever its working
    directory."""
    # Do not pass on a default folder: it would look like a folder that the user named.
    by_default = resolved.origins["staticPodPath"] == "default"
    arguments = flag_words(
        resolved.settings, without=frozenset({"staticPodPath"} if by_default else ())
    )
    arguments += config_words(resolved)
    for key, flag in FLAGS.items():
        if SETTINGS[key].screen and flag.metavar and getattr(namespace, key) is not None:
            arguments.append(f"{flag.name}={getattr(namespace, key)}")
        elif SETTINGS[key].screen and not flag.metavar and getattr(resolved.settings, key):
            arguments.append(flag.name)
    if namespace.context is not None:
        arguments.append(f"--context={namespace.context}")
    if namespace.kubeconfig is not None:
        arguments.append(f"--kubeconfig={namespace.kubeconfig.absolute()}")
    if namespace.namespace is not None:
        arguments.append(f"--namespace={namespace.namespace}")
    if namespace.all_namespaces:
        arguments.append("--all-namespaces")
    return arguments


def ensure_folder(namespace: argparse.Namespace, folder: Path) -> None:
    """Create the folder named on the command line, if the user agrees.

    A folder from a flag or a setting is its owner's responsibility: the agent waits for it.
    """
    if namespace.path is None or folder.exists():
        return
    if not namespace.create:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(f"{folder}: no such folder; --create creates it")
        if not confirm(f"{folder} does not exist. Create this folder for Pod manifests?"):
            raise UsageError(f"{folder}: no such folder; nothing was started")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"cannot create {folder}: {error.strerror}") from error


def print_agent(
    namespace: argparse.Namespace, settings: Settings, starting: Popen[bytes] | None = None
) -> bool:
    """Print that the agent keeps running, and how to stop it; return False if none runs.

    ``starting`` is a process that is running but may not hold its lock yet.
    """
    record = read_agent(settings.lock_path)
    if record is None and starting is None:
        return False
    podtui = typed_program()
    root = root_words(namespace, settings)
    if record is not None:
        folder = one_line(str(record.staticPodPath))
        print(f"The agent (process {record.pid}) keeps running the pods of {folder}.")
    elif starting is not None:
        folder = one_line(str(settings.staticPodPath))
        print(f"The agent (process {starting.pid}) is still starting, for {folder}.")
    simulated = (settings.engine if record is None else record.engine) == "memory"
    left = "its simulated pods end with it" if simulated else "leave its containers running"
    _print_commands(
        {
            f"{podtui}{root}": "open the screen again",
            f"{podtui} stop{root}": f"stop the agent, {left}",
            f"{podtui} down{root}": "stop the agent and remove its containers",
        }
    )
    return True


def _print_commands(purposes: Mapping[str, str]) -> None:
    """Print command lines with their purposes: in two columns, or below each other if the terminal
    is too narrow for that."""
    widest = max(map(len, purposes))
    rows = [f"  {command:<{widest}}    {text}" for command, text in purposes.items()]
    if max(map(len, rows)) > shutil.get_terminal_size().columns:
        rows = [
            row for command, text in purposes.items() for row in (f"  {command}", f"      {text}")
        ]
    for row in rows:
        print(one_line(row))


# --- clusters


def _show_cluster(namespace: argparse.Namespace) -> int:
    """Show the cluster, and any cluster that the user switches to, until the user quits."""
    from podtui.cli import cluster
    from podtui.kubeconfig import choose
    from podtui.tui.run import run_cluster

    config, target = cluster.find(namespace)
    scope = cluster.scope_of(namespace)
    while True:
        status, wanted = run_cluster(
            resolved_of(namespace),
            reread=lambda: resolved_of(namespace),
            target=target,
            client=_screen_client(target, scope),
            contexts=tuple(sorted(config.contexts)),
        )
        if not wanted:
            return status
        try:
            target = choose(config, wanted)
        except PodtuiError as error:
            print(lines(f"podtui: {error}"), file=sys.stderr)
            return USAGE


def _screen_client(target: Target, scope: str | None) -> ClusterClient:
    """Return the client of the screen. A credential plugin prompts before the screen takes the
    terminal."""
    from podtui.cli import cluster
    from podtui.cli.signals import run_until_signal

    client = cluster.client(target, scope)

    async def identify() -> None:
        await client.credentials.identity()

    if target.user.exec is not None:
        run_until_signal(identify())
    client.credentials.leave_terminal()
    return client
