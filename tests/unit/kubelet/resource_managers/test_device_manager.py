"""Which devices a container gets, their hints, and the checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import combinations

import pytest
from device_plugin import RESOURCE, device
from examples import examples
from fixed_clock import FixedClock
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import ctr, make_pod, sidecar

from podtui.api.v1 import Pod
from podtui.errors import PodtuiError
from podtui.kubelet.resource_managers.device_api import (
    AllocateResponse,
    CdiDevice,
    ContainerAllocateResponse,
    Device,
    DeviceMount,
    DevicePluginOptions,
    DeviceSpec,
)
from podtui.kubelet.resource_managers.device_checkpoint import (
    AllocatedDevices,
    decode_checkpoint,
    encode_checkpoint,
)
from podtui.kubelet.resource_managers.device_choice import device_hints, group_by_affinity
from podtui.kubelet.resource_managers.device_manager import (
    ContainerDevices,
    DeviceError,
    DeviceManager,
    container_devices,
)
from podtui.kubelet.resource_managers.topology_manager import ANY, Hint


class Plugin:
    """A plugin in this process; ``preference`` is what it answers, whatever is available."""

    def __init__(self, preference: tuple[str, ...] | None = None) -> None:
        self.preference = preference or ()
        self.options = DevicePluginOptions(
            get_preferred_allocation_available=preference is not None
        )
        self.allocated: list[tuple[str, ...]] = []

    async def allocate(self, ids: Collection[str]) -> AllocateResponse:
        self.allocated.append(tuple(ids))
        await asyncio.sleep(0)
        return AllocateResponse((ContainerAllocateResponse(),))

    async def preferred(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> tuple[str, ...]:
        return self.preference

    async def pre_start(self, ids: Collection[str]) -> None:
        raise AssertionError("not asked for")


def manager(
    *devices: Device, plugin: Plugin | None = None, running: bool = False
) -> tuple[DeviceManager, Plugin]:
    made = DeviceManager(clock=FixedClock(), is_running=lambda uid, name: running)
    made.set_machine((0, 1))
    plugin = plugin or Plugin()
    made.connected(RESOURCE, plugin)
    made.reported(RESOURCE, plugin, devices)
    return made, plugin


def wants(count: int, name: str = "c", **fields: object) -> dict[str, object]:
    return ctr(name, resources={"limits": {RESOURCE: str(count)}}, **fields)


def allocate(made: DeviceManager, pod: Pod, affinity: Hint = ANY) -> None:
    async def run() -> None:
        for container in (*pod.spec.initContainers, *pod.spec.containers):
            await made.allocate(pod, container, affinity)

    asyncio.run(run())


NODES = st.frozensets(st.integers(0, 3), max_size=2)
POOLS = st.dictionaries(st.sampled_from("abcdefgh"), NODES, min_size=1, max_size=8)


def pool(nodes: dict[str, frozenset[int]]) -> dict[str, Device]:
    return {id: device(id, "Healthy", *sorted(each)) for id, each in nodes.items()}


# --- choices


@examples(200)
@given(POOLS, st.sets(st.sampled_from("abcdefgh")), NODES)
def test_groups_are_a_partition(
    nodes: dict[str, frozenset[int]], available: set[str], affinity: frozenset[int]
) -> None:
    devices, available = pool(nodes), available & nodes.keys()
    groups = group_by_affinity(devices, available, affinity)
    assert sorted(id for group in groups for id in group) == sorted(available)
    if any(nodes.values()):
        assert groups.aligned == {id for id in available if nodes[id] & affinity}
        assert groups.without_nodes == {id for id in available if not nodes[id]}
    else:
        assert groups.without_nodes == available
    assert group_by_affinity(devices, available, None).without_nodes == available


@examples(200)
@given(POOLS, st.integers(1, 4), st.data())
def test_hints_have_enough_devices_and_the_smallest_are_preferred(
    nodes: dict[str, frozenset[int]], requested: int, data: st.DataObject
) -> None:
    devices = pool(nodes)
    reusable = data.draw(st.sets(st.sampled_from(sorted(nodes)), max_size=2))
    available = nodes.keys() - reusable
    hints = {
        h.nodes: h.preferred
        for h in device_hints(devices, available, reusable, requested, range(4))
    }
    numa = set().union(*nodes.values()) or set(range(4))
    sets = [frozenset(c) for size in range(1, len(numa) + 1) for c in combinations(numa, size)]

    def fitting(ids: Collection[str], at: frozenset[int]) -> int:
        return sum(bool(nodes[id] & at) for id in ids)

    bound = [id for id in reusable if nodes[id]]
    assert hints.keys() == {
        at for at in sets
        if fitting(bound, at) == len(bound)
        and len(bound) + fitting(available, at) >= requested
    }  # fmt: skip
    possible = [len(at) for at in sets if fitting(nodes, at) >= requested]
    least = min([*possible, len(numa)])
    assert all(preferred is (len(at or ()) == least) for at, preferred in hints.items())


@examples(200)
@given(POOLS, st.lists(st.integers(0, 3), min_size=1, max_size=5), NODES)
def test_no_device_is_allocated_twice_and_none_is_lost(
    nodes: dict[str, frozenset[int]], requests: list[int], affinity: frozenset[int]
) -> None:
    made, plugin = manager(*pool(nodes).values())
    free, given_ids = len(nodes), set[str]()
    for number, requested in enumerate(requests):
        plugin.allocated.clear()
        pod = make_pod(wants(requested), uid=f"u{number}")
        if requested > free:
            with pytest.raises(DeviceError, match="requested number of devices unavailable"):
                allocate(made, pod, Hint(affinity, True))
            continue
        allocate(made, pod, Hint(affinity, True))
        ids = {id for call in plugin.allocated for id in call}
        assert len(ids) == requested
        assert not ids & given_ids
        unaligned = {id for id in ids if not nodes[id] & affinity}
        left = {id for id in nodes.keys() - given_ids - ids if nodes[id] & affinity}
        assert not (unaligned and left)
        given_ids |= ids
        free -= requested
    for number in range(len(requests)):
        made.release(f"u{number}")
    plugin.allocated.clear()
    allocate(made, make_pod(wants(len(nodes)), uid="all"))
    assert plugin.allocated == [tuple(sorted(nodes))]


def test_preferred_devices_are_taken_if_they_are_available() -> None:
    devices = [device(id) for id in "abcd"]
    made, plugin = manager(*devices, plugin=Plugin(("d", "x")))
    allocate(made, make_pod(wants(1), uid="u1"))
    allocate(made, make_pod(wants(2), uid="u2"))
    assert plugin.allocated == [("d",), ("a", "b")]


def test_containers_reuse_the_devices_of_init_containers_that_end() -> None:
    made, plugin = manager(*[device(id) for id in "abcd"])
    init = (wants(2, "i"), sidecar("s", resources={"limits": {RESOURCE: "1"}}), wants(1, "j"))
    allocate(made, make_pod(wants(1), wants(1, "d"), init=init))
    # The sidecar takes one of the two, and keeps it.
    assert plugin.allocated == [("a", "b"), ("a",), ("b",), ("b",), ("c",)]


def test_hints_of_a_pod_and_of_its_containers() -> None:
    made, _ = manager(device("a", "Healthy", 0), device("b", "Healthy", 1))
    one, both, three = make_pod(wants(1)), make_pod(wants(2)), make_pod(wants(3))
    left, right, all_nodes = frozenset({0}), frozenset({1}), frozenset({0, 1})
    assert made.hints(one, one.spec.containers[0]) == {
        RESOURCE: [Hint(left, True), Hint(right, True), Hint(all_nodes, False)]
    }
    assert made.pod_hints(both) == {RESOURCE: [Hint(all_nodes, True)]}
    assert made.hints(three, three.spec.containers[0]) == {RESOURCE: []}
    assert made.pod_hints(make_pod(ctr())) == {}
    allocate(made, one, Hint(right, True))
    assert made.hints(one, one.spec.containers[0]) == {
        RESOURCE: [Hint(right, True), Hint(all_nodes, False)]
    }
    without, _ = manager(device("a"))
    assert without.hints(one, one.spec.containers[0]) == {RESOURCE: [ANY]}


def test_a_pod_needs_the_devices_of_containers_that_run_together() -> None:
    made, _ = manager(*[device(id, "Healthy", 0) for id in "abcde"])
    init = (sidecar("s", resources={"limits": {RESOURCE: "1"}}), wants(3, "i"))
    (hint, *_) = made.pod_hints(make_pod(wants(2), init=init))[RESOURCE]
    assert hint == Hint(frozenset({0}), True)
    more = made.pod_hints(make_pod(wants(5), init=init))
    assert more == {RESOURCE: []}


@pytest.mark.parametrize("running", [False, True])
def test_a_restored_allocation_counts_only_for_running_containers(running: bool) -> None:
    allocated = AllocatedDevices({-1: ("a",)}, ContainerAllocateResponse())
    content = encode_checkpoint({"u1": {"c": {RESOURCE: allocated}}}, {RESOURCE: ["a"]})
    made = DeviceManager(clock=FixedClock(), is_running=lambda uid, name: running)
    made.restore(content)
    assert made.resources().capacity == {RESOURCE: 0}
    assert made.allocated_counts("u1") == {RESOURCE: 1}
    if running:
        allocate(made, make_pod(wants(1)))
        with pytest.raises(DeviceError, match="changed request for resource"):
            allocate(made, make_pod(wants(2)))
        return
    with pytest.raises(DeviceError, match="no healthy devices present"):
        allocate(made, make_pod(wants(1)))


# --- the checkpoint

RESPONSES = st.builds(
    ContainerAllocateResponse,
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    st.just((DeviceMount("/c", "/h", True),)) | st.just(()),
    st.just((DeviceSpec("/c", "/h", "rwm"),)) | st.just(()),
)
DEVICES = st.builds(
    AllocatedDevices,
    st.dictionaries(st.integers(-1, 9), st.lists(st.text(max_size=5), max_size=3).map(tuple)),
    RESPONSES,
)
NAMES = st.text(max_size=6)
ALLOCATIONS = st.dictionaries(
    NAMES,
    st.dictionaries(NAMES, st.dictionaries(NAMES, DEVICES, min_size=1, max_size=2), min_size=1),
    max_size=3,
)


@examples(100)
@given(ALLOCATIONS, st.dictionaries(NAMES, st.lists(NAMES, max_size=3)))
def test_a_checkpoint_restores_what_was_allocated(
    allocations: dict[str, dict[str, dict[str, AllocatedDevices]]],
    registered: dict[str, list[str]],
) -> None:
    content = encode_checkpoint(allocations, registered)
    assert decode_checkpoint(content) == (allocations, frozenset(registered))


def test_a_checkpoint_of_a_kubelet_is_read() -> None:
    content = (
        b'{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"e.com/d",'
        b'"DeviceIDs":{"-1":["x"]},"AllocResp":"CgYKAUESAWI="}],"RegisteredDevices":{"e.com/d":'
        b'["x","y"]}},"Checksum":3542126510}'
    )
    assert decode_checkpoint(content) == (
        {"u": {"c": {"e.com/d": AllocatedDevices({-1: ("x",)},
                                                 ContainerAllocateResponse({"A": "b"}))}}},
        {"e.com/d"},
    )  # fmt: skip
    empty = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'
    assert decode_checkpoint(empty) == ({}, frozenset())


@examples(100)
@given(st.binary(max_size=60))
def test_a_broken_checkpoint_is_reported(content: bytes) -> None:
    with pytest.raises(PodtuiError, match="the checkpoint of devices cannot be read"):
        decode_checkpoint(b"[" + content)


# --- what a container needs


def test_what_several_plugins_ask_for_is_joined() -> None:
    first = ContainerAllocateResponse(
        {"A": "1"}, (DeviceMount("/m", "/1"),), (DeviceSpec("/d", "/1", "r"),), {"x": "1"},
        (CdiDevice("v/c=0"),),
    )  # fmt: skip
    second = ContainerAllocateResponse(
        {"A": "2", "B": "2"},
        (DeviceMount("/m", "/2"), DeviceMount("/n", "/2", True)),
        (DeviceSpec("/d", "/2", "w"), DeviceSpec("/e", "/2", "w"), DeviceSpec("/e", "/3", "w")),
        {"x": "2", "y": "2"},
        (CdiDevice("v/c=1"), CdiDevice("v/c=0")),
    )
    allocated = {
        "e.com/b": AllocatedDevices({}, second),
        "e.com/a": AllocatedDevices({}, first),
    }
    assert container_devices(allocated) == ContainerDevices(
        env={"A": "1", "B": "2"},
        mounts=(("/1", "/m", False), ("/2", "/n", True)),
        devices=(("/1", "/d", "r"), ("/2", "/e", "w")),
        annotations={"x": "1", "y": "2"},
        cdi=("v/c=0", "v/c=1"),
    )
