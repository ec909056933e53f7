"""The list of the kinds that the server has, with the number of objects of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from msgspec import Struct

from podtui.client.any_kind import ServedKind
from podtui.errors import PodtuiError
from podtui.text.terminal_text import plural
from podtui.tui.screens.list_screen import ListScreen
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Line,
    Row,
    Span,
    ValueKind,
    Visibility,
    content_of,
    text_field,
)
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table

_AT_ONCE: Final = 8
"""Requests for counts at the same time."""


class CountedKind(Struct, frozen=True):
    """A kind with the number of its objects; None if they could not be counted."""

    kind: ServedKind
    count: int | None


def _count(counted: CountedKind) -> ColumnValue:
    if counted.count is None:
        return ColumnValue(Cell("-", "muted"), -1, None)
    tone = "" if counted.count else "muted"
    return ColumnValue(Cell(f"{counted.count:,}", tone), counted.count, float(counted.count))


KIND_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=28, maximum=60, flexible=True,
           of=lambda counted: text_field(clean(counted.kind.plural), "name")),
    Column("count", "COUNT", 90, align="right", descending=True, kind=ValueKind.COUNT, of=_count),
    Column("short", "SHORT", 80, maximum=16,
           of=lambda counted: text_field(clean(",".join(counted.kind.short_names)), "soft")),
    Column("kind", "KIND", 60, minimum=12, maximum=40, flexible=True,
           of=lambda counted: text_field(clean(counted.kind.kind))),
    Column("group", "APIVERSION", 50, minimum=10, maximum=48, flexible=True,
           of=lambda counted: text_field(clean(counted.kind.api_version), "muted")),
    Column("namespaced", "NAMESPACED", 30, shown=Visibility.WIDE,
           of=lambda counted: text_field(str(counted.kind.namespaced).lower(), "muted")),
)  # fmt: skip


def kind_row(counted: CountedKind) -> Row:
    kind = counted.kind
    names = (kind.plural, kind.singular, *kind.short_names, kind.kind, kind.api_version)
    return Row(
        kind.qualified_name,
        *content_of(KIND_COLUMNS, counted),
        search=clean(" ".join(names)),
        fault=counted.count is None,
    )


class KindsScreen(ListScreen):
    """``open_kind`` opens the list of a kind, in the namespace ``scope``."""

    COLUMNS: ClassVar[Sequence[Column]] = KIND_COLUMNS
    SORT = "name"
    DESCENDING: ClassVar[bool] = False
    SECONDS: ClassVar[float] = 10.0
    NAME = "kinds"
    NO_HINTS: ClassVar[frozenset[str]] = frozenset()
    NOTHING = ("…",)

    def __init__(self, scope: str, open_kind: Callable[[ServedKind], None]) -> None:
        super().__init__()
        self._scope = scope
        self._open_kind = open_kind

    async def rows(self) -> Iterable[Row]:
        model = self.session.model
        model.kinds = await self.session.client.kinds()
        limit = asyncio.Semaphore(_AT_ONCE)

        async def count(kind: ServedKind) -> CountedKind:
            async with limit:
                try:
                    return CountedKind(kind, await self.session.client.count(kind, self._scope))
                except PodtuiError:
                    return CountedKind(kind, None)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(count(kind)) for kind in model.kinds]
        return [kind_row(task.result()) for task in tasks]

    def summary(self, count: int) -> Line:
        where = f" · namespace {clean(self._scope)}" if self._scope else ""
        return (Span(f"{plural(count, 'kind')}{where}", "soft"),)

    def on_table_opened(self, message: Table.Opened) -> None:
        kind = self.session.model.kind_named(message.key)
        if kind is not None:
            self._open_kind(kind)
