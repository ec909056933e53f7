"""The command line of ``podtui service``; the implementation is in `podtui.agent.service`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from podtui.resources import program
from podtui.terminal_text import lines

if TYPE_CHECKING:
    from podtui.settings import Resolved

COMMANDS: Final = ("service",)


def add_to(add: Callable[..., Any], resolved: Callable[[argparse.Namespace], Resolved]) -> None:
    """Register the command with ``add(name, run, help)``, which returns its parser."""

    def run_it(namespace: argparse.Namespace) -> int:
        return run(namespace, resolved(namespace))

    service = add(
        "service",
        run_it,
        "have systemd run the agent, with the settings in force",
    )
    service.add_argument(
        "deed", choices=("print", "install", "remove"), help="the unit: to look at, in force, gone"
    )
    whose = service.add_mutually_exclusive_group()
    whose.add_argument(
        "--system", dest="system", action="store_const", const=True, default=None,
        help="a unit of the machine (default for root)",
    )  # fmt: skip
    whose.add_argument(
        "--user", dest="system", action="store_const", const=False,
        help="a unit of your own (default for others)",
    )  # fmt: skip
    service.add_argument(
        "--force", action="store_true", help="replace or remove a unit that is another's"
    )


def run(namespace: argparse.Namespace, resolved: Resolved) -> int:
    """Run the command and print its result; return 0. Raises
    `podtui.agent.service.ServiceFailed`."""
    from podtui.agent.service import BOOTED, Manager, install, remove
    from podtui.agent.unit import default_folder, unit_text

    system = os.geteuid() == 0 if namespace.system is None else namespace.system
    text = unit_text(resolved, program(), os.environ, system=system)
    if namespace.deed == "print":
        print(text, end="")
        return 0
    folder = default_folder(os.environ, system=system)
    manager = Manager(system=system, folder=folder, booted=BOOTED)
    if namespace.deed == "install":
        said = install(manager, text, resolved.settings, force=namespace.force)
    else:
        said = remove(manager, force=namespace.force)
    print(lines("\n".join(said)))
    return 0
