"""Parse a theme file into strings and maps of strings, each with its line number.

Simple files such as the shipped themes are parsed here, because the first frame waits for them and
importing the YAML library takes longer than reading all themes. The library parses other files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    import yaml

_COMMENT: Final = re.compile(r" *(?:#.*)?")
_ENTRY: Final = re.compile(
    r"(?P<inside>  )?(?P<key>[a-z][a-z0-9-]*):"
    r"(?: +(?P<value>\"[ !#-\[\]-~]*\"|'[ -&(-~]*'|[A-Za-z][\w-]*))?(?: +(?:#.*)?)?",
    re.ASCII,
)


class NotYaml(Exception):
    """Raised for an invalid text; ``line`` counts from 1, 0 if unknown."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class Node(Struct, frozen=True):
    """A value: ``text`` for a string, ``pairs`` for a map; otherwise they are empty and None."""

    line: int
    text: str = ""
    pairs: tuple[tuple[Node, Node], ...] | None = None


def read(text: str) -> Node | None:
    """Parse a file; return None if it is empty. Raises `NotYaml`."""
    return plain(text) or by_library(text)


def plain(text: str) -> Node | None:
    """Parse a map of strings and of maps of strings, one entry per line; None for other text."""
    pairs: list[tuple[Node, Node]] = []
    inner: list[tuple[Node, Node]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.isprintable():
            return None
        if _COMMENT.fullmatch(line):
            continue
        found = _ENTRY.fullmatch(line)
        if found is None:
            return None
        key, value = Node(number, found["key"]), found["value"]
        if found["inside"]:
            if not (pairs and pairs[-1][1].pairs is not None and value):
                return None
            inner.append((key, Node(number, _bare(value))))
        else:
            if not _close(pairs, inner):
                return None
            inner = []
            pairs.append((key, Node(number, _bare(value)) if value else Node(number, pairs=())))
    return Node(pairs[0][0].line, pairs=tuple(pairs)) if pairs and _close(pairs, inner) else None


def _close(pairs: list[tuple[Node, Node]], inner: list[tuple[Node, Node]]) -> bool:
    """Complete the map of the last key. Returns False if that map is empty."""
    if pairs and pairs[-1][1].pairs is not None:
        key, _ = pairs[-1]
        pairs[-1] = (key, Node(key.line + 1, pairs=tuple(inner)))
        return bool(inner)
    return True


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "\"'" else value


def by_library(text: str) -> Node | None:
    """Parse any YAML text. Raises `NotYaml`."""
    import yaml

    try:
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise NotYaml(line, str(error.problem)) from error
    except yaml.YAMLError as error:
        raise NotYaml(0, str(error)) from error
    return None if node is None else _node(node)


def _node(node: yaml.Node, depth: int = 2) -> Node:
    """Convert a YAML node. Maps below ``depth`` become empty: themes do not use them, and aliases
    can make them infinite."""
    import yaml

    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return Node(line, str(node.value))
    if not isinstance(node, yaml.MappingNode):
        return Node(line)
    if not depth:
        return Node(line, pairs=())
    return Node(
        line, pairs=tuple((_node(key, 0), _node(value, depth - 1)) for key, value in node.value)
    )
