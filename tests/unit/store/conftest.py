from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from podtui.store import Store, open_store


class HandClock:
    """Does not advance until a test moves it."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], AbstractContextManager[None]]:
    """Let every commit to the file of `opened` fail with "disk full" inside the context."""
    monkeypatch.setattr("podtui.store.database.RETRY_SECONDS", 0.01)

    @contextmanager
    def full() -> Iterator[None]:
        with closing(sqlite3.connect(tmp_path / "records.db")) as disk:
            fail = "BEGIN SELECT RAISE(FAIL, 'disk full'); END"
            disk.execute(f"CREATE TRIGGER full_disk BEFORE INSERT ON records {fail}")
            yield
            disk.execute("DROP TRIGGER full_disk")

    return full


@pytest.fixture
async def memory(clock: HandClock) -> AsyncIterator[Store]:
    store = open_store(None, clock=clock)
    yield store
    await store.close()


@pytest.fixture
async def opened(clock: HandClock, tmp_path: Path) -> AsyncIterator[Callable[..., Store]]:
    """Open the store of one file any number of times; close each at the end."""
    stores: list[Store] = []

    def open_again(**options: object) -> Store:
        store = open_store(str(tmp_path / "records.db"), clock=clock, **options)
        stores.append(store)
        return store

    yield open_again
    for store in stores:
        await store.close()
