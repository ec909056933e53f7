"""The command line: `main` parses it and runs its command; each command has its own module."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from podtui.cli.invocation import FAILED, NO_AGENT, USAGE
from podtui.cli.parser import build_parser, parse, take_exec_command, take_path, wants_cluster
from podtui.errors import AgentUnavailable, PodtuiError, UsageError
from podtui.text.terminal_text import lines

__all__ = ["build_parser", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    if argv is None and "_ARGCOMPLETE" in os.environ:
        from podtui.cli.completion import complete

        complete()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        path = take_path(arguments)
        exec_command = take_exec_command(arguments)
        namespace = parse(arguments)
        namespace.exec_command = exec_command
        if path is not None:
            namespace.path = path
        if namespace.path is not None:
            namespace.staticPodPath = namespace.path
        namespace.cluster = wants_cluster(namespace)
        module, _, function = namespace.run.partition(":")
        return getattr(import_module(f"podtui.cli.{module}"), function)(namespace)
    except UsageError as error:
        print(lines(f"podtui: {error}"), file=sys.stderr)
        return USAGE
    except AgentUnavailable as error:
        print(lines(f"podtui: {error}"), file=sys.stderr)
        return NO_AGENT
    except PodtuiError as error:
        print(lines(f"podtui: {error}"), file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    except KeyboardInterrupt:
        return 130
