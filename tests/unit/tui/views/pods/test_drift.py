"""Differences between file, record and containers; none in steady state."""

from __future__ import annotations

import pytest
from kubelet_world import World, container
from kubelet_world import pod as static_pod
from msgspec import structs
from tui_scene import ago, broken, gallery, manifests, now, pod, status
from virtual_time import virtual

from podtui.api.local import Manifest, ManifestState
from podtui.api.v1 import Pod, PodCondition, ResourceRequirements
from podtui.tui.views.pods.drift import differ, drift_lines, drifts

ASKED = {"cpu": "100m", "memory": "32Mi"}


def holding(held: dict[str, str], *conditions: PodCondition) -> Pod:
    """Return a pod whose container may have other limits than its file."""
    running = structs.replace(status(), resources=ResourceRequirements(limits=held))
    made = pod("web", running, limits=ASKED)
    all_ = (*made.status.conditions, *conditions)
    return structs.replace(made, status=structs.replace(made.status, conditions=all_))


def resize(kind: str, reason: str, message: str = "") -> PodCondition:
    return PodCondition(
        type=kind, status="True", reason=reason, message=message,
        lastTransitionTime=ago(minutes=3),
    )  # fmt: skip


def drift_texts(one: Pod, manifest: Manifest | None = None) -> list[str]:
    lines = drift_lines(drifts(one, manifest), now())
    return ["".join(span.text for span in line) for line in lines]


def test_a_healthy_pod_has_no_drift() -> None:
    files = {one.status.podUID: one for one in manifests()}
    for one in gallery():
        assert drifts(one, files.get(one.metadata.uid)) == ()
    assert drifts(holding({"cpu": "0.1", "memory": "33554432"}), None) == ()


def test_resources_changed_by_others() -> None:
    assert drift_texts(holding({"cpu": "500m", "memory": "32Mi"})) == [
        (
            "▲ app limits.cpu: file 100m, container 500m"
            " · ignored; the file's value applies at the next start of the container"
        )
    ]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (
            resize("PodResizePending", "Deferred", "Node didn't have enough memory"),
            (
                "▲ resize deferred: app limits.memory: file 32Mi,"
                " container 16Mi · since 3m ago · retried when resources are available"
            ),
        ),
        (
            resize("PodResizePending", "Infeasible", "the node is too small"),
            (
                "▲ resize infeasible: app limits.memory: file 32Mi,"
                " container 16Mi · since 3m ago · not retried: change the file"
            ),
        ),
        (
            resize("PodResizeInProgress", "Error", "the engine refuses"),
            (
                "▲ resize not completed: the engine refuses (app limits.memory: file 32Mi,"
                " container 16Mi) · since 3m ago · retried"
            ),
        ),
        (
            resize("PodResizeInProgress", ""),
            (
                "▲ resize not completed (app limits.memory: file 32Mi, container 16Mi)"
                " · since 3m ago · in progress"
            ),
        ),
    ],
)
def test_a_resize_that_is_not_applied(condition: PodCondition, wanted: str) -> None:
    assert drift_texts(holding({"cpu": "100m", "memory": "16Mi"}, condition)) == [wanted]


def test_an_invalid_file_while_its_last_good_version_runs() -> None:
    (line,) = drift_texts(pod("hello", status()), broken(state=ManifestState.LAST_GOOD))
    assert "is invalid: its last good version runs" in line
    assert line.endswith("the file takes effect once it is fixed")
    assert drift_texts(pod("hello", status()), broken(state=ManifestState.INVALID)) == []


def test_a_stopped_container_has_no_drift() -> None:
    one = holding({"cpu": "500m"})
    (first,) = one.status.containerStatuses
    stopped = structs.replace(first, state=structs.replace(first.state, running=None))
    bare = structs.replace(one.status, containerStatuses=(stopped,))
    assert drifts(structs.replace(one, status=bare), None) == ()


def test_invalid_quantities_are_compared_as_text() -> None:
    assert differ("\x1b[31m", "100m")
    assert not differ("lots", "lots")
    assert not differ("100m", None)


@virtual()
async def test_a_pod_of_a_kubelet_has_no_drift() -> None:
    world = World()
    amounts = ResourceRequirements(requests={"cpu": "10m", "memory": "16Mi"}, limits=ASKED)
    world.add(static_pod("web-n1", "web", container(resources=amounts)))
    async with world.running():
        await world.until(world.runs("web"))
        await world.sleep(70)
        record = await world.record("web-n1")
    assert record is not None
    (running,) = record.status.containerStatuses
    assert running.resources is not None
    assert running.resources.limits == ASKED
    assert drifts(record, None) == ()
