from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.views.logs.json_rows import MOST_ROWS, parse_json, pretty, row_count

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
documents = st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=5), values, max_size=4)


@given(documents)
def test_rows_represent_the_document_and_are_counted_correctly(document: object) -> None:
    line = json.dumps(document, ensure_ascii=False).encode(errors="replace")
    rows = pretty(line)
    text = "\n".join("".join(piece[0] for piece in row) for row in rows)
    assert json.loads(text) == json.loads(line)
    assert row_count(line) == len(rows)


def test_tokens_have_their_types() -> None:
    rows = pretty(b'prefix: {"a": [1, true], "b": "x", "c": {}}')
    assert [[piece for piece in row if piece[0].strip()] for row in rows] == [
        [("{", "")],
        [('"a"', "key"), (": ", ""), ("[", "")],
        [("1", "number"), (",", "")],
        [("true", "word")],
        [("],", "")],
        [('"b"', "key"), (": ", ""), ('"x"', "string"), (",", "")],
        [('"c"', "key"), (": ", ""), ("{}", "")],
        [("}", "")],
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"", b"plain", b"{not json}", b"[ERROR] x]", b"{", b'"text"', b"17", b"x {a} y",
        b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"n":' + b"9" * 10_000 + b"}", b"{" + b" " * 300_000 + b"}",
    ],
)  # fmt: skip
def test_other_text_than_json_has_no_rows(line: bytes) -> None:
    assert parse_json(line) is None
    assert pretty(line) == []
    assert row_count(line) == 0


def test_a_huge_document_is_truncated_with_a_mark() -> None:
    line = json.dumps(list(range(100_0))).encode()
    rows = pretty(line)
    assert len(rows) == row_count(line) == MOST_ROWS
    assert rows[-1] == (("…", ""),)


def test_deep_documents_are_laid_out() -> None:
    line = b"[" * 150 + b"]" * 150
    assert len(pretty(line)) == row_count(line) == 299
