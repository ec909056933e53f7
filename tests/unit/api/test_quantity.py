"""`podtui.api.quantity` against what a Kubernetes client prints, and against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.quantity import (
    Format,
    Quantity,
    add,
    canonical,
    compare,
    milli_value,
    parse_quantity,
    value,
)

# Left is the input, right what the API writes for it.
PRINTED = {
    "1000": "1k",
    "1e3": "1e3",
    "0.5": "500m",
    "0.0001": "100u",
    "1.5Gi": "1536Mi",
    "1500": "1500",
    "0.1Ki": "102400m",
    "12E6": "12E6",
    ".5": "500m",
    "5.": "5.",
    "+3": "+3",
    "9E": "9E",
    "1e-3": "1e-3",
    "100000000000000000000": "100E",
    "1e-10": "1e-9",
    "100E": "100E",
    "1.5e3": "1500",
    "1000m": "1",
    "1024Ki": "1Mi",
    "1000Ki": "1000Ki",
    "0": "0",
    "0Ki": "0",
    "-100m": "-100m",
    "-0": "0",
    "512Ki": "512Ki",
    "1023": "1023",
    "0.1": "100m",
    "2048Mi": "2Gi",
    "1.500": "1.500",
    "1.50": "1500m",
    "+1000m": "1",
    "1025Ki": "1025Ki",
    "1e400": "10e399",
    "1e-1000": "1e-9",
    "100Ei": "9223372036854775807",
    "9" * 300 + "m": "9" * 300 + "m",
    **dict.fromkeys("m k E . + - -m .m e3 e+3 Ki +Ti 00".split(), "0"),
}


@pytest.mark.parametrize(("text", "printed"), PRINTED.items())
def test_canonical_text(text: str, printed: str) -> None:
    assert canonical(text) == printed


@pytest.mark.parametrize(
    "text",
    [
        *("1e5000", "1e" + "9" * 5000, "9" * 1001, " 1", "1 Gi", "1\n", "\t1"),
        *" lots 1x 1Kib KI 1K e Pi -Ei e-10 1..2 0x10 ١ 1mi 1e+".split(" "),
    ],
)
def test_invalid_quantities(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantities|range"):
        parse_quantity(text)


def test_rounds_away_from_zero() -> None:
    assert value("1500m") == 2
    assert value("-1500m") == -2
    assert milli_value("0.0001") == 1
    assert milli_value("100m") == 100
    for text in ("1e300", "-" + "9" * 250 + "e300"):
        assert math.isfinite(float(value(text)))
        assert math.isfinite(float(milli_value(text)))
    assert str(parse_quantity("0.0001").round_up_milli()) == "1m"


@pytest.mark.parametrize(
    ("text", "units", "milli"),
    [
        ("9E", 9 * 10**18, 0),
        ("10E", 0, 0),
        ("1e400", 0, 0),
        ("1Ei", 2**60, (2**60 * 1000 + 2**63) % 2**64 - 2**63),
        ("9223372036854776", 9223372036854776, 9223372036854776000 - 2**64),
        ("1500m", 2, 1500),
    ],
)
def test_amounts_that_overflow_64_bits(text: str, units: int, milli: int) -> None:
    quantity = parse_quantity(text)
    found = (quantity.overflowing_value(), quantity.overflowing_milli_value())
    assert found == (units, milli)


def test_the_format_is_kept_unless_rounded() -> None:
    assert str(parse_quantity("12.345").round_up_milli()) == "12.345"
    assert str(parse_quantity("12.345678").round_up_milli()) == "12346m"


def test_add_and_compare() -> None:
    assert add("500m", "0.5") == "1"
    assert add("0", "1Gi") == "1Gi"
    assert add("512Mi", "512Mi") == "1Gi"
    assert compare("1Gi", "1G") == 1
    assert compare("1000m", "1") == 0
    assert compare("1m", "2m") == -1
    assert hash(parse_quantity("1000m")) == hash(parse_quantity("1"))
    assert parse_quantity("1") != 1
    assert Quantity.of(2, Format.BINARY_SI) - Quantity.of_milli(500) == parse_quantity("1.5")


suffixes = st.sampled_from(" n u m k M G T P E Ki Mi Gi Ti Pi Ei e3 E-3 e0 e+6".split(" "))
numbers = st.builds(
    lambda sign, whole, part: f"{sign}{whole}" + (f".{part}" if part is not None else ""),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**12),
    st.none() | st.from_regex(r"[0-9]{0,6}", fullmatch=True),
)
texts = st.builds(lambda number, suffix: number + suffix, numbers, suffixes)


@given(texts)
def test_canonicalization_is_idempotent_and_keeps_the_value(text: str) -> None:
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    if quantity.format is not Format.BINARY_SI or str(quantity).endswith("i"):
        # A binary amount without a fitting binary suffix is printed as a plain number, which is
        # parsed as a decimal.
        assert str(again) == str(quantity)
    assert again == quantity


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1.0001Mi", "1048680857600u"),
        ("54.394469Pi", "61242727579853999046656u"),
        ("1.5Ki", "1536"),
        ("1025.5Ki", "1050112"),
    ],
)
def test_binary_fractions_are_printed_as_kubectl_prints_them(text: str, printed: str) -> None:
    assert str(parse_quantity(text)) == printed


@given(texts, texts)
def test_sums_and_order_match_fractions(left: str, right: str) -> None:
    a, b = parse_quantity(left), parse_quantity(right)
    assert (a + b).fraction() == a.fraction() + b.fraction()
    assert (a < b) == (a.fraction() < b.fraction())
    assert abs(Fraction(a.milli_value(), 1000) - a.fraction()) < Fraction(1, 1000)


@given(st.text(max_size=20))
def test_any_text_parses_or_raises_value_error(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except ValueError:
        return
    assert parse_quantity(str(quantity)) == quantity or quantity.format is Format.BINARY_SI
