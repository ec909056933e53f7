"""The simulated engine stays consistent under any sequence of operations."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import VirtualClock, VirtualLoop, run_virtual

from podtui.errors import ContainerStartError, EngineError
from podtui.runtime.memory import Behaviour, MemoryEngine, MemoryRuntime
from podtui.runtime.memory.images import simulated_image
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerState,
    LogOptions,
    RuntimeEvent,
    SandboxConfig,
    SandboxState,
)

IMAGE = simulated_image("busybox:1")
BEHAVIOURS = {
    "runs": Behaviour(loop=("{n}",)),
    "ends": Behaviour(exit_after=3, exit_code=1),
    "slow": Behaviour(term_after=2),
    "deaf": Behaviour(ignores_term=True),
    "bad": Behaviour(start_error="no"),
    "full": Behaviour(exit_after=1, oom=True),
}
numbers = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("run"), numbers, numbers),
    st.tuples(st.just("create"), numbers, st.sampled_from(sorted(BEHAVIOURS)), numbers),
    st.tuples(st.just("start"), numbers),
    st.tuples(st.just("stop"), numbers, st.sampled_from([0.0, 1.0, 5.0])),
    st.tuples(st.just("abandoned stop"), numbers),
    st.tuples(st.just("remove"), numbers),
    st.tuples(st.just("stop sandbox"), numbers),
    st.tuples(st.just("remove sandbox"), numbers),
    st.tuples(st.just("crash"), numbers),
    st.tuples(st.just("engine"), st.booleans()),
    st.tuples(st.just("fail"), st.sampled_from(["start_container", "run_sandbox", "list"])),
    st.tuples(st.just("read"), numbers),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 2.0, 5000.0])),
)


kinds = st.lists(st.sampled_from(sorted(BEHAVIOURS)), min_size=1, max_size=5, unique=True)
histories = st.lists(steps, min_size=4, max_size=25)


class Machine:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.engine = MemoryEngine(
            clock=self.clock,
            images={"busybox:1": IMAGE},
            behave=lambda config: BEHAVIOURS[config.name],
        )
        self.runtime = MemoryRuntime(clock=self.clock, engine=self.engine)
        self.containers: list[str] = []
        self.sandboxes: list[str] = []

    async def begin(self, names: list[str]) -> None:
        """Start two pods with a container of each name, for the steps to act on."""
        for pod in range(2):
            await self.step("run", pod, 0)
            for name in names:
                await self.step("create", pod, name, 0)
                with contextlib.suppress(ContainerStartError):
                    await self.runtime.start_container(self.containers[-1])

    async def step(self, what: str, *arguments: Any) -> None:
        runtime = self.runtime
        match what, arguments:
            case "run", (pod, attempt):
                config = SandboxConfig(name="p", namespace="d", uid=f"u{pod}", attempt=attempt)
                self.sandboxes.append((await runtime.run_sandbox(config)).id)
            case "create", (pod, name, attempt):
                config = ContainerConfig(
                    name=name,
                    attempt=attempt,
                    image="busybox:1",
                    image_id=IMAGE.id,
                    pod_name="p",
                    pod_namespace="d",
                    pod_uid=f"u{pod}",
                )
                (sandbox, *_) = (await runtime.list(f"u{pod}")).sandboxes or (None,)
                if sandbox is not None:
                    made = await runtime.create_container(sandbox.id, config)
                    self.containers.append(made.id)
            case "start", (index,) if self.containers:
                await runtime.start_container(self._container(index))
            case "stop", (index, grace) if self.containers:
                before = self.clock.monotonic()
                await runtime.stop_container(self._container(index), grace)
                assert self.clock.monotonic() - before <= grace + 1e-6
            case "abandoned stop", (index,) if self.containers:
                async with asyncio.timeout(0.5):
                    await runtime.stop_container(self._container(index), 30)
            case "remove", (index,) if self.containers:
                await runtime.remove_container(self._container(index))
            case "stop sandbox", (index,) if self.sandboxes:
                await runtime.stop_sandbox(self.sandboxes[index % len(self.sandboxes)])
            case "remove sandbox", (index,) if self.sandboxes:
                await runtime.remove_sandbox(self.sandboxes[index % len(self.sandboxes)])
            case "crash", (index,) if self.containers:
                runtime.kill(self._container(index), 9)
            case "engine", (die,):
                runtime.stop_engine(containers_die=die)
                runtime.start_engine()
            case "fail", (verb,):
                runtime.faults.fail(verb, EngineError("on order"))
            case "read", (index,) if self.containers:
                batches = runtime.logs(self._container(index), LogOptions())
                stamps = [line.timestamp async for lines in batches for line in lines]
                assert stamps == sorted(stamps)
            case "wait", (seconds,):
                await self.clock.sleep(seconds)
            case _:
                pass

    def _container(self, index: int) -> str:
        return self.containers[index % len(self.containers)]

    async def check(self) -> None:
        snapshot = await self.runtime.list()
        sandboxes = {record.id: record for record in snapshot.sandboxes}
        names = Counter((c.pod_uid, c.name, c.attempt) for c in snapshot.containers)
        assert all(count == 1 for count in names.values())
        running = set[str]()
        for record in snapshot.containers:
            sandbox = sandboxes[record.sandbox_id]
            status = await self.runtime.container_status(record.id)
            assert status.record == record
            alive = record.state is ContainerState.RUNNING
            assert alive == (status.pid is not None)
            assert (status.finished_at is not None) == (record.state is ContainerState.EXITED)
            assert bool(status.reason) == (record.state is ContainerState.EXITED)
            if alive:
                running.add(record.id)
                assert sandbox.state is SandboxState.READY
        addresses = [
            (await self.runtime.sandbox_status(s.id)).ips
            for s in snapshot.sandboxes
            if s.state is SandboxState.READY
        ]
        assert len(set(addresses)) == len(addresses)
        ids = [record.id for record in snapshot.containers]
        assert (await self.runtime.stats(ids)).keys() == running


@examples(150)
@given(kinds, histories)
def test_the_state_stays_consistent(names: list[str], script: list[tuple[Any, ...]]) -> None:
    async def body() -> None:
        machine = Machine()
        await machine.begin(names)
        for what, *arguments in script:
            with contextlib.suppress(EngineError, TimeoutError):
                await machine.step(what, *arguments)
            with contextlib.suppress(EngineError):
                await machine.check()
        machine.runtime.faults.clear()
        for sandbox in (await machine.runtime.list()).sandboxes:
            await machine.runtime.remove_sandbox(sandbox.id)
        left = await machine.runtime.list()
        assert (left.sandboxes, left.containers) == ((), ())
        await machine.clock.sleep(10)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        assert not loop.pending_timers()

    run_virtual(body())


@examples(50)
@given(kinds, histories)
def test_events_describe_every_change(names: list[str], script: list[tuple[Any, ...]]) -> None:
    """Every start is followed by a die before the destroy, when no event is lost."""

    async def body() -> list[RuntimeEvent]:
        machine = Machine()
        seen: list[RuntimeEvent] = []

        async def collect() -> None:
            async for event in machine.runtime.events():
                seen.append(event)  # noqa: PERF401 - read while it grows

        async with asyncio.TaskGroup() as group:
            task = group.create_task(collect())
            await asyncio.sleep(0)
            await machine.begin(names)
            for what, *arguments in script:
                if what == "engine":
                    continue
                with contextlib.suppress(EngineError, TimeoutError):
                    await machine.step(what, *arguments)
            machine.runtime.faults.clear()
            for sandbox in (await machine.runtime.list()).sandboxes:
                await machine.runtime.remove_sandbox(sandbox.id)
            await machine.clock.sleep(1)
            task.cancel()
        return seen

    actions = Counter(event.action for event in run_virtual(body()))
    assert actions["start"] == actions["die"]
    assert actions["create"] == actions["destroy"]
