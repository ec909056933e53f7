"""Admitted and rejected pods (kubelet.md §5, acceptance cases 16, 26-34), in virtual time."""

from __future__ import annotations

import yaml
from kubelet_world import World, container, pod
from virtual_time import virtual

from podtui.api.v1 import (
    Affinity,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodOS,
    PodSecurityContext,
    ResourceRequirements,
    Sysctl,
)
from podtui.manifest.diagnose import read_manifest

PREEMPTION = (
    "Unexpected error while attempting to recover from admission failure: preemption:"
    " error finding a set of pods to preempt: no set of running pods found to reclaim resources: "
)
PORTS = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
AFFINITY = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"


def pod_with(name: str, cpu: str = "", memory: str = "", **spec: object) -> Pod:
    amounts = {key: text for key, text in (("cpu", cpu), ("memory", memory)) if text}
    own = container(resources=ResourceRequirements(requests=amounts))
    return pod(f"{name}-n1", name, own, **spec)  # type: ignore[arg-type]


def with_port(name: str, uid: str = "", *, call: str = "c", **port: object) -> Pod:
    own = container(call, ports=(ContainerPort(containerPort=80, **port),))  # type: ignore[arg-type]
    return pod(f"{name}-n1", uid or name, own)


def limited(name: str, **limits: str) -> Pod:
    """Return a pod from a manifest with only limits, after defaulting."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "containers": [
                {"name": "c", "image": "busybox:1", "resources": {"limits": dict(limits)}}
            ]
        },
    }
    result = read_manifest("/m/x.yaml", yaml.safe_dump(document).encode(), node_name="n1")
    return result.pods[0]


async def rejected(world: World, name: str) -> tuple[str, str]:
    """Return (reason, message) of the event; check that record, engine and status agree."""
    await world.until(lambda: world.phase(f"{name}-n1") == "Failed")
    status = await world.status(f"{name}-n1")
    events = [e for e in await world.events(f"{name}-n1") if e.reason == status.reason]
    assert len(events) == 1
    assert events[0].type == "Warning"
    assert status.message == f"Pod was rejected: {events[0].message}"
    assert status.startTime
    assert status.qosClass
    assert (status.conditions, status.containerStatuses, status.podIP) == ((), (), "")
    assert not world.sandboxes(name, ready=False)
    return status.reason, events[0].message


@virtual()
async def test_limits_are_the_default_of_requests() -> None:
    async with World().running() as world:
        world.add(limited("both", cpu="100m", memory="64Mi"), limited("one", memory="64Mi"))
        await world.until(lambda: len(world.running_containers()) == 2)
        await world.sleep(2)
        record = await world.record("both-n1")
        assert record is not None
        own = record.spec.containers[0].resources
        assert own.requests == own.limits == {"cpu": "100m", "memory": "64Mi"}
        assert record.status.qosClass == "Guaranteed"
        (status,) = record.status.containerStatuses
        assert status.resources == own
        assert status.allocatedResources == own.requests
        assert record.status.resources == own
        assert record.status.allocatedResources == own.requests
        assert (await world.status("one-n1")).qosClass == "Burstable"


@virtual()
async def test_waiting_containers_show_no_resources() -> None:
    async with World().running() as world:
        world.engine.faults.hold("run_sandbox")
        world.add(limited("web", memory="64Mi"))
        await world.until(lambda: world.phase() == "Pending")
        status = await world.status()
        assert status.containerStatuses[0].resources is None
        assert status.allocatedResources == {"memory": "64Mi"}
        world.engine.faults.release("run_sandbox")


@virtual()
async def test_more_memory_than_allocatable() -> None:
    async with World().running() as world:
        world.add(pod_with("big", memory="4000Gi"))
        reason, message = await rejected(world, "big")
        have = (await world.node()).status.allocatable["memory"]
        assert reason == "UnexpectedAdmissionError"
        assert message.startswith(f"{PREEMPTION}[(res: memory, q: ")
        assert have
        await world.sleep(300)
        assert (await rejected(world, "big"))[0] == "UnexpectedAdmissionError"


@virtual()
async def test_freed_resources_do_not_readmit_without_a_request() -> None:
    async with World().running() as world:
        cores = None
        world.add(pod_with("first", "1"))
        await world.until(world.runs("first"))
        cores = (await world.node()).status.allocatable["cpu"]
        world.add(pod_with("second", cores))
        await rejected(world, "second")
        world.remove("first")
        await world.until(world.gone("first"))
        await world.sleep(300)
        assert world.phase("second-n1") == "Failed"
        assert not world.sandboxes("second", ready=False)
        # A pod that is removed and added again is admitted.
        world.remove("second")
        await world.sleep(5)
        world.add(pod_with("second", cores))
        await world.until(world.runs("second"))
        # A restarted kubelet checks again.
        world.add(pod_with("third", cores))
        await rejected(world, "third")
        world.remove("second")
        await world.until(world.gone("second"))
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.until(world.runs("third"))


@virtual()
async def test_only_priority_preempts() -> None:
    async with World().running() as world:
        world.add(pod_with("a", "1"))
        await world.until(world.runs("a"))
        cores = (await world.node()).status.allocatable["cpu"]
        world.add(pod_with("b", cores))
        assert await rejected(world, "b") == (
            "UnexpectedAdmissionError",
            f"{PREEMPTION}[(res: cpu, q: 1000), ]",
        )
        world.remove("a", "b")
        await world.until(world.gone())
        world.add(pod_with("low", "1", priority=1))
        await world.until(world.runs("low"))
        world.add(pod_with("high", cores, priority=100))
        await world.until(world.runs("high"))
        status = await world.status("low-n1")
        assert (status.phase, status.reason, status.message) == (
            "Failed",
            "Preempting",
            "Preempted in order to admit critical pod",
        )
        (mark,) = [one for one in status.conditions if one.type == "DisruptionTarget"]
        assert (mark.status, mark.reason, mark.message) == (
            "True",
            "TerminationByKubelet",
            "Pod was preempted by Kubelet to accommodate a critical pod.",
        )
        events = [(e.type, e.message) for e in await world.events("low-n1", "Preempting")]
        assert events == [("Warning", "Preempted in order to admit critical pod")]


@virtual()
async def test_host_ports() -> None:
    async with World().running() as world:
        world.add(with_port("a", hostPort=8080))
        await world.until(world.runs("a"))
        world.add(
            with_port("b", hostPort=8080),
            with_port("udp", hostPort=8080, protocol="UDP"),
            with_port("x", hostPort=9090, hostIP="127.0.0.1"),
        )
        assert await rejected(world, "b") == ("NodePorts", PORTS)
        await world.until(world.runs("udp"))
        await world.until(world.runs("x"))
        world.add(with_port("y", hostPort=9090, hostIP="127.0.0.2"))
        await world.until(world.runs("y"))


@virtual()
async def test_ports_of_a_replaced_pod_are_free() -> None:
    def hosted(uid: str, name: str) -> Pod:
        own = container(name, ports=(ContainerPort(containerPort=4534, hostPort=4534),))
        return pod("web-n1", uid, own, hostNetwork=True)

    async with World().running() as world:
        world.add(hosted("old", "before"))
        await world.until(world.runs("old"))
        world.replace("old", hosted("new", "after"))
        await world.until(world.runs("new"))
        assert await world.events("web-n1", "NodePorts") == []
        assert world.gone("old")()


def required(**requirement: object) -> Affinity:
    term = NodeSelectorTerm(
        matchExpressions=(NodeSelectorRequirement(operator="In", **requirement),)  # type: ignore[arg-type]
    )
    return Affinity(
        nodeAffinity=NodeAffinity(
            requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(nodeSelectorTerms=(term,))
        )
    )


@virtual()
async def test_pods_for_other_nodes() -> None:
    async with World(node_labels={"disk": "hdd"}).running() as world:
        world.add(
            pod("selector-n1", "selector", nodeSelector={"disk": "ssd"}),
            pod("affinity-n1", "affinity", affinity=required(key="disk", values=("ssd",))),
            pod("os-n1", "os", os=PodOS(name="windows")),
            pod("here-n1", "here", nodeSelector={"disk": "hdd", "kubernetes.io/hostname": "n1"}),
            pod("fits-n1", "fits", affinity=required(key="disk", values=("hdd", "ssd"))),
            pod("linux-n1", "linux", os=PodOS(name="linux")),
        )
        assert await rejected(world, "selector") == ("NodeAffinity", AFFINITY)
        assert await rejected(world, "affinity") == ("NodeAffinity", AFFINITY)
        assert await rejected(world, "os") == (
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        )
        for uid in ("here", "fits", "linux"):
            await world.until(world.runs(uid))


@virtual()
async def test_a_sysctl_that_is_not_allowed() -> None:
    security = PodSecurityContext(sysctls=(Sysctl(name="kernel.msgmax", value="1"),))
    async with World().running() as world:
        world.add(pod("web-n1", "web", securityContext=security))
        assert await rejected(world, "web") == (
            "SysctlForbidden",
            'forbidden sysctl: "kernel.msgmax" not allowlisted',
        )


@virtual()
async def test_one_pod_too_many() -> None:
    async with World(max_pods=1).running() as world:
        world.add(pod("a-n1", "a"))
        await world.until(world.runs("a"))
        world.add(pod("b-n1", "b"))
        assert await rejected(world, "b") == (
            "UnexpectedAdmissionError",
            f"{PREEMPTION}[(res: pods, q: 1), ]",
        )


@virtual()
async def test_the_peak_of_init_and_regular_containers_counts() -> None:
    def needs(cpu: str) -> ResourceRequirements:
        return ResourceRequirements(requests={"cpu": cpu})

    async with World().running() as world:
        world.add(
            pod(
                "web-n1",
                "web",
                container("a", resources=needs("1")),
                container("b", resources=needs("1")),
                init=[
                    container("side", resources=needs("500m"), restartPolicy="Always"),
                    container("init", resources=needs("2")),
                ],
                overhead={"cpu": "250m"},
            )
        )
        await world.until(lambda: bool(world.sandboxes("web")))
        assert (await world.status()).allocatedResources == {"cpu": "2750m"}
        have = (await world.node()).status.allocatable["cpu"]
        world.add(pod_with("rest", have))
        assert await rejected(world, "rest") == (
            "UnexpectedAdmissionError",
            f"{PREEMPTION}[(res: cpu, q: 2750), ]",
        )


@virtual()
async def test_pod_level_requests_replace_those_of_containers() -> None:
    async with World().running() as world:
        own = container(resources=ResourceRequirements(requests={"cpu": "100m"}))
        amounts = ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "1", "memory": "1Gi"})
        world.add(pod("web-n1", "web", own, resources=amounts))
        await world.until(world.runs("web"))
        status = await world.status()
        assert status.allocatedResources == {"cpu": "1"}
        assert status.resources == amounts
        assert status.qosClass == "Burstable"
        have = (await world.node()).status.allocatable["cpu"]
        world.add(pod_with("rest", have))
        assert (await rejected(world, "rest"))[1] == f"{PREEMPTION}[(res: cpu, q: 1000), ]"


@virtual()
async def test_gates_that_are_off() -> None:
    async with World(feature_gates={"PodLevelResources": False}).running() as world:
        world.add(pod("web-n1", "web", resources=ResourceRequirements(limits={"cpu": "1"})))
        assert await rejected(world, "web") == (
            "PodLevelResourcesNotSupported",
            "PodLevelResources feature gate is disabled",
        )
