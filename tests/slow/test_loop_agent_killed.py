"""A kubelet that is killed at any of its engine calls: the next one adopts what exists.

Exactly one instance of each container runs, running instances are not replaced, and nothing is left
over. An instance that was created but never started counts as one that ran and is not started
later, as in a kubelet (kubelet.md §6.2, 6.5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from killable_world import KillableWorld, KillPoint, When
from kubelet_world import container, pod, with_env
from virtual_time import run_virtual

from podtui.api.v1 import ConfigMapVolumeSource, Pod, Volume, VolumeMount
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import ContainerConfig, ContainerState

Call = tuple[str, str]
UID: Final = "uid-web-n1"
PAUSE: Final = 20.0
LONG: Final = 70.0
"""Virtual seconds: long enough for a change to complete and for two garbage collections."""


def web() -> Pod:
    mounts = (VolumeMount(name="conf", mountPath="/conf"),)
    return pod(
        "web-n1",
        UID,
        container("a", volumeMounts=mounts),
        container("b", image="elsewhere:1"),
        container("crashing"),
        init=(container("i"),),
        volumes=(Volume(name="conf", configMap=ConfigMapVolumeSource(name="conf")),),
    )


def behave(config: ContainerConfig) -> Behaviour:
    if config.name == "i":
        return Behaviour(exit_after=0.5)
    return Behaviour(term_after=0.5)


async def started(world: KillableWorld) -> None:
    world.add(web())
    await world.until(world.runs(UID, 3))
    await world.sleep(5.0)


def begin(world: KillableWorld) -> None:
    world.add(web())


def edit(world: KillableWorld) -> None:
    world.replace(UID, with_env(web(), "new"))


def remove(world: KillableWorld) -> None:
    world.remove(UID)


def crash(world: KillableWorld) -> None:
    (found,) = [one for one in world.running_containers(UID) if one.name == "crashing"]
    world.runtime.kill(found.id, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """The actions, the UID of the final pod, and how often each of its containers ran, if more
    than once.
    """

    act: Callable[[KillableWorld], None]
    runs_before: bool = True
    wanted: str = UID
    again: Mapping[str, int] = field(default_factory=dict[str, int])


CHANGES: Final = {
    "start": Change(begin, runs_before=False),
    "edit": Change(edit, wanted="new"),
    "removal": Change(remove, wanted=""),
    "crash": Change(crash, again={"crashing": 2}),
}


async def play_and_check(change: Change, *deaths: KillPoint, deaf: bool = False) -> list[Call]:
    """Make the change, kill one kubelet after the other at ``deaths``, and check the final state.

    With ``deaf``, the first kubelet's writes to the records are lost. Returns all engine calls that
    the first kubelet made.
    """
    world = KillableWorld(behave=behave, start_delay=0.2, pull_delay=0.5)
    world.config_map("conf", key="value")
    async with world.running():
        if change.runs_before:
            await started(world)
        before = len(world.life.calls)
        world.life.deaf = deaf
        change.act(world)
        calls = world.life.calls
        for death in deaths:
            world.life.kill_at(death)
            await world.sleep(PAUSE)
            await world.next_kubelet()
        await world.sleep(LONG)
        await check(world, change)
    return calls[before:]


async def check(world: KillableWorld, change: Change) -> None:
    wanted = {change.wanted} - {""}
    assert [one.uid for one in world.sandboxes(ready=False)] == list(wanted), "one sandbox"
    assert {one.pod_uid for one in world.containers()} == wanted
    assert set(world.engine.pod_data("memory")) == wanted, "volumes are left over"
    records = (await world.store.list("pods")).items
    assert {one.metadata.uid for one in records} == wanted
    assert not [e for e in await world.events("web-n1") if e.type != "Normal"]
    for uid in wanted:
        assert sorted(one.name for one in world.running_containers(uid)) == ["a", "b", "crashing"]
        over = [c.name for c in world.containers(uid) if c.state is not ContainerState.RUNNING]
        assert max(Counter(over).values()) == 1, f"dead instances are left over: {over}"
        begun = {name: count for (owner, name), count in world.begun.items() if owner == uid}
        assert begun == {"i": 1, "a": 1, "b": 1, "crashing": 1} | change.again
        status = await world.status()
        assert status.phase == "Running"
        for one in (*status.initContainerStatuses, *status.containerStatuses):
            assert one.ready
            assert one.restartCount == world.made[uid, one.name] - 1
    assert world.pulled == {"elsewhere:1": 1}


def lives(change: Change) -> list[Call]:
    """Return the calls of a kubelet that is not killed."""
    calls = run_virtual(play_and_check(change))
    assert len(calls) == len(set(calls)), "each of them is another"
    return calls


@pytest.mark.parametrize("deaf", [False, True], ids=["heard", "deaf"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_next_kubelet_continues_after_a_kill_at_any_call(change: Change, deaf: bool) -> None:
    calls = lives(change)
    for number, call in enumerate(calls):
        for when in When:
            death = KillPoint(number, when)
            try:
                seen = run_virtual(play_and_check(change, death, deaf=deaf))
            except AssertionError as error:
                error.add_note(f"killed {when} {call}, after {calls[:number]}")
                raise
            assert seen[: number + 1] == calls[: number + 1], "it died where it was to die"


def test_an_instance_that_never_ran_counts() -> None:
    """The count is one more than that of the newest instance, whatever its state:
    kubelet.md §6.5."""

    async def body() -> None:
        world = KillableWorld()
        async with world.running():
            world.life.kill_at(KillPoint(2, When.BEFORE))
            world.add(pod())
            await world.until(world.life.over.is_set)
            assert world.life.calls[2] == ("start_container", "c")
            await world.next_kubelet()
            await world.until(world.runs(UID))
            never, running = world.containers(UID)
            assert (never.state, never.attempt) == (ContainerState.CREATED, 0)
            assert (running.state, running.attempt) == (ContainerState.RUNNING, 1)
            await world.sleep(PAUSE)
            (status,) = (await world.status()).containerStatuses
            assert status.restartCount == 1
            assert status.lastState.terminated is None, "nothing ended"
            reasons = [e.reason for e in await world.events()]
            assert reasons.count("Started") == 1
            assert "BackOff" not in reasons

    run_virtual(body())


@examples(40)
@given(
    st.sampled_from(sorted(CHANGES)),
    st.lists(
        st.builds(KillPoint, st.integers(0, 9), st.sampled_from(When)), min_size=2, max_size=6
    ),
)
def test_the_last_kubelet_continues_after_many_kills(name: str, deaths: list[KillPoint]) -> None:
    run_virtual(play_and_check(CHANGES[name], *deaths))
