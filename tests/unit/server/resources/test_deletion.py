"""Deletion as a function on data, and with other writers at work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from podtui.api.times import parse_time
from podtui.api.v1 import (
    ConfigMap,
    Container,
    Event,
    Namespace,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodSpec,
    PodStatus,
)
from podtui.clock import SystemClock
from podtui.errors import NotFound
from podtui.manifest.strategies.config import CONFIG_MAPS
from podtui.manifest.strategies.events import CORE_EVENTS
from podtui.manifest.strategies.namespaces import NAMESPACES, new_namespace
from podtui.manifest.strategies.pods import PODS
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.resources.deletion import delete_record, deletion, ended_by_update
from podtui.store import open_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(node: str = "n1", phase: str = "Running", grace: int | None = 30, **meta: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="p", namespace="default", generation=1, **meta),
        spec=PodSpec(
            containers=(Container(name="c"),), nodeName=node, terminationGracePeriodSeconds=grace
        ),
        status=PodStatus(phase=phase),
    )


def config(**meta: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="c", namespace="default", **meta))


@pytest.mark.parametrize(
    ("item", "requested", "seconds", "gone"),
    [
        (pod(), None, 30, False),
        (pod(), 5, 5, False),
        (pod(), -1, 1, False),
        (pod(grace=-1), None, 1, False),
        (pod(), 0, 0, True),
        (pod(node=""), 50, 0, True),
        (pod(phase="Failed"), None, 0, True),
        (pod(phase="Succeeded"), 9, 0, True),
        (pod(finalizers=("a/b",)), 0, 0, False),
    ],
)
def test_the_first_deletion_of_a_pod(
    item: Pod, requested: int | None, seconds: int, gone: bool
) -> None:
    result, ends = deletion(PODS, item, requested, NOW)
    assert (result.metadata.deletionGracePeriodSeconds, ends) == (seconds, gone)
    assert parse_time(result.metadata.deletionTimestamp) == NOW + timedelta(seconds=seconds)
    assert result.metadata.generation == 2


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-2, 60) | st.sampled_from((2**31, 2**63 - 1)),
            st.integers(0, 20),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_grace_period_only_becomes_shorter(requests: list[tuple[int | None, int]]) -> None:
    """Each request is (grace period, seconds since the previous request)."""
    item, now = pod(), NOW
    first: datetime | None = None
    for requested, later in requests:
        now += timedelta(seconds=later)
        before = item.metadata
        item, gone = deletion(PODS, item, requested, now)
        after = item.metadata
        assert gone == (after.deletionGracePeriodSeconds == 0)
        if first is None:
            first = parse_time(after.deletionTimestamp)
        elif before.deletionGracePeriodSeconds:
            assert (after.deletionGracePeriodSeconds or 0) <= before.deletionGracePeriodSeconds
            assert after.generation == before.generation
        if gone:
            return


def test_the_longest_grace_period_ends_with_the_calendar() -> None:
    long, gone = deletion(PODS, pod(), 2**63 - 1, NOW)
    assert (long.metadata.deletionTimestamp, gone) == ("9999-12-31T23:59:59Z", False)
    assert long.metadata.deletionGracePeriodSeconds == 2**63 - 1
    short, _ = deletion(PODS, long, 5, NOW)
    assert short.metadata.deletionTimestamp == "2026-01-01T00:00:05Z"


def test_objects_without_a_grace_period() -> None:
    assert deletion(CONFIG_MAPS, config(), 30, NOW) == (config(), True)
    held, gone = deletion(CONFIG_MAPS, config(finalizers=("a/b",)), None, NOW)
    assert (gone, held.metadata.deletionGracePeriodSeconds) == (False, 0)
    # A second request changes nothing.
    assert deletion(CONFIG_MAPS, held, None, NOW + timedelta(hours=1)) == (held, False)
    free = with_meta(held, finalizers=())
    assert ended_by_update(CONFIG_MAPS, free, held)
    assert not ended_by_update(CONFIG_MAPS, free, config(finalizers=("a/b",)))


@pytest.mark.parametrize(
    ("policy", "before", "after", "gone"),
    [
        ("", (), (), True),
        ("Background", (), (), True),
        ("Background", ("orphan",), (), True),
        ("Foreground", (), ("foregroundDeletion",), False),
        ("Foreground", ("a/b", "orphan"), ("a/b", "foregroundDeletion"), False),
        ("Orphan", (), ("orphan",), False),
        ("", ("orphan",), ("orphan",), False),
        ("Orphan", ("orphan", "a/b"), ("orphan", "a/b"), False),
    ],
)
def test_the_propagation_policy_is_a_finalizer(
    policy: str, before: tuple[str, ...], after: tuple[str, ...], gone: bool
) -> None:
    result, ends = deletion(CONFIG_MAPS, config(finalizers=before), None, NOW, policy)
    assert (result.metadata.finalizers, ends) == (after, gone)


def test_a_pending_graceful_deletion_keeps_its_policy() -> None:
    ending, _ = deletion(PODS, pod(), None, NOW, "Orphan")
    assert ending.metadata.finalizers == ("orphan",)
    assert deletion(PODS, ending, None, NOW, "Background") == (ending, False)
    forced, gone = deletion(PODS, ending, 0, NOW, "Background")
    assert (forced.metadata.finalizers, gone) == ((), True)


def test_events_own_nothing() -> None:
    event = Event(
        metadata=ObjectMeta(name="e", namespace="default"), involvedObject=ObjectReference()
    )
    assert deletion(CORE_EVENTS, event, None, NOW, "Orphan") == (event, True)


def test_a_namespace_stays_until_it_is_finalized() -> None:
    namespace = new_namespace(Namespace(metadata=ObjectMeta(name="x")))
    ending, gone = deletion(NAMESPACES, namespace, None, NOW)
    assert (gone, ending.status.phase) == (False, "Terminating")
    empty = structs.replace(ending, spec=structs.replace(ending.spec, finalizers=()))
    assert deletion(NAMESPACES, empty, None, NOW) == (empty, True)


async def test_a_change_in_between_is_taken_into_account() -> None:
    store = open_store(None, clock=SystemClock())
    seen = await store.create("configmaps", config())
    await store.put("configmaps", with_meta(seen, finalizers=("a/b",)))
    result, gone = await delete_record(
        store, "configmaps", CONFIG_MAPS, seen, seconds=None, now=NOW
    )
    assert (gone, result.metadata.finalizers) == (False, ("a/b",))
    await store.delete("configmaps", "default", "c")
    with pytest.raises(NotFound):
        await delete_record(store, "configmaps", CONFIG_MAPS, seen, seconds=None, now=NOW)
