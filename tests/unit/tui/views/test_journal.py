"""The journal's rows."""

from __future__ import annotations

import msgspec

from podtui.api.local import EngineCall
from podtui.tui.views.journal import COLUMNS, LINE, JournalEntry, journal_rows

CALL = EngineCall(
    serial=7, time="2026-11-21T12:00:00.000000Z", line="docker stop --time 30 abc", verb="stop",
    namespace="default", pod="web-n1", uid="u1", container="app", seconds=1.25,
)  # fmt: skip


def cells(call: EngineCall) -> list[str]:
    (row,) = journal_rows([], [call])
    return [cell.text for cell in row.cells]


def test_a_call_shows_its_owner_and_duration() -> None:
    assert cells(CALL)[1:] == ["agent", "web-n1/app", "stop", "1.2s", "docker stop --time 30 abc"]


def test_a_failed_call_is_marked_and_copied_without_the_error() -> None:
    failed = msgspec.structs.replace(CALL, error="no such \x1b[31mcontainer", count=3)
    (row,) = journal_rows([], [failed])
    assert row.fault
    assert row.cells[3].text == "✗ stop ×3"
    assert row.cells[LINE].text.endswith("# no such container")
    assert row.values[LINE] == CALL.line


def test_every_row_has_a_value_for_every_column() -> None:
    rows = journal_rows([JournalEntry(1.0, "edit", "$EDITOR a.yaml", "web-n1")], [CALL])
    for row in rows:
        assert len(row.cells) == len(row.sort) == len(row.values) == len(COLUMNS)
    assert len({row.key for row in rows}) == 2


def test_a_call_that_is_counted_stays_the_same_row() -> None:
    again = msgspec.structs.replace(CALL, serial=9, count=2)
    more = msgspec.structs.replace(CALL, serial=12, count=3)
    assert journal_rows([], [again])[0].key == journal_rows([], [more])[0].key


def test_for_one_pod_only_its_actions_are_listed() -> None:
    entries = [
        JournalEntry(1.0, "delete", "mv a b", "web-n1, api-n1"),
        JournalEntry(2.0, "edit", "e", "api-n1"),
    ]
    rows = journal_rows(entries, [], pod="web-n1")
    assert [row.values[3] for row in rows] == ["delete"]
