from __future__ import annotations

from rich.cells import cell_len

from podtui.cli.status import render

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


def test_wide_columns_are_omitted_and_the_others_aligned() -> None:
    assert render(TABLE).splitlines() == [
        "NAME               READY   AGE",
        "web-n1             2/2     5s",
        "a-longer-name-n1   0/1     3m",
    ]


def test_an_empty_table_has_only_a_header() -> None:
    assert render({**TABLE, "rows": None}) == "NAME   READY   AGE"


def test_control_characters_never_reach_the_terminal() -> None:
    evil = "a\x1b[31mb\u202ec\n\x9b2J"
    table = {"columnDefinitions": [{"name": f"n{evil}"}], "rows": [{"cells": [f"x{evil}"]}]}
    assert render(table) == "NABC\nxabc"


def test_wide_characters_and_marks_are_aligned() -> None:
    names = ("web", "界面", "e\u0301te\u0301", "🚀🚀", "ﾊﾝｶｸ", "x\u200d\u0301", "각", "ก็")
    rows = [{"cells": [name, "1/1", "", "3m"]} for name in names]
    drawn = render({**TABLE, "rows": rows}).splitlines()
    assert {cell_len(line[: line.index("1/1")]) for line in drawn[1:]} == {7}
    assert drawn[0].index("READY") == 7
