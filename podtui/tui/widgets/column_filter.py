"""Filter terms on one column of a table: ``restarts>3``, ``cpu>=500m``, ``age<2h``,
``status~^Crash``.

Text is compared as a whole with ``=`` and ``!=`` and searched with ``~`` and ``!~``; all other
kinds are numbers with ``=``, ``!=``, ``<``, ``<=``, ``>`` and ``>=``. A cell without a value (not
measured yet) matches ``!=`` only.
"""

from __future__ import annotations

import math
import operator as operators
import re
from collections.abc import Callable
from typing import Final

from podtui.api.quantity import milli_value, value
from podtui.tui.widgets.cells import Column, Kind, Row

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
    if column.kind is Kind.TEXT:
        return _text_term(column, index, operator, wanted)
    compare = _COMPARE.get(operator)
    if compare is None:
        raise BadValue(f"{column.names[0]} is a number: = != < <= > >=", of_operator=True)
    against = parse_value(column.kind, wanted)
    missing = operator == "!="
    aged = column.kind is Kind.AGE

    def matches(row: Row, now: float) -> bool:
        found = row.values[index]
        if not isinstance(found, (int, float)):
            return missing
        # Compare ages in whole seconds, as they are shown.
        return compare(math.floor(now - found) if aged else found, against)

    return matches


def _text_term(
    column: Column, index: int, operator: str, wanted: str
) -> Callable[[Row, float], bool]:
    flags = smart_case(wanted)
    if operator in ("~", "!~"):
        try:
            found = re.compile(wanted, flags).search
        except re.error as error:
            raise BadValue(f"not a regular expression: {error.msg}") from error
    elif operator in ("=", "==", "!="):
        found = re.compile(re.escape(wanted), flags).fullmatch
    else:
        raise BadValue(f"{column.names[0]} is a text: = != ~ !~", of_operator=True)
    inverse = operator.startswith("!")
    return lambda row, now: (found(str(row.values[index] or "")) is None) is inverse


def smart_case(pattern: str) -> re.RegexFlag:
    """Ignore the case of a lower-case pattern, as in less and vim."""
    return re.IGNORECASE if pattern == pattern.lower() else re.RegexFlag(0)


def parse_value(kind: Kind, text: str) -> float:
    """Parse ``text`` as a number in the unit of ``kind``: millicores, bytes, seconds, percent,
    a fraction of 1, a count. Raises `BadValue` with an example."""
    try:
        if kind is Kind.CPU:
            return float(milli_value(text))
        if kind is Kind.BYTES:
            return float(value(text))
        if kind is Kind.AGE:
            return parse_duration(text)
        if kind is Kind.SHARE:
            return _share(text)
        return _finite(text.removesuffix("%") if kind is Kind.PERCENT else text)
    except (ValueError, ZeroDivisionError) as error:
        raise BadValue(f"{text!r} is not {_EXAMPLES[kind]}") from error


_EXAMPLES: Final = {
    Kind.CPU: "cpu, like 500m or 2",
    Kind.BYTES: "memory, like 64Mi or 1Gi",
    Kind.AGE: "a duration, like 90s, 2h or 1d12h",
    Kind.SHARE: "a share, like 1/2 or 50%",
    Kind.PERCENT: "a percentage, like 70",
    Kind.COUNT: "a number",
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
