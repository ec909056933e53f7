"""Damage a records file: bytes anywhere, and each table, column and definition in it. The file must
still be opened, or be set aside."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from podtui.api.v1 import ConfigMap, ObjectMeta
from podtui.clock import SystemClock
from podtui.store import open_store
from podtui.store.usage import UsageRow, UsageTable

COLUMNS: Final = {
    "records": ("resource", "namespace", "name", "rv", "written", "data"),
    "meta": ("key", "value"),
    "usage_rows": ("level", "at", "data"),
}
_VALUES: Final = (
    "NULL", "''", "'text'", "-1", "0", "9223372036854775807", "1e999", "-1e999", "0.5", "x''",
    "x'00ff'", "CAST(x'e9' AS TEXT)", "CAST(x'eda080' AS TEXT)", "zeroblob(5000)", "'../../up'",
    "{column} || 'x'", "substr({column}, 2)", "CAST({column} AS BLOB)",
    "replace({column}, 'a', CAST(x'ff' AS TEXT))", "'{{}}'", "'[[[[[['", "'{{\"metadata\": 1}}'",
)  # fmt: skip
Damage = Callable[[Path, random.Random], str]


def damage(path: Path, number: int, chance: random.Random) -> str:
    """Damage the file in the way of this number. Return what was done."""
    return KINDS[number % len(KINDS)](path, chance)


def anywhere(path: Path, chance: random.Random) -> str:
    """Change one to 64 bytes at one place."""
    offset = chance.randrange(path.stat().st_size)
    data = chance.randbytes(chance.choice((1, 1, 2, 8, 64)))
    _overwrite(path, offset, data)
    return f"{data.hex()} at {offset}"


def header(path: Path, chance: random.Random) -> str:
    """Change one byte of the file's header or of a page's header."""
    size = path.stat().st_size
    offset = chance.choice((0, chance.randrange(size // 4096 or 1) * 4096)) + chance.randrange(108)
    value = chance.choice((0, 1, 3, 0x7F, 0xFF, chance.randrange(256)))
    _overwrite(path, min(offset, size - 1), bytes([value]))
    return f"{value:#x} at {offset}"


def definition(path: Path, chance: random.Random) -> str:
    """Change one byte of a CREATE statement."""
    data = path.read_bytes()
    statements = [b"CREATE TABLE records", b"CREATE TABLE meta", b"CREATE TABLE usage_rows"]
    found = [at for text in statements if (at := data.find(text)) >= 0]
    if not found:
        return anywhere(path, chance)
    offset = chance.choice(found) + chance.randrange(90)
    value = chance.choice((0, 0x20, 0xE9, 0xFF, chance.randrange(256)))
    _overwrite(path, offset, bytes([value]))
    return f"{value:#x} at {offset}"


def value(path: Path, chance: random.Random) -> str:
    """Change the values of one column, in one row or in all."""
    table = chance.choice(sorted(COLUMNS))
    column = chance.choice(COLUMNS[table])
    text = chance.choice(_VALUES).format(column=column)
    where = chance.choice(("", " WHERE rowid % 7 = 3", " WHERE rowid = 1"))
    return _execute(path, f"UPDATE OR REPLACE {table} SET {column} = {text}{where}")


def structure(path: Path, chance: random.Random) -> str:
    """Remove or change a table, its rows or a version number."""
    table = chance.choice(sorted(COLUMNS))
    column = chance.choice(COLUMNS[table])
    statements = (
        f"DROP TABLE {table}",
        f"DELETE FROM {table}",
        f"ALTER TABLE {table} RENAME TO other",
        f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
        f"ALTER TABLE {table} ADD COLUMN other",
        "PRAGMA user_version = 77",
        "PRAGMA user_version = 0",
        "PRAGMA encoding = 'UTF-16'",
        f"UPDATE sqlite_master SET sql = NULL WHERE name = '{table}'",
        f"UPDATE sqlite_master SET rootpage = 9999 WHERE name = '{table}'",
        f"UPDATE sqlite_master SET rootpage = 1 WHERE name = '{table}'",
    )
    return _execute(path, chance.choice(statements))


def size(path: Path, chance: random.Random) -> str:
    """Cut, extend, empty, replace or remove the file, or blank one of its pages."""
    length = path.stat().st_size
    at = chance.randrange(length)
    match chance.randrange(6):
        case 0:
            os.truncate(path, at)
            return f"cut at {at}"
        case 1:
            path.write_bytes(path.read_bytes() + chance.randbytes(5000))
            return "extended"
        case 2:
            path.write_bytes(b"")
            return "emptied"
        case 3:
            path.write_bytes(chance.randbytes(8192))
            return "replaced"
        case 4:
            path.unlink()
            return "removed"
        case _:
            _overwrite(path, at // 4096 * 4096, bytes(4096))
            return f"blank page at {at // 4096 * 4096}"


KINDS: Final[tuple[Damage, ...]] = (
    anywhere, value, header, value, definition, anywhere, structure, value, size, anywhere
)  # fmt: skip


async def write_and_reopen(path: Path) -> None:
    """Open a damaged file as an agent does, write to it, and open it again. Raises AssertionError
    if that is not kept."""
    clock = SystemClock()
    usage = UsageTable(str(path))
    store = open_store(str(path), clock=clock)
    try:
        usage.load()
        await store.put("configmaps", ConfigMap(metadata=ObjectMeta(name="new", namespace="soak")))
        await store.flush()
        usage.write([UsageRow(1, 1, b"")], {})
        assert store.problem() == ""
    finally:
        await store.close()
    again = open_store(str(path), clock=clock)
    try:
        assert again.recovered == ""
        assert await again.get("configmaps", "soak", "new") is not None
    finally:
        await again.close()


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _execute(path: Path, statement: str) -> str:
    # The statement may be impossible, for example because of a constraint.
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=1)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)
        connection.commit()
    return statement
