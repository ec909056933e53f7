"""Upgrades and downgrades: docs/reliability.md."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from podtui import __version__
from podtui.api.v1 import ConfigMap, ObjectMeta
from podtui.errors import PodtuiError
from podtui.store import Store
from podtui.store.database import SCHEMA_VERSION, load

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


@pytest.fixture
async def path(opened: Callable[..., Store], tmp_path: Path) -> Path:
    """Return a records file with one ConfigMap."""
    store = opened()
    await store.put("configmaps", config_map("a"))
    await store.close()
    return tmp_path / "records.db"


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def written_by(path: Path, version: str, schema: int = SCHEMA_VERSION) -> None:
    execute(
        path,
        f"UPDATE meta SET value = '{version}' WHERE key = 'podtui'",
        f"UPDATE meta SET value = {schema} WHERE key = 'schema'",
        f"PRAGMA user_version = {schema}",
    )


async def test_records_of_unknown_kinds_are_kept(
    path: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture
) -> None:
    values = "'widgets', 'default', 'web', 7, 1.5, '{\"spec\": {}}'"
    execute(path, f"INSERT INTO records VALUES ({values})")
    for _ in range(2):
        with caplog.at_level(logging.WARNING):
            store = opened()
        assert "unknown kinds, which are kept: widgets (1)" in caplog.text
        assert store.recovered == ""
        await store.put("configmaps", config_map("b"))
        await store.delete("configmaps", "default", "b")
        await store.close()
    kept = rows(path, "SELECT * FROM records WHERE resource = 'widgets'")
    assert kept == [("widgets", "default", "web", 7, 1.5, '{"spec": {}}')]


async def test_versions_of_unknown_kinds_count(path: Path, opened: Callable[..., Store]) -> None:
    rv = 1 << 60
    values = f"'widgets', 'default', 'web', {rv}, 1.5, '{{}}'"
    execute(path, f"INSERT INTO records VALUES ({values})")
    stored = await opened().put("configmaps", config_map("b"))
    assert int(stored.metadata.resourceVersion) > rv


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    written_by(path, "9.8.7", SCHEMA_VERSION + 1)
    before = path.read_bytes()
    with pytest.raises(PodtuiError) as refused:
        load(str(path), NOW)
    text = str(refused.value)
    assert f"was written by podtui 9.8.7 (schema version {SCHEMA_VERSION + 1})" in text
    assert "Start podtui 9.8.7 or newer" in text
    assert f"podtui {__version__} reads schema version {SCHEMA_VERSION}" in text
    assert "records.db.backup-" in text
    assert path.read_bytes() == before
    assert list(path.parent.glob("*.damaged-*")) == []


def test_a_version_that_only_the_header_has_is_damage(path: Path) -> None:
    execute(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    assert "was unusable" in load(str(path), NOW).recovered


def test_another_version_makes_a_copy_before_it_uses_the_file(path: Path) -> None:
    written_by(path, "0.0.9")
    loaded = load(str(path), NOW)
    assert [key[2] for key in loaded.rows] == ["a"]
    assert loaded.recovered == ""
    copy = path.with_name("records.db.backup-0.0.9")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert rows(copy, "SELECT value FROM meta WHERE key = 'podtui'") == [("0.0.9",)]
    assert rows(copy, "SELECT name FROM records") == [("a",)]
    assert rows(path, "SELECT value FROM meta WHERE key = 'podtui'") == [(__version__,)]
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name, copy.name]


def test_a_copy_can_take_the_place_of_the_file(path: Path) -> None:
    written_by(path, "0.0.9")
    load(str(path), NOW)
    execute(path, "DELETE FROM records")
    path.with_name("records.db.backup-0.0.9").replace(path)
    assert [key[2] for key in load(str(path), NOW, "0.0.9").rows] == ["a"]


def test_the_same_version_makes_no_copy(path: Path) -> None:
    for _ in range(2):
        load(str(path), NOW)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_file_is_not_used_if_the_copy_cannot_be_made(path: Path) -> None:
    written_by(path, "0.0.9")
    path.with_name("records.db.backup-0.0.9").mkdir()
    with pytest.raises(PodtuiError, match="cannot use the records file"):
        load(str(path), NOW)
    assert rows(path, "SELECT value FROM meta WHERE key = 'podtui'") == [("0.0.9",)]


@pytest.mark.parametrize("version", ["../../elsewhere", "a b", "", "x" * 99])
def test_a_damaged_version_names_no_file(version: str, path: Path) -> None:
    written_by(path, version)
    load(str(path), NOW)
    names = sorted(one.name for one in path.parent.iterdir())
    assert names == ["records.db", "records.db.backup-unknown"]
