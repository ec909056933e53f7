from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from podtui.tui.screens.logs.log_paint import (
    GUTTER,
    PARTS,
    LogRow,
    PaintOptions,
    Prefix,
    log_row,
    paint,
    rule_text,
    shown_spans,
)
from podtui.tui.views.logs.ansi import plain_text
from podtui.tui.views.logs.levels import Level
from podtui.tui.views.logs.line_buffer import EVENT, EVENT_WARNING, GAP, REMARKS, RULE, is_log
from podtui.tui.views.logs.lines import LogLines
from podtui.tui.views.logs.times import Times
from podtui.tui.widgets.cells import width_of

FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
nasty = st.one_of(
    st.binary(max_size=120),
    st.text(max_size=60).map(lambda text: text.encode(errors="replace")),
    st.lists(
        st.sampled_from([
            b"\x1b[31m", b"\x1b[2J", b"\x1b]0;t\x07", b"\x1b]52;c;aGk=\x1b\\", b"\x9b31m", b"\t",
            "漢字".encode(), "e\u0301\u0302".encode(), "\u202eevil".encode(), "שלום".encode(),
            "👩\u200d👩\u200d👧".encode(), b"\xff\xfe", b"\x00", b"\r", b"text ", b"\x1bP1$r\x1b\\",
            "\u200b\ufeff".encode(), b"\x1b[?1049h", b"\x1b]8;;http://x\x1b\\link",
        ])
    ).map(b"".join),
)  # fmt: skip
paint_options = st.builds(
    PaintOptions,
    st.integers(20, 120),
    st.sampled_from(Times),
    st.booleans(),
    st.sampled_from(Prefix),
    st.sampled_from([(), ("app",), ("app", "a-rather-long-name-of-a-container", "漢字")]),
    st.integers(0, 40),
)


def style(part: str) -> Style:
    assert part in PARTS
    return Style()


@given(nasty, paint_options, st.sampled_from([0, 1, 2, *REMARKS, EVENT, EVENT_WARNING]),
       st.sampled_from(Level), st.integers(0, 3), st.booleans())  # fmt: skip
def test_any_line_becomes_a_row_of_the_views_width_without_control_characters(
    text: bytes, options: PaintOptions, tag: int, level: Level, inside: int, marked: bool
) -> None:
    line = text.replace(b"\n", b"")
    row = LogRow(line, tag, "12:00:00.000", level, inside, marked)
    strip = paint(row, options, style, Style())
    assert not FORBIDDEN.search(strip.text)
    assert sum(segment.cell_length for segment in strip) == options.width
    assert not any(segment.control for segment in strip)


@given(nasty, st.integers(20, 60), st.sampled_from(Prefix))
def test_a_wrapped_line_is_shown_completely(text: bytes, width: int, prefix: Prefix) -> None:
    line = text.replace(b"\n", b"")
    options = PaintOptions(width, wrap=True, prefix=prefix, names=("one", "two"))
    count = options.rows_of(line, 0)
    assert count == max(1, len(options.breaks(line, 0)) - 1)
    rows = [paint(LogRow(line, 0, inside=n), options, style, Style()).text for n in range(count)]
    skip = GUTTER + (options.source_width if prefix is Prefix.LOCKED else 0)
    shown = "".join(row[skip:] for row in rows)
    if prefix is Prefix.ALONG:
        shown = shown[options.source_width :]
    # Blanks at the end of a row are filled up.
    assert shown.replace(" ", "") == plain_text(line).replace(" ", "")


@pytest.mark.parametrize(
    ("row", "options", "shown"),
    [
        (LogRow(b"text", 0, "", Level.ERROR), PaintOptions(12), " E text"),
        (LogRow(b"text", 0, "", Level.ERROR, marked=True), PaintOptions(12), "◆E text"),
        (
            LogRow(b"text", 0, "12:00:00.000"), PaintOptions(30, Times.ABSOLUTE),
            "   12:00:00.000 text",
        ),
        (LogRow(b"text", 0, "5s"), PaintOptions(30, Times.RELATIVE), "       5s text"),
        (LogRow(b"text", 1), PaintOptions(40, names=("a", "side")), "   side │ text"),
        (LogRow(b"text", 1), PaintOptions(40, names=("side",)), "   text"),
        (LogRow(b"text", 1), PaintOptions(40, names=("a", "side"), shift=2), "   side │ xt"),
        (LogRow(b"text", 1), PaintOptions(40, names=("a", "side"), shift=2, prefix=Prefix.ALONG),
         "   de │ text"),
        (LogRow(b"text", 1), PaintOptions(40, names=("a", "side"), prefix=Prefix.OFF), "   text"),
        (LogRow(b"Pulled  x", EVENT), PaintOptions(40), " • Pulled  x"),
        (LogRow(b"Failed  x", EVENT_WARNING), PaintOptions(40), " ▲ Failed  x"),
        (LogRow(b"3 lost", GAP), PaintOptions(14), "── 3 lost ────"),
        (LogRow(b"again", RULE), PaintOptions(14), "── again ─────"),
    ],
)  # fmt: skip
def test_rows(row: LogRow, options: PaintOptions, shown: str) -> None:
    assert paint(row, options, style, Style()).text.rstrip() == shown


def test_the_time_since_the_previous_line_leaves_out_events() -> None:
    lines = LogLines()
    stamps = [1_000_000_000, 2_000_000_000, 2_500_000_000]
    lines.add(stamps[:1], [b"one"], 0)
    lines.add(stamps[1:2], [b"Pulled"], EVENT)
    lines.add(stamps[2:], [b"two"], 0)
    options = PaintOptions(40, Times.BETWEEN)
    rows = [log_row(lines, n, 0, options, now=5.0, match=None) for n in range(3)]
    assert [row.time for row in rows] == ["", "", "+1.500s"]
    options = PaintOptions(40, Times.ABSOLUTE)
    assert log_row(lines, 1, 0, options, now=5.0, match=None).time == "00:00:02"


def test_a_line_of_a_megabyte_costs_only_its_visible_part() -> None:
    strip = paint(LogRow(b"z" * 1_000_000), PaintOptions(80), style, Style())
    assert strip.text == "   " + "z" * 77


def test_matches_are_marked_in_visible_rows() -> None:
    spans = shown_spans("\x1b[31mé\x1b[0mabc".encode(), lambda raw: [(raw.find(b"b"), len(raw))])
    assert spans == ((2, 4),)


def test_separator_text_has_its_width() -> None:
    assert width_of(rule_text(b"x")) == 5
    assert not is_log(GAP)
    assert unicodedata.category("◆") == "So"


def test_a_wrapped_remark_uses_the_whole_width() -> None:
    options = PaintOptions(40, Times.ABSOLUTE, wrap=True, names=("one", "two"))
    text = b"x" * 30
    assert options.rows_of(text, GAP) == 1
    assert options.rows_of(text, 0) > 1
    assert paint(LogRow(text, GAP), options, style, Style()).text == f"\u2500\u2500 {'x' * 30} " + (
        "\u2500" * 6
    )
