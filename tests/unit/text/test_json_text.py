"""Text from outside becomes valid Unicode, as Go reads it."""

from __future__ import annotations

import json

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.text.json_text import read_json, valid_json, valid_text


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"\uDFFF\ud800x"', "\ufffd\ufffdx"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\\\ud800"', "\\\ufffd"),
        (r'{"\udc00": ["\ud800"]}', {"\ufffd": ["\ufffd"]}),
        ('"\udcff\udcfe"', "\ufffd\ufffd"),
        (r'"\u00e9\n"', "é\n"),
    ],
)
def test_surrogates_are_replaced(document: str, value: object) -> None:
    assert read_json(document) == value
    assert len(valid_json(document)) == len(document)


@given(text=st.text(st.characters(codec=None), max_size=30))
@examples(200)
def test_every_text_can_be_encoded_afterwards(text: str) -> None:
    valid_text(text).encode()
    read = read_json(json.dumps(text))
    read.encode()
    assert len(read) <= len(text)
    if not any("\ud800" <= one <= "\udfff" for one in text):
        assert read == text == valid_text(text)
