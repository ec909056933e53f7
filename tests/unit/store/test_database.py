from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest
from recorded_calls import record_calls

from podtui.api.v1 import Container, ObjectMeta, Pod, PodSpec, PodStatus
from podtui.clock import SystemClock
from podtui.errors import PodtuiError
from podtui.store import Store, database
from podtui.store.database import RecordRow, Writer, connect


def pod(name: str, phase: str = "Pending") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(containers=(Container(name="c"),)),
        status=PodStatus(phase=phase),
    )


async def fill(store: Store, count: int = 50) -> None:
    for index in range(count):
        await store.put("pods", pod(f"p{index:03}"))
    await store.flush()


async def test_flush_waits_for_the_disk(opened: Callable[..., Store], tmp_path: Path) -> None:
    store = opened()
    await fill(store, 3)
    reader = sqlite3.connect(tmp_path / "records.db")
    assert reader.execute("SELECT count(*) FROM records").fetchone() == (3,)
    reader.close()


def test_many_changes_share_few_commits(
    opened: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    commits = record_calls(monkeypatch, database, "write")
    writer = Writer(str(tmp_path / "records.db"), SystemClock())
    written = threading.Event()
    for index in range(300):
        row = RecordRow(pod(f"p{index % 3}", phase=str(index)), index, 0.0)
        writer.submit(("pods", "default", f"p{index % 3}"), row)
    writer.notify(lambda problem: written.set())
    assert written.wait(20)
    writer.close()
    assert 1 <= len(commits) < 30


async def test_file_is_readable_only_by_its_owner(
    opened: Callable[..., Store], tmp_path: Path
) -> None:
    path = tmp_path / "records.db"
    path.touch(0o644)
    await fill(opened(), 1)
    for name in ("records.db", "records.db-wal", "records.db-shm"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for offset in range(4096, len(data)):
        data[offset] ^= 0x5A
    path.write_bytes(data)


def _other_version(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def _no_table(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE records")
    connection.commit()
    connection.close()


def _no_counter(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM meta")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "damage", [_garbage, _truncated, _flipped, _other_version, _no_table, _no_counter]
)
async def test_damaged_file_is_kept_aside(
    damage: Callable[[Path], None],
    opened: Callable[..., Store],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "records.db"
    store = opened()
    await fill(store)
    await store.close()
    damage(path)
    damaged = path.read_bytes()

    with caplog.at_level(logging.WARNING):
        again = opened()
    aside = tmp_path / "records.db.damaged-20260101T000000Z"
    assert aside.read_bytes() == damaged
    assert str(aside) in again.recovered
    assert again.recovered in caplog.text
    assert (await again.list("pods")).items == ()
    await fill(again, 2)
    await again.close()
    last = opened()
    assert last.recovered == ""
    assert len((await last.list("pods")).items) == 2


async def test_second_damage_keeps_the_first_aside(
    opened: Callable[..., Store], tmp_path: Path
) -> None:
    for _ in range(2):
        (tmp_path / "records.db").write_bytes(b"not a database" * 100)
        await opened().close()
    assert sum("damaged-2026" in name for name in os.listdir(tmp_path)) == 2


async def test_one_unreadable_record_does_not_affect_others(
    opened: Callable[..., Store], tmp_path: Path
) -> None:
    store = opened()
    await fill(store, 3)
    await store.close()
    connection = sqlite3.connect(tmp_path / "records.db")
    connection.execute("UPDATE records SET data = '{\"spec\": 1}' WHERE name = 'p001'")
    connection.commit()
    connection.close()
    again = opened()
    assert "pods/default/p001" in again.recovered
    assert [o.metadata.name for o in (await again.list("pods")).items] == ["p000", "p002"]
    await again.close()
    assert opened().recovered == ""


async def test_empty_file_is_a_new_store(opened: Callable[..., Store], tmp_path: Path) -> None:
    (tmp_path / "records.db").touch()
    assert opened().recovered == ""


async def test_unusable_paths(opened: Callable[..., Store], tmp_path: Path) -> None:
    (tmp_path / "records.db").mkdir()
    with pytest.raises(PodtuiError, match=r"records\.db"):
        opened()


async def test_a_failed_commit_is_reported_and_retried(
    opened: Callable[..., Store], full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    store = opened()
    await store.flush()
    with full_disk():
        await store.put("pods", pod("a"))
        with pytest.raises(PodtuiError, match="disk full"):
            await store.flush()
    await store.flush()
    await store.close()
    assert len((await opened().list("pods")).items) == 1


async def test_a_put_touches_one_row_however_many_there_are(
    opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a change, in statements run and objects encoded, with 10 and with 1,000 pods."""
    statements: list[str] = []

    def traced(path: str) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr("podtui.store.database.connect", traced)
    store = opened()
    costs: list[tuple[int, int]] = []
    encoded: list[object] = []
    real = msgspec.json.encode
    monkeypatch.setattr(msgspec.json, "encode", lambda item: (encoded.append(item), real(item))[1])
    for count in (10, 1000):
        await fill(store, count)
        encoded.clear()
        statements.clear()
        await store.put("pods", pod("p005", phase=f"with {count}"))
        await store.flush()
        costs.append((len(statements), len(encoded)))
    assert costs[0] == costs[1]
    assert costs[0][1] == 1


def test_connections_are_wal(tmp_path: Path) -> None:
    connection = connect(str(tmp_path / "x.db"))
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
