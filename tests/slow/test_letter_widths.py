"""The widths of all characters."""

from __future__ import annotations

import ctypes
import locale
from collections.abc import Iterator

from rich.cells import cell_len

from podtui.text.terminal_text import cells, one_line


def test_widths_match_the_c_library() -> None:
    """tmux and most terminals use it; characters newer than the library are skipped."""
    before = locale.setlocale(locale.LC_CTYPE)
    wcwidth = ctypes.CDLL(None).wcwidth
    wcwidth.argtypes = [ctypes.c_uint32]
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
        expected = {
            code: cells
            for code in (*range(0x20, 0xD800), *range(0xE000, 0x110000))
            if (cells := wcwidth(code)) >= 0
        }
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    wrong = [
        (hex(code), cells, expected[code])
        for code in _shown_as_they_are(list(expected))
        if (cells := cell_len(f"a{chr(code)}") - 1) != expected[code]
    ]
    assert wrong == []


def _shown_as_they_are(codes: list[int], at_once: int = 256) -> Iterator[int]:
    """Check many characters at once: most rows of them are unchanged, and there are 280,000."""
    for first in range(0, len(codes), at_once):
        row = codes[first : first + at_once]
        text = "".join(f"a{chr(code)}" for code in row)
        kept = one_line(text) == text
        yield from (code for code in row if kept or one_line(f"a{chr(code)}") == f"a{chr(code)}")


def test_every_character_is_as_wide_as_drawn() -> None:
    codes = [*range(0x20, 0xD800), *range(0xE000, 0x20000)]
    rows = [one_line("".join(f"a{chr(code)}" for code in codes[at : at + 64]))
            for at in range(0, len(codes), 64)]  # fmt: skip
    assert [row for row in rows if cells(row) != cell_len(row)] == []
