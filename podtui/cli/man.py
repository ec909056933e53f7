"""``podtui man``: the manual page, derived from the parsers."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from podtui import __version__
from podtui.cli.parser import build_parsers
from podtui.text.terminal_text import lines

_PAGE_WIDTH: Final = 72
_EXIT_STATUS: Final = """\
0 success; 1 failure, a finding of check, an unhealthy pod; 2 wrong usage or setting; 3 no
agent is running. exec ends with the exit status of its command."""


def run(_: argparse.Namespace) -> int:
    """Print the page."""
    print(man_page(), end="")
    return 0


def man_page() -> str:
    """Return the manual page, as roff for ``man``."""
    parser, commands = build_parsers()
    usage, (description, *groups) = _help(parser)
    parts = [
        f'.TH PODTUI 1 "" "podtui {__version__}" "podtui"',
        ".SH NAME",
        "podtui \\- a kubelet in your terminal",
        ".SH SYNOPSIS",
        *_verbatim(usage),
        ".SH DESCRIPTION",
        _roff(description),
        ".SH OPTIONS",
        *_verbatim("\n\n".join(groups)),
        ".SH EXIT STATUS",
        _roff(_EXIT_STATUS),
        ".SH COMMANDS",
    ]
    shared = {_title(group) for group in groups} - {"options:"}
    for name, command in commands.items():
        usage, (description, *groups) = _help(command)
        specific_groups = "\n\n".join(group for group in groups if _title(group) not in shared)
        parts += [f".SS podtui {_roff(name)}", _roff(description), ".PP"]
        parts += _verbatim(f"{usage}\n\n{specific_groups}")
    return "\n".join(parts) + "\n"


def _help(parser: argparse.ArgumentParser) -> tuple[str, list[str]]:
    """Return the usage and the paragraphs of the help: the description, then the argument
    groups."""
    parser.formatter_class = partial(argparse.HelpFormatter, width=_PAGE_WIDTH)
    # Newer versions of Python colour the help on a terminal.
    usage, *paragraphs = lines(parser.format_help()).strip().split("\n\n")
    indent = len("usage: ")
    return "\n".join(line[indent:] for line in usage.splitlines()), paragraphs


def _title(group: str) -> str:
    return group.partition("\n")[0]


def _verbatim(text: str) -> list[str]:
    return [".nf", *(_roff(line) for line in text.splitlines()), ".fi"]


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
