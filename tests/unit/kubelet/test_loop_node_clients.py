"""The node's record, shared by the kubelet and API clients."""

from __future__ import annotations

import pytest
from kubelet_world import World, api_pod, pod
from msgspec import structs

from podtui.api.v1 import Lease, Node, Taint

pytestmark = pytest.mark.virtual_time
MARKED = Taint(key="example.com/broken", effect="NoExecute")


async def edit(world: World, **changes: object) -> None:
    """Change the node as kubectl label, annotate, taint and cordon do."""

    def changed(node: Node) -> Node:
        meta = structs.replace(
            node.metadata,
            labels={**node.metadata.labels, "disk": "ssd"},
            annotations={**node.metadata.annotations, "team": "a"},
        )
        spec = structs.replace(node.spec, **changes)
        return structs.replace(node, metadata=meta, spec=spec)

    await world.store.update("nodes", "", "n1", changed)


async def test_client_changes_of_the_node_survive_heartbeats_and_restarts() -> None:
    world = World()
    async with world.running():
        await world.sleep(1.0)
        await edit(world, taints=(MARKED,), unschedulable=True)
        await world.sleep(700.0)
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(700.0)
        node = await world.node()
        assert node.metadata.labels["disk"] == "ssd"
        assert node.metadata.labels["kubernetes.io/hostname"] == "n1"
        assert node.metadata.annotations["team"] == "a"
        assert node.spec.taints == (MARKED,)
        assert node.spec.unschedulable is True
        assert [c.status for c in node.status.conditions if c.type == "Ready"] == ["True"]


async def test_cordoning_is_reported_and_static_pods_still_start() -> None:
    world = World()
    async with world.running():
        await world.sleep(1.0)
        await edit(world, unschedulable=True)
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))
        await edit(world, unschedulable=None)
        await world.sleep(1.0)
        events = await world.events("n1", "NodeNotSchedulable", "NodeSchedulable")
        assert [(e.reason, e.message) for e in events] == [
            ("NodeNotSchedulable", "Node n1 status is now: NodeNotSchedulable"),
            ("NodeSchedulable", "Node n1 status is now: NodeSchedulable"),
        ]


async def test_labels_and_taints_of_clients_apply_at_admission() -> None:
    world = World()
    async with world.running():
        await world.sleep(1.0)
        await edit(world)
        await world.create(api_pod("picky", nodeSelector={"disk": "ssd"}))
        await world.until(world.runs("uid-picky"))
        await edit(world, taints=(MARKED,))
        await world.create(api_pod("late"))
        world.add(pod("static"))
        await world.until(world.runs("uid-static"))
        status = await world.status("late")
        assert status.reason == "TaintToleration"
        assert status.message == (
            "Pod was rejected: Predicate TaintToleration failed:"
            " node(s) had taints that the pod didn't tolerate"
        )
        assert len(world.running_containers("uid-picky")) == 1


async def test_the_lease_is_renewed_every_ten_seconds() -> None:
    world = World()
    async with world.running():
        await world.sleep(25.0)
        lease = await world.store.get("leases", "kube-node-lease", "n1")
        assert isinstance(lease, Lease)
        assert lease.spec.holderIdentity == "n1"
        assert lease.spec.leaseDurationSeconds == 40
        assert lease.metadata.ownerReferences[0].uid == (await world.node()).metadata.uid
        renewed = lease.spec.renewTime
        await world.sleep(10.0)
        lease = await world.store.get("leases", "kube-node-lease", "n1")
        assert isinstance(lease, Lease)
        assert renewed is not None
        assert lease.spec.renewTime is not None
        assert lease.spec.renewTime > renewed


async def test_a_deleted_node_registers_again() -> None:
    world = World()
    async with world.running():
        world.add(pod("static"))
        await world.until(world.runs("uid-static"))
        await edit(world, taints=(MARKED,))
        before = await world.node()
        await world.store.delete("nodes", "", "n1")
        await world.sleep(1.0)
        node = await world.node()
        assert node.metadata.labels["kubernetes.io/hostname"] == "n1"
        # Clients that wait for the deletion must see another object.
        assert node.metadata.uid != before.metadata.uid
        assert not node.spec.taints
        await world.create(api_pod("late"))
        await world.until(world.runs("uid-late"))
        assert world.runs("uid-static")()
