"""Faults of the connection between a node and the API server of its cluster, in virtual time: the
server is podtui's own, the kubelet and its client are those of a node, the engine is simulated."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from faulty_server import (
    EXPIRED,
    Fault,
    Handler,
    breaks_chunks,
    delays,
    events,
    halves,
    hangs,
    is_silent,
    refuses,
)
from kubelet_world import api_pod, container, pod
from member_world import MemberWorld, member_world
from msgspec import structs

from podtui.agent.cluster_state import problem, well
from podtui.api.cluster import CERTIFICATE_EXPIRED, cluster_problems
from podtui.api.names import CERTIFICATE_EXPIRING
from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    EnvFromSource,
    Event,
    Lease,
    Node,
    ObjectMeta,
    Pod,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from podtui.errors import PodtuiError

pytestmark = pytest.mark.virtual_time

FAULT_SECONDS = 300.0
WITHIN = 60.0
REFUSED_WITHIN = 25.0
"""An API server that has just started refuses nodes for some seconds."""
CONFIG = EnvFromSource(configMapRef=ConfigMapEnvSource(name="c"))
FAULTS: dict[str, Fault | None] = {
    "refused connections": None,
    "hanging requests": hangs,
    "slow answers": delays(20.0),
    "half answers": halves,
    "status 500": refuses(500, "InternalError"),
    "status 503": refuses(503, "ServiceUnavailable"),
    "status 429": refuses(429, "TooManyRequests", after="1"),
    "status 429 for long": refuses(429, "TooManyRequests", after="25"),
    "status 401": refuses(401, "Unauthorized"),
    "status 403": refuses(403, "Forbidden"),
    "expired watches": events(EXPIRED),
    "garbage in watches": events(b"<html>\n"),
    "errors without a status in watches": events(b'{"type":"ERROR","object":[]}\n'),
    "broken chunks": breaks_chunks,
    "short watches": events(),
}
DROPS_EVENTS = ("status 500", "status 401", "status 403")
"""A kubelet drops an event that the API server refuses."""


async def start(world: MemberWorld) -> None:
    """Start pods: one that stays, one that ends each minute, one to delete, a static one."""
    meta = ObjectMeta(name="c", namespace="default")
    await world.cluster.create("configmaps", ConfigMap(metadata=meta, data={"K": "1"}))
    ends = container(command=("sh", "-c", "sleep 60"), envFrom=(CONFIG,))
    await world.create(
        api_pod("stays", container(envFrom=(CONFIG,))), api_pod("ends", ends), api_pod("deleted")
    )
    world.add(pod("static-n1"))

    async def all_run() -> bool:
        names = ("stays", "ends", "deleted", "static-n1")
        pods = [await world.seen(name) for name in names]
        return all(item is not None and item.status.phase == "Running" for item in pods)

    await world.eventually(all_run)


async def mark_unknown(world: MemberWorld) -> None:
    """Do what the controllers of a cluster do to a node without heartbeats, and its pods."""

    def unknown(node: Node) -> Node:
        conditions = tuple(
            structs.replace(item, status="Unknown", reason="NodeStatusUnknown")
            for item in node.status.conditions
        )
        return structs.replace(node, status=structs.replace(node.status, conditions=conditions))

    def unready(item: Pod) -> Pod:
        conditions = tuple(
            structs.replace(condition, status="False") if condition.type == "Ready" else condition
            for condition in item.status.conditions
        )
        return structs.replace(item, status=structs.replace(item.status, conditions=conditions))

    await world.cluster.update("nodes", "", "n1", unknown)
    await world.change(unready, "stays")


async def is_right(world: MemberWorld) -> bool:
    """Return whether the cluster sees the state of this node."""
    for name in ("stays", "ends", "static-n1", "late-n1"):
        seen, shown = await world.seen(name), world.shown(name)
        if seen is None or shown is None or not same_status(seen, shown):
            return False
    if await world.seen("deleted") is not None:
        return False
    return await is_ready(world) and world.api.answers is True


def same_status(seen: Pod, shown: Pod) -> bool:
    left, right = seen.status, shown.status
    ready = [
        next(item.status for item in status.conditions if item.type == "Ready")
        for status in (left, right)
    ]
    return (
        left.phase == right.phase
        and left.containerStatuses == right.containerStatuses
        and ready[0] == ready[1]
    )


@pytest.mark.parametrize("name", FAULTS)
async def test_the_cluster_sees_the_node_within_a_minute_of_a_fault(
    name: str, tmp_path: Path
) -> None:
    async with member_world(tmp_path) as world:
        await start(world)
        server, before = world.server, world.containers("uid-stays")
        attempt = world.containers("uid-ends")[-1].attempt
        began = world.clock.monotonic()
        if FAULTS[name] is None:
            await server.stop()
        else:
            server.cut()
            server.fault = FAULTS[name]
        await asyncio.sleep(FAULT_SECONDS / 2)
        await mark_unknown(world)
        await world.delete("deleted", 5)
        world.add(pod("late-n1"))
        await asyncio.sleep(FAULT_SECONDS / 2)
        assert len(world.running_containers("uid-late-n1")) == 1
        # The container reads a ConfigMap, which is known.
        assert world.containers("uid-ends")[-1].attempt > attempt
        during = server.since(began)
        # Of five followed objects, each at most once per second.
        assert len(during) < FAULT_SECONDS * 5

        ended = world.clock.monotonic()
        server.fault = None
        if FAULTS[name] is None:
            await server.start()
        within = REFUSED_WITHIN if name in ("status 401", "status 403") else WITHIN
        await world.eventually(lambda: is_right(world), within)
        assert len([call for call in server.since(ended) if call.at < ended + 1]) < 60
        # A change of a document is seen, too.
        assert await world.eventually(lambda: has_read(world, "2")) < WITHIN
        # Nothing was restarted, and nothing is left over.
        assert world.containers("uid-stays") == before
        assert len(world.containers("uid-static-n1")) == 1
        assert world.gone("uid-deleted")()
        if name not in DROPS_EVENTS:
            await world.eventually(lambda: has_event(world, "late-n1", "Started"), WITHIN)


async def has_read(world: MemberWorld, text: str) -> bool:
    """Write a ConfigMap, and return whether the node has read it."""
    meta = ObjectMeta(name="c", namespace="default")
    await world.cluster.put("configmaps", ConfigMap(metadata=meta, data={"K": text}))
    document = await world.documents.get(("ConfigMap", "default", "c"))
    return isinstance(document, ConfigMap) and document.data["K"] == text


async def has_event(world: MemberWorld, name: str, reason: str) -> bool:
    items = (await world.cluster.list("events")).items
    return any(
        isinstance(item, Event) and item.involvedObject.name == name and item.reason == reason
        for item in items
    )


async def test_an_event_is_tried_again_after_a_random_part_of_the_wait(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        await asyncio.sleep(5)
        world.server.fault = refuses(503)
        world.add(pod("late-n1"))
        await asyncio.sleep(60)
        first, second, third, *_ = [
            call.at for call in world.server.calls if call.path.endswith("/events") and call.at > 5
        ]
        assert 0 < second - first < 10
        assert third - second == pytest.approx(10, abs=0.1)


async def test_fifty_broken_connections(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        await start(world)
        world.add(pod("late-n1"))
        await world.delete("deleted", 5)
        before = world.containers("uid-stays")
        began = world.clock.monotonic()
        for number in range(50):
            world.server.cut()
            await asyncio.sleep(0.1 + number % 7)
        calls = [call for call in world.server.since(began) if not call.watch]
        # Each cut leads to at most one list of each of five followed kinds and objects.
        assert len([call for call in calls if "limit=" in call.path]) <= 5 * 50
        await world.eventually(lambda: is_right(world), WITHIN)
        assert world.containers("uid-stays") == before
        assert world.gone("uid-deleted")()


# --- connections that lead nowhere


async def lease_time(world: MemberWorld) -> datetime:
    item = await world.cluster.get("leases", "kube-node-lease", "n1")
    assert isinstance(item, Lease)
    renewed = parse_time(item.spec.renewTime)
    assert renewed is not None
    return renewed


async def test_a_lease_that_is_not_answered_is_renewed_before_it_ends(tmp_path: Path) -> None:
    async def hangs_once(request: web.Request, handler: Handler) -> web.StreamResponse:
        if "/leases/" not in request.path:
            return await handler(request)
        world.server.fault = None
        return await hangs(request, handler)

    async with member_world(tmp_path) as world:
        await asyncio.sleep(5)
        world.server.fault = hangs_once
        await asyncio.sleep(35)
        assert world.server.fault is None
        age = world.clock.now() - await lease_time(world)
        assert age.total_seconds() < 15


async def test_watches_without_a_sound_are_replaced_with_the_heartbeats(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        world.server.fault = silent_watches
        world.server.cut()
        await asyncio.sleep(20)
        # The connections lead nowhere, and stay so.
        world.server.fault = is_silent
        await asyncio.sleep(40)
        world.server.fault = None
        await world.create(api_pod("web"))
        await world.eventually(lambda: runs(world, "web"), WITHIN)


async def silent_watches(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await (is_silent(request, handler) if "watch" in request.query else handler(request))


async def hanging_watches(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await (hangs(request, handler) if "watch" in request.query else handler(request))


async def runs(world: MemberWorld, name: str) -> bool:
    seen = await world.seen(name)
    return seen is not None and seen.status.phase == "Running"


async def test_watches_that_do_not_begin_are_replaced(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        world.server.fault = hanging_watches
        world.server.cut()
        await asyncio.sleep(5)
        world.server.fault = None
        await world.create(api_pod("web"))
        await world.eventually(lambda: runs(world, "web"), WITHIN)


async def test_watches_without_bookmarks_are_replaced(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        world.server.fault = silent_watches
        world.server.cut()
        await asyncio.sleep(20)
        world.server.fault = None
        await world.create(api_pod("web"))
        await world.eventually(lambda: runs(world, "web"), 160.0)


async def test_conditions_that_the_cluster_wrote_are_written_again(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        await start(world)
        await mark_unknown(world)
        await world.eventually(lambda: is_ready(world), 15.0)
        await world.eventually(lambda: has_event(world, "n1", "NodeReady"), 5.0)


async def is_ready(world: MemberWorld) -> bool:
    conditions = (await world.seen_node()).status.conditions
    return {item.status for item in conditions if item.type == "Ready"} == {"True"}


async def test_a_node_stops_while_the_api_server_hangs(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        world.server.fault = hangs
        world.add(pod("late-n1"))
        await world.until(world.runs("uid-late-n1"))
        began = world.clock.monotonic()
    assert asyncio.get_running_loop().time() - began < 10


# --- clocks and certificates


@pytest.mark.parametrize("hour", [3600.0, -3600.0])
async def test_a_clock_that_is_an_hour_off(hour: float, tmp_path: Path) -> None:
    async with member_world(tmp_path, ahead=hour) as world:
        await start(world)
        before = world.containers("uid-stays")
        assert abs((world.clock.now() - await lease_time(world)).total_seconds()) < 20
        await world.delete("deleted", 5)
        world.add(pod("late-n1"))
        await world.eventually(lambda: is_right(world), WITHIN)
        assert world.containers("uid-stays") == before


@pytest.mark.parametrize("hour", [3600.0, -3600.0])
async def test_a_clock_that_jumps(hour: float, tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        await start(world)
        before, attempt = world.containers("uid-stays"), world.containers("uid-ends")[-1].attempt
        await asyncio.sleep(90)
        world.wall.ahead = hour
        await world.delete("deleted", 5)
        world.add(pod("late-n1"))
        await world.eventually(lambda: is_right(world), WITHIN)
        # The back-off is the same as before.
        await asyncio.sleep(300)
        assert abs((world.clock.now() - await lease_time(world)).total_seconds()) < 20
        assert attempt + 2 <= world.containers("uid-ends")[-1].attempt <= attempt + 6
        assert world.containers("uid-stays") == before


@pytest.mark.parametrize("ahead", [3600.0, -3600.0, 0.0])
@pytest.mark.parametrize("jump", [0.0, 3600.0, -3600.0])
async def test_a_token_is_refreshed_at_four_fifths_of_its_life_by_any_clock(
    ahead: float, jump: float, tmp_path: Path
) -> None:
    issued: list[float] = []

    async def issues(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.endswith("/serviceaccounts/default/token"):
            return await handler(request)
        issued.append(world.clock.monotonic())
        body = await request.json()
        seconds = body["spec"]["expirationSeconds"]
        now = world.clock.now() - timedelta(seconds=world.wall.ahead)
        end = rfc3339(now + timedelta(seconds=seconds))
        return web.json_response({**body, "status": {"token": "t", "expirationTimestamp": end}})

    projection = ServiceAccountTokenProjection(path="token", expirationSeconds=3600)
    source = ProjectedVolumeSource(sources=(VolumeProjection(serviceAccountToken=projection),))
    mounts = container(volumeMounts=(VolumeMount(name="v", mountPath="/v"),))
    async with member_world(tmp_path, ahead=ahead) as world:
        world.server.fault = issues
        await world.create(api_pod("web", mounts, volumes=(Volume(name="v", projected=source),)))
        await world.eventually(lambda: runs(world, "web"), WITHIN)
        assert len(issued) == 1
        await asyncio.sleep(100)
        world.wall.ahead += jump
        await asyncio.sleep(3600 - 101)
        # A clock that is set forward, as after a pause of the machine, causes one more refresh.
        assert len(issued) == (3 if jump > 0 else 2)
        assert 0.75 * 3600 < issued[-1] - issued[-2] < 3600


async def test_an_expired_certificate_is_named_until_there_is_another(tmp_path: Path) -> None:
    async with member_world(tmp_path) as world:
        await start(world)
        world.add(pod("late-n1"))
        await world.delete("deleted", 5)
        before = world.containers("uid-stays")
        # The API server is away at first, and refuses the node then.
        world.server.fault = refuses(503)
        world.server.cut()
        await asyncio.sleep(20)
        world.server.fault = refuses(401, "Unauthorized")
        expired = problem(CERTIFICATE_EXPIRING, PodtuiError("it expired"), CERTIFICATE_EXPIRED)
        world.api.state.report(expired)
        await asyncio.sleep(60)
        assert await shown_problem(world) == "it expired"
        world.server.fault = None
        world.api.state.report(well(CERTIFICATE_EXPIRING, "CertificateValid", "it is valid"))
        await world.eventually(lambda: is_right(world), WITHIN)
        await world.eventually(lambda: has_no_problem(world), WITHIN)
        assert world.containers("uid-stays") == before


async def has_no_problem(world: MemberWorld) -> bool:
    return not await shown_problem(world)


async def shown_problem(world: MemberWorld) -> str:
    copy = await world.store.get("nodes", "", "n1")
    assert copy is not None
    assert isinstance(copy, Node)
    return next((found.message for found in cluster_problems(copy)), "")
