"""``podtui explain``: the meaning of a field of a Pod or of another kind, its valid values, and
podtui's support for it. Works without an agent."""

from __future__ import annotations

import argparse
import json
import shutil

from podtui.explain.explanation import explain_pod_field
from podtui.explain.kind_texts import purpose
from podtui.explain.places import find_field
from podtui.explain.report import render_json, render_text, render_tree, tree_data
from podtui.why.inventory import with_long_kind


def run(namespace: argparse.Namespace) -> int:
    """Print the explanation; return 0. Raises `UsageError` if there is no such field."""
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    print(explained(namespace.field, namespace.output, width, recursive=namespace.recursive))
    return 0


def explained(field: str, output: str, width: int, *, recursive: bool) -> str:
    """Return the text to print. Raises `UsageError` if there is no such field."""
    pod_field = find_field(with_long_kind(field))
    if recursive:
        as_json = output == "json"
        return json.dumps(tree_data(pod_field), indent=2) if as_json else render_tree(pod_field)
    explanation = explain_pod_field(pod_field, purpose)
    return render_json(explanation) if output == "json" else render_text(explanation, width)
