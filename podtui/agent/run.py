"""The agent process: creates and connects the runtime, the store, the kubelet and the server."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import asdict, replace

from podtui import __version__
from podtui.agent.clash import AgentClash, guarded
from podtui.agent.control import prepare_root
from podtui.agent.lock import AgentLock, AgentRecord, last_engine, last_settings
from podtui.agent.log_lines import log_to
from podtui.agent.planner import planner
from podtui.agent.systemd import machine_is_stopping
from podtui.api.names import MANIFEST_PATH
from podtui.api.times import rfc3339
from podtui.api.v1 import Pod
from podtui.clock import Clock, SystemClock
from podtui.errors import EngineError, EngineUnavailable, PodtuiError
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.containers.log_files import LOGS
from podtui.kubelet.kubelet import Kubelet
from podtui.kubelet.resize.allocations import FILE_NAME as ALLOCATIONS
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.folder import ManifestFolder
from podtui.manifest.result import ReadResult
from podtui.runtime.journal import Journal, journaled
from podtui.runtime.protocol import Runtime
from podtui.server import build_app, serve_unix
from podtui.server.images import ImageRoutes
from podtui.server.insight import EngineCallRoutes, InsightRoutes
from podtui.server.kubelet import SummaryRoutes
from podtui.server.what_if import ManifestReader, PlanRoutes, WhatIfRoutes
from podtui.settings import SETTINGS, Settings, attribute_name
from podtui.store import Store, open_store
from podtui.store.usage import UsageTable

_LOG = logging.getLogger(__name__)
STOP_SECONDS: Final = 10.0
"""Seconds that a stopping agent waits for calls in progress."""


def make_runtime(settings: Settings, clock: Clock) -> Runtime:
    """Create the runtime for the settings; does not connect yet."""
    if settings.engine == "memory":
        from podtui.runtime.memory import MemoryRuntime

        return MemoryRuntime(root=str(settings.rootDir), clock=clock)
    from podtui.runtime.docker import DockerRuntime, LogLimits

    url = None if settings.engine == "auto" else settings.engine
    limits = LogLimits(size=settings.containerLogMaxSize, files=settings.containerLogMaxFiles)
    return DockerRuntime(url, root=str(settings.rootDir), clock=clock, log_limits=limits)


def kubelet_config(settings: Settings) -> KubeletConfig:
    """Return the kubelet's configuration: a field named after a setting has its value."""
    values = {attribute_name(key): getattr(settings, key) for key in SETTINGS}
    values |= {
        "root_dir": str(settings.rootDir),
        "static_pod_path": str(settings.staticPodPath),
        "strict": settings.kubeletStrict,
        "simulated": settings.engine == "memory",
    }
    known = {field.name for field in fields(KubeletConfig)}
    return KubeletConfig(**{name: value for name, value in values.items() if name in known})


def manifest_reader(settings: Settings) -> ManifestReader:
    """Return a reader that parses data as if it were a file of the manifest folder."""
    path = str(settings.staticPodPath / "what-if.yaml")

    def read(data: bytes) -> ReadResult:
        return read_manifest(path, data, node_name=settings.nodeName, strict=settings.kubeletStrict)

    return read


async def last_good(store: Store) -> Mapping[str, Pod]:
    """Return the last pods by manifest path: the fallback for files that are invalid now."""
    listing = await store.list("pods")
    pods = [item for item in listing.items if isinstance(item, Pod)]
    return {
        pod.metadata.annotations[MANIFEST_PATH]: pod
        for pod in pods
        if MANIFEST_PATH in pod.metadata.annotations
    }


async def serve(settings: Settings, stopped: asyncio.Event, power_failing: asyncio.Event) -> bool:
    """Run the kubelet and the server until ``stopped``; the containers keep running.

    If ``power_failing`` is set by then or the machine is shutting down, and graceful shutdown is
    enabled, end the pods first. Return whether they ended. Raises `AgentClash`.
    """
    ended = False
    clashes: list[AgentClash] = []

    def on_clash(clash: AgentClash) -> None:
        clashes.append(clash)
        stopped.set()

    clock = SystemClock()
    async with AsyncExitStack() as stack:
        limit = threading.Timer(STOP_SECONDS, _give_up)
        limit.daemon = True
        stack.callback(limit.cancel)
        store = open_store(str(settings.records_path), clock=clock)
        stack.push_async_callback(store.close)
        if store.recovered:
            _LOG.warning("%s", store.recovered)
        journal = Journal(clock)
        runtime = guarded(journaled(make_runtime(settings, clock), journal), settings, on_clash)
        stack.push_async_callback(runtime.close)
        folder = ManifestFolder(
            settings.staticPodPath,
            node_name=settings.nodeName,
            clock=clock,
            strict=settings.kubeletStrict,
            last_good=await last_good(store),
            full_list_seconds=settings.fileCheckFrequency,
        )
        kubelet = Kubelet(
            runtime=runtime,
            records=store,
            folders=folder,
            clock=clock,
            config=kubelet_config(settings),
            usage=UsageTable(str(settings.records_path)),
        )
        app = build_app(
            store,
            kubelet.endpoints,
            version=__version__,
            extra_routes=[
                *WhatIfRoutes(kubelet.what_if, manifest_reader(settings)).routes(),
                *ImageRoutes(kubelet.images).routes(),
                *InsightRoutes(kubelet.insights).routes(),
                *SummaryRoutes(kubelet.endpoints.summary).routes(),
                *PlanRoutes(planner(folder, kubelet.what_if)).routes(),
                *EngineCallRoutes(journal.calls).routes(),
            ],
        )
        await stack.enter_async_context(serve_unix(app, settings.socket_path))
        _spare_the_collector()
        _LOG.info("serving %s on %s", settings.staticPodPath, settings.socket_path)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(kubelet.run(), name="kubelet"),
                group.create_task(store.run(), name="store"),
            ]
            await stopped.wait()
            ends = (
                not clashes
                and kubelet.ends_pods
                and (power_failing.is_set() or await asyncio.to_thread(machine_is_stopping))
            )
            ended = ends and await kubelet.shut_down()
            limit.start()
            for task in tasks:
                task.cancel()
    if clashes:
        raise clashes[0]
    return ended


def _give_up() -> None:
    """Exit the process if calls still wait for a hung engine: their threads cannot be cancelled.

    Nothing is lost: the records are written, and the next agent lists the engine's state.
    """
    _LOG.warning("the engine did not answer within %.0f s: stopped without it", STOP_SECONDS)
    os._exit(0)


def _spare_the_collector() -> None:
    """Exclude the long-lived objects of the program from garbage collection, and collect less
    often.

    Each full collection blocks the event loop. With 1,000 pods, five collections in two minutes
    took up to 130 ms each; now they take up to 15 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 20, 20)


def _record(settings: Settings, *, started: str) -> AgentRecord:
    """Return this process's record for the lock file."""
    return AgentRecord(
        pid=os.getpid(),
        version=__version__,
        nodeName=settings.nodeName,
        staticPodPath=str(settings.staticPodPath),
        engine=settings.engine,
        started=started,
    )


def run_agent(settings: Settings) -> int:
    """Serve the root directory until SIGTERM, SIGINT or SIGPWR (power failure).

    Raises `AgentRunning`, `AgentFailed`, `AgentClash`.
    """
    log_to()
    prepare_root(settings)
    lock = AgentLock(settings.lock_path)
    lock.acquire(_record(settings, started=rfc3339(datetime.now(UTC))))
    try:
        ended = asyncio.run(_main(settings))
    finally:
        lock.release()
    _LOG.info("stopped; the pods have ended" if ended else "stopped; the containers run on")
    return 0


async def _main(settings: Settings) -> bool:
    stopped, power_failing = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def power_fails() -> None:
        power_failing.set()
        stopped.set()

    loop.add_signal_handler(signal.SIGPWR, power_fails)
    # A closed terminal must not stop the supervision of pods.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return await serve(settings, stopped, power_failing)


def remove_all(settings: Settings) -> str:
    """Remove everything of this root directory from the engine of ``settings``, then the records.

    Return a message that tells what was done. Raises `AgentRunning` while an agent serves the
    directory.
    """
    if not settings.rootDir.is_dir():
        return _remove_leftovers(settings)
    last, engine = last_settings(settings.lock_path), last_engine(settings.lock_path)
    lock = AgentLock(settings.lock_path)
    record = _record(settings, started="")
    # Keep the last agent's settings in the lock file, even if another engine is cleaned up.
    left = asdict(last) if last is not None else {"engine": engine or record.engine}
    lock.acquire(replace(record, **left))
    try:
        pods, containers = asyncio.run(_remove_containers(settings))
        for path in _records_of(settings):
            path.unlink(missing_ok=True)
        if (settings.rootDir / LOGS).is_dir():
            shutil.rmtree(settings.rootDir / LOGS)
    finally:
        lock.release()
    if settings.engine == "memory":
        return "Removed the records; simulated pods (--engine memory) end with their agent."
    return (
        f"Removed {pods} pods with {containers} containers, their volumes and the records"
        f" (--engine {settings.engine})."
    )


def _remove_leftovers(settings: Settings) -> str:
    """Remove the containers of a root directory that does not exist. No agent can serve it."""
    absent = f"There is no {settings.rootDir}"
    try:
        pods, containers = asyncio.run(_remove_containers(settings))
    except EngineUnavailable:
        return f"{absent}, and no engine answers: nothing was removed."
    if not pods:
        return f"{absent}: nothing to remove."
    return f"{absent}, but the engine had its containers: removed {pods} pods with {containers}."


def _records_of(settings: Settings) -> list[Path]:
    base = settings.records_path
    return [
        base,
        base.with_name(base.name + "-wal"),
        base.with_name(base.name + "-shm"),
        settings.rootDir / ALLOCATIONS,
    ]


async def _remove_containers(settings: Settings) -> tuple[int, int]:
    runtime = make_runtime(settings, SystemClock())
    try:
        await runtime.connect()
        snapshot = await runtime.list()
        uids = {sandbox.uid for sandbox in snapshot.sandboxes}
        uids |= {container.pod_uid for container in snapshot.containers}
        uids |= set(await runtime.pod_data())
        failures: list[str] = []

        async def remove(uid: str) -> None:
            try:
                for container in snapshot.containers:
                    if container.pod_uid == uid:
                        await runtime.remove_container(container.id)
                for sandbox in snapshot.sandboxes:
                    if sandbox.uid == uid:
                        await runtime.remove_sandbox(sandbox.id)
                await runtime.remove_pod_data(uid)
            except EngineError as error:
                failures.append(str(error))

        async with asyncio.TaskGroup() as group:
            for uid in uids:
                group.create_task(remove(uid), name=f"remove {uid}")
        if failures:
            raise PodtuiError("not all could be removed: " + "; ".join(failures))
        return len(uids), len(snapshot.containers)
    finally:
        await runtime.close()
