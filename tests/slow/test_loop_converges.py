"""After any order of events, the engine finally runs the pods of the folder."""

from __future__ import annotations

import asyncio
from typing import Any

from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from kubelet_world import World, container, pod
from virtual_time import run_virtual

from podtui.api.v1 import Pod
from podtui.errors import EngineConflict, EngineError, EngineUnavailable
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import ContainerConfig, ContainerState

NAMES = ("a", "b", "c")
VERBS = (
    "run_sandbox",
    "create_container",
    "start_container",
    "stop_container",
    "stop_sandbox",
    "remove_sandbox",
    "remove_container",
    "remove_pod_data",
    "container_status",
    "sandbox_status",
    "pull_image",
    "list",
)
ERRORS = (EngineError("failed"), EngineUnavailable("gone"), EngineConflict("taken"))

pauses = st.sampled_from([0.0, 0.0, 0.05, 0.3, 1.0, 4.0, 15.0, 70.0])
steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 2)),
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 2)),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("kill"), st.integers(0, 20), st.sampled_from([0, 1, 137])),
    st.tuples(st.just("kill sandbox"), st.integers(0, 20)),
    st.tuples(st.just("remove container"), st.integers(0, 20)),
    st.tuples(st.just("stop engine"), st.booleans()),
    st.tuples(st.just("start engine")),
    st.tuples(st.just("fail"), st.sampled_from(VERBS), st.sampled_from(ERRORS)),
    st.tuples(st.just("drop events"), st.booleans()),
    st.tuples(st.just("restart kubelet")),
)


def version(name: str, number: int) -> Pod:
    """Return a version of the pod; version 2 has an init container. Versions differ by UID."""
    containers = (container("x"), container("y", image=f"image{number}:1"))
    init = (container("i"),) if number == 2 else ()
    return pod(name, f"{name}-{number}", *containers, init=init, grace=5)


def behave(config: ContainerConfig) -> Behaviour:
    if config.name == "i":
        return Behaviour(exit_after=0.5)
    if config.name == "y":
        return Behaviour(ignores_term=config.pod_name == "b", term_after=1.0)
    return Behaviour()


class Watch:
    """Checks states that must never occur."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counts: dict[tuple[str, str, str], int] = {}
        self.broken: list[str] = []
        self._wrap_engine()
        self._wrap_store()

    def _wrap_engine(self) -> None:
        run_sandbox = self.world.engine.run_sandbox

        def checked(root: str, config: Any) -> Any:
            cell = run_sandbox(root, config)
            names = [(s.namespace, s.name) for s in self.world.sandboxes()]
            if len(names) != len(set(names)):
                self.broken.append(f"two sandboxes of one name: {names}")
            return cell

        self.world.engine.run_sandbox = checked  # type: ignore[method-assign]

    def _wrap_store(self) -> None:
        put, delete = self.world.store.put, self.world.store.delete

        async def checked_put(resource: Any, item: Any) -> Any:
            if isinstance(item, Pod):
                self._check_counts(item)
            return await put(resource, item)

        async def checked_delete(resource: Any, namespace: str, name: str, *check: Any) -> bool:
            self.counts = {key: n for key, n in self.counts.items() if key[0] != name}
            return await delete(resource, namespace, name, *check)

        self.world.store.put = checked_put  # type: ignore[method-assign]
        self.world.store.delete = checked_delete  # type: ignore[method-assign]

    def _check_counts(self, item: Pod) -> None:
        for status in (*item.status.containerStatuses, *item.status.initContainerStatuses):
            key = (item.metadata.name, item.metadata.uid, status.name)
            before = self.counts.get(key, 0)
            if status.restartCount < before:
                self.broken.append(f"{key} went from {before} to {status.restartCount}")
            self.counts[key] = status.restartCount


async def play_and_check(script: list[tuple[tuple[Any, ...], float]]) -> None:
    world = World(behave=behave, start_delay=0.2, pull_delay=0.5)
    watch = Watch(world)
    async with world.running():
        for step, pause in script:
            await perform(world, step)
            await asyncio.sleep(pause)
        world.engine.faults.clear()
        world.runtime.start_engine()
        await asyncio.sleep(900.0)
        assert not watch.broken
        wanted = set(world.pods)
        ready = world.sandboxes()
        assert sorted(s.uid for s in ready) == sorted(wanted)
        everything = {s.uid for s in world.sandboxes(ready=False)}
        assert everything == wanted
        for uid in wanted:
            running = sorted(c.name for c in world.running_containers(uid))
            assert running == ["x", "y"], (uid, world.containers(uid))
            dead = [c for c in world.containers(uid) if c.state is not ContainerState.RUNNING]
            assert len(dead) <= 3
        assert {c.pod_uid for c in world.containers()} == wanted
        records = (await world.store.list("pods")).items
        assert {r.metadata.uid for r in records} == wanted
        for record in records:
            assert isinstance(record, Pod)
            assert record.status.phase == "Running"
            assert all(status.ready for status in record.status.containerStatuses)
            assert record.metadata.deletionTimestamp is None
        for uid in wanted:
            assert world.engine.pods("memory", uid)
        assert len(world.engine.pods("memory", None)) == len(wanted)


async def perform(world: World, step: tuple[Any, ...]) -> None:
    match step:
        case ("write", name, number):
            for uid in [uid for uid in world.pods if uid.startswith(f"{name}-")]:
                del world.pods[uid]
            world.add(version(name, number))
        case ("remove", name):
            world.remove(*[uid for uid in world.pods if uid.startswith(f"{name}-")])
        case ("kill", index, code):
            running = world.running_containers()
            if running:
                world.runtime.kill(running[index % len(running)].id, code)
        case ("kill sandbox", index):
            cells = [c for c in world.engine.sandboxes.values() if c.ready]
            if cells:
                world.engine.stop_sandbox(cells[index % len(cells)])
        case ("remove container", index):
            cells = list(world.engine.containers.values())
            if cells:
                world.engine.remove_container(cells[index % len(cells)])
        case ("stop engine", die):
            world.runtime.stop_engine(containers_die=die)
        case ("start engine",):
            world.runtime.start_engine()
        case ("fail", verb, error):
            world.engine.faults.fail(verb, error)
        case ("drop events", dropped):
            world.engine.faults.drop_events = dropped
        case ("restart kubelet",):
            await world.stop_kubelet()
            await world.start_kubelet()
        case _:
            raise AssertionError(step)


@examples(60, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(st.lists(st.tuples(steps, pauses), max_size=25))
def test_any_order_of_events_converges(script: list[tuple[tuple[Any, ...], float]]) -> None:
    run_virtual(play_and_check(script), timeout=120.0)
