"""Whatever a damaged file raises, it is set aside, and the store opens."""

from __future__ import annotations

import logging
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from examples import examples

from podtui.api.objects import Object
from podtui.api.v1 import ConfigMap, Event, Node, ObjectMeta, ObjectReference, Secret
from podtui.errors import PodtuiError
from podtui.store import Store
from podtui.store.database import load
from podtui.store.usage import UsageRow, UsageTable
from soak.damage import KINDS, damage, write_and_reopen

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default")


def objects() -> list[Object]:
    reference = ObjectReference(kind="Pod", name="web")
    return [
        *(ConfigMap(metadata=meta(f"c{number}"), data={"k": "v" * 50}) for number in range(20)),
        *(Secret(metadata=meta(f"s{number}"), data={"k": b"v"}) for number in range(5)),
        *(Event(metadata=meta(f"e{number}"), involvedObject=reference) for number in range(20)),
        Node(metadata=ObjectMeta(name="n1")),
    ]


@pytest.fixture
async def filled(opened: Callable[..., Store], tmp_path: Path) -> Path:
    """Return a records file with records of several kinds and usage rows."""
    store = opened()
    for item in objects():
        resource = {
            ConfigMap: "configmaps", Secret: "secrets", Event: "events", Node: "nodes"
        }[type(item)]  # fmt: skip
        await store.put(resource, item)  # type: ignore[arg-type]
    await store.close()
    path = tmp_path / "records.db"
    UsageTable(str(path)).write([UsageRow(1, 60 * n, b"row" * n) for n in range(50)], {})
    return path


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def content(path: Path) -> bytes:
    return path.read_bytes()


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def asides(path: Path) -> list[Path]:
    return sorted(path.parent.glob("records.db.damaged-*"))


async def test_the_first_create_statement_with_an_invalid_byte(
    filled: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture
) -> None:
    overwrite(filled, content(filled).index(b"resource TEXT NOT NULL"), b"\xe9")
    store = opened()
    assert "was unusable" in store.recovered
    assert store.recovered in caplog.text
    assert len(asides(filled)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = 'abc'",
        "UPDATE meta SET value = x'00'",
        "UPDATE meta SET value = -1 WHERE key = 'rv'",
        f"UPDATE meta SET value = {2**63 - 1} WHERE key = 'rv'",
        "UPDATE meta SET value = 1.5 WHERE key = 'rv'",
        "UPDATE sqlite_master SET sql = replace(sql, 'rv INTEGER', 'rx INTEGER')",
        "UPDATE sqlite_master SET sql = replace(sql, 'level', 'lEvel')",
        "UPDATE sqlite_master SET sql = replace(sql, 'level', CAST(x'e9' AS TEXT))",
    ],
)
async def test_a_damaged_counter_or_definition_sets_the_file_aside(
    statement: str, filled: Path, opened: Callable[..., Store]
) -> None:
    execute(filled, statement)
    store = opened()
    assert "was unusable" in store.recovered
    assert len(asides(filled)) == 1
    await store.put("configmaps", ConfigMap(metadata=meta("new")))
    await store.flush()


@pytest.mark.parametrize(
    "change",
    [
        "rv = 'abc'",
        "rv = -1",
        f"rv = {2**63 - 1}",
        "written = 'abc'",
        "written = 9e999",
        "data = x'ff'",
        "data = 1",
        "data = '[' || hex(zeroblob(9)) || ']'",
        "data = CAST(replace(CAST(data AS TEXT), 'vvv', CAST(x'e9' AS TEXT)) AS BLOB)",
        "name = CAST(x'63e9' AS TEXT)",
        "name = 'other'",
        "namespace = x'00'",
    ],
)
async def test_one_damaged_record_is_dropped_and_a_copy_of_the_file_kept(
    change: str, filled: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture
) -> None:
    execute(filled, f"UPDATE records SET {change} WHERE name = 'c7'")
    with caplog.at_level(logging.WARNING):
        store = opened()
    names = {item.metadata.name for item in (await store.list("configmaps")).items}
    assert names == {f"c{number}" for number in range(20)} - {"c7"}
    assert "dropped unreadable records: configmaps/" in store.recovered
    assert store.recovered in caplog.text
    (copy,) = asides(filled)
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (46,)
    await store.close()
    assert opened().recovered == ""


async def test_a_header_that_makes_the_file_read_only_sets_it_aside(
    filled: Path, opened: Callable[..., Store]
) -> None:
    overwrite(filled, 18, b"\x09")
    store = opened()
    await store.put("configmaps", ConfigMap(metadata=meta("new")))
    await store.flush()
    assert len(asides(filled)) == 1


def test_a_directory_in_place_of_the_file_is_refused_not_set_aside(tmp_path: Path) -> None:
    (tmp_path / "records.db").mkdir()
    with pytest.raises(PodtuiError):
        load(str(tmp_path / "records.db"), NOW)
    assert asides(tmp_path / "records.db") == []


def test_every_kind_of_damage_is_tried() -> None:
    assert {kind.__name__ for kind in KINDS} >= {"value", "definition", "anywhere"}


async def test_files_that_are_damaged_at_random_places_are_opened(
    filled: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(20)
    for number in range(examples(150).max_examples):
        folder = tmp_path_factory.mktemp("damaged")
        path = folder / "records.db"
        shutil.copy(filled, path)
        kind = damage(path, number, chance)
        try:
            await write_and_reopen(path)
        except Exception as error:
            raise AssertionError(f"{number}: {kind}") from error
        shutil.rmtree(folder)
