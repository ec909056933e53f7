"""A store whose process is killed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

from podtui.clock import SystemClock
from podtui.store import open_store

KILLED = """
import asyncio, sys, json
from podtui.api.v1 import Container, ObjectMeta, Pod, PodSpec, PodStatus
from podtui.clock import SystemClock
from podtui.store import open_store

async def main():
    store = open_store(sys.argv[1], clock=SystemClock())
    for index in range(10**9):
        for name in ("a", "b", "c"):
            await store.put("pods", Pod(
                metadata=ObjectMeta(name=name, namespace="default"),
                spec=PodSpec(containers=(Container(name="c"),)),
                status=PodStatus(phase=str(index)),
            ))
        if index % 50 == 0:
            await store.flush()
            version = (await store.list("pods")).resource_version
            print(json.dumps([index, version]), flush=True)
        await asyncio.sleep(0)

asyncio.run(main())
"""


def kill_after(reports: int, path: Path) -> tuple[int, int]:
    """Start a writing process, kill it after ``reports`` flushes; return the last flushed state."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        for _ in range(reports):
            index, version = json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return index, version


@pytest.mark.parametrize("reports", [1, 3, 7])
async def test_opens_after_kill_with_all_that_was_flushed(reports: int, tmp_path: Path) -> None:
    index, version = await asyncio.to_thread(kill_after, reports, tmp_path / "records.db")
    store = open_store(str(tmp_path / "records.db"), clock=SystemClock())
    assert store.recovered == ""
    listing = await store.list("pods")
    assert [o.metadata.name for o in listing.items] == ["a", "b", "c"]
    assert all(int(o.status.phase) >= index for o in listing.items)
    assert listing.resource_version > version
    await store.close()
