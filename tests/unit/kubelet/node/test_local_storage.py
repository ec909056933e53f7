"""Pods that exceed their limits of local storage, with the messages of a kubelet v1.36."""

from __future__ import annotations

import pytest
from kubelet_world import container

from podtui.api.v1 import (
    Container,
    EmptyDirVolumeSource,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    Volume,
)
from podtui.kubelet.eviction import StorageUsage, storage_eviction

MI = 1024**2


def limited(name: str = "c", amount: str = "") -> Container:
    limits = {"ephemeral-storage": amount} if amount else {"cpu": "1"}
    return container(name, resources=ResourceRequirements(limits=limits))


def web(*containers: Container, **volumes: EmptyDirVolumeSource) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web"),
        spec=PodSpec(
            containers=containers or (limited(),),
            volumes=tuple(Volume(name=name, emptyDir=one) for name, one in volumes.items()),
        ),
    )


def reason(pod: Pod, *, volumes: dict[str, int] | None = None, **containers: int) -> str:
    found = storage_eviction(pod, StorageUsage(volumes=volumes or {}, containers=containers))
    return f"{found.signal}: {found.message}" if found else ""


EMPTY = EmptyDirVolumeSource()
SMALL = EmptyDirVolumeSource(sizeLimit="1024Ki")


def test_an_empty_dir_may_be_as_large_as_its_limit() -> None:
    pod = web(v=SMALL)
    assert not reason(pod, volumes={"v": MI})
    assert reason(pod, volumes={"v": MI + 1}) == (
        'emptydirfs.limit: Usage of EmptyDir volume "v" exceeds the limit "1Mi". '
    )


@pytest.mark.parametrize(
    "source", [EMPTY, EmptyDirVolumeSource(sizeLimit="0")], ids=["none", "zero"]
)
def test_an_empty_dir_without_a_limit_may_be_large(source: EmptyDirVolumeSource) -> None:
    assert not reason(web(v=source), volumes={"v": 10**12})


def test_a_volume_in_memory_is_limited_by_its_size() -> None:
    source = EmptyDirVolumeSource(medium="Memory", sizeLimit="1Mi")
    assert not reason(web(v=source), volumes={"v": 2 * MI})


def test_a_pod_may_use_the_sum_of_the_limits_of_its_containers() -> None:
    pod = web(limited("a", "2Mi"), limited("b", "1Mi"), limited("free"), v=EMPTY)
    assert not reason(pod, volumes={"v": MI}, a=MI, free=MI)
    assert reason(pod, volumes={"v": MI}, a=MI, free=MI + 1) == (
        "ephemeralpodfs.limit: Pod ephemeral local storage usage exceeds the total limit of"
        " containers 3Mi. "
    )


def test_a_container_may_use_its_own_limit() -> None:
    pod = web(limited("a", "2Mi"), limited("b", "1Mi"))
    assert not reason(pod, a=2 * MI, b=MI)
    assert reason(pod, b=MI + 1) == (
        'ephemeralcontainerfs.limit: Container b exceeded its local ephemeral storage limit "1Mi". '
    )


def test_a_volume_counts_before_the_pod_and_the_pod_before_its_containers() -> None:
    pod = web(limited("a", "1Mi"), v=SMALL)
    volumes = {"v": 2 * MI}
    assert reason(pod, volumes=volumes, a=2 * MI).startswith("emptydirfs")
    assert reason(pod, a=2 * MI).startswith("ephemeralpodfs")


def test_a_pod_without_limits_may_use_everything() -> None:
    assert not reason(web(), volumes={"v": 10**12}, c=10**12)
