"""``podtui service``: the agent's systemd unit; the implementation is in `podtui.agent.systemd`."""

from __future__ import annotations

import argparse
import os

from podtui.agent import systemd
from podtui.cli.invocation import OK, resolved_of
from podtui.resources import program
from podtui.text.terminal_text import lines


def run(namespace: argparse.Namespace) -> int:
    """Print, install or remove the unit. Raises `podtui.agent.systemd.ServiceFailed`."""
    resolved = resolved_of(namespace)
    system = os.geteuid() == 0 if namespace.system is None else namespace.system
    text = systemd.unit_text(resolved, program(), os.environ, system=system)
    if namespace.action == "print":
        print(text, end="")
        return OK
    folder = systemd.default_folder(os.environ, system=system)
    manager = systemd.SystemdManager(system=system, folder=folder, booted=systemd.BOOTED)
    if namespace.action == "install":
        finding = systemd.install(manager, text, resolved.settings, force=namespace.force)
    else:
        finding = systemd.remove(manager, force=namespace.force)
    print(lines("\n".join(finding)))
    return OK
