"""The API's rules for pods, and manifests that satisfy or violate them, from
``tests/unit/manifest/validation/cases/``.

Each file there has the API's validating functions by name. A function has its ``rules``, one a
line: the last part of the field, the type of the error and, where two rules share both, how the
detail begins. Its ``cases`` are manifests: a small valid pod in which the fields at the paths under
``set`` have been set; some break rules of the functions under ``also`` as well. ``errors`` are the
messages that a kubelet of v1.36 gives for it, one a line in any order; a case without any is valid.
In a message ``…`` stands for anything, such as a value that the kubelet shows in Go's own form, and
``$(name)`` for an entry of ``words.yaml``.

In manifests ``!repeat [text, n]`` is a text n times over, ``!join [text, …]`` texts put together,
``!copies [item, n]`` a list of one item n times, and ``!count n`` the list of the numbers below n.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml
from repository import VALIDATION_CASES

NODE: Final = "node"
FOLDER: Final = VALIDATION_CASES
Steps = tuple[str | int, ...]
Position = tuple[int, int]

_BASE: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]")
_INDEX: Final = re.compile(r"\[[^\]]*\]")
_TYPES: Final = (
    "Required value",
    "Invalid value",
    "Unsupported value",
    "Duplicate value",
    "Forbidden",
    "Not found",
    "Too long",
    "Too many",
)
_MESSAGE: Final = re.compile(rf"(?P<field>.*?): (?P<type>{'|'.join(_TYPES)})(?:: (?P<rest>.*))?")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one function; ``detail`` is empty if field and type are enough."""

    function: str
    leaf: str
    type: str
    detail: str

    def is_broken_in(self, message: str) -> bool:
        match = _MESSAGE.fullmatch(message)
        assert match is not None, message
        leaf = _INDEX.sub("", match["field"]).rpartition(".")[2] or "pod"
        # The value, if there is one, comes before the detail.
        details = f": {match['rest'] or ''}"
        return (leaf, match["type"]) == (self.leaf, self.type) and f": {self.detail}" in details

    def __str__(self) -> str:
        return f"{self.function}: {self.leaf}: {self.type} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Case:
    """One manifest and its expected messages."""

    file: str
    functions: tuple[str, ...]
    name: str
    manifest: Mapping[str, Any]
    errors: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.functions[0]}-{self.name}"


class _Loader(yaml.CSafeLoader):
    pass


def _arguments(loader: Any, node: Any) -> Any:
    return loader.construct_sequence(node, deep=True)


def _repeat(loader: Any, node: Any) -> Any:
    text, count = _arguments(loader, node)
    return text * count


def _copies(loader: Any, node: Any) -> Any:
    item, count = _arguments(loader, node)
    return [copy.deepcopy(item) for _ in range(count)]


_Loader.add_constructor("!repeat", _repeat)
_Loader.add_constructor("!copies", _copies)
_Loader.add_constructor("!join", lambda loader, node: "".join(_arguments(loader, node)))
_Loader.add_constructor(
    "!count", lambda loader, node: list(range(int(loader.construct_scalar(node))))
)


@cache
def _files() -> Mapping[str, Any]:
    return {
        path.stem: yaml.load(path.read_text(), _Loader) for path in sorted(FOLDER.glob("*.yaml"))
    }


def _functions() -> Iterator[tuple[str, str, Any]]:
    """Yield file, function and its rules."""
    for file, functions in _files().items():
        if file != "words":
            for function, found in functions.items():
                yield file, function, found


@cache
def cases() -> tuple[Case, ...]:
    return tuple(
        Case(
            file,
            (function, *case.get("also", ())),
            case["name"],
            _manifest(case.get("set", {})),
            tuple(map(_in_full, case.get("errors", "").splitlines())),
        )
        for file, function, found in _functions()
        for case in found["cases"]
    )


@cache
def rules() -> Mapping[Rule, str]:
    """Return every rule with its file."""
    found: dict[Rule, str] = {}
    for file, function, content in _functions():
        for line in content.get("rules", "").splitlines():
            leaf, kind, *detail = line.split(": ", 2)
            assert kind in _TYPES, line
            found[Rule(function, leaf, kind, "".join(detail))] = file
    return found


def _manifest(edits: Mapping[str, Any]) -> Mapping[str, Any]:
    tree = copy.deepcopy(_BASE)
    for path, value in edits.items():
        steps = [int(s[1:-1]) if s[0] == "[" else s for s in _STEP.findall(path)]
        here: Any = tree
        for step in steps[:-1]:
            here = here[step] if isinstance(step, int) else here.setdefault(step, {})
        here[steps[-1]] = copy.deepcopy(value)
    return tree


def _in_full(message: str) -> str:
    for name, text in _files()["words"].items():
        message = message.replace(f"$({name})", text)
    return message


def is_expected(expected: str, message: str) -> bool:
    """Return whether a message is the expected one."""
    parts = expected.split("…")
    if len(parts) == 1:
        return expected == message
    return re.fullmatch(".*".join(map(re.escape, parts)), message) is not None


def keys_of(tree: Any) -> Iterator[str]:
    """Return every key of a tree, and its part after the last dot."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from {key, key.rpartition(".")[2]}
            yield from keys_of(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from keys_of(value)


class Written:
    """A tree as block YAML, and the positions of each key and value."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree
        self._lines: list[str] = []
        self._keys: dict[Steps, Position] = {}
        self._values: dict[Steps, Position] = {}
        self._put(tree, (), 0)
        self.text = "\n".join(self._lines) + "\n"

    def position(self, field: str, *, key: bool) -> Position | None:
        """Return the position of a field: of its key or value, or of the nearest enclosing
        field.
        """
        steps, rest = self._steps(field)
        first, second = (self._keys, self._values) if key or rest else (self._values, self._keys)
        return first.get(steps) or second.get(steps)

    def _steps(self, field: str) -> tuple[Steps, str]:
        """Return the part of a path that is in the tree, and the rest."""
        here: Any = self._tree
        steps: Steps = ()
        while True:
            step, rest = _first_step(here, field)
            if step is None:
                return steps, field
            here, steps, field = here[step], (*steps, step), rest

    def _put(self, value: Any, path: Steps, indent: int) -> None:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for step, item in pairs:
            here = (*path, step)
            if isinstance(step, str):
                self._keys[here] = (len(self._lines) + 1, indent + 1)
                head = " " * indent + (step if step.isidentifier() else json.dumps(step)) + ":"
            else:
                head = " " * indent + "-"
            if not isinstance(item, dict | list) or not item:
                self._values[here] = (len(self._lines) + 1, len(head) + 2)
                self._lines.append(f"{head} {json.dumps(item)}")
                continue
            if isinstance(step, str):
                self._lines.append(head)
            first = len(self._lines)
            self._values[here] = (first + 1, indent + 3)
            self._put(item, here, indent + 2)
            if isinstance(step, int):
                self._lines[first] = head + self._lines[first][len(head) :]


def _first_step(value: Any, field: str) -> tuple[str | int | None, str]:
    if isinstance(value, list):
        match = re.match(r"\[(\d+)\]", field)
        if match is not None and int(match[1]) < len(value):
            return int(match[1]), field[match.end() :]
    elif isinstance(value, dict):
        for key in sorted(value, key=len, reverse=True):
            for form in (f".{key}", f"[{key}]", key):
                rest = field.removeprefix(form)
                if rest != field and rest[:1] in ("", ".", "["):
                    return key, rest
    return None, field
