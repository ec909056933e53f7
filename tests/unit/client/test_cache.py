"""The cache of the controllers."""

from __future__ import annotations

from controller_objects import cache_of, pod
from msgspec import structs

from podtui.api.objects import Object
from podtui.api.v1 import Pod


def name_of(item: Object | None) -> str:
    return "" if item is None else item.metadata.name


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    cache = cache_of(pod("a", 9))
    cache.put(pod("a", 10))
    cache.put(pod("a", 5))
    item = cache.get(Pod, "ns", "a")
    assert item is not None
    assert item.metadata.resourceVersion == "10"


def test_a_deleted_object_does_not_come_back() -> None:
    cache = cache_of(pod("a", 1))
    cache.remove(pod("a", 1))
    assert cache.list(Pod) == []
    cache.put(pod("a", 2))  # A change from before the deletion, reported late.
    assert cache.list(Pod) == []
    cache.remove(pod("a", 3))
    cache.put(pod("a", 2))  # The answer of a write that a watch has overtaken.
    assert cache.list(Pod) == []
    cache.put(pod("a", 4, uid="new"))
    assert [item.metadata.uid for item in cache.list(Pod)] == ["new"]


def test_a_late_answer_does_not_bring_a_deleted_object_back() -> None:
    cache = cache_of(pod("a", 1))
    cache.report_deleted(pod("a", 3))
    cache.put(pod("a", 2))
    assert cache.list(Pod) == []


def test_a_static_pod_that_returns_is_a_new_version_of_the_same_object() -> None:
    cache = cache_of(pod("a", 1))
    for last in (3, 6):
        cache.report_deleted(pod("a", last))
        cache.put(pod("a", last + 1))
        assert [item.metadata.name for item in cache.list(Pod)] == ["a"]
    cache.remove(pod("a", 7))
    assert cache.list(Pod) == []


def test_the_deletion_of_a_replaced_object_keeps_its_successor() -> None:
    cache = cache_of(pod("a", 1, uid="old"))
    cache.put(pod("a", 3, uid="new"))
    cache.remove(pod("a", 2, uid="old"))
    assert [item.metadata.uid for item in cache.list(Pod)] == ["new"]


def test_objects_are_found_by_their_controller() -> None:
    cache = cache_of(pod("a", 1, owner="r1"), pod("b", 2, owner="r1"), pod("c", 3))
    assert {item.metadata.name for item in cache.owned(Pod, "r1")} == {"a", "b"}
    cache.put(pod("a", 4, owner="r2"))
    cache.remove(pod("b", 5, owner="r1"))
    assert cache.owned(Pod, "r1") == []
    assert [item.metadata.name for item in cache.owned(Pod, "r2")] == ["a"]


def test_an_owner_can_claim_its_own_objects_and_the_orphans_of_its_namespace() -> None:
    other = pod("z", 3)
    other = structs.replace(other, metadata=structs.replace(other.metadata, namespace="other"))
    cache = cache_of(pod("a", 1, owner="r1"), pod("b", 2, owner="r2"), pod("c", 3), other)
    owner = pod("owner", 1, uid="r1")
    assert [item.metadata.name for item in cache.claimable(Pod, owner)] == ["a", "c"]
    cache.put(pod("a", 4))
    assert {item.metadata.name for item in cache.claimable(Pod, owner)} == {"a", "c"}
    cache.put(pod("c", 5, owner="r2"))
    assert [item.metadata.name for item in cache.claimable(Pod, owner)] == ["a"]


def test_a_new_list_removes_what_it_does_not_have() -> None:
    cache = cache_of(pod("a", 1), pod("b", 2))
    changes: list[tuple[str, str]] = []

    def observe(before: Object | None, after: Object | None) -> None:
        changes.append((name_of(before), name_of(after)))

    cache.observe(Pod, observe)
    cache.replace(Pod, (pod("b", 2), pod("c", 3)))
    assert changes == [("a", ""), ("", "c")]
    cache.forget(Pod, observe)
    cache.put(pod("d", 4))
    assert len(changes) == 2


def test_lists_are_of_one_namespace_or_of_all() -> None:
    other = pod("z", 3)
    other = structs.replace(other, metadata=structs.replace(other.metadata, namespace="other"))
    cache = cache_of(pod("a", 1), other)
    assert len(cache.list(Pod)) == 2
    assert [item.metadata.name for item in cache.list(Pod, "other")] == ["z"]
