"""The resources in a container's status (kubelet.md §7.2)."""

from __future__ import annotations

import pytest
from pod_builders import GI, MI, ctr, down, make_pod, up

from podtui.api.v1 import ContainerStatus, ResourceRequirements
from podtui.kubelet.status.container_status import container_resources_status
from podtui.runtime.protocol import Resources


def needs(requests=None, limits=None) -> ResourceRequirements:
    return ResourceRequirements(requests=requests or {}, limits=limits or {})


def status_of(own, held=None, *, running=True, actuated=None, old=None) -> ResourceRequirements:
    amounts = {"requests": own.requests, "limits": own.limits}
    container = make_pod(ctr(resources=amounts)).spec.containers[0]
    instance = up(resources=held) if running else down(resources=held)
    before = None
    if old is not None:
        before = ContainerStatus(
            name="c", image="i", imageID="", ready=True, restartCount=0, resources=old
        )
    return container_resources_status(container, instance, actuated=actuated, old=before)


BOTH = {"cpu": "100m", "memory": "64Mi"}
HELD = Resources(cpu_shares=102, cpu_quota=10_000, cpu_period=100_000, memory=64 * MI)


@pytest.mark.parametrize(
    ("own", "held", "expected"),
    [
        # Golden: a pod without requests, and one with only a memory limit.
        (needs(), Resources(cpu_shares=2), needs()),
        (
            needs({"memory": "32Mi"}, {"memory": "32Mi"}),
            Resources(cpu_shares=2, memory=32 * MI),
            needs({"memory": "32Mi"}, {"memory": "32Mi"}),
        ),
        (needs(BOTH, BOTH), HELD, needs(BOTH, BOTH)),
        # The engine's values are shown, not the desired ones.
        (
            needs({"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}),
            HELD,
            needs({"cpu": "100m", "memory": "1Gi"}, BOTH),
        ),
        # An engine that does not report its values.
        (needs(BOTH, BOTH), None, needs(BOTH, BOTH)),
        # Too small for the kernel to distinguish.
        (
            needs({"cpu": "1m"}, {"cpu": "5m"}),
            Resources(cpu_shares=2, cpu_quota=1000, cpu_period=100_000),
            needs({"cpu": "1m"}, {"cpu": "5m"}),
        ),
        # A removed limit is not shown.
        (needs({"memory": "64Mi"}), Resources(cpu_shares=2, memory=-1), needs({"memory": "64Mi"})),
        # The API's canonical form.
        (
            needs({"memory": "1024Mi"}, {"memory": "1024Mi"}),
            Resources(cpu_shares=2, memory=GI),
            needs({"memory": "1Gi"}, {"memory": "1Gi"}),
        ),
        (
            needs({"cpu": "1.5"}, {"cpu": "1.5"}),
            Resources(cpu_shares=1536, cpu_quota=150_000, cpu_period=100_000),
            needs({"cpu": "1500m"}, {"cpu": "1500m"}),
        ),
    ],
)
def test_a_running_container_shows_the_engines_limits(own, held, expected):
    assert status_of(own, held) == expected


def test_a_stopped_container_shows_its_allocation():
    assert status_of(needs({"cpu": "2"}), HELD, running=False) == needs({"cpu": "2"})


def test_memory_requests_come_from_the_container_configuration():
    own = needs({"cpu": "100m", "memory": "64Mi"})
    actuated = needs({"cpu": "100m", "memory": "32Mi"})
    assert status_of(own, HELD, actuated=actuated).requests["memory"] == "32Mi"
    nothing = needs({"memory": "0"})
    assert status_of(own, HELD, actuated=nothing).requests["memory"] == "64Mi"
    assert "memory" not in status_of(needs({"cpu": "100m"}), HELD, actuated=nothing).requests


def test_previous_values_are_kept_if_unknown():
    old = needs({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"})
    assert status_of(needs(BOTH, BOTH), None, old=old) == old
    assert status_of(needs(), None, old=old) == needs(), "but not where nothing is allocated"
