from __future__ import annotations

import columns_docs
import pytest

from podtui.tui.widgets.cells import Column


def test_the_document_lists_the_columns_that_are_declared() -> None:
    text = columns_docs.TARGET.read_text()
    assert columns_docs.with_table(text) == text
    assert columns_docs.table() in text


@pytest.mark.parametrize("table", columns_docs.TABLES)
def test_each_column_declares_its_content(table: str) -> None:
    empty = Column("", "", 0).of
    assert [column.key for column in columns_docs.TABLES[table] if column.of is empty] == []
