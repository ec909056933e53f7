"""Control sequences in names, messages, files and logs never reach the terminal."""

from __future__ import annotations

from control_characters import control_characters
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from podtui.tui.widgets.sanitize import clean, clean_lines

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            "\x1b [ ] 0; 52;c; \x07 \\ P m 31 \x9b \x9d \x9c \u202e \u2066 \n \r \t".split(" ")
            + "日 e\u0301 👩 👍🏽 🇩 🇪 \u200d \u200b \ufe0f \u0600 \U000e0041 \udcff".split(" ")
        ),
        st.text(max_size=5),
        st.characters(),
    ),
    max_size=30,
).map("".join)


@given(PIECES)
def test_stripped_text_is_harmless_with_the_correct_width(text: str) -> None:
    for shown in (clean(text), *clean_lines(text)):
        assert control_characters(shown) == []
        # No characters combine: terminals disagree about the width of combinations.
        assert cell_len(shown) == sum(cell_len(c) for c in shown)


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_unchanged(text: str) -> None:
    assert clean(text) == text


def test_a_megabyte_is_truncated_with_a_mark() -> None:
    shown = clean("x" * 1_000_000 + "\x1b")
    assert len(shown) < 20_000
    assert "cut" in shown
