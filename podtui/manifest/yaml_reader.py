"""A reader of YAML as Kubernetes understands it, with positions, and safe for hostile text.

The trees are built from libyaml's events instead of its nodes, so that depth, aliases and the
number of values are checked while the text is read.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from podtui.api.local import Severity
from podtui.manifest.document import (
    FURTHER_DOCUMENT,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NODES,
    Document,
    Path,
    Position,
    Problem,
    UnreadableText,
    printable,
    quoted,
    require_yaml_characters,
    source_lines,
)
from podtui.manifest.scalars import number_text, plain_number, resolve, resolve_tagged

_FIXES: Final = (
    ("mapping values are not allowed", "check the indentation here, or put the text in quotes"),
    ("did not find expected key", "check the indentation of this line and of the one before it"),
    ("did not find expected '-'", "check the indentation of this line and of the one before it"),
    ("could not find expected ':'", "end the key with ':' and a space"),
    ("did not find expected ',' or '}'", "close the map with '}'"),
    ("did not find expected ',' or ']'", "close the list with ']'"),
    ("found unexpected end of stream", "close the quotes"),
    ("did not find expected node content", "write a value here"),
    ("cannot start any token", "put the text in quotes"),
    ("found unexpected ':'", "put the text in quotes"),
)


def position_of(mark: Any) -> Position:
    """Return line and column of a libyaml mark, from 1."""
    return (mark.line + 1, mark.column + 1)


def _within(position: Position, lines: list[str]) -> Position:
    """Return the position, moved to the end of the text if it is in the blank lines after it."""
    last = next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip()), 1)
    return position if position[0] <= last else (last, len(lines[last - 1]) + 1)


def syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    """Return a problem for a syntax error in the text."""
    mark: Any = getattr(error, "problem_mark", None)
    description: str = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
    )
    lines = source_lines(text)
    position = _within(position_of(mark), lines) if mark is not None else (1, 1)
    fix = next((fix for start, fix in _FIXES if start in description), "")
    if "tab character" in description:
        description, fix = "a tab cannot indent YAML", "indent with spaces"
    elif "cannot start any token" in description:
        line = lines[position[0] - 1] if position[0] <= len(lines) else ""
        if "\t" in line[: position[1]]:
            description, fix = "a tab cannot indent YAML", "indent with spaces"
    context: str | None = getattr(error, "context", None)
    begin: Any = getattr(error, "context_mark", None)
    if context and begin is not None and begin.line + 1 != position[0]:
        description += f" ({context} that begins on line {begin.line + 1})"
    elif context:
        description += f" ({context})"
    return Problem(code="InvalidYAML", message=printable(description), position=position, fix=fix)


_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
# After an odd number of backslashes, this backslash is itself escaped.
_ESCAPED_QUOTE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\'")
_PRIVATE_USE: Final = range(0xE000, 0xF900)
_PRIVATE_ESCAPE: Final = re.compile(r"\\[uU]0*([eEfF][0-9a-fA-F]{3})")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _refuse(code: str, message: str, position: Position, fix: str = "") -> NoReturn:
    raise UnreadableText(Problem(code=code, message=message, position=position, fix=fix))


@dataclass(slots=True)
class _Anchor:
    value: Any
    nodes: int
    characters: int


@dataclass(frozen=True, slots=True)
class _Substitution:
    """The text as libyaml must see it to parse it as the kubelet's YAML decoder does.

    That decoder accepts the escape ``\\'`` in double quotes, and treats a byte-order mark at the
    start of a line as a letter, where libyaml skips it. Therefore ``backslash`` replaces the
    backslash of that escape, and ``mark`` such a mark. Both are characters that occur nowhere in
    the text, not even as an escape. Positions stay the same.
    """

    text: str
    backslash: str = ""
    mark: str = ""

    @classmethod
    def of(cls, text: str, *, strict: bool) -> _Substitution:
        quote, marks = "\\'" in text, strict and "\ufeff" in text
        if not (quote or marks):
            return cls(text)
        used = {*text, *(chr(int(code, 16)) for code in _PRIVATE_ESCAPE.findall(text))}
        unused = [char for char in map(chr, _PRIVATE_USE) if char not in used][:2]
        if len(unused) < 2:
            return cls(text)
        backslash, mark = unused
        text = _ESCAPED_QUOTE.sub(rf"\1{backslash}'", text)
        return cls(text.replace("\ufeff", mark) if marks else text, backslash, mark)

    def value(self, event: ScalarEvent) -> str:
        text: str = event.value
        if not self.backslash:
            return text
        backslash = "" if event.style == '"' else "\\"
        return text.replace(self.backslash, backslash).replace(self.mark, "\ufeff")


@dataclass(slots=True)
class _Builder:
    """Builds values, positions and problems from the events of one document."""

    events: Generator[Event, None, None]
    source: _Substitution
    strict_text: str = ""
    """The text, if it is read as a kubelet does: of two equal keys the later one counts, with a
    warning. Otherwise empty: the first one counts, with an error."""
    keys: dict[Path, Position] = field(default_factory=dict[Path, Position])
    values: dict[Path, Position] = field(default_factory=dict[Path, Position])
    raw: dict[Path, str] = field(default_factory=dict[Path, str])
    problems: list[Problem] = field(default_factory=list[Problem])
    anchors: dict[str, _Anchor] = field(default_factory=dict[str, _Anchor])
    open_anchors: set[str] = field(default_factory=set[str])
    nodes: int = 0
    characters: int = 0

    def spend(self, nodes: int, characters: int, position: Position) -> None:
        self.nodes += nodes
        self.characters += characters
        if self.nodes > MAX_NODES:
            message = f"more than {MAX_NODES} values, counted with aliases written out"
            _refuse("TooLarge", message, position)
        if self.characters > MAX_CHARACTERS:
            message = f"more than {MAX_CHARACTERS} characters, counted with aliases written out"
            _refuse("TooLarge", message, position)

    def node(self, event: Event, path: Path, depth: int) -> Any:
        position = position_of(event.start_mark)
        self.values[path] = position
        if depth > MAX_DEPTH:
            _refuse("TooDeep", f"nested deeper than {MAX_DEPTH} levels", position)
        if isinstance(event, AliasEvent):
            return self.alias(event, position)
        nodes, characters = self.nodes, self.characters
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self.open_anchors.add(anchor)
        if isinstance(event, ScalarEvent):
            value = self.scalar(event, path, position)
            self.spend(1, len(event.value), position)
        elif isinstance(event, MappingStartEvent):
            self.spend(1, 0, position)
            value = self.mapping(path, depth)
        elif isinstance(event, SequenceStartEvent):
            self.spend(1, 0, position)
            value = self.sequence(path, depth)
        else:
            _refuse("InvalidYAML", "a value is missing here", position)
        if anchor is not None:
            self.open_anchors.discard(anchor)
            self.anchors[anchor] = _Anchor(value, self.nodes - nodes, self.characters - characters)
        return value

    def alias(self, event: AliasEvent, position: Position) -> Any:
        name = event.anchor or ""
        shown = printable(name, 60)
        if name in self.open_anchors:
            _refuse("InvalidAlias", f"the alias *{shown} contains itself", position)
        anchor = self.anchors.get(name)
        if anchor is None:
            _refuse(
                "InvalidAlias",
                f"the alias *{shown} has no anchor &{shown} before it",
                position,
                "quote the text if it is meant to begin with '*'",
            )
        self.spend(anchor.nodes, anchor.characters, position)
        return anchor.value

    def scalar(self, event: ScalarEvent, path: Path, position: Position) -> Any:
        text = self.source.value(event)
        tag = event.tag
        if self.strict_text and event.style == '"':
            self.check_escapes(event)
        if tag is not None and tag != "!":
            try:
                value = resolve_tagged(tag, text)
            except ValueError as error:
                self.problems.append(
                    Problem(code="InvalidYAML", message=str(error), path=path, position=position)
                )
                return text
        elif tag is None and event.implicit[0] and not event.style:
            value = resolve(text)
        else:
            return text
        if isinstance(value, float):
            if not math.isfinite(value):
                message = f"{quoted(text)} is not a number that JSON can represent"
                self.problems.append(
                    Problem(
                        code="InvalidYAML",
                        message=message,
                        path=path,
                        position=position,
                        fix=f"write {quoted(text)} in quotes",
                    )
                )
                return text
            value = plain_number(value)
        if not isinstance(value, str):
            self.raw[path] = text
        return value

    def check_escapes(self, event: ScalarEvent) -> None:
        """Refuse the escape of a slash, which YAML 1.1 does not have."""
        start: Any = event.start_mark
        end: Any = event.end_mark
        written = self.strict_text[start.index : end.index]
        for match in _ESCAPE.finditer(written):
            if match[0] == "\\/":
                before = written[: match.start()]
                line = start.line + before.count("\n")
                column = len(before) - before.rfind("\n") - 1
                position = (line + 1, column + 1 + (0 if "\n" in before else start.column))
                _refuse("InvalidYAML", "found unknown escape character", position, "write / alone")

    def sequence(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self.node(event, (*path, len(items)), depth + 1))
        return items

    def mapping(self, path: Path, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        merged: dict[str, tuple[Any, Position]] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            position = position_of(event.start_mark)
            if isinstance(event, ScalarEvent) and _is_merge(event):
                value = self.node(next(self.events), (*path, "<<"), depth + 1)
                for key, item in self.merge(value, position):
                    merged.setdefault(key, (item, position))
                continue
            key = self.key(event, path, position)
            child = (*path, key)
            if key in entries:
                line = self.keys[child][0]
                self.problems.append(
                    Problem(
                        code="DuplicateKey",
                        message=f"the key {quoted(key)} is already defined on line {line}",
                        path=child,
                        position=position,
                        fix="keep one of the two",
                        severity=Severity.WARNING if self.strict_text else Severity.ERROR,
                    )
                )
                if not self.strict_text:
                    # Parse the value only to skip it, under a path that cannot occur otherwise.
                    count = len(self.problems)
                    self.node(next(self.events), (*path, f"{key}\0"), depth + 1)
                    del self.problems[count:]
                    continue
            self.keys[child] = position
            entries[key] = self.node(next(self.events), child, depth + 1)
        for key, (item, position) in merged.items():
            if key not in entries:
                entries[key] = item
                self.keys[(*path, key)] = self.values[(*path, key)] = position
        return entries

    def merge(self, value: Any, position: Position) -> list[tuple[str, Any]]:
        """Return the pairs that ``<<`` merges in; if several maps have a key, the first one
        counts."""
        maps = cast("list[Any]", value if isinstance(value, list) else [value])
        pairs: list[tuple[str, Any]] = []
        for item in maps:
            if not isinstance(item, dict):
                _refuse(
                    "InvalidYAML", "the merge key << requires a map or a list of maps", position
                )
            pairs.extend(cast("dict[str, Any]", item).items())
        return pairs

    def key(self, event: Event, path: Path, position: Position) -> str:
        if not isinstance(event, ScalarEvent | AliasEvent):
            _refuse("InvalidYAML", "a key must be a string, not a list or a map", position)
        # Use a path that no real key can have: YAML does not allow NUL.
        value = self.node(event, (*path, "\0"), MAX_DEPTH)
        del self.values[(*path, "\0")]
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return number_text(value)
        _refuse("InvalidYAML", "a key must be a string", position, "put the key in quotes")


def _is_merge(event: ScalarEvent) -> bool:
    return event.value == "<<" and not event.style and event.tag is None


def read_yaml(text: str) -> Document:
    """Read the first document, as a kubelet does; further documents only cause a warning.

    Raises `UnreadableText` for invalid YAML or exceeded limits.
    """
    require_yaml_characters(text)
    source = _Substitution.of(text, strict=True)
    loader = _LOADER(source.text)
    events = _events(loader)
    try:
        builder = _Builder(events, source, strict_text=text)
        document = _next_document(builder) or Document(None)
        further = _further_document(events)
    except yaml.YAMLError as error:
        raise UnreadableText(syntax_problem(error, text)) from None
    finally:
        loader.dispose()
    if further is not None:
        document = replace(document, problems=(*document.problems, further))
    return document


def read_all_yaml(text: str) -> tuple[Document, ...]:
    """Read all non-empty documents; return one without a value if there is none.

    A syntax error after the first document is a problem of the last document read. Raises
    `UnreadableText` if the first document is invalid or exceeds the limits.
    """
    require_yaml_characters(text)
    source = _Substitution.of(text, strict=False)
    loader = _LOADER(source.text)
    builder = _Builder(_events(loader), source)
    documents: list[Document] = []
    try:
        while (document := _next_document(builder)) is not None:
            if document.value is not None:
                documents.append(document)
    except (yaml.YAMLError, UnreadableText) as error:
        syntax = isinstance(error, yaml.YAMLError)
        problem = syntax_problem(error, text) if syntax else error.problem
        if not documents:
            raise UnreadableText(problem) from None
        message = f"the text from here on is ignored: {problem.message}"
        rest = replace(
            problem, code=FURTHER_DOCUMENT, message=message, severity=Severity.WARNING, path=()
        )
        documents[-1] = replace(documents[-1], problems=(*documents[-1].problems, rest))
    finally:
        loader.dispose()
    return tuple(documents) or (Document(None),)


def _next_document(builder: _Builder) -> Document | None:
    """Read the next document from the builder's events. The limits apply to the whole text."""
    for event in builder.events:
        if isinstance(event, DocumentStartEvent):
            if builder.strict_text and event.version == (1, 2):
                position = position_of(event.start_mark)
                fix = "remove the line %YAML 1.2"
                _refuse("InvalidYAML", "found incompatible YAML document", position, fix)
            builder.keys, builder.values, builder.raw = {}, {}, {}
            builder.problems, builder.anchors = [], {}
            value = builder.node(next(builder.events), (), 0)
            problems = tuple(builder.problems)
            return Document(value, builder.keys, builder.values, problems, builder.raw)
    return None


def _events(loader: Any) -> Generator[Event, None, None]:
    while loader.check_event():
        yield loader.get_event()


def _further_document(events: Generator[Event, None, None]) -> Problem | None:
    """Return a warning about text after the first document, which a kubelet does not even parse."""
    try:
        for event in itertools.islice(events, 100):
            if isinstance(event, DocumentStartEvent):
                content = next(events)
                if isinstance(content, ScalarEvent) and not content.value:
                    continue
                return Problem(
                    code=FURTHER_DOCUMENT,
                    message="only the first document of a manifest is read; this one is not",
                    position=position_of(event.start_mark),
                    fix="put each pod into its own file",
                    severity=Severity.WARNING,
                )
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        return Problem(
            code=FURTHER_DOCUMENT,
            message="the text after the first document is not YAML; it is ignored",
            position=position_of(mark) if mark is not None else None,
            severity=Severity.WARNING,
        )
    return None
