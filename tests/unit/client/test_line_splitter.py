from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.client.decoding import LineSplitter


def split(data: bytes, sizes: list[int], limit: int) -> list[bytes]:
    splitter = LineSplitter(limit)
    lines: list[bytes] = []
    position = 0
    for size in [*sizes, len(data)]:
        lines += splitter.feed(data[position : position + size])
        position += size
    return lines + splitter.finish()


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 9), max_size=20))
def test_any_chunking_gives_the_same_lines(parts: list[bytes], sizes: list[int]) -> None:
    data = b"\n".join(parts)
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert split(data, sizes, 1000) == expected


@given(st.binary(max_size=60), st.lists(st.integers(0, 9), max_size=20), st.integers(1, 8))
def test_no_line_exceeds_the_limit_and_nothing_is_lost(
    data: bytes, sizes: list[int], limit: int
) -> None:
    lines = split(data, sizes, limit)
    assert b"".join(lines) == data.replace(b"\n", b"")
    assert all(len(line) <= limit for line in lines)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"abcd\n", [b"abcd"]),
        (b"abcde\n", [b"abcd", b"e"]),
        (b"abcdefgh", [b"abcd", b"efgh"]),
    ],
)
def test_parts_of_long_lines(data: bytes, lines: list[bytes]) -> None:
    assert split(data, [], 4) == lines
