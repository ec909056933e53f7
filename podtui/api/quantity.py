"""Quantities: ``100m``, ``1.5Gi``, ``1e3``, read exactly and written as the API server writes them.

A quantity is a whole number of nano units; anything finer is rounded away from zero when it is
read. It remembers which family of suffixes it was written with, and its text is the shortest one of
that family (``1000m`` is ``1``, ``1024Ki`` is ``1Mi``, ``0.5`` is ``500m``). A few other spellings
(``1.500``, ``+5``, ``1E3``) are kept as written, as Kubernetes keeps them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

NANO: Final = 10**9
SYNTAX: Final = (
    "quantities are a number with an optional suffix:"
    " n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
)
_SYNTAX: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)",
    re.ASCII,
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
_MAX_DIGITS: Final = 1000
_MAX_EXPONENT: Final = 1000
_MAX_AMOUNT: Final = 2**63 - 1
# Kubernetes counts in 64 bits where this many digits suffice, else with big decimals.
_DIGITS_IN_64_BITS: Final = 18
_NANO_SCALE: Final = -9
# Scaling up by these powers of ten wraps around at 64 bits; by others an overflow is 0.
_WRAPPING_POWERS: Final = frozenset({0, 1, 2, 3, 6, 9})


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


def _wrapped(amount: int) -> int:
    """The lowest 64 bits, as a signed number."""
    return (amount + 2**63) % 2**64 - 2**63


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount of ``nano`` billionths and the family that it is written in.

    Equality, order and hash go by the amount alone. ``scale`` is the power of ten that Kubernetes
    counts a number of 64 bits in; None where it uses a big decimal. ``text`` is the spelling, where
    that is kept.
    """

    nano: int
    format: Format = Format.DECIMAL_SI
    scale: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Raises ValueError for a text that is no quantity."""
        match = _SYNTAX.fullmatch(text) if text else None
        if match is None:
            raise ValueError(SYNTAX)
        suffix = match["suffix"]
        if suffix in _DECIMAL:
            form, exponent, factor = Format.DECIMAL_SI, _DECIMAL[suffix], 1
        elif suffix in _BINARY:
            form, exponent, factor = Format.BINARY_SI, 0, 1024 ** _BINARY.index(suffix)
        else:
            form, exponent, factor = Format.DECIMAL_EXPONENT, _exponent(suffix[1:]), 1
        # No digits at all count as zero.
        whole, part = match["whole"].lstrip("0") or "0", match["part"] or ""
        if len(whole) + len(part) > _MAX_DIGITS or abs(exponent) > _MAX_EXPONENT:
            raise ValueError("the number is out of any sensible range")
        scale = exponent - len(part)
        amount = int(whole + part) * factor
        power = scale - _NANO_SCALE
        nano = amount * 10**power if power >= 0 else _up(amount, 10**-power)
        sign = -1 if match["sign"] == "-" else 1
        if _in_64_bits(whole, part, scale, factor):
            kept = _is_kept(whole + part, scale, form)
            return cls(sign * nano, form, scale, text if kept else "")
        if not match["whole"] and not part:
            raise ValueError(SYNTAX)
        if form is Format.BINARY_SI:
            nano = min(nano, _MAX_AMOUNT * NANO)
            if nano < NANO:
                form = Format.DECIMAL_SI
        return cls(sign * nano, form)

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

    def overflowing_value(self) -> int:
        """`value` as Kubernetes' validation gets it, which overflows at 64 bits."""
        return self._overflowing(self.value(), 0)

    def overflowing_milli_value(self) -> int:
        """`milli_value` as Kubernetes' validation gets it, which overflows at 64 bits."""
        return self._overflowing(self.milli_value(), -3)

    def _overflowing(self, exact: int, scale: int) -> int:
        if self.scale is None or self.scale - scale in _WRAPPING_POWERS:
            return _wrapped(exact)
        return exact if abs(exact) <= _MAX_AMOUNT else 0

    def fraction(self) -> Fraction:
        """The exact amount."""
        return Fraction(self.nano, NANO)

    def round_up_milli(self) -> Quantity:
        """What the API makes of the amounts in a resource list: no finer than thousandths."""
        if self.scale is not None and self.scale >= -3:
            return self
        scale = None if self.scale is None else -3
        return Quantity(self.milli_value() * 10**6, self.format, scale)

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
        if self.text:
            return self.text
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


def _exponent(digits: str) -> int:
    """The exponent, or one beyond the limit for a number that is too long."""
    return int(digits) if len(digits.lstrip("+-0")) < 5 else _MAX_EXPONENT + 1


def _in_64_bits(whole: str, part: str, scale: int, factor: int) -> bool:
    if factor == 1:
        room = _DIGITS_IN_64_BITS - len(whole) - len(part)
        return room >= 0 and scale >= _NANO_SCALE
    # Three decimal digits for each step of 1024, and one to spare.
    return not part and len(whole) + 3 * (factor.bit_length() // 10) <= 14


def _is_kept(digits: str, scale: int, form: Format) -> bool:
    """Whether Kubernetes takes the spelling for canonical without a closer look."""
    if form is Format.BINARY_SI:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


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
