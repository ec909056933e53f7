"""``podtui explain``: the meaning of a Pod's field, its valid values, and podtui's support for it.
Works without an agent."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from typing import Any, Final

COMMANDS: Final = ("explain",)


def add_to(add: Callable[..., Any]) -> None:
    """Register the command with ``add(name, run, help)``, which returns its parser."""
    explain = add("explain", run, "describe a field of a manifest, and its support in podtui")
    explain.add_argument(
        "field",
        metavar="FIELD",
        nargs="?",
        default="",
        help="as pod.spec.containers.image; a name alone means where a Pod has it (default: pod)",
    )
    explain.add_argument("--recursive", action="store_true", help="all fields beneath, by name")
    explain.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(namespace: argparse.Namespace) -> int:
    """Print the explanation; return 0. Raises `UsageError` if there is no such field."""
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    print(explained(namespace.field, namespace.output, width, recursive=namespace.recursive))
    return 0


def explained(field: str, output: str, width: int, *, recursive: bool) -> str:
    """Return the text to print. Raises `UsageError` if there is no such field."""
    from podtui.explain.explanation import explain_place
    from podtui.explain.places import find_place
    from podtui.explain.report import render_json, render_text, render_tree, tree_data

    place = find_place(field)
    if recursive:
        import json

        as_json = output == "json"
        return json.dumps(tree_data(place), indent=2) if as_json else render_tree(place)
    said = explain_place(place)
    return render_json(said) if output == "json" else render_text(said, width)
