from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.views.logs.ansi import colours_only, parse, plain_text


@given(st.binary(max_size=200))
def test_no_control_character_is_ever_drawn(line: bytes) -> None:
    text = plain_text(line)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]52;c;aGk=\x1b\\after", "after"),
        (b"\x1b[2J\x1b[Hhome", "home"),
        (b"\x1bPq#0\x1b\\dcs", "dcs"),
        (b"a\tb", "a       b"),
        (b"bell\x07", "bell␇"),
        (b"back\x08", "back␈"),
        ("‮right".encode(), "right"),
        (b"\xff\xfe", "��"),
    ],
)
def test_sequences_are_neutralised(line: bytes, shown: str) -> None:
    assert plain_text(line) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"progress  10%\rprogress 100%", "progress 100%"),
        (b"progress 100%\r", "progress 100%"),
        (b"from a terminal\r\r", "from a terminal"),
        (b"\x1b[31mold\r\x1b[32mnew\r", "new"),
        (b"\r", ""),
        (b"x" * 1_000_000 + b"\rdone", "done"),
    ],
)
def test_a_line_shows_what_follows_its_last_carriage_return(line: bytes, shown: str) -> None:
    assert plain_text(line) == shown
    assert plain_text(colours_only(line)) == shown


def test_colours_are_kept() -> None:
    red, plain = parse(b"\x1b[1;31mred\x1b[0m plain")
    assert red.style is not None
    assert red.style.bold
    assert red.style.color is not None
    assert red.style.color.name == "red"
    assert plain.style is not None
    assert plain.style.color is None
    (orange,) = parse(b"\x1b[38;2;255;128;0morange")
    assert orange.style is not None
    assert orange.style.color is not None
    assert orange.style.color.triplet == (255, 128, 0)


def test_a_huge_line_is_truncated_with_a_mark() -> None:
    text = plain_text(b"z" * 1_000_000)
    assert len(text) < 20_000
    assert text.endswith("(1,000,000 bytes, cut)")


@given(st.binary(max_size=200))
def test_a_pager_gets_only_coloured_text(line: bytes) -> None:
    kept = colours_only(line.replace(b"\n", b""))
    rest = re.sub(rb"\x1b\[[0-9;:]*m", b"", kept).decode()
    assert not re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)


def test_a_pager_gets_colours_and_tabs() -> None:
    line = b"\x1b[31mred\x1b[2J\ttab\x1b]52;c;aGk=\x07"
    assert colours_only(line) == b"\x1b[31mred\ttab\x1b[0m"
