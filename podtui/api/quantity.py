"""Quantities: ``100m``, ``1.5Gi``, ``1e3``, read exactly and written as the API server writes them.

A quantity is a whole number of nano units; anything finer is rounded away from zero when it is
read. It remembers which family of suffixes it was written with, and its text is the shortest one of
that family (``1000m`` is ``1``, ``1024Ki`` is ``1Mi``, ``0.5`` is ``500m``).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

NANO: Final = 10**9
_SYNTAX: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})",
)
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# Wider than any resource is; beyond it a text is refused, not turned into megabytes of digits.
_MAX_DIGITS: Final = 256
_MAX_EXPONENT: Final = 300
_MAX_AMOUNT: Final = 2**63 - 1


class Format(Enum):
    """The family of suffixes that a quantity is written with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


def _up(numerator: int, denominator: int) -> int:
    """The quotient rounded away from zero."""
    if numerator < 0:
        return -((-numerator + denominator - 1) // denominator)
    return (numerator + denominator - 1) // denominator


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount of ``nano`` billionths and the family that it is written in.

    Equality, order and hash go by the amount alone.
    """

    nano: int
    format: Format = Format.DECIMAL_SI

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Raises ValueError for a text that is no quantity."""
        match = _SYNTAX.fullmatch(text)
        digits = "" if match is None else match["whole"] + (match["part"] or "")
        if match is None or not digits:
            raise ValueError(
                "quantities are a number with an optional suffix:"
                " n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
            )
        suffix = match["suffix"]
        if suffix in _DECIMAL:
            form, exponent, scale = Format.DECIMAL_SI, _DECIMAL[suffix], 1
        elif suffix in _BINARY:
            form, exponent, scale = Format.BINARY_SI, 0, 1024 ** _BINARY.index(suffix)
        else:
            form, exponent, scale = Format.DECIMAL_EXPONENT, int(suffix[1:]), 1
        if len(digits) > _MAX_DIGITS or abs(exponent) > _MAX_EXPONENT:
            raise ValueError("the number is out of any sensible range")
        power = exponent - len(match["part"] or "") + 9
        amount = int(digits) * scale
        nano = amount * 10**power if power >= 0 else _up(amount, 10**-power)
        if form is Format.BINARY_SI and nano < NANO:
            form = Format.DECIMAL_SI
        return cls(-nano if match["sign"] == "-" else nano, form)

    @classmethod
    def of(cls, amount: int, form: Format = Format.DECIMAL_SI) -> Quantity:
        """A whole number of units (bytes, cores, pods)."""
        return cls(amount * NANO, form)

    @classmethod
    def of_milli(cls, amount: int) -> Quantity:
        """A whole number of thousandths (of a core, say)."""
        return cls(amount * 10**6)

    def value(self) -> int:
        """In units, rounded up (away from zero)."""
        return _up(self.nano, NANO)

    def milli_value(self) -> int:
        """In thousandths, rounded up (away from zero)."""
        return _up(self.nano, 10**6)

    def fraction(self) -> Fraction:
        """The exact amount."""
        return Fraction(self.nano, NANO)

    def round_up_milli(self) -> Quantity:
        """What the API makes of the amounts in a resource list: no finer than thousandths."""
        return Quantity(self.milli_value() * 10**6, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        # A zero takes the other's family, as in an accumulated sum.
        form = self.format if self.nano else other.format
        return Quantity(self.nano + other.nano, form)

    def __sub__(self, other: Quantity) -> Quantity:
        form = self.format if self.nano else other.format
        return Quantity(self.nano - other.nano, form)

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        if self.nano == 0:
            return "0"
        # Binary text has no fractions; an amount that has one is written in decimals, exactly.
        whole = self.nano % NANO == 0
        if self.format is Format.BINARY_SI and whole and abs(self.nano) >= 1024 * NANO:
            return self._binary()
        return self._decimal()

    def _binary(self) -> str:
        number, step = self.value(), 0
        while number % 1024 == 0 and step < len(_BINARY) - 1:
            number, step = number // 1024, step + 1
        return f"{number}{_BINARY[step]}"

    def _decimal(self) -> str:
        number, exponent = self.nano, -9
        top = _MAX_EXPONENT if self.format is Format.DECIMAL_EXPONENT else 18
        while number % 1000 == 0 and exponent < top:
            number, exponent = number // 1000, exponent + 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_SUFFIX[exponent]}"


@functools.lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """`Quantity.parse`, remembered: the same few texts come back in every pod."""
    return Quantity.parse(text)


def canonical(text: str) -> str:
    """The text as the API server would write it. Raises ValueError."""
    return str(parse_quantity(text))


def value(text: str) -> int:
    """Units of a quantity's text, rounded up, within 64 bits. Raises ValueError."""
    return bounded(parse_quantity(text).value())


def milli_value(text: str) -> int:
    """Thousandths of a quantity's text, rounded up, within 64 bits. Raises ValueError."""
    return bounded(parse_quantity(text).milli_value())


def bounded(amount: int) -> int:
    """Within 64 bits, as a kubelet counts: more would not even fit into a float."""
    return max(-_MAX_AMOUNT, min(_MAX_AMOUNT, amount))


def add(left: str, right: str) -> str:
    """The canonical text of the sum. Raises ValueError."""
    return str(parse_quantity(left) + parse_quantity(right))


def compare(left: str, right: str) -> int:
    """Below, at or above 0, as ``left`` is less than, equal to or more than ``right``. Raises
    ValueError."""
    a, b = parse_quantity(left), parse_quantity(right)
    return (a > b) - (a < b)
