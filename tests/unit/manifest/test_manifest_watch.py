"""The thread that polls the folder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtui.manifest import watch as watch_module
from podtui.manifest.listing import folder_stamp
from podtui.manifest.watch import FolderWatch


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [OSError("gone"), TypeError("not foreseen")])
async def test_a_polling_thread_that_ends_is_replaced(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 0

    def polling(*_: object, **__: object) -> Iterator[set[tuple[int, str]]]:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise error
        yield {(2, str(tmp_path / "web.yaml"))}

    def refusing(*_: object) -> None:
        raise OSError("no watches left")

    monkeypatch.setattr(watch_module, "_KernelWatch", refusing)
    monkeypatch.setattr(watch_module, "watch", polling)
    watch = FolderWatch(str(tmp_path))
    stamp = folder_stamp(str(tmp_path))
    assert watch.follow(stamp, single=False)
    async with asyncio.timeout(120):
        changes = await watch.wait(100)
    assert changes is not None
    assert changes.lost
    assert watch.follow(stamp, single=False)
    async with asyncio.timeout(120):
        changes = await watch.wait(100)
    assert changes is not None
    assert set(changes.names) <= {"web.yaml"}
    assert runs == 2
    watch.close()
    # pytest reports the error of a thread that is still ending during the next test.
    for thread in threading.enumerate():
        if thread.name == "manifest-watch":
            await asyncio.to_thread(thread.join, 120)
