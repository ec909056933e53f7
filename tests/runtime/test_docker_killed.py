"""An agent that is killed between two calls of the engine, and the sandbox that the next one makes.

What a kubelet makes of containers that are half made: ``tests/kubelet/test_loop_killed.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract.bench import Bench

from podtui.runtime.docker.calls import CALL_SECONDS, Calls
from podtui.runtime.protocol import Mount, PodVolume, SandboxState, VolumeFile

pytestmark = pytest.mark.engine
VOLUMES = (
    PodVolume(name="plain"),
    PodVolume(name="group", mode=0o2770, gid=7),
    PodVolume(name="memory", memory=True),
    PodVolume(
        name="files",
        files=(
            VolumeFile(path="..a/one", content=b"1\n"),
            VolumeFile(path="..data", target="..a"),
            VolumeFile(path="one", target="..data/one"),
        ),
    ),
)
CALLS = 5
"""The pod's volume, the one in memory, the container, its files, its start."""
LOOK = "stat -c '%n %a %g' /plain /group /memory /files; cat /files/one"
SHOWN = ["/plain 777 0", "/group 2770 7", "/memory 777 0", "/files 777 0", "1"]


class Killed(BaseException):
    """Not an exception that anybody could clear up after."""


class Cut:
    """Lets ``left`` calls of the engine through."""

    def __init__(self, left: int, run: Callable[..., Any]) -> None:
        self.left = left
        self._run = run

    async def run(self, calls: Calls, call: Any, *, timeout: float = CALL_SECONDS) -> Any:
        if self.left == 0:
            raise Killed
        self.left -= 1
        return await self._run(calls, call, timeout=timeout)


@pytest.mark.parametrize("done", range(CALLS))
async def test_the_next_sandbox_has_all_that_it_needs(
    docker_bench: Bench, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    mortal = await docker_bench.open(docker_bench.root)
    cut = Cut(done, Calls.run)
    with monkeypatch.context() as patch:
        patch.setattr(Calls, "run", lambda calls, call, **kw: cut.run(calls, call, **kw))
        with pytest.raises(Killed):
            await mortal.run_sandbox(docker_bench.sandbox_config(volumes=VOLUMES))
    left = (await docker_bench.runtime.list()).sandboxes
    assert [one.state for one in left] == [SandboxState.NOT_READY] * (done > 2)
    sandbox = await docker_bench.sandbox(len(left), volumes=VOLUMES)
    for one in left:
        await docker_bench.runtime.remove_sandbox(one.id)
    mounts = tuple(Mount(container_path=f"/{v.name}", volume=v.name) for v in VOLUMES)
    assert await docker_bench.run(sandbox, LOOK, mounts=mounts) == (0, SHOWN)


async def test_those_are_all_the_calls(
    docker_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(100, Calls.run)
    with monkeypatch.context() as patch:
        patch.setattr(Calls, "run", lambda calls, call, **kw: cut.run(calls, call, **kw))
        await docker_bench.sandbox(volumes=VOLUMES)
    assert 100 - cut.left == CALLS
