"""The kubelet's ports to an API server: podtui's own stands for one of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kubelet_world import api_pod, container
from msgspec import structs
from served import Served, serving

from podtui.agent import cluster_ports as ports_module
from podtui.agent.cluster_member import is_write
from podtui.agent.cluster_ports import ClusterApi, ClusterDocuments, cluster_ports
from podtui.api.names import (
    CLUSTER,
    CLUSTER_PROBLEM,
    CONFIG_HASH,
    CONFIG_MIRROR,
    KILLS,
    STATIC_POD_PATH,
)
from podtui.api.v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    EnvFromSource,
    Event,
    Lease,
    Node,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodStatus,
)
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError, NotFound, PodtuiError
from podtui.kubelet.ports import PodChanges, Ports
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


async def test_the_copy_of_the_node_says_why_the_cluster_does_not_answer(world: World) -> None:
    await world.register()
    async with aclosing(world.ports.node.snapshots()) as nodes:  # type: ignore[type-var]
        await anext(nodes)
        world.api.problem = "connection refused"
        world.api.on_problem()
        node = await anext(nodes)
    assert node is not None
    assert node.metadata.annotations == {"a": "b", STATIC_POD_PATH: "/m"}
    copy = await world.copy.get("nodes", "", "n1")
    assert copy is not None
    assert copy.metadata.annotations[CLUSTER_PROBLEM] == "connection refused"
    assert copy.metadata.annotations[CLUSTER].startswith("unix:")
    stored = await world.server.get("nodes", "", "n1")
    assert stored is not None
    assert stored.metadata.annotations == {"a": "b"}


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
