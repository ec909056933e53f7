"""The value of a YAML scalar in Kubernetes.

Kubernetes reads YAML 1.1 with some deviations and then converts it to JSON: ``y`` is true, ``0o17``
is octal, ``1e3`` is a thousand, ``1.0`` is 1, dates and ``1:30`` stay strings.
"""

from __future__ import annotations

import base64
import math
import re
from decimal import Decimal
from typing import Final

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset("y Y yes Yes YES true True TRUE on On ON".split())
_FALSE: Final = frozenset("n N no No NO false False FALSE off Off OFF".split())
_SPECIAL: Final = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[oO]?(?P<oct>[0-7]+)|0[bB](?P<bin>[01]+)"
    r"|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES: Final = {"hex": 16, "oct": 8, "bin": 2, "dec": 10}
_LONGEST_INTEGER: Final = 70
_TAG: Final = "tag:yaml.org,2002:"
# JSON writes floats from here on with an exponent; a smaller integral float becomes an integer.
_WHOLE: Final = 1e21

Scalar = str | int | float | bool | None


def resolve(text: str) -> Scalar:
    """Return the value of a plain (unquoted, untagged) scalar. May be an infinity or NaN."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text[0] == ".":
        return _float(text)
    if text[0] in "+-0123456789":
        bare = text.replace("_", "")
        number = _integer(bare)
        if number is not None:
            return number
        decimal = _float(bare)
        return text if isinstance(decimal, str) else decimal
    return text


def _integer(text: str) -> int | None:
    match = _INTEGER.fullmatch(text) if len(text) <= _LONGEST_INTEGER else None
    if match is None or match.lastgroup is None:
        return None
    number = int(match[match.lastgroup], _BASES[match.lastgroup])
    number = -number if match["sign"] == "-" else number
    return number if -(2**63) <= number < 2**64 else None


def _float(text: str) -> Scalar:
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    return text if math.isinf(number) else number


def plain_number(number: float) -> int | float:
    """Return a number as JSON preserves it: ``1.0`` is 1, and 2^63 is 9223372036854775807 + 193.

    JSON has the shortest digits that identify the float, padded with zeros.
    """
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < _WHOLE else number


def number_text(number: float) -> str:
    """Format a number as JSON does (``100``, ``0.5``, ``1e+21``, ``1e-7``)."""
    if isinstance(number, int):
        return str(number)
    whole = plain_number(number)
    if isinstance(whole, int):
        return str(whole)
    text = repr(number)
    if "e" not in text:
        return text
    digits, _, exponent = text.partition("e")
    power = int(exponent)
    if -7 <= power < 0:
        # JSON writes small numbers down to a millionth without an exponent.
        return (
            f"{number:.{len(digits.replace('.', '').lstrip('-')) - 1 - power}f}"
            if (power >= -6)
            else f"{digits}e{power}"
        )
    return f"{digits}e{'+' if power > 0 else ''}{power}"


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with an explicit tag. Raises ValueError if the text does not fit
    it."""
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        try:
            flat = text.replace("\n", "").replace("\r", "")
            return base64.b64decode(flat, validate=True).decode("utf-8", "replace")
        except ValueError:
            raise ValueError("!!binary requires base64") from None
    if kind == tag or kind not in {"int", "float", "bool", "null"}:
        return text
    value = resolve(text)
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "null": value is None,
    }
    if not fits[kind]:
        raise ValueError(f"the tag !!{kind} does not fit this text")
    return value
