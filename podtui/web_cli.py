"""The command line of ``podtui web``; the implementation is in `podtui.web`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from podtui.settings import Settings

COMMANDS: Final = ("web",)
DEFAULT_PORT: Final = 7638
"""The letters PODT on a telephone keypad."""


def add_options(web: Any) -> None:
    """Add the options of the command to its parser ``web``."""
    web.description = (
        "Show the screen in a browser on this machine. Prints a link with a token; each tab is a"
        " podtui of its own, which ends with the tab."
    )
    web.add_argument("path", metavar="STATIC_POD_PATH", nargs="?", help="the folder of manifests")
    web.add_argument(
        "--port", metavar="PORT", type=_port, default=DEFAULT_PORT,
        help=f"where to listen; 0 is any free one (default: {DEFAULT_PORT})",
    )  # fmt: skip
    web.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="127.0.0.1 or ::1, and no other"
    )
    web.add_argument("--open", action="store_true", help="open a browser as well")


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port")


def serve(
    namespace: argparse.Namespace, settings: Settings, arguments: Sequence[str], shown: str
) -> None:
    """Serve until interrupted. ``arguments`` are those of each tab's ``podtui``; ``shown`` is the
    node or context named in the page title. Raises `podtui.errors.UsageError` and
    `podtui.web.run.WebFailed`."""
    from podtui.web.access import loopback_host
    from podtui.web.run import WebOptions, run_web

    def say(line: str) -> None:
        print(line, flush=True)

    run_web(
        WebOptions(
            host=loopback_host(namespace.host),
            port=namespace.port,
            folder=settings.rootDir,
            arguments=arguments,
            title=f"podtui {shown}",
            readonly=settings.readOnly,
            open_browser=namespace.open,
        ),
        say,
    )
