"""The invariants that must hold after every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import docker.errors

from podtui.api.names import CONFIG_HASH, CONFIG_MIRROR, GROUP_VERSION, SANDBOX_CONTAINER_NAME
from soak.world import NODE, WAIT_SECONDS, Container, World

_EVENT_TTL: Final = timedelta(hours=1)
_NETWORKS: Final = {"bridge", "host", "none"}


class Broken(Exception):
    """Raised if an invariant does not hold; the text names it and the observation."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The records and the running containers at one time: ``apps`` and ``records`` by pod name."""

    apps: Mapping[str, Container]
    records: Mapping[str, Mapping[str, Any]]
    events: Mapping[str, datetime]
    """The time of the last occurrence, by UID."""
    version: int
    log_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """The permitted effects of a fault. ``pods`` may be restarted (None: all); ``records`` and
    ``events`` may be lost; ``process`` may be replaced."""

    pods: Collection[str] | None = ()
    records: bool = False
    events: bool = False


def snapshot(world: World) -> Snapshot:
    """Wait until the events are on disk: the agent writes them at most every 50 ms, and a kill may
    follow at once. Raises OSError if the API does not answer, and `Broken` if they are not
    written."""
    events: dict[str, datetime] = {}

    def written() -> bool:
        nonlocal events
        listed = world.get("/api/v1/events")["items"]
        events = {event["metadata"]["uid"]: _last(event) for event in listed}
        return events.keys() <= world.events_on_disk()

    try:
        world.wait(written, "the events on disk")
    except TimeoutError as error:
        raise Broken(f"events are written: {error}") from None
    pods = world.get("/api/v1/pods")
    return Snapshot(
        apps={one.pod: one for one in world.containers() if _is_app(one)},
        records=world.pods(),
        events=events,
        version=int(pods["metadata"]["resourceVersion"]),
        log_size=world.log.stat().st_size,
    )


def settle(world: World) -> None:
    """Wait for the desired state. Raises `Broken` with what is missing."""
    found = ["nothing was checked"]

    def reached() -> bool:
        nonlocal found
        found = unsettled(world)
        return not found

    try:
        world.wait(reached, "the desired state")
    except TimeoutError:
        shown = "; ".join(found[:6])
        raise Broken(
            f"the desired state is reached: not after {WAIT_SECONDS:.0f} s: {shown}"
        ) from None


def unsettled(world: World) -> list[str]:
    """Return the differences between folder, records and engine."""
    if not world.alive:
        return ["the agent does not run"]
    try:
        pods = world.pods()
        manifests = world.get(f"/apis/{GROUP_VERSION}/manifests")["items"]
        ready = world.node_condition()
        containers = world.containers()
        volumes = world.engine.volumes(world.label)
        networks = set(world.engine.networks())
    except (OSError, ValueError, docker.errors.DockerException) as error:
        return [f"API or engine does not answer: {error}"]
    found: list[str] = []
    if ready[0] != "True":
        found.append(f"the node is not Ready: {ready[1]}")
    static = {name for name, pod in pods.items() if _is_static(pod)}
    if static != world.desired.keys():
        found.append(f"pods on record {sorted(static)}, wanted {sorted(world.desired)}")
    for name in pods.keys() - static:
        found += _containers_differ(name, pods[name], containers)
    files = {item["metadata"]["name"] for item in manifests}
    if files != {f"{name}.yaml" for name in world.desired}:
        found.append(f"manifests on record: {sorted(files)}")
    for name, version in world.desired.items():
        if (pod := pods.get(name)) is not None:
            found += _pod_differs(name, version, pod, containers)
    uids = {_uid(pod) for pod in pods.values()}
    found += [f"left over: {one}" for one in containers if one.uid not in uids]
    found += [f"volume left over: {v}" for v in volumes if not any(uid in v for uid in uids)]
    found += [f"network left over: {one}" for one in networks - _NETWORKS]
    return found


def check(
    world: World, before: Snapshot, starts: Mapping[tuple[str, str], int] | None, excuse: Excuse
) -> None:
    """Compare a settled world with its previous state. Raises `Broken`."""
    now = snapshot(world)
    if starts is not None:
        for (uid, name), count in Counter(starts).items():
            pod = _pod_of(uid, now)
            if count > 1 and not _excused(excuse, pod):
                raise Broken(f"started once: container {name} of {pod or uid} {count} times")
    for name, was in before.apps.items():
        app = now.apps.get(name)
        if app is None or app.uid != was.uid or _excused(excuse, name):
            continue
        if app.id != was.id:
            raise Broken(f"not restarted without need: {name} was {was}, is {app}")
        restarts = [
            [s["restartCount"] for s in one.records[name]["status"]["containerStatuses"]]
            for one in (before, now)
        ]
        if restarts[0] != restarts[1]:
            raise Broken(f"restart count: {name} had {restarts[0]}, has {restarts[1]}")
    if not excuse.records:
        for name, record in before.records.items():
            if (pod := now.records.get(name)) is not None and _uid(pod) == _uid(record):
                for key in ("uid", "creationTimestamp"):
                    if pod["metadata"][key] != record["metadata"][key]:
                        raise Broken(f"no record lost: {key} of pod {name} changed")
        if not excuse.events and (lost := lost_events(before, now, datetime.now(UTC))):
            raise Broken(f"no record lost: {len(lost)} of {len(before.events)} events")
    if now.version < before.version:
        raise Broken(f"resourceVersion goes back: {before.version}, {now.version}")
    with world.log.open("rb") as log:
        log.seek(before.log_size)
        text = log.read().decode(errors="replace")
    if "Traceback" in text:
        raise Broken("no crash: a traceback in the agent's log: " + text[text.index("Traceback") :])


def lost_events(before: Snapshot, now: Snapshot, time: datetime) -> list[str]:
    """Return the UIDs of the events that are gone, except those that have expired."""
    return [
        uid
        for uid, last in before.events.items()
        if uid not in now.events and time - last < _EVENT_TTL
    ]


def _last(event: Mapping[str, Any]) -> datetime:
    text = event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(text or event["metadata"]["creationTimestamp"])


def drained(world: World) -> None:
    """Delete every manifest; no object of the root directory may remain. Raises `Broken`."""
    for name in list(world.desired):
        world.delete(name)
    settle(world)
    left = [*world.containers(), *world.engine.volumes(world.label)]
    if left:
        raise Broken(f"nothing left over: {left}")


def _pod_differs(
    name: str, version: int, pod: Mapping[str, Any], containers: list[Container]
) -> list[str]:
    status = pod["status"]
    found: list[str] = []
    shown = pod["spec"]["containers"][0]["env"][0]["value"]
    if shown != str(version):
        found.append(f"{name} on record has version {shown}, wanted {version}")
    if status.get("phase") != "Running":
        found.append(f"{name} is {status.get('phase')}: {status.get('message', '')}")
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    if conditions.get("Ready") != "True":
        found.append(f"{name} is not Ready")
    return found + _containers_differ(name, pod, containers)


def _containers_differ(name: str, pod: Mapping[str, Any], containers: list[Container]) -> list[str]:
    """Compare the record of a running pod with the engine. A pod that has ended runs nothing."""
    status, uid = pod["status"], _uid(pod)
    runs = status.get("phase") == "Running"
    mine = [one for one in containers if one.uid == uid and one.state == "running"]
    apps = [one for one in mine if _is_app(one)]
    found: list[str] = []
    if (len(apps), len(mine)) != ((1, 2) if runs else (0, 0)):
        found.append(f"{name} runs {[(one.name, one.attempt) for one in mine]}")
    ids = {one["containerID"].rpartition("/")[2] for one in status.get("containerStatuses", [])
           if one.get("containerID")}  # fmt: skip
    if runs and ids != {one.id for one in apps}:
        found.append(f"{name} on record has other containers than the engine")
    return found


def _is_app(container: Container) -> bool:
    return container.name != SANDBOX_CONTAINER_NAME and container.state == "running"


def _uid(pod: Mapping[str, Any]) -> str:
    """Return the UID on the engine, which differs from the UID of a mirror pod."""
    metadata = pod["metadata"]
    return str(metadata.get("annotations", {}).get(CONFIG_HASH, metadata["uid"]))


def _is_static(pod: Mapping[str, Any]) -> bool:
    return CONFIG_MIRROR in pod["metadata"].get("annotations", {})


def _pod_of(uid: str, now: Snapshot) -> str:
    for name, pod in now.records.items():
        if _uid(pod) == uid:
            return name.removesuffix(f"-{NODE}")
    return ""


def _excused(excuse: Excuse, pod: str) -> bool:
    return excuse.pods is None or pod in excuse.pods


__all__ = ["Broken", "Excuse", "Snapshot", "check", "drained", "settle", "snapshot", "unsettled"]
