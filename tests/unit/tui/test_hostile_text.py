"""Any text, sanitized, cut and wrapped, is never wider than requested and never interpreted."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from rich.cells import cell_len

from podtui.text.terminal_text import LONGEST, MOST_MARKS, lines, settled
from podtui.tui.preferences.alerts import osc9
from podtui.tui.views.header import from_end
from podtui.tui.views.journal import JournalEntry, action_row
from podtui.tui.views.logs.ansi import parse, plain_text
from podtui.tui.views.logs.export import file_name
from podtui.tui.widgets.cells import Span, line_width, prefix, sized, suffix, width_of, wrap
from podtui.tui.widgets.notices import MOST_LINES, WIDEST, short
from podtui.tui.widgets.sanitize import clean, clean_lines, literal, shell_line
from podtui.tui.widgets.text_view import Mark, layout

PIECES = (
    "\x1b", "[", "]", "0;", "52;c;", "8;;http://x", "\x07", "\\", "P", "X", "^", "_", "m", "31",
    "c", "\x9b", "\x9d", "\x90", "\x98", "\x9c", "\x85", "\u202e", "\u202d", "\u2066", "\u2069",
    "\u200f", "\u061c", "\n", "\r", "\t", "\b", "\0", "\x7f", "\u2028", "日", "漢字", "ｗ",
    "e\u0301", "\u0301" * 40, "\u20dd", "👩", "👩\u200d👩\u200d👧", "👍🏽", "❤\ufe0f",
    "1\ufe0f\u20e3", "🇩🇪", "🇩", "\u200b", "\ufeff", "\u0600", "\u06dd", "\U000e0041", "\udcff",
    "\ud800", "क\u093e", "한", "\u1112\u1161\u11ab", "\u3164", "\uffa0", "שלום", "مرحبا",
    "\ufffe", "\U0001faff", "\u0378", " ", "a", "word ", "[red]x[/]", "[@click=app.quit]y[/]",
    "'", "\"", ";", "--",
)  # fmt: skip


@st.composite
def hostile_text(draw: DrawFn) -> str:
    piece = st.one_of(st.sampled_from(PIECES), st.characters(), st.text(max_size=4))
    return "".join(draw(st.lists(piece, max_size=25)))


TEXT = hostile_text()
CLEAN = TEXT.map(clean)


def obeyed(text: str) -> list[str]:
    """Return the characters that a terminal or a text layout interprets."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [ascii(c) for c in text if unicodedata.category(c) in kinds]


def letters(text: str) -> Iterator[str]:
    """Yield letters with their marks."""
    whole = ""
    for character in text:
        if whole and width_of(character):
            yield whole
            whole = ""
        whole += character
    if whole:
        yield whole


def ascii_name(text: str) -> str:
    return ascii(text[:3])


@given(TEXT)
def test_stripped_text_is_harmless(text: str) -> None:
    for shown in (clean(text), *clean_lines(text), plain_text(text.encode(errors="replace"))):
        assert obeyed(shown) == []
        # No characters combine, and the text does not begin with a combining mark.
        assert cell_len(shown) == sum(map(cell_len, shown))
        assert not shown or cell_len(shown[0]) > 0
        assert all(len(letter) <= 1 + MOST_MARKS for letter in letters(shown))
    assert "\n" not in clean(text)
    assert [clean(line) for line in text.split("\n")] == lines(text).split("\n")


@given(TEXT)
def test_stripping_is_idempotent(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "日" * 400_000,
        "e" + "\u0301" * 1_000_000,
        "\u0301" * 500_000,
        "\t" * 1_000_000,
        "\x1b" * 1_000_000,
        "\x1b]" * 300_000,
        "\u202e" * 300_000,
        "a\n" * 300_000,
    ],
    ids=ascii_name,
)
def test_a_line_of_a_megabyte_is_truncated_with_a_mark(text: str) -> None:
    shown = clean(text)
    assert len(shown) <= LONGEST
    assert shown.endswith(f"({len(text.encode()):,} bytes, cut)")
    assert clean(shown) == shown


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_unchanged(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("🇩🇪", "DE"),
        ("👍🏽", "👍"),
        ("👩\u200d👧", "👩👧"),
        ("Z" + "\u0301" * 1000, "Z" + "\u0301" * MOST_MARKS),
        ("\u0301x", "◌\u0301x"),
        ("क\u093e", "क\ufffd"),
        ("a\u0600\u3164b", "ab"),
        ("\udc80", "?"),
        ("שלום 5", "שלום 5"),
        ("a\x1b[31m\u0301", "a\u0301"),
    ],
)
def test_characters_of_ambiguous_width(text: str, shown: str) -> None:
    assert clean(text) == shown
    if "\udc80" not in text:
        assert plain_text(text.encode()) == shown


def test_marks_are_counted_across_colours() -> None:
    pile = "\u0301" * MOST_MARKS
    line = f"a{pile}\x1b[31m{pile}\x1b[32m{pile}b".encode()
    assert "".join(segment.text for segment in parse(line)) == f"a{pile}b"
    assert settled(pile, MOST_MARKS) == ("", MOST_MARKS)


# --- cut and wrapped


@given(CLEAN, st.integers(0, 30), st.sampled_from(("left", "right")))
def test_a_cell_is_as_wide_as_asked(text: str, width: int, align: str) -> None:
    shown = sized(text, width, align)
    assert width_of(shown) == width
    rest = shown.removesuffix("…").strip(" ")
    assert rest in text
    assert not rest or width_of(rest[0]) > 0


@example("日\u0301x", 1)
@given(CLEAN, st.integers(1, 30))
def test_truncated_text_fits_and_splits_no_grapheme(text: str, room: int) -> None:
    head, tail = prefix(text, room), suffix(text, room)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert width_of(head) <= room or head == next(letters(text))
    assert width_of(tail) <= room
    whole = list(letters(text))
    assert head in {"".join(whole[:n]) for n in range(len(whole) + 1)}
    assert tail in {"".join(whole[n:]) for n in range(len(whole) + 1)}
    assert width_of(from_end(text, room)) <= room


@given(st.lists(CLEAN, max_size=4), st.integers(2, 40), st.integers(0, 12))
@example([" \u0301\u0301"], 2, 0)
def test_wrapped_rows_fit_and_split_no_grapheme(texts: list[str], width: int, indent: int) -> None:
    rows = wrap([Span(text) for text in texts], width, indent=indent)
    assert all(line_width(row) <= width for row in rows)
    for row in rows:
        for span in row:
            assert not span.text or width_of(span.text[0]) > 0
    before = "".join("".join(texts).split(" "))
    assert "".join("".join(s.text for row in rows for s in row).split(" ")) == before


@given(TEXT, TEXT, st.integers(0, 2_000_000), st.integers(0, 60))
def test_diagnostics_are_harmless_and_fit(text: str, remark: str, column: int, width: int) -> None:
    rows = layout(text, [Mark(1, column, remark)], width=width)
    assert obeyed("".join(row.text for row in rows)) == []
    if width >= 24:
        assert all(width_of(row.text) <= width for row in rows if row.number == 0)


# --- other ways out than drawing


@given(TEXT, TEXT)
def test_a_copied_line_quotes_shell_characters(name: str, other: str) -> None:
    words = ["kubectl", "exec", name, "--", other]
    line = action_row(0, JournalEntry(0.0, "shell", shlex.join(words))).cells[5].text
    assert obeyed(line) == []
    # The number of words is the same: no quote was lost, so no word became a command.
    assert len(shlex.split(line)) == len(words)


def test_a_sequence_does_not_swallow_a_quote() -> None:
    line = shlex.join(["kubectl", "exec", "x\x1b[", "-c", "; touch /tmp/pwned; "])
    assert shlex.split(shell_line(line)) == [
        "kubectl",
        "exec",
        "x\ufffd[",
        "-c",
        "; touch /tmp/pwned; ",
    ]


@given(TEXT)
def test_a_terminal_notification_is_plain_text(text: str) -> None:
    sequence = osc9(text, {})
    assert sequence.startswith("\x1b]9;")
    assert sequence.endswith("\x07")
    inside = sequence.removeprefix("\x1b]9;").removesuffix("\x07")
    assert obeyed(inside) == []
    # 9;4;… is a progress bar on some terminals, 9;7;… runs a program.
    assert ";" not in inside


@given(st.lists(TEXT, min_size=1, max_size=3), st.booleans())
def test_a_log_file_name_needs_no_quoting(names: list[str], filtered: bool) -> None:
    name = file_name([n or "x" for n in names], "20261121-070809", filtered=filtered)
    assert "/" not in name
    assert name[0] not in ".-"
    assert name.isascii()
    assert name.isprintable()
    assert shlex.quote(name) == name
    assert name.endswith("-20261121-070809.log")


def test_a_log_file_has_a_valid_name() -> None:
    assert file_name(["../../etc/passwd"], "S", filtered=False) == "etc_passwd-S.log"
    assert file_name(["-rf", "x"], "S", filtered=False) == "rf-and-1-more-S.log"
    assert file_name(["..."], "S", filtered=True) == "log-filtered-S.log"
    assert len(file_name(["n" * 5000], "S", filtered=True)) < 200


@given(TEXT)
def test_a_title_has_no_markup(text: str) -> None:
    shown = literal(text)
    assert shown.plain == clean(text)
    assert shown.spans == []


def test_a_notification_is_short() -> None:
    shown = short("\n".join(["日" * 5000] * 100)).split("\n")
    assert len(shown) == MOST_LINES + 1
    assert all(width_of(line) <= WIDEST for line in shown)
    assert short("a\x1b[2Jb\nc") == "ab\nc"
