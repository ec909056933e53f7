from __future__ import annotations

from podtui.status_table import clean, render

TABLE = {
    "columnDefinitions": [
        {"name": "Name", "priority": 0},
        {"name": "Ready", "priority": 0},
        {"name": "IP", "priority": 1},
        {"name": "Age"},
    ],
    "rows": [
        {"cells": ["web-n1", "2/2", "10.0.0.1", "5s"]},
        {"cells": ["a-longer-name-n1", "0/1", "<none>", "3m"]},
    ],
}


def test_wide_columns_are_left_out_and_the_rest_lines_up() -> None:
    assert render(TABLE).splitlines() == [
        "NAME               READY   AGE",
        "web-n1             2/2     5s",
        "a-longer-name-n1   0/1     3m",
    ]


def test_an_empty_table_is_its_head() -> None:
    assert render({**TABLE, "rows": None}) == "NAME   READY   AGE"


def test_control_characters_never_reach_the_terminal() -> None:
    assert clean("a\x1b[31mb\u202ec\n") == "a[31mbc"
