"""The thread that writes the records: it survives every error and answers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from podtui.api.v1 import ConfigMap, ObjectMeta
from podtui.errors import PodtuiError
from podtui.store import Store
from podtui.store.database import Writer

UNENCODABLE = "caf\udce9"


def config_map(name: str, value: str = "v") -> ConfigMap:
    meta = ObjectMeta(name=name, namespace="default")
    return ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=meta, data={"k": value})


async def names_after_restart(opened: Callable[..., Store], store: Store) -> list[str]:
    await store.close()
    return [item.metadata.name for item in (await opened().list("configmaps")).items]


@pytest.mark.parametrize(
    "broken",
    [config_map(UNENCODABLE), config_map("b", UNENCODABLE), config_map("b", object())],  # type: ignore[arg-type]
    ids=["a name", "a value", "a type"],
)
async def test_a_record_that_cannot_be_written_does_not_keep_others_from_the_file(
    broken: ConfigMap, opened: Callable[..., Store]
) -> None:
    store = opened()
    await store.put("configmaps", config_map("a"))
    await store.put("configmaps", broken)
    await store.put("configmaps", config_map("c"))
    name = ascii(broken.metadata.name)[1:-1].replace("\\", "\\\\")
    with pytest.raises(PodtuiError, match=f"configmaps/default/{name} cannot be written"):
        await store.flush()
    await store.flush(("configmaps", "default", "a"))
    with pytest.raises(PodtuiError, match="cannot be written"):
        await store.flush(("configmaps", "default", broken.metadata.name))
    await store.put("configmaps", config_map("d"))
    await store.flush(("configmaps", "default", "d"))
    assert "cannot be written" in store.problem()
    assert await names_after_restart(opened, store) == ["a", "c", "d"]


async def test_a_record_that_was_corrected_is_no_problem_any_more(
    opened: Callable[..., Store],
) -> None:
    store = opened()
    await store.put("configmaps", config_map("a", UNENCODABLE))
    with pytest.raises(PodtuiError):
        await store.flush()
    await store.put("configmaps", config_map("a"))
    await store.flush()
    assert store.problem() == ""
    assert await names_after_restart(opened, store) == ["a"]


async def test_the_writer_survives_any_error_of_a_commit(
    opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtui.store.database.RETRY_SECONDS", 0.01)
    store = opened()

    def failing(*_: object) -> None:
        raise ZeroDivisionError("not foreseen")

    with monkeypatch.context() as patch:
        patch.setattr("podtui.store.database.write", failing)
        await store.put("configmaps", config_map("a"))
        with pytest.raises(PodtuiError, match="not foreseen"):
            await store.flush()
        assert "not foreseen" in store.problem()
    await store.flush()
    assert store.problem() == ""
    assert await names_after_restart(opened, store) == ["a"]


async def test_a_failed_commit_is_a_problem_until_it_succeeds(
    opened: Callable[..., Store], full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    store = opened()
    await store.flush()
    with full_disk():
        await store.put("configmaps", config_map("a"))
        with pytest.raises(PodtuiError, match="full"):
            await store.flush()
        assert store.problem() == "the records cannot be written: disk full"
    await store.flush()
    assert store.problem() == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_dead_thread_is_a_problem_and_answers(
    opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    assert store.problem() == ""

    def ending(self: Writer) -> bool:
        raise SystemExit

    monkeypatch.setattr(Writer, "_step", ending)
    # The running step still writes this one.
    await store.put("configmaps", config_map("a"))
    await store.flush()
    for _ in range(2):
        with pytest.raises(PodtuiError, match=r"no longer written|has ended"):
            await store.flush()
    assert "has ended" in store.problem()


def _overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(range(256)) * 200)


def _removed(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()


@pytest.mark.parametrize("damage", [_overwritten, _removed])
async def test_a_file_that_is_damaged_while_it_is_open_is_replaced_without_loss(
    damage: Callable[[Path], None],
    opened: Callable[..., Store],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "records.db"
    store = opened()
    for number in range(300):
        await store.put("configmaps", config_map(f"c{number:03}"))
    await store.flush()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(path)
    await store.put("configmaps", config_map("later"))
    await store.delete("configmaps", "default", "c007")
    await store.flush()
    assert store.problem() == ""
    assert "all records are written to a new file" in caplog.text
    expected = {f"c{number:03}" for number in range(300)} - {"c007"} | {"later"}
    assert set(await names_after_restart(opened, store)) == expected


@pytest.mark.parametrize("step", ["_create_private", "connect", "_check"])
async def test_a_new_file_that_cannot_be_made_is_tried_again(
    step: str, opened: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtui.store.database.RETRY_SECONDS", 0.01)
    path = tmp_path / "records.db"
    store = opened()
    await store.put("configmaps", config_map("a"))
    await store.flush()

    def failing(_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"podtui.store.database.{step}", failing)
        _removed(path)
        await store.put("configmaps", config_map("b"))
        for _ in range(5):
            with pytest.raises(PodtuiError, match="No space left"):
                await store.flush()
        assert "No space left" in store.problem()
    await store.flush()
    assert store.problem() == ""
    assert not [one for one in os.listdir(tmp_path) if ".damaged-" in one]
    assert await names_after_restart(opened, store) == ["a", "b"]
