"""The next sandbox after an agent is killed between two engine calls, or the engine during one.

Containers that are only partly created: ``tests/slow/test_loop_agent_killed.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from runtime_bench import Bench

from podtui.api.names import root_key
from podtui.runtime.docker.identity import volume_name
from podtui.runtime.docker.pause import PAUSE_IMAGE, SPARE_DIRECTORIES, SPARE_FILES
from podtui.runtime.docker.sdk import CALL_SECONDS, Calls
from podtui.runtime.docker.storage import TarEntry, tar_of
from podtui.runtime.protocol import Mount, PodVolume, SandboxState, VolumeFile

VOLUMES = (
    PodVolume(name="plain"),
    PodVolume(name="group", mode=0o2770, gid=7),
    PodVolume(name="memory", memory=True, mode=0o1777),
    PodVolume(
        name="files",
        files=(
            VolumeFile(path="..a/one", content=b"1\n"),
            VolumeFile(path="..data", target="..a"),
            VolumeFile(path="one", target="..data/one"),
        ),
    ),
)
CALLS = 6
"""The volume of the pod, the memory volume, the container, the holder of the memory, the
container's files, its start."""
STAT = "stat -c '%n %a %g' /plain /group /memory /files; cat /files/one"
SHOWN = ["/plain 777 0", "/group 2770 7", "/memory 1777 0", "/files 777 0", "1"]
MOUNTS = tuple(Mount(container_path=f"/{v.name}", volume=v.name) for v in VOLUMES)
FILLING = (
    TarEntry("t", 0o755),
    *(TarEntry(name, 0o666, content=b"") for name in SPARE_FILES),
    TarEntry("v", 0o755),
    *(TarEntry(name, 0o777) for name in SPARE_DIRECTORIES),
)
"""What the engine copies into a new volume, in its order; ``volumes`` is the last."""


class Killed(BaseException):
    """A base exception, so that no code handles it with clean-up."""


class CallLimit:
    """Lets ``left`` calls to the engine pass."""

    def __init__(self, left: int, run: Callable[..., Any]) -> None:
        self.left = left
        self._run = run

    async def run(self, calls: Calls, call: Any, *, timeout: float = CALL_SECONDS) -> Any:
        if self.left == 0:
            raise Killed
        self.left -= 1
        return await self._run(calls, call, timeout=timeout)


@pytest.mark.parametrize("done", range(CALLS))
async def test_a_sandbox_after_an_interrupted_start_is_complete(
    docker_bench: Bench, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    mortal = await docker_bench.open(docker_bench.root)
    cut = CallLimit(done, Calls.run)
    with monkeypatch.context() as patch:
        patch.setattr(Calls, "run", lambda calls, call, **kw: cut.run(calls, call, **kw))
        with pytest.raises(Killed):
            await mortal.run_sandbox(docker_bench.sandbox_config(volumes=VOLUMES))
    left = (await docker_bench.runtime.list()).sandboxes
    assert [one.state for one in left] == [SandboxState.NOT_READY] * (done > 2)
    sandbox = await docker_bench.sandbox(len(left), volumes=VOLUMES)
    for one in left:
        await docker_bench.runtime.remove_sandbox(one.id)
    assert await docker_bench.run(sandbox, STAT, mounts=MOUNTS) == (0, SHOWN)


@pytest.mark.parametrize("copied", [1, 9, 18, 19, len(FILLING)])
async def test_a_partly_filled_volume_is_completed(
    docker_bench: Bench, monkeypatch: pytest.MonkeyPatch, raw: Any, copied: int
) -> None:
    mortal = await docker_bench.open(docker_bench.root)
    cut = CallLimit(1, Calls.run)
    with monkeypatch.context() as patch:
        patch.setattr(Calls, "run", lambda calls, call, **kw: cut.run(calls, call, **kw))
        with pytest.raises(Killed):
            await mortal.run_sandbox(docker_bench.sandbox_config(volumes=VOLUMES))
    fill(raw, volume_name(root_key(docker_bench.root), docker_bench.uid), FILLING[:copied])
    sandbox = await docker_bench.sandbox(volumes=VOLUMES)
    assert await docker_bench.run(sandbox, STAT, mounts=MOUNTS) == (0, SHOWN)


def fill(raw: Any, volume: str, entries: tuple[TarEntry, ...]) -> None:
    """Write ``entries`` into a volume. The last is a directory whose mode was not set yet."""
    if entries[-1].content is None:
        entries = (*entries[:-1], replace(entries[-1], mode=0o755))
    mount = {
        "Type": "volume",
        "Source": volume,
        "Target": "/pod",
        "VolumeOptions": {"NoCopy": True},
    }
    config = {"Image": PAUSE_IMAGE, "HostConfig": {"Mounts": [mount]}}
    carrier = raw.create_container_from_config(config)["Id"]
    try:
        raw.put_archive(carrier, "/pod", tar_of(entries, 0))
    finally:
        raw.remove_container(carrier)


@pytest.mark.parametrize("attempt", [0, 1])
async def test_a_volume_in_use_keeps_owner_and_mode_set_by_a_container(
    docker_bench: Bench, attempt: int
) -> None:
    """The sandbox is created again, after its end or after a manual removal."""
    first = await docker_bench.sandbox(volumes=VOLUMES)
    change = "chmod 700 /plain; chown 7:7 /plain; echo kept > /plain/file"
    assert await docker_bench.run(first, change, mounts=MOUNTS) == (0, [])
    await docker_bench.runtime.remove_sandbox(first)
    second = await docker_bench.sandbox(attempt, volumes=VOLUMES)
    script = "stat -c '%a %g' /plain; cat /plain/file"
    assert await docker_bench.run(second, script, mounts=MOUNTS) == (0, ["700 7", "kept"])


async def test_every_engine_call_is_covered(
    docker_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = CallLimit(100, Calls.run)
    with monkeypatch.context() as patch:
        patch.setattr(Calls, "run", lambda calls, call, **kw: cut.run(calls, call, **kw))
        await docker_bench.sandbox(volumes=VOLUMES)
    assert 100 - cut.left == CALLS
