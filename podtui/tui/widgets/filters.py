"""Parse table filters: the grammar of k9s plus terms on columns.

A filter consists of words separated by blanks, all of which must match, as in
``status=Error restarts>3 !batch``. A word is

* ``COLUMN OP VALUE`` without blanks between;
* ``LABEL=VALUE`` or ``LABEL!=VALUE`` if no column has that name;
* ``-l SELECTOR``, as in kubectl; ``-f LETTERS``, a fuzzy match up to the end of the text;
* a regular expression, or ``!`` followed by one for rows that do not match.

Quotes (``"``) keep blanks within a word; a word that begins with a quote is a regular expression.
"""

from __future__ import annotations

import math
import operator as operators
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from msgspec import Struct

from podtui.api.quantity import milli_value, value
from podtui.errors import UsageError
from podtui.tui.widgets.cells import Column, Row, ValueKind
from podtui.tui.widgets.search import case_flags

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "=": operators.eq, "==": operators.eq, "!=": operators.ne,
    "<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge,
}  # fmt: skip

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}

_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?[smhdwy])+")

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdwy])")


class BadValue(ValueError):
    """Raised if a value or (``of_operator``) an operator is invalid for the column."""

    def __init__(self, message: str, *, of_operator: bool = False) -> None:
        super().__init__(message)
        self.of_operator = of_operator


def column_term(
    column: Column, index: int, operator: str, wanted: str
) -> Callable[[Row, float], bool]:
    """Return a predicate on column ``index`` of a row. Raises `BadValue`."""
    if column.kind is ValueKind.TEXT:
        return _text_term(column, index, operator, wanted)
    compare = _COMPARE.get(operator)
    if compare is None:
        raise BadValue(f"{column.names[0]} is a number: = != < <= > >=", of_operator=True)
    against = parse_value(column.kind, wanted)
    missing = operator == "!="
    aged = column.kind is ValueKind.AGE

    def matches(row: Row, now: float) -> bool:
        value = row.values[index]
        if not isinstance(value, (int, float)):
            return missing
        # Compare ages in whole seconds, as they are shown.
        return compare(math.floor(now - value) if aged else value, against)

    return matches


def _text_term(
    column: Column, index: int, operator: str, wanted: str
) -> Callable[[Row, float], bool]:
    flags = case_flags(wanted)
    if operator in ("~", "!~"):
        try:
            search = re.compile(wanted, flags).search
        except re.error as error:
            raise BadValue(f"not a regular expression: {error.msg}") from error
    elif operator in ("=", "==", "!="):
        search = re.compile(re.escape(wanted), flags).fullmatch
    else:
        raise BadValue(f"{column.names[0]} is text: = != ~ !~", of_operator=True)
    inverse = operator.startswith("!")
    return lambda row, now: (search(str(row.values[index] or "")) is None) is inverse


def parse_value(kind: ValueKind, text: str) -> float:
    """Parse ``text`` as a number in the unit of ``kind``: millicores, bytes, seconds, percent,
    a fraction of 1, a count. Raises `BadValue` with an example."""
    try:
        if kind is ValueKind.CPU:
            return float(milli_value(text))
        if kind is ValueKind.BYTES:
            return float(value(text))
        if kind is ValueKind.AGE:
            return parse_duration(text)
        if kind is ValueKind.SHARE:
            return _share(text)
        return _finite(text.removesuffix("%") if kind is ValueKind.PERCENT else text)
    except (ValueError, ZeroDivisionError) as error:
        raise BadValue(f"{text!r} is not {_EXAMPLES[kind]}") from error


_EXAMPLES: Final = {
    ValueKind.CPU: "cpu, like 500m or 2",
    ValueKind.BYTES: "memory, like 64Mi or 1Gi",
    ValueKind.AGE: "a duration, like 90s, 2h or 1d12h",
    ValueKind.SHARE: "a share, like 1/2 or 50%",
    ValueKind.PERCENT: "a percentage, like 70",
    ValueKind.COUNT: "a number",
}


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``1h30m``, ``2d`` or a bare number. Raises ValueError."""
    if _DURATION.fullmatch(text):
        return sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text))
    return _finite(text)


def _share(text: str) -> float:
    part, slash, whole = text.partition("/")
    if slash:
        return _finite(part) / _finite(whole)
    if text.endswith("%"):
        return _finite(text[:-1]) / 100
    return _finite(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


Matches = Callable[[Row, float], bool]
"""Predicate: (row, epoch seconds now) → True if the row matches."""

_TERM: Final = re.compile(r"(%?[A-Za-z][\w./-]*)(==|>=|<=|!=|!~|=|~|>|<)(.*)", re.DOTALL)
_LABEL_OPS: Final = frozenset({"=", "==", "!="})


class FilterError(UsageError):
    """Raised for an invalid filter; the error is at characters ``start`` to ``end`` of the text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


class Filter(Struct, frozen=True):
    """A parsed filter; an empty ``text`` matches everything. ``timed``: the result depends on the
    current time."""

    text: str
    matches: Matches
    timed: bool = False


class Word(NamedTuple):
    """A word without its quotes, and its position in the text."""

    text: str
    start: int
    end: int
    quoted: bool


def _always(row: Row, now: float) -> bool:
    return True


ALL: Final = Filter("", _always)


def parse_filter(text: str, columns: Sequence[Column] = ()) -> Filter:
    """Parse a filter, ignoring unfinished words (``status=``, ``-l``). Raises `FilterError`."""
    terms: list[Matches] = []
    timed = False
    tokens = list(split_words(text))
    position = 0
    while position < len(tokens):
        word = tokens[position]
        position += 1
        if word.text.startswith("-l") and not word.quoted:
            selector, position = _selector(tokens, position - 1)
            if selector:
                terms.append(_labels(selector))
        elif word.text.startswith("-f") and not word.quoted:
            letters = "".join(w.text for w in tokens[position - 1 :])[2:]
            position = len(tokens)
            if letters:
                terms.append(_fuzzy(letters))
        else:
            term = _word(word, columns)
            if term is not None:
                terms.append(term[0])
                timed |= term[1]
    if not terms:
        return ALL
    return Filter(text.strip(), _all_of(terms), timed)


def split_words(text: str) -> list[Word]:
    """Split a filter into words."""
    tokens: list[Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start, inside, kept = at, False, ""
        while at < len(text) and (inside or not text[at].isspace()):
            if text[at] == '"':
                inside = not inside
            else:
                kept += text[at]
            at += 1
        tokens.append(Word(kept, start, at, text[start:].lstrip("!").startswith('"')))
    return tokens


def _all_of(terms: Sequence[Matches]) -> Matches:
    if len(terms) == 1:
        return terms[0]
    return lambda row, now: all(term(row, now) for term in terms)


def _word(word: Word, columns: Sequence[Column]) -> tuple[Matches, bool] | None:
    """Return (predicate, True if it depends on the time), or None if the word is unfinished."""
    term = None if word.quoted else _TERM.fullmatch(word.text)
    if term is None:
        pattern = _pattern(word)
        return None if pattern is None else (pattern, False)
    name, operator, value = term.group(1), term.group(2), term.group(3)
    index = column_named(name, columns)
    if index is None:
        return _unnamed(word, columns, name, operator, value)
    if not value:
        return None
    try:
        return column_term(columns[index], index, operator, value), (
            columns[index].kind is ValueKind.AGE
        )
    except BadValue as error:
        start = word.start + len(name) + (0 if error.of_operator else len(operator))
        raise FilterError(str(error), start, word.end) from error


def _unnamed(
    word: Word, columns: Sequence[Column], name: str, operator: str, value: str
) -> tuple[Matches, bool] | None:
    names = sorted({n for column in columns for n in column.names})
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.7)
    if close or operator not in _LABEL_OPS:
        hint = f"; did you mean {close[0]}?" if close else ""
        raise FilterError(f"no column {name}{hint}", word.start, word.start + len(name))
    return (_labels(f"{name}{operator}{value}"), False) if value else None


def column_named(name: str, columns: Sequence[Column]) -> int | None:
    """Return the index of the column that a user calls ``name``, or None."""
    wanted = name.lower()
    for index, column in enumerate(columns):
        if wanted in column.names:
            return index
    return None


def _pattern(word: Word) -> Matches | None:
    inverse = word.text.startswith("!")
    pattern = word.text[1:] if inverse else word.text
    if not pattern:
        return None
    try:
        search = re.compile(pattern, case_flags(pattern)).search
    except re.error as error:
        start = min(word.end, word.start + inverse + (error.pos or 0))
        raise FilterError(f"not a regular expression: {error.msg}", start, word.end) from error
    return lambda row, now: (search(row.search) is None) is inverse


def _fuzzy(letters: str) -> Matches:
    lower = letters.lower()

    def matches(row: Row, now: float) -> bool:
        remaining = iter(row.search.lower())
        return all(letter in remaining for letter in lower)

    return matches


def _selector(tokens: Sequence[Word], position: int) -> tuple[str, int]:
    """Return the selector that begins with ``-l`` at ``position``, and the index of the next word.

    The selector continues after a blank next to a comma or an operator.
    """
    selector = tokens[position].text[2:]
    position += 1
    while position < len(tokens) and (
        not selector
        or selector[-1] in ",=!"
        or tokens[position].text[:1] in (",", "=")
        or tokens[position].text.startswith("!=")
    ):
        selector += tokens[position].text
        position += 1
    return selector, position


def _labels(selector: str) -> Matches:
    terms = [_term(term.strip()) for term in selector.split(",") if term.strip()]
    return lambda row, now: all(term(row.labels) for term in terms)


def _term(term: str) -> Callable[[Mapping[str, str]], bool]:
    if "!=" in term:
        key, _, value = (part.strip() for part in term.partition("!="))
        return lambda labels: labels.get(key) != value
    if "=" in term:
        key, _, value = (part.strip() for part in term.replace("==", "=").partition("="))
        return lambda labels: labels.get(key) == value
    if term.startswith("!"):
        return lambda labels: term[1:].strip() not in labels
    return lambda labels: term in labels


_HALF: Final = re.compile(r"(%?[A-Za-z][\w./-]*)(=|!=)(.+)")


def complete_filter(
    text: str, columns: Sequence[Column], values: Callable[[int], Iterable[object]]
) -> str | None:
    """Return ``text`` with its last word completed. ``values`` returns the values of a column,
    given its index.
    """
    last = text[text.rfind(" ") + 1 :]
    half = _HALF.fullmatch(last)
    if half is None:
        names = (name for column in columns for name in column.names)
        return _completion_of(text, last, names) if len(last) > 1 else None
    column = column_named(half.group(1), columns)
    if column is None:
        return None
    texts = sorted({str(v) for v in values(column) if isinstance(v, str) and " " not in v})
    return _completion_of(text, half.group(3), texts)


def _completion_of(text: str, last: str, candidates: Iterable[str]) -> str | None:
    for candidate in candidates:
        if candidate.startswith(last) and candidate != last:
            return text + candidate[len(last) :]
    return None
