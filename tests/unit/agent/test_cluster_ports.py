"""The kubelet's ports to an API server: podtui's own stands for one of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kubelet_world import api_pod, container
from msgspec import structs
from served import Served, serving

from podtui.agent import cluster_ports as ports_module
from podtui.agent.cluster_member import is_read_elsewhere, is_write
from podtui.agent.cluster_ports import ClusterApi, ClusterDocuments, cluster_ports
from podtui.agent.cluster_state import problem
from podtui.api.cluster import NOT_REGISTERED
from podtui.api.names import (
    CLUSTER,
    CLUSTER_UNAVAILABLE,
    CONFIG_HASH,
    CONFIG_MIRROR,
    CONFIG_SOURCE,
    KILLS,
    LEASE_NOT_RENEWED,
    MIRROR_PROBLEM,
    NODE_REFUSED,
    STATIC_POD_PATH,
)
from podtui.api.quantity import parse_quantity
from podtui.api.storage import CSINode, CSINodeDriver
from podtui.api.v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    EnvFromSource,
    Event,
    Lease,
    Node,
    NodeCondition,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PersistentVolumeClaim,
    PersistentVolumeClaimCondition,
    PersistentVolumeClaimStatus,
    Pod,
    PodStatus,
)
from podtui.client.connection import HttpConnection
from podtui.client.decoding import decode_response
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError, NotFound, PodtuiError
from podtui.kubelet.plugins.csi_drivers import csi_node, installed
from podtui.kubelet.ports import PodChanges, Ports
from podtui.kubelet.volumes.csi_expander import expanded_status
from podtui.server.auth.attributes import parse_attributes
from podtui.store import Store, open_store


class World:
    def __init__(self, served: Served, copy: Store, client: UnixClient) -> None:
        self.server = served.store
        self.copy = copy
        self.api = ClusterApi(client, copy, SystemClock(), "n1")
        member = cluster_ports(self.api)
        self.ports: Ports = member.ports
        self.jobs = member.jobs

    async def until(self, test: Callable[[], Awaitable[Any]]) -> Any:
        """Return the first true result of an async function."""
        async with asyncio.timeout(20):
            while not (result := await test()):
                await SystemClock().sleep(0.01)
        return result

    async def copied(self, name: str) -> Pod | None:
        item = await self.copy.get("pods", "default", name)
        return item if isinstance(item, Pod) else None

    async def stored(self, name: str) -> Pod:
        item = await self.server.get("pods", "default", name)
        assert isinstance(item, Pod)
        return item

    async def register(self) -> Node:
        meta = ObjectMeta(name="n1", annotations={STATIC_POD_PATH: "/m", "a": "b"})
        return await self.ports.node.create(Node(apiVersion="v1", kind="Node", metadata=meta))


async def run(job: Callable[[], Awaitable[object]]) -> None:
    await job()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    copy = open_store(None, clock=SystemClock())
    async with serving(tmp_path / "s") as served:
        client = UnixClient(tmp_path / "s", agent="kubelet")
        it = World(served, copy, client)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(job)) for job in it.jobs.values()]
            await it.api.cache.listed((Pod, Node))
            yield it
            for task in tasks:
                task.cancel()
        await client.close()
    await copy.close()


async def changes(world: World) -> AsyncGenerator[PodChanges]:
    async with aclosing(world.ports.pods.changes()) as all_changes:  # type: ignore[type-var]
        async for change in all_changes:
            yield change


def mirror(name: str = "web", node_uid: str = "u") -> Pod:
    owner = OwnerReference(apiVersion="v1", kind="Node", name="n1", uid=node_uid, controller=True)
    pod = api_pod(name)
    return structs.replace(
        pod,
        metadata=structs.replace(
            pod.metadata,
            annotations={CONFIG_MIRROR: "h", CONFIG_HASH: "h", KILLS: "{}"},
            ownerReferences=(owner,),
        ),
        status=PodStatus(phase="Running"),
    )


async def test_only_pods_of_this_node_are_received_and_copied(world: World) -> None:
    await world.server.create("pods", api_pod("mine"))
    other = api_pod("other")
    spec = structs.replace(other.spec, nodeName="n2")
    await world.server.create("pods", structs.replace(other, spec=spec))
    await world.until(lambda: world.copied("mine"))
    async with aclosing(changes(world)) as received:
        first = await anext(received)
        assert first.complete
        assert [pod.metadata.name for pod in first.pods.values() if pod] == ["mine"]
        await world.server.delete("pods", "default", "mine")
        assert (await anext(received)).pods == {"uid-mine": None}
    assert await world.copied("other") is None

    async def gone() -> bool:
        return await world.copied("mine") is None

    await world.until(gone)


async def test_a_pod_of_a_former_run_that_is_gone_leaves_the_copy(tmp_path: Path) -> None:
    copy = open_store(None, clock=SystemClock())
    await copy.create("pods", api_pod("former"))
    async with serving(tmp_path / "s") as served:
        client = UnixClient(tmp_path / "s")
        world = World(served, copy, client)
        assert [pod.metadata.name for pod in await world.ports.pods.list()] == ["former"]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(job)) for job in world.jobs.values()]

            async def gone() -> bool:
                return await world.copied("former") is None

            await world.until(gone)
            for task in tasks:
                task.cancel()
        await client.close()
    await copy.close()


async def test_a_status_is_patched_and_conditions_of_others_are_kept(world: World) -> None:
    gate: Any = {"type": "example.com/gate", "status": "True"}
    pod = structs.replace(api_pod("web"), status=PodStatus(phase="Pending"))
    await world.server.create("pods", pod)
    await world.until(lambda: world.copied("web"))

    def running(stored: Pod) -> Pod:
        return structs.replace(stored, status=structs.replace(stored.status, phase="Running"))

    await world.api.client.patch(
        Pod, "default", "web", {"status": {"conditions": [gate]}}, subresource="status"
    )
    await world.ports.pods.update(pod, running)
    stored = await world.stored("web")
    assert stored.status.phase == "Running"
    assert [item.type for item in stored.status.conditions] == ["example.com/gate"]


async def test_a_pod_with_another_uid_is_not_found(world: World) -> None:
    await world.server.create("pods", api_pod("web"))
    await world.until(lambda: world.copied("web"))
    old = api_pod("web")
    old = structs.replace(old, metadata=structs.replace(old.metadata, uid="former"))
    with pytest.raises(NotFound):
        await world.ports.pods.update(old, lambda pod: pod)
    await world.ports.pods.delete(old)
    assert await world.stored("web")


async def test_a_deleted_pod_is_removed_at_once(world: World) -> None:
    await world.server.create("pods", api_pod("web"))
    await world.until(lambda: world.copied("web"))
    await world.ports.pods.delete(await world.stored("web"))
    assert await world.server.get("pods", "default", "web") is None
    assert await world.copied("web") is None
    assert await world.ports.pods.get("default", "web") is None


async def test_a_mirror_pod_has_its_local_annotations_in_the_copy_alone(world: World) -> None:
    node = await world.register()
    created = await world.ports.pods.create(mirror(node_uid=node.metadata.uid))
    stored = await world.stored("web")
    assert stored.metadata.uid == created.metadata.uid
    assert stored.metadata.annotations == {CONFIG_MIRROR: "h", CONFIG_HASH: "h"}
    assert stored.status.phase == "Running"
    copy = await world.copied("web")
    assert copy is not None
    assert copy.metadata.annotations[KILLS] == "{}"
    assert copy.metadata.uid == stored.metadata.uid


async def test_a_mirror_pod_waits_for_the_node(world: World) -> None:
    with pytest.raises(PodtuiError, match='node "n1" is not registered yet'):
        await world.ports.pods.create(mirror(node_uid=""))
    assert await world.server.get("pods", "default", "web") is None
    assert await world.copied("web") is not None


async def test_the_copy_has_what_the_api_server_does_not_get(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.server.create("pods", api_pod("web"))
    await world.until(lambda: world.copied("web"))

    async def refused(*_: object, **__: object) -> Pod:
        raise ApiError(503, "ServiceUnavailable", "away")

    def running(pod: Pod) -> Pod:
        return structs.replace(pod, status=PodStatus(phase="Running"))

    with monkeypatch.context() as patch:
        patch.setattr(world.api.client, "patch", refused)
        with pytest.raises(ApiError, match="away"):
            await world.ports.pods.update(api_pod("web"), running)
    assert (await world.stored("web")).status.phase != "Running"
    copy = await world.copied("web")
    assert copy is not None
    assert copy.status.phase == "Running"
    await world.ports.pods.update(api_pod("web"), running)
    assert (await world.stored("web")).status.phase == "Running"


async def test_the_node_is_registered_and_its_folder_stays_here(world: World) -> None:
    await world.register()
    stored = await world.server.get("nodes", "", "n1")
    assert stored is not None
    assert stored.metadata.annotations == {"a": "b"}

    def labelled(node: Node) -> Node:
        assert node.metadata.annotations[STATIC_POD_PATH] == "/m"
        meta = structs.replace(node.metadata, labels={"x": "y"})
        return structs.replace(node, metadata=meta)

    node = await world.ports.node.update(labelled)
    assert node.metadata.annotations == {STATIC_POD_PATH: "/m", "a": "b"}
    stored = await world.server.get("nodes", "", "n1")
    assert stored is not None
    assert stored.metadata.labels["x"] == "y"
    assert stored.metadata.annotations == {"a": "b"}
    copy = await world.copy.get("nodes", "", "n1")
    assert copy is not None
    assert copy.metadata.annotations[STATIC_POD_PATH] == "/m"


async def test_a_node_that_others_create_is_in_the_copy_with_the_reason(world: World) -> None:
    world.api.registers = False
    with pytest.raises(NotFound):
        await world.ports.node.update(lambda node: node)
    missing = await condition(world, NODE_REFUSED, "True")
    assert missing.reason == NOT_REGISTERED
    assert missing.message == 'the cluster has no node "n1", and registerNode is false'
    assert await world.server.get("nodes", "", "n1") is None
    meta = ObjectMeta(name="n1")
    await world.server.create("nodes", Node(apiVersion="v1", kind="Node", metadata=meta))
    status = NodeStatus(capacity={"cpu": "1"})
    await world.ports.node.update(lambda node: structs.replace(node, status=status))
    await condition(world, NODE_REFUSED, "False")


async def condition(world: World, name: str, status: str) -> NodeCondition:
    """Return a condition of the copy of the node, once it has this status."""

    async def with_status() -> NodeCondition | None:
        copy = await world.copy.get("nodes", "", "n1")
        conditions = copy.status.conditions if isinstance(copy, Node) else ()
        return next((c for c in conditions if c.type == name and c.status == status), None)

    return await world.until(with_status)


async def test_the_copy_of_the_node_says_how_it_is_with_its_cluster(world: World) -> None:
    await world.register()
    await world.ports.node.renew_lease(40)
    answers = await condition(world, CLUSTER_UNAVAILABLE, "False")
    assert answers.message == f"{world.api.client.target} answers"
    await condition(world, NODE_REFUSED, "False")
    lease = await condition(world, LEASE_NOT_RENEWED, "False")
    assert lease.message.startswith("kube-node-lease/n1 is valid for 40 s")
    world.api.state.report(problem(CLUSTER_UNAVAILABLE, PodtuiError("connection refused"), "X"))
    lost = await condition(world, CLUSTER_UNAVAILABLE, "True")
    assert (lost.reason, lost.message) == ("X", "connection refused")
    assert lost.lastTransitionTime
    copy = await world.copy.get("nodes", "", "n1")
    assert copy is not None
    assert copy.metadata.annotations[CLUSTER].startswith("unix:")
    # Neither the kubelet nor the API server gets this state.
    node = await world.ports.node.get()
    stored = await world.server.get("nodes", "", "n1")
    for item in (node, stored):
        assert isinstance(item, Node)
        assert item.status.conditions == ()
        assert CLUSTER not in item.metadata.annotations


async def test_an_agent_that_starts_again_knows_since_when_the_cluster_is_lost(
    world: World,
) -> None:
    await world.register()
    world.api.state.report(problem(CLUSTER_UNAVAILABLE, PodtuiError("connection refused"), "X"))
    lost = await condition(world, CLUSTER_UNAVAILABLE, "True")
    copy = await world.copy.get("nodes", "", "n1")
    assert isinstance(copy, Node)
    early = structs.replace(lost, lastTransitionTime="2026-01-01T00:00:00Z")
    status = structs.replace(copy.status, conditions=(early,))
    await world.copy.put("nodes", structs.replace(copy, status=status))
    other = ClusterApi(world.api.client, world.copy, SystemClock(), "n1")
    await other.restore()
    other.state.report(problem(CLUSTER_UNAVAILABLE, PodtuiError("no route"), "X"))
    (shown,) = other.state.added_to(node_named("n1")).status.conditions
    assert (shown.message, shown.lastTransitionTime) == ("no route", "2026-01-01T00:00:00Z")


def node_named(name: str) -> Node:
    return Node(apiVersion="v1", kind="Node", metadata=ObjectMeta(name=name))


async def test_the_copy_of_the_node_says_why_the_cluster_refuses_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> Node:
        raise ApiError(403, "Forbidden", 'node "n2" is not allowed to modify node "n1"')

    with monkeypatch.context() as patched:
        patched.setattr(world.api.client, "create", refuse)
        patched.setattr(world.api.client, "get", refuse)
        # The kubelet reads the node, and registers it.
        with pytest.raises(NotFound):
            await world.ports.node.update(lambda node: node)
        with pytest.raises(ApiError):
            await world.register()
        node = await world.ports.node.get()
        assert node is not None
        assert node.metadata.uid == "", "owner of no mirror pod"
        with pytest.raises(ApiError):
            await world.ports.node.renew_lease(40)
        refused = await condition(world, NODE_REFUSED, "True")
        assert refused.reason == "Forbidden"
        assert refused.message == 'node "n2" is not allowed to modify node "n1"'
        await condition(world, LEASE_NOT_RENEWED, "True")
    await world.register()
    await condition(world, NODE_REFUSED, "False")


async def test_the_copy_says_why_a_static_pod_has_no_mirror_pod(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> Pod:
        raise ApiError(404, "NotFound", 'namespaces "x" not found')

    with monkeypatch.context() as patched:
        patched.setattr(world.api.client, "create", refuse)
        with pytest.raises(ApiError):
            await world.ports.pods.create(mirror())
        copy = await world.copied("web")
        assert copy is not None
        refused = 'refused: namespaces "x" not found'
        assert copy.metadata.annotations[MIRROR_PROBLEM] == refused
        # The static pod is treated as its record, whose update tries again.
        record = await world.ports.pods.get("default", "web")
        assert record is not None
        assert MIRROR_PROBLEM not in record.metadata.annotations
        with pytest.raises(ApiError):
            await world.ports.pods.update(record, lambda pod: pod)
    await world.ports.pods.update(record, lambda pod: pod)
    copy = await world.copied("web")
    assert copy is not None
    assert MIRROR_PROBLEM not in copy.metadata.annotations
    assert (await world.stored("web")).metadata.uid == copy.metadata.uid


async def test_a_static_pod_without_a_mirror_pod_leaves_the_copy_with_its_file(
    world: World,
) -> None:
    with pytest.raises(PodtuiError, match="not registered yet"):
        await world.ports.pods.create(mirror(node_uid=""))
    copy = await world.copied("web")
    assert copy is not None
    assert copy.metadata.annotations[MIRROR_PROBLEM].startswith("not yet: node ")
    await world.ports.pods.delete(copy)
    assert await world.copied("web") is None
    assert await world.ports.pods.get("default", "web") is None


async def test_a_lease_that_another_client_changed_is_read_again(world: World) -> None:
    await world.register()
    await world.ports.node.renew_lease(40)

    def taken(lease: Lease) -> Lease:
        spec = structs.replace(lease.spec, holderIdentity="other")
        return structs.replace(lease, spec=spec)

    await world.server.update("leases", "kube-node-lease", "n1", taken)
    await world.ports.node.renew_lease(40)
    lease = await world.server.get("leases", "kube-node-lease", "n1")
    assert isinstance(lease, Lease)
    assert lease.spec.holderIdentity == "n1"
    await world.server.delete("leases", "kube-node-lease", "n1")
    await world.ports.node.renew_lease(40)
    assert await world.server.get("leases", "kube-node-lease", "n1") is not None


def event(count: int = 1) -> Event:
    return Event(
        apiVersion="v1",
        kind="Event",
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default"),
        reason="BackOff",
        type="Warning",
        count=count,
    )


async def stored_event(world: World, count: int) -> Event:
    async def counted() -> Event | None:
        item = await world.server.get("events", "default", "web.1")
        return item if isinstance(item, Event) and item.count == count else None

    return await world.until(counted)


async def test_an_event_that_repeats_is_counted(world: World) -> None:
    await world.ports.events.put(event())
    await stored_event(world, 1)
    await world.ports.events.put(event(2))
    await stored_event(world, 2)
    # The API server has expired it.
    await world.server.delete("events", "default", "web.1")
    await world.ports.events.put(event(3))
    await stored_event(world, 3)
    assert await world.copy.get("events", "default", "web.1") is not None


async def test_an_event_waits_for_the_api_server(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports_module, "EVENT_RETRY_SECONDS", 0.01)
    create, failures = world.api.client.create, 3

    async def fails(*arguments: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise PodtuiError("connection refused")
        return await create(*arguments)

    monkeypatch.setattr(world.api.client, "create", fails)
    await world.ports.events.put(event())
    await stored_event(world, 1)
    assert failures == 0


async def test_only_documents_of_pods_here_are_followed(world: World) -> None:
    config = ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"k": "1"})
    await world.server.create("configmaps", config)
    source = EnvFromSource(configMapRef=ConfigMapEnvSource(name="c"))
    await world.server.create("pods", api_pod("web", container(envFrom=(source,))))
    await world.until(lambda: world.copied("web"))
    documents: Any = world.ports.documents
    key = ("ConfigMap", "default", "c")
    async with (
        aclosing(documents.changes("ConfigMap")) as keys,  # type: ignore[type-var]
        aclosing(changes(world)) as received,
        asyncio.timeout(20),
    ):
        await anext(received)
        assert await anext(keys) == key
        assert (await documents.get(key)).data == {"k": "1"}
        await world.server.put("configmaps", structs.replace(config, data={"k": "2"}))
        assert await anext(keys) == key
        assert (await documents.get(key)).data == {"k": "2"}


async def test_documents_that_are_refused_at_first_are_followed_soon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node authorizer of an API server may learn of a pod after its node has."""
    config = ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"k": "1"})
    await world.server.create("configmaps", config)
    get, refusals = HttpConnection.get, 2

    async def refuse(self: HttpConnection, path: str, *arguments: Any, **others: Any) -> bytes:
        nonlocal refusals
        if refusals and path.endswith("/configmaps"):
            refusals -= 1
            raise ApiError(403, "Forbidden", "no relationship found between node 'n1' and it")
        return await get(self, path, *arguments, **others)

    monkeypatch.setattr(HttpConnection, "get", refuse)
    world.api.client.refused_delay = 60.0
    source = EnvFromSource(configMapRef=ConfigMapEnvSource(name="c"))
    documents: Any = world.ports.documents
    async with aclosing(documents.changes("ConfigMap")) as keys, asyncio.timeout(20):
        documents.follow_those_of([api_pod("web", container(envFrom=(source,)))])
        assert await anext(keys) == ("ConfigMap", "default", "c")
    assert refusals == 0


async def test_documents_are_followed_again_after_a_failure(world: World) -> None:
    config = ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"k": "1"})
    await world.server.create("configmaps", config)
    source = EnvFromSource(configMapRef=ConfigMapEnvSource(name="c"))
    documents: Any = ClusterDocuments(world.api)
    documents.follow_those_of([api_pod("web", container(envFrom=(source,)))])
    key = ("ConfigMap", "default", "c")

    async def data() -> str:
        return (await documents.get(key)).data["k"]

    for text in ("1", "2"):
        await world.server.put("configmaps", structs.replace(config, data={"k": text}))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(documents.run())
            await SystemClock().sleep(0)

            async def changed(text: str = text) -> bool:
                return await data() == text

            await world.until(changed)
            task.cancel()


async def test_a_static_pod_does_not_wait_for_the_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports_module, "LISTED_SECONDS", 0.01)
    copy = open_store(None, clock=SystemClock())
    client = UnixClient(tmp_path / "no-server", agent="kubelet")
    services = cluster_ports(ClusterApi(client, copy, SystemClock(), "n1")).ports.services
    assert services is not None
    pod = api_pod("web")
    annotations = {CONFIG_SOURCE: "file"}
    static = structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))
    assert await services.of(static) == ()
    with pytest.raises(PodtuiError, match="services have not yet been read at least once"):
        await services.of(pod)
    await client.close()
    await copy.close()


async def test_services_and_classes_are_those_of_the_cluster(world: World) -> None:
    assert await world.ports.runtime_classes.get("none") is None
    assert world.ports.services is not None
    assert await world.ports.services.of(api_pod("web")) == ()


async def test_a_claim_that_is_not_bound_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports_module, "CLAIM_SECONDS", 0.01)
    claims = world.ports.claims
    assert claims is not None
    assert await claims.claim("default", "data") is None
    async with aclosing(claims.changes()) as keys, asyncio.timeout(20):  # type: ignore[type-var]
        assert await anext(keys) == ("default", "data")


async def test_the_status_of_a_claim_is_written_unless_it_has_changed(world: World) -> None:
    claims = world.ports.claims
    assert claims is not None
    pending = PersistentVolumeClaimCondition(type="FileSystemResizePending", status="True")
    other = PersistentVolumeClaimCondition(type="Other", status="True")
    status = PersistentVolumeClaimStatus(
        phase="Bound",
        capacity={"storage": "1Gi"},
        allocatedResourceStatuses={"storage": "NodeResizePending"},
        conditions=(pending, other),
    )
    meta = ObjectMeta(name="data", namespace="default")
    item = PersistentVolumeClaim(
        apiVersion="v1", kind="PersistentVolumeClaim", metadata=meta, status=status
    )
    await world.server.create("persistentvolumeclaims", item)
    claim = await claims.claim("default", "data")
    assert claim is not None
    expanded = expanded_status(claim.status, parse_quantity("2Gi"))
    assert (await claims.set_status(claim, expanded)).status == expanded
    assert (expanded.capacity, expanded.conditions) == ({"storage": "2Gi"}, (other,))
    with pytest.raises(ApiError, match="the object has been modified"):
        await claims.set_status(claim, expanded)


async def test_the_drivers_of_the_node_are_written_to_the_cluster(world: World) -> None:
    storage = world.ports.storage
    assert storage is not None
    assert await storage.driver("d") is None
    assert await storage.attachment("a") is None
    node = Node(metadata=ObjectMeta(name="n1", uid="u"))
    await storage.set_node(lambda item: csi_node(item, node))
    driver = CSINodeDriver(name="d", nodeID="x")
    await storage.set_node(lambda item: installed(csi_node(item, node), driver))
    item = await storage.node()
    assert item is not None
    assert item.spec.drivers == (driver,)
    assert [owner.uid for owner in item.metadata.ownerReferences] == ["u"]


def test_an_api_server_writes_null_for_no_drivers() -> None:
    item = decode_response("/csinodes/n1", b'{"spec": {"drivers": null}}', CSINode)
    assert item.spec.drivers == ()
    assert b'"drivers":[]' in msgspec.json.encode(item)


@pytest.mark.parametrize(
    ("request_line", "writes"),
    [
        ("POST /api/v1/namespaces/default/pods", True),
        ("PATCH /apis/apps/v1/namespaces/default/deployments/web", True),
        ("DELETE /api/v1/namespaces/default/pods/web", True),
        ("POST /api/v1/namespaces/default/pods/web/eviction", True),
        ("GET /api/v1/pods", False),
        ("POST /api/v1/namespaces/default/pods/web/exec", False),
        ("POST /api/v1/nodes/n1/proxy/x", False),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", False),
        ("POST /apis/podtui.dev/v1alpha1/namespaces/default/pods/web/restart", False),
    ],
)
def test_which_requests_change_objects(request_line: str, writes: bool) -> None:
    method, path = request_line.split()
    assert is_write(parse_attributes(method, path, {})) is writes


@pytest.mark.parametrize(
    ("request_line", "elsewhere"),
    [
        ("GET /apis/apps/v1/deployments", True),
        ("GET /api/v1/namespaces/default/secrets/x", True),
        ("GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", True),
        ("GET /api/v1/namespaces/default/pods/web/log", False),
        ("GET /api/v1/nodes/n1", False),
        ("GET /apis/events.k8s.io/v1/events", False),
        ("GET /apis/metrics.k8s.io/v1beta1/pods", False),
        ("GET /apis/podtui.dev/v1alpha1/manifests", False),
        ("GET /apis/apps/v1", False),
        ("GET /openapi/v2", False),
        ("GET /readyz", False),
    ],
)
def test_which_reads_are_not_answered_here(request_line: str, elsewhere: bool) -> None:
    method, path = request_line.split()
    assert is_read_elsewhere(parse_attributes(method, path, {})) is elsewhere
