"""The list of deleted files, which can be restored from here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from podtui.text.terminal_text import plural
from podtui.tui.commands.delete import restore
from podtui.tui.commands.manifest_file import TrashedFile, trashed_files
from podtui.tui.screens.list_screen import ListScreen
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Line,
    Row,
    Span,
    ValueKind,
    content_of,
    text_field,
)
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table


def _deleted(file: TrashedFile) -> ColumnValue:
    moment = file.moment.timestamp()
    return ColumnValue(Cell("", "muted", moment), moment, moment)


TRASH_COLUMNS = (
    Column("age", "DELETED", 90, align="right", descending=True, kind=ValueKind.AGE, of=_deleted),
    Column("name", "FILE", 100, minimum=16, maximum=60, flexible=True,
           of=lambda file: text_field(clean(file.origin.name), "name")),
    Column("path", "IN THE TRASH AS", 50, minimum=20, maximum=200, flexible=True, filling=True,
           of=lambda file: text_field(clean(file.path.name), "muted")),
)  # fmt: skip


def trash_row(file: TrashedFile) -> Row:
    fields = content_of(TRASH_COLUMNS, file)
    return Row(file.path.name, *fields, search=clean(file.origin.name))


class TrashScreen(ListScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "restore", "Restore", id="trash.restore",
                tooltip="Move the file back to the manifest folder; its pod starts fresh"),
    ]  # fmt: skip
    COLUMNS: ClassVar[Sequence[Column]] = TRASH_COLUMNS
    SORT = "age"
    NAME = "trash"
    ON_ROWS = frozenset({"restore"})
    NOTHING = ("The trash is empty.", "Files stay in it until you delete them.")

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._files: dict[str, TrashedFile] = {}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "restore" and self.session.readonly:
            return None  # disabled: the app refuses its key
        return super().check_action(action, parameters)

    async def rows(self) -> Iterable[Row]:
        files = await asyncio.to_thread(trashed_files, self._folder)
        self._files = {file.path.name: file for file in files}
        return map(trash_row, files)

    def summary(self, count: int) -> Line:
        return (Span(f"{plural(count, 'file')} · {clean(str(self._folder))}", "soft"),)

    def action_restore(self) -> None:
        file = self._files.get(self.table.cursor_key)
        if file is not None:

            async def run_restore() -> None:
                await restore(self.session, [file])
                self.ask()

            self.session.start("Restore", run_restore)

    def on_table_opened(self, message: Table.Opened) -> None:
        self.action_restore()
