"""The command line: a parser, and a module for each command."""

from __future__ import annotations

from podtui.cli.parser import build_parser
from podtui.cli.program import main

__all__ = ["build_parser", "main"]
