"""Formats an explanation as text, in the style of ``kubectl explain``, or as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from podtui.explain.explanation import Explanation
from podtui.explain.places import PodField, type_text

WIDTH: Final = 100
_INDENT: Final = "  "
DEEPEST: Final = 12


def render_json(explanation: Explanation) -> str:
    """Format the explanation as JSON, with its own field names."""
    return json.dumps(msgspec.to_builtins(explanation), indent=2, ensure_ascii=False)


def render_text(explanation: Explanation, width: int = WIDTH) -> str:
    """Format the explanation in paragraphs of at most ``width`` characters."""
    lines = [
        f"{explanation.path or 'Pod'} <{explanation.type}>"
        + (" required" if explanation.required else "")
    ]
    if explanation.description:
        lines += ["", *_wrapped(explanation.description, width)]
    pairs = (
        ("Support", explanation.support_text),
        ("Default", explanation.default),
        ("Values", ", ".join(value or '""' for value in explanation.values)),
    )
    if any(text for _, text in pairs):
        lines.append("")
    for key, text in pairs:
        if text:
            lines += _pair(key, text, width)
    lines += _several("Rules", explanation.rules, width)
    lines += _several("Unlike the kubelet", explanation.departures, width)
    if explanation.example is not None:
        lines += ["", f"Example ({explanation.example.file}:{explanation.example.line})"]
        lines += [_INDENT + line for line in explanation.example.text.splitlines()]
    if explanation.fields:
        lines += ["", "Fields"]
        for child in explanation.fields:
            note = " required" if child.required else ""
            lines.append(f"{_INDENT}{child.name} <{child.type}>{note}")
            lines += _wrapped(child.description, width, _INDENT * 3)
    return "\n".join(lines)


def render_tree(pod_field: PodField) -> str:
    """List all fields below a field, one per line."""
    return "\n".join((f"{pod_field.text or 'Pod'}", *_fields_below(pod_field, 1)))


def _fields_below(pod_field: PodField, depth: int) -> Iterator[str]:
    for child in pod_field.children:
        assert child.field is not None  # Only the Pod itself has no field, and it is not a child.
        yield f"{_INDENT * depth}{child.path[-1]} <{type_text(child.field)}>"
        if depth < DEEPEST:
            yield from _fields_below(child, depth + 1)


def tree_data(pod_field: PodField, depth: int = 1) -> dict[str, Any]:
    """Return the same tree as data: an object as a dict, any other field as its type."""
    return {
        child.path[-1]: tree_data(child, depth + 1)
        if child.struct is not None and depth < DEEPEST
        else type_text(child.field)
        for child in pod_field.children
        if child.field is not None
    }


def _wrapped(text: str, width: int, indent: str = _INDENT) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)


def _pair(key: str, text: str, width: int) -> list[str]:
    head = f"{_INDENT}{key:<9}"
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))


def _several(title: str, texts: tuple[str, ...], width: int) -> list[str]:
    if not texts:
        return []
    lines = ["", title]
    for text in texts:
        lines += textwrap.wrap(text, width, initial_indent="  - ", subsequent_indent="    ",
                               break_long_words=False)  # fmt: skip
    return lines
