"""``podtui agent``, ``stop`` and ``down``: run the agent, stop it, and remove everything that it
created."""

from __future__ import annotations

import argparse
import shlex
import sys

from msgspec.structs import replace

from podtui.agent import control
from podtui.agent.lock import last_engine, last_settings
from podtui.cli.invocation import OK, confirm, root_words, settings_of
from podtui.errors import AgentUnavailable, UsageError
from podtui.resources import typed_program
from podtui.text.terminal_text import lines, one_line


def run(namespace: argparse.Namespace) -> int:
    """Run the agent in the foreground."""
    from podtui.agent.run import run_agent

    return run_agent(settings_of(namespace))


def stop(namespace: argparse.Namespace) -> int:
    """Stop the agent. Raises `AgentUnavailable` if none runs."""
    settings = settings_of(namespace)
    engine = one_line(last_engine(settings.lock_path) or settings.engine)
    last = last_settings(settings.lock_path)
    if not control.stop(settings):
        raise AgentUnavailable(f"no agent is running for {settings.rootDir}")
    if engine == "memory":
        print("The agent has stopped, and its simulated pods (--engine memory) with it.")
        return OK
    folder = str(settings.staticPodPath) if last is None else last.staticPodPath
    given = namespace.staticPodPath is not None
    named = f" {shlex.quote(folder)}" if given or folder != str(settings.staticPodPath) else ""
    again = one_line(f"{typed_program()}{root_words(namespace, settings)}{named}")
    print(
        f"The agent has stopped; its containers keep running (--engine {engine})."
        f" '{again}' continues with them."
    )
    return OK


def down(namespace: argparse.Namespace) -> int:
    """Stop the agent and remove everything of its root directory, after a question.

    The engine is that of the root directory's last agent, unless a flag names one.
    """
    settings = settings_of(namespace)
    last = None if namespace.engine is not None else last_engine(settings.lock_path)
    if last is not None:
        settings = replace(settings, engine=last)
    if not namespace.yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "'podtui down' removes containers, volumes and API objects: confirm with --yes"
            )
        lost = "every container, volume, log and API object"
        if not confirm(f"Stop the agent, and remove {lost} of {settings.rootDir}?"):
            print("Nothing was changed.")
            return OK
    from podtui.agent.cleanup import remove_all

    stopped = control.stop(settings)
    removed = remove_all(settings)
    print(lines(("The agent has stopped. " if stopped else "") + removed))
    return OK
