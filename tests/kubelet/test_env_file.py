"""Files of variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.kubelet.containers.environment import LIMIT, EnvFileError, env_file_value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("K='v'", "v"),
        ("K='v'\n", "v"),
        ("A='1'\nK='2'\nK='3'\n", "2"),
        ("  \tK='v'", "v"),
        ("# K='no'\n\n \t\nK='v'", "v"),
        ("K='v' # and why", "v"),
        ("K='v'\t#why", "v"),
        ("K='a b=c # $(X) \\n'", "a b=c # $(X) \\n"),
        ("K='two\nlines'\n", "two\nlines"),
        ("K='a\n# b\n\nc' # d\nL='x'", "a\n# b\n\nc"),
        ("K='v'\r\nL='w'\r\n", "v"),
        ("K=''", ""),
        ("K= 'v'\nL='w'", ""),
        ("K=\t", ""),
        ("L='v'", ""),
        ("", ""),
        ("\n", ""),
        ("K='v'\nthis is not looked at", "v"),
        ("K L='v'\nK='w'", "w"),
    ],
)
def test_values(text, expected):
    assert env_file_value(text.encode(), "K") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("K", "line 1: missing '='"),
        ("\n='v'", "line 2: empty variable name"),
        ("K ='v'", "line 1: whitespace before '='"),
        ("K=v", "line 1: the value is not in single quotes"),
        ('K="v"', "line 1: the value is not in single quotes"),
        ("K=", "line 1: the value is not in single quotes"),
        ("export K='v'\nX", "line 2: missing '='"),
        ("K='v'w", "line 1: something stands after the closing quote"),
        ("K='a\nb'c", "line 2: something stands after the closing quote"),
        ("K='v", "line 1: the single quote is not closed"),
        ("A='1'\nK='a\nb\n", "line 2: the single quote is not closed"),
        ("Z=z\nK='v'", "line 1: the value is not in single quotes"),
    ],
)
def test_text_in_another_form(text, why):
    with pytest.raises(EnvFileError) as caught:
        env_file_value(text.encode(), "K")
    assert str(caught.value) == why


def test_a_file_that_is_too_long():
    assert env_file_value(b"K='v'".ljust(LIMIT), "K") == "v"
    with pytest.raises(EnvFileError, match="has more than"):
        env_file_value(b"K='v'".ljust(LIMIT + 1), "K")


@given(st.text(alphabet=st.characters(exclude_characters="'\r", exclude_categories=["Cs"])))
def test_whatever_stands_in_the_quotes_is_the_value(value):
    assert env_file_value(f"K='{value}'\n".encode(), "K") == value
