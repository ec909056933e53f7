"""The sizes of ReplicaSets: pure decisions, and whole rollouts in any order of events."""

from __future__ import annotations

import asyncio

import pytest
from deployment_world import DeploymentWorld, deployment, replica_set, rolling
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.apps import ReplicaSet
from podtui.controllers.deployment_status import is_complete
from podtui.controllers.pods import is_ready
from podtui.controllers.rollouts import (
    Change,
    Limits,
    first_size,
    is_scaled,
    limits,
    rolling_changes,
    scaling_changes,
    total,
)
from podtui.errors import ApiError


def named(changes: list[Change]) -> list[tuple[str, int]]:
    return [(item.metadata.name, size) for item, size in changes]


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, 3, 2, Limits(3, 2)),
        (10, "25%", "25%", Limits(3, 2)),  # Up and down.
        (1, "25%", "25%", Limits(1, 0)),
        (2, 0, "1%", Limits(0, 1)),  # Otherwise nothing could move.
        (3, "100%", "100%", Limits(3, 3)),
        (2, 5, 7, Limits(5, 2)),  # No more than all can be unavailable.
        (0, "25%", "25%", Limits(0, 0)),
    ],
)
def test_limits_are_numbers_or_shares(
    replicas: int, surge: int | str, unavailable: int | str, expected: Limits
) -> None:
    assert limits(deployment(replicas, strategy=rolling(surge, unavailable))) == expected


def test_recreate_has_no_limits() -> None:
    assert limits(deployment(3, strategy={"type": "Recreate"})) == Limits(0, 0)


def test_the_new_set_starts_with_the_room_that_the_old_ones_leave() -> None:
    item = deployment(10, strategy=rolling(3, 2))
    new = replica_set("new", 0)
    assert first_size(item, new, []) == 10
    assert first_size(item, new, [replica_set("old", 10)]) == 3
    assert first_size(item, new, [replica_set("old", 13)]) == 0


def test_the_new_set_grows_before_the_old_ones_shrink() -> None:
    item = deployment(10, strategy=rolling(3, 2))
    old = [replica_set("old", 10, 10)]
    assert named(rolling_changes(item, replica_set("new", 2, 2), old)) == [("new", 3)]
    # 13 pods, of which 8 must stay available: 3 new ones are not.
    assert named(rolling_changes(item, replica_set("new", 3, 0), old)) == [("old", 8)]
    assert named(rolling_changes(item, replica_set("new", 3, 3), old)) == [("old", 5)]


def test_a_new_set_that_is_too_large_shrinks() -> None:
    item = deployment(2)
    assert named(rolling_changes(item, replica_set("new", 5, 5), [])) == [("new", 2)]


def test_old_pods_that_are_not_available_are_given_up_first() -> None:
    item = deployment(10, strategy=rolling(3, 2))
    old = [replica_set("a", 4, 4, age=2), replica_set("b", 6, 3, age=1)]
    changes = rolling_changes(item, replica_set("new", 3, 3), old)
    # 3 unhealthy ones of b; then 10 are available, 2 more than necessary.
    assert named(changes) == [("b", 3), ("a", 2)]


def test_pods_that_never_become_ready_stop_a_rollout() -> None:
    item = deployment(10, strategy=rolling(3, 2))
    assert rolling_changes(item, replica_set("new", 5, 0), [replica_set("old", 8, 8)]) == []


def test_a_status_that_is_older_than_its_size_does_not_count() -> None:
    item = deployment(3, strategy=rolling(1, 1))
    # An undo: the new set was scaled from 3 to 1, and its status still has 3 available pods.
    changes = rolling_changes(item, replica_set("new", 1, 3), [replica_set("old", 3, 2)])
    assert named(changes) == [("old", 2), ("old", 1)]


def test_a_scaled_deployment_is_one_whose_sets_were_computed_for_another_number() -> None:
    item = deployment(3)
    assert is_scaled(item, [replica_set("a", 2, desired_replicas="2")])
    assert not is_scaled(item, [replica_set("a", 3, desired_replicas="3")])
    assert not is_scaled(item, [replica_set("a", 0, desired_replicas="2")])
    assert not is_scaled(item, [replica_set("a", 2), replica_set("b", 1, desired_replicas="x")])


def test_a_single_set_takes_all_replicas() -> None:
    item = deployment(5)
    new = replica_set("new", 0)
    old = [replica_set("a", 0, age=2), replica_set("b", 0, age=1)]
    assert named(scaling_changes(item, new, [replica_set("old", 3)])) == [("old", 5)]
    assert named(scaling_changes(item, new, old)) == [("new", 5)]
    assert named(scaling_changes(item, None, old)) == [("b", 5)]
    assert scaling_changes(item, None, []) == []


def test_a_saturated_new_set_ends_the_old_ones() -> None:
    new = replica_set("new", 5, 5, desired_replicas="5")
    assert named(scaling_changes(deployment(5), new, [replica_set("old", 3)])) == [("old", 0)]


def test_each_set_keeps_its_share() -> None:
    """The example of the documentation of Deployments: from 10 to 15 replicas, 8 old and 5 new
    pods."""
    item = deployment(15, strategy=rolling(3, 2))
    sets = {"desired_replicas": "10", "max_replicas": "13"}
    old = [replica_set("old", 8, 8, age=1, **sets)]
    assert named(scaling_changes(item, replica_set("new", 5, **sets), old)) == [
        ("old", 11),
        ("new", 7),
    ]
    down = deployment(5, strategy=rolling(3, 2))
    assert named(scaling_changes(down, replica_set("new", 5, **sets), old)) == [
        ("old", 5),
        ("new", 3),
    ]
    none = deployment(0, strategy=rolling(3, 2))
    assert named(scaling_changes(none, replica_set("new", 5, **sets), old)) == [
        ("old", 0),
        ("new", 0),
    ]


def test_of_equal_sets_the_newest_grows_and_the_oldest_shrinks() -> None:
    sets = {"desired_replicas": "3", "max_replicas": "4"}
    new = replica_set("new", 2, **sets)
    old = [replica_set("old", 2, age=1, **sets)]
    assert named(scaling_changes(deployment(4), new, old)) == [("new", 3), ("old", 2)]
    assert named(scaling_changes(deployment(2), new, old)) == [("old", 1), ("new", 2)]


def test_a_set_without_a_valid_annotation_uses_the_status() -> None:
    item = deployment(9, strategy=rolling(0, 1))
    old = [replica_set("old", 2, age=1)]
    assert total(size_of(scaling_changes(item, replica_set("new", 1), old))) == 9


def size_of(changes: list[Change]) -> list[ReplicaSet]:
    return [replica_set(item.metadata.name, size) for item, size in changes]


@examples(500)
@given(
    replicas=st.integers(0, 40),
    surge=st.integers(0, 10),
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=5),
    before=st.integers(1, 60),
)
def test_shares_sum_up(replicas: int, surge: int, sizes: list[int], before: int) -> None:
    item = deployment(replicas, strategy=rolling(surge, 1))
    sets = {"desired_replicas": "1000", "max_replicas": str(before)}
    everything = [replica_set(f"s{i}", size, age=i, **sets) for i, size in enumerate(sizes)]
    changed = size_of(scaling_changes(item, everything[0], everything[1:]))
    assert all((changed.spec.replicas or 0) >= 0 for changed in changed)
    allowed = replicas + surge if replicas else 0
    if total(everything) <= allowed or before >= total(everything):
        assert total(changed) == allowed


STEPS = st.lists(st.integers(0, 10_000), max_size=120)


@examples(200)
@given(
    replicas=st.integers(1, 6),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 6),
    steps=STEPS,
)
def test_a_rollout_keeps_its_limits_in_any_order_of_events(
    replicas: int, surge: int, unavailable: int, steps: list[int]
) -> None:
    """Controllers run, pods become ready and end, and templates change in any order. Never are more
    pods asked for than ``replicas + maxSurge``, nor fewer available than ``replicas -
    maxUnavailable``."""
    item = deployment(replicas, strategy=rolling(surge, unavailable))
    bounds = limits(item)

    async def check() -> None:
        world = DeploymentWorld(item)
        await world.settle()
        assert world.available == replicas
        for step in steps:
            await take(world, step)
            assert total(world.replica_sets.values()) <= replicas + bounds.surge
            assert world.available >= replicas - bounds.unavailable
        await world.settle()
        assert world.available == len(world.active) == replicas
        assert len(world.sizes) == 1
        assert is_complete(world.deployment, world.deployment.status)

    asyncio.run(check())


async def take(world: DeploymentWorld, step: int) -> None:
    choice, which = step % 8, step // 8
    try:
        match choice:
            case 0 | 1 | 2:
                await world.sync_deployment()
            case 3 | 4:
                names = sorted(item.metadata.name for item in world.replica_sets.values())
                await world.sets.sync(("ns", names[which % len(names)]))
            case 5:
                waiting = [pod for pod in world.active if not is_ready(pod)]
                if waiting:
                    world.run(waiting[which % len(waiting)])
            case 6:
                world.end()
            case _:
                world.clock.advance(1)
                world.set_image("abc"[which % 3])
    except ApiError as error:
        # Another controller may have changed the object since.
        if error.code != 409:
            raise


@examples(100)
@given(
    replicas=st.integers(1, 6),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    images=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
)
def test_no_more_pods_run_than_replicas_and_surge(
    replicas: int, surge: int, unavailable: int, images: list[str]
) -> None:
    """If the ReplicaSets follow the Deployment at once, the pods keep the limits as well."""
    item = deployment(replicas, strategy=rolling(surge, unavailable))
    bounds = limits(item)

    async def check() -> None:
        world = DeploymentWorld(item)
        await world.settle()
        for image in images:
            world.clock.advance(1)
            world.set_image(image)
            for _ in range(100):
                await world.sync_deployment()
                for _ in range(3):
                    await world.sync_sets()
                    world.end()
                assert len(world.active) <= replicas + bounds.surge
                assert world.available >= replicas - bounds.unavailable
                if waiting := [pod for pod in world.active if not is_ready(pod)]:
                    world.run(waiting[0])
            assert world.sizes == {image: replicas}

    asyncio.run(check())
