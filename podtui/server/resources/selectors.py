"""Parse label and field selectors into predicates."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import quoted
from podtui.server.status import StatusError, bad_request

LabelTest = Callable[[Mapping[str, str]], bool]
FieldTest = Callable[[Callable[[str], str]], bool]
"""Takes a function that reads a field, and returns whether the object is selected."""

_TOKENS = re.compile(r"\s*(==|!=|[!=<>(),]|[^\s!=<>(),]+|$)")
_SYMBOLS = frozenset({"==", "!=", "!", "=", "<", ">", "(", ")", ",", ""})
_OPERATORS = frozenset({"in", "notin", "=", "==", "!=", "<", ">"})


def parse_labels(text: str) -> LabelTest:
    """Parse a selector such as ``a=b,c!=d,e in (f,g),h,!i``. Raises `StatusError` 400."""
    tests = list(_Labels(text).requirements())
    return lambda labels: all(test(labels) for test in tests)


class _Labels:
    """A parser of label selectors; its errors are the API server's."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while not self._tokens or self._tokens[-1]:
            match = _TOKENS.match(text, position)
            assert match is not None
            self._tokens.append(match[1])
            position = match.end()
        self._next = 0

    def requirements(self) -> Iterator[LabelTest]:
        while self._peek():
            if self._peek() != "!" and self._peek() in _SYMBOLS:
                expected = "!, identifier, or 'end of string'"
                raise bad_request(f"found '{self._peek()}', expected: {expected}")
            yield self._requirement()
            token = self._take()
            if token == "," and self._peek() != "!" and self._peek() in _SYMBOLS:
                raise bad_request(f"found '{self._peek()}', expected: identifier after ','")
            if token not in ("", ","):
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")

    def _requirement(self) -> LabelTest:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._identifier()
        problems = formats.qualified_name(key)
        if problems:
            raise self._refused(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(problems)}")
        if self._peek() in ("", ","):
            return lambda labels: (key in labels) is not absent
        operator = self._take()
        if operator not in _OPERATORS:
            raise self._refused(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        return self._test(key, operator)

    def _test(self, key: str, operator: str) -> LabelTest:
        if operator in ("in", "notin"):
            values, negated = self._values(), operator == "notin"
            return lambda labels: (labels.get(key) in values) is not negated
        value = "" if self._peek() in ("", ",") else self._identifier()
        self._check(key, value)
        if operator in ("<", ">"):
            if not re.fullmatch(r"[-+]?\d+", value):
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise self._refused(f"values[0][{key}]: Invalid value: {quoted(value)}: {why}")
            number, greater = int(value), operator == ">"
            return lambda labels: _ordered(labels.get(key), number, greater)
        negated = operator == "!="
        return lambda labels: (labels.get(key) == value) is not negated

    def _values(self) -> frozenset[str]:
        """Read a list in parentheses; an empty item is an empty value."""
        token = self._take()
        if token != "(":
            raise self._refused(f"found '{token}' expected: '('")
        values: set[str] = set()
        item = ""
        while (token := self._take()) != ")":
            if token == ",":
                values.add(item)
                item = ""
            elif token in _SYMBOLS:
                raise self._refused(f"found '{token}', expected: ',', or identifier")
            elif item:
                raise self._refused(f"found '{token}', expected: ',' or ')'")
            else:
                item = token
        values.add(item)
        return frozenset(values)

    def _identifier(self) -> str:
        token = self._take()
        if token in _SYMBOLS:
            raise self._refused(f"found '{token}', expected: identifier")
        return token

    def _check(self, key: str, value: str) -> None:
        problems = formats.label_value(value)
        if problems:
            why = f"values[0][{key}]: Invalid value: {quoted(value)}: {'; '.join(problems)}"
            raise self._refused(why)

    def _refused(self, why: str) -> StatusError:
        return bad_request(f"unable to parse requirement: {why}")

    def _peek(self) -> str:
        return self._tokens[self._next]

    def _take(self) -> str:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token


def _ordered(value: str | None, number: int, greater: bool) -> bool:
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) > number if greater else int(value) < number


def parse_fields(text: str, selectable: Collection[str]) -> FieldTest:
    r"""Parse ``a=b,c!=d``, where ``\`` escapes ``\``, ``,`` and ``=``. Raises `StatusError` 400 for
    a field that is not ``selectable``."""
    only_identity = set(selectable) <= {"metadata.name", "metadata.namespace"}
    terms: list[tuple[str, str, bool]] = []
    for term in re.findall(r"(?:\\.|[^,\\])+", text):
        match = re.fullmatch(r"([^=!\\]+)(!=|==|=)((?:\\.|[^=\\])*)", term.strip())
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        if field not in selectable:
            if only_identity:
                fields = ", ".join(quoted(name) for name in sorted(selectable))
                raise bad_request(f'"{field}" is not a known field selector: only {fields}')
            raise bad_request(f"field label not supported: {field}")
        terms.append((field, re.sub(r"\\(.)", r"\1", value), operator == "!="))
    return lambda read: all(
        (read(field) == value) is not negated for field, value, negated in terms
    )
