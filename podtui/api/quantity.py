"""Quantities such as ``100m``, ``1.5Gi``, ``1e3``: parsed exactly, formatted as the API server
does.

A quantity is an integer number of nano units; a finer amount is rounded away from zero when it is
parsed. A quantity remembers the suffix family that it was written with, and its canonical text is
the shortest one of that family (``1000m`` is ``1``, ``1024Ki`` is ``1Mi``, ``0.5`` is ``500m``). A
few other spellings (``1.500``, ``+5``, ``1E3``) are kept as written, as Kubernetes does.
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
# Larger than any real resource. A larger number is refused, because formatting it would produce
# megabytes of digits.
_MAX_DIGITS: Final = 1000
_MAX_EXPONENT: Final = 1000
_MAX_AMOUNT: Final = 2**63 - 1
# Kubernetes uses 64-bit integers up to this number of digits, and big decimals beyond.
_DIGITS_IN_64_BITS: Final = 18
_NANO_SCALE: Final = -9
# Scaling up by these powers of ten wraps around at 64 bits; with other powers an overflow yields 0.
_WRAPPING_POWERS: Final = frozenset({0, 1, 2, 3, 6, 9})


class Format(Enum):
    """The suffix family of a quantity."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


def _up(numerator: int, denominator: int) -> int:
    """Divide, rounding away from zero."""
    if numerator < 0:
        return -((-numerator + denominator - 1) // denominator)
    return (numerator + denominator - 1) // denominator


def _wrapped(amount: int) -> int:
    """Return the lowest 64 bits as a signed number."""
    return (amount + 2**63) % 2**64 - 2**63


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount of ``nano`` billionths, and the suffix family that it is written in.

    Equality, order and hash depend on the amount alone. ``scale`` is the power of ten of
    Kubernetes' 64-bit representation; None if Kubernetes uses a big decimal. ``text`` is the
    original spelling, if it is kept.
    """

    nano: int
    format: Format = Format.DECIMAL_SI
    scale: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Parse a quantity. Raises ValueError if the text is not one."""
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
        # A text without any digits counts as zero.
        whole, part = match["whole"].lstrip("0") or "0", match["part"] or ""
        if len(whole) + len(part) > _MAX_DIGITS or abs(exponent) > _MAX_EXPONENT:
            raise ValueError("the number is out of range")
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
        """Make a quantity of whole units (bytes, cores, pods)."""
        return cls(amount * NANO, form)

    @classmethod
    def of_milli(cls, amount: int) -> Quantity:
        """Make a quantity of thousandths (of a core, for example)."""
        return cls(amount * 10**6)

    def value(self) -> int:
        """Return the amount in units, rounded up (away from zero)."""
        return _up(self.nano, NANO)

    def milli_value(self) -> int:
        """Return the amount in thousandths, rounded up (away from zero)."""
        return _up(self.nano, 10**6)

    def overflowing_value(self) -> int:
        """Return `value` with the 64-bit overflow of Kubernetes' validation."""
        return self._overflowing(self.value(), 0)

    def overflowing_milli_value(self) -> int:
        """Return `milli_value` with the 64-bit overflow of Kubernetes' validation."""
        return self._overflowing(self.milli_value(), -3)

    def _overflowing(self, exact: int, scale: int) -> int:
        if self.scale is None or self.scale - scale in _WRAPPING_POWERS:
            return _wrapped(exact)
        return exact if abs(exact) <= _MAX_AMOUNT else 0

    def fraction(self) -> Fraction:
        """Return the exact amount."""
        return Fraction(self.nano, NANO)

    def round_up_milli(self) -> Quantity:
        """Round up to thousandths, as the API does with the amounts in a resource list."""
        if self.scale is not None and self.scale >= -3:
            return self
        scale = None if self.scale is None else -3
        return Quantity(self.milli_value() * 10**6, self.format, scale)

    def __add__(self, other: Quantity) -> Quantity:
        # As with Kubernetes' accumulated sums, a zero takes the suffix family of the other summand.
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
        # Binary suffixes allow no fractions; a fractional amount is written exactly, in decimals.
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
    """Return the exponent, or one beyond the limit if it has too many digits."""
    return int(digits) if len(digits.lstrip("+-0")) < 5 else _MAX_EXPONENT + 1


def _in_64_bits(whole: str, part: str, scale: int, factor: int) -> bool:
    if factor == 1:
        room = _DIGITS_IN_64_BITS - len(whole) - len(part)
        return room >= 0 and scale >= _NANO_SCALE
    # Three decimal digits for each factor of 1024, and one spare.
    return not part and len(whole) + 3 * (factor.bit_length() // 10) <= 14


def _is_kept(digits: str, scale: int, form: Format) -> bool:
    """Return whether Kubernetes' fast path keeps this spelling as canonical."""
    if form is Format.BINARY_SI:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


@functools.lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """`Quantity.parse` with a cache: all pods use the same few texts."""
    return Quantity.parse(text)


def canonical(text: str) -> str:
    """Return the text as the API server would write it. Raises ValueError."""
    return str(parse_quantity(text))


def value(text: str) -> int:
    """Return the units of a quantity's text, rounded up, within 64 bits. Raises ValueError."""
    return bounded(parse_quantity(text).value())


def milli_value(text: str) -> int:
    """Return the thousandths of a quantity's text, rounded up and within 64 bits.

    Raises ValueError.
    """
    return bounded(parse_quantity(text).milli_value())


def bounded(amount: int) -> int:
    """Clamp to 64 bits, as a kubelet counts; a larger amount might not even fit into a float."""
    return max(-_MAX_AMOUNT, min(_MAX_AMOUNT, amount))


def add(left: str, right: str) -> str:
    """Return the canonical text of the sum. Raises ValueError."""
    return str(parse_quantity(left) + parse_quantity(right))


def compare(left: str, right: str) -> int:
    """Return a number below, equal to or above 0 as ``left`` is less than, equal to or greater than
    ``right``. Raises ValueError."""
    a, b = parse_quantity(left), parse_quantity(right)
    return (a > b) - (a < b)
