"""The agent process: creates and connects the runtime, the store, the kubelet and the server."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec
from aiohttp import web

from podtui import __version__
from podtui.agent.clash import guarded
from podtui.agent.cluster_member import ClusterMember
from podtui.agent.connection_checks import ConnectionChecks
from podtui.agent.control import prepare_root
from podtui.agent.kubelet_config import kubelet_config
from podtui.agent.lock import AgentLock, AgentRecord
from podtui.agent.log import log_to
from podtui.agent.pod_collector import PodCollector
from podtui.agent.systemd import machine_is_stopping
from podtui.api.local import Plan
from podtui.api.names import MANIFEST_PATH
from podtui.api.pods import is_mirror
from podtui.api.times import rfc3339
from podtui.api.v1 import Pod
from podtui.clock import Clock, SystemClock
from podtui.errors import AgentClash, PodtuiError, first_error
from podtui.kubelet.admission.plan import plan_of, pods_to_admit
from podtui.kubelet.kubelet import Kubelet
from podtui.kubelet.tasks import Parts
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.folder import ManifestFolder
from podtui.manifest.listing import shown_path
from podtui.manifest.result import ReadResult
from podtui.pki.access_point import AccessPoint, choose_access_point, write_kubeconfig
from podtui.pki.certificates import cluster_names, server_names
from podtui.pki.pki import Pki
from podtui.pki.tokens import TokenIssuer
from podtui.runtime.journal import Journal, journaled
from podtui.runtime.protocol import Runtime
from podtui.server import build_app, serve_unix
from podtui.server.audit import AuditFile, AuditLog
from podtui.server.auth.access import Access
from podtui.server.auth.reviews import ReviewRoutes
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.server.kubelet_api.connections import ConnectionRoutes
from podtui.server.kubelet_api.images import ImageRoutes
from podtui.server.kubelet_api.insight import EngineCallRoutes, InsightRoutes
from podtui.server.kubelet_api.kubelet import FigureRoutes
from podtui.server.kubelet_api.what_if import (
    ManifestReader,
    Planner,
    PlanRoutes,
    Simulator,
    WhatIfRoutes,
)
from podtui.server.transport.pod_server import PodServers
from podtui.server.transport.tls import ServerCertificate, TlsServer
from podtui.settings import SETTINGS, Settings
from podtui.store import Store, open_store
from podtui.store.usage import UsageTable

if TYPE_CHECKING:
    from podtui.agent.standalone import Standalone

_LOG = logging.getLogger(__name__)
_M_TRIM_THRESHOLD: Final = -1
"""The number of this parameter in glibc's ``malloc.h``."""
_TRIM_BYTES: Final = 64 * 1024
STOP_SECONDS: Final = 10.0
"""Seconds that a stopping agent waits for calls in progress."""


def run_agent(settings: Settings) -> int:
    """Serve the root directory until SIGTERM, SIGINT or SIGPWR (power failure).

    Raises `AgentRunning`, `AgentFailed`, `AgentClash`, and `PodtuiError` for settings that the
    machine or the state does not allow.
    """
    log_to()
    prepare_root(settings)
    lock = AgentLock(settings.lock_path)
    lock.acquire(AgentRecord.of(settings, started=rfc3339(datetime.now(UTC))))
    try:
        ended = asyncio.run(_main(settings))
    except ExceptionGroup as errors:
        if (error := _only_message(errors)) is None:
            raise
        raise error from errors
    finally:
        lock.release()
    _LOG.info(
        "stopped; all pods have terminated" if ended else "stopped; the containers keep running"
    )
    return 0


def _only_message(errors: ExceptionGroup) -> PodtuiError | None:
    """Return an error with a message for the user, if nothing else is wrong."""
    expected, others = errors.split(PodtuiError)
    if expected is None or others is not None:
        return None
    return cast("PodtuiError", first_error(expected))


async def _main(settings: Settings) -> bool:
    stopped, power_failing = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def on_power_failure() -> None:
        power_failing.set()
        stopped.set()

    loop.add_signal_handler(signal.SIGPWR, on_power_failure)
    # A closed terminal must not stop the supervision of pods.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return await serve(settings, stopped, power_failing)


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
        limit = threading.Timer(STOP_SECONDS, _exit_if_calls_hang)
        limit.daemon = True
        stack.callback(limit.cancel)
        store = open_store(str(settings.records_path), clock=clock)
        stack.push_async_callback(store.close)
        parts = Parts(clock)
        parts.check("records", store.problem)
        journal = Journal(clock)
        runtime = guarded(journaled(make_runtime(settings, clock), journal), settings, on_clash)
        stack.push_async_callback(runtime.close)
        if settings.nodeKubeconfig is None:
            await PodCollector(store, clock, settings.nodeName).remove_former()
        folder = ManifestFolder(
            settings.staticPodPath,
            node_name=settings.nodeName,
            clock=clock,
            strict=settings.kubeletStrict,
            last_good=await last_good(store),
            full_list_seconds=settings.fileCheckFrequency,
            applies=settings.nodeKubeconfig is None,
        )
        pki = await asyncio.to_thread(Pki, settings.pki_path, clock.now())
        tokens = TokenRegistry(store, TokenIssuer(pki.signing_key), clock)
        point = await asyncio.to_thread(
            choose_access_point, settings.rootDir, settings.apiAddress, settings.apiPort
        )
        api: Standalone | ClusterMember
        if settings.nodeKubeconfig is None:
            # A node of a cluster does without its scheduler and controllers, which take 10 MB.
            from podtui.agent.standalone import Standalone

            api = Standalone(settings, store, clock, folder, runtime, pki, tokens, point)
        else:
            api = await ClusterMember.open(settings, settings.nodeKubeconfig, store, clock, folder)
        stack.push_async_callback(api.close)
        config = replace(kubelet_config(settings), endpoint_port=api.endpoint_port)
        kubelet = Kubelet(
            runtime=runtime,
            ports=api.ports,
            records=store,
            folders=api.folders,
            clock=clock,
            config=config,
            usage=UsageTable(str(settings.records_path)),
            parts=parts,
        )
        audit = None
        if settings.auditLog:
            audit = AuditLog(AuditFile(settings.audit_log_path), clock)
            stack.callback(audit.close)
        names = server_names((settings.nodeName, settings.apiAddress))
        names_of_pods = cluster_names(settings.clusterDomain)
        app = build_app(
            store,
            kubelet.endpoints,
            version=__version__,
            access=Access(
                pki.token,
                names=names,
                any_address=ip_address(settings.apiAddress).is_unspecified,
                cluster_names=names_of_pods,
                verify=tokens.verify,
            ),
            audit=audit,
            middlewares=api.middlewares,
            extra_routes=[
                *WhatIfRoutes(kubelet.what_if, manifest_reader(settings)).routes(),
                *ImageRoutes(kubelet.images).routes(),
                *InsightRoutes(kubelet.insights).routes(),
                *ConnectionRoutes(
                    ConnectionChecks(runtime, store, settings.clusterDomain, clock)
                ).routes(),
                *FigureRoutes(kubelet.endpoints, configz(settings)).routes(),
                *PlanRoutes(planner(folder, kubelet.what_if)).routes(),
                *EngineCallRoutes(journal.calls).routes(),
                *ReviewRoutes(tokens, clock, server=point.url).routes(),
            ],
        )

        async def publish_authority() -> None:
            await write_config(settings, point, pki)
            await api.publish_authority()

        certificate = ServerCertificate(
            pki, (*names, *names_of_pods), clock=clock, on_authority=publish_authority
        )
        await api.prepare()
        runner = await stack.enter_async_context(serve_unix(app, settings.socket_path))
        _tune_garbage_collection()
        _return_freed_memory()
        _LOG.info("serving %s on %s", settings.staticPodPath, settings.socket_path)
        async with asyncio.TaskGroup() as group:
            jobs: dict[str, Callable[[], Awaitable[object]]] = {"expiry of events": store.run}
            servers = None
            if settings.enableServer:
                servers = PodServers(runner, certificate, clock=clock)
                jobs["API over TCP"] = partial(
                    serve_tls, settings, runner, pki, point, certificate, clock
                )
            jobs |= api.jobs(servers, kubelet.endpoints, configz(settings))
            # An error of the kubelet itself ends the agent.
            tasks = [group.create_task(kubelet.run(), name="kubelet")]
            tasks += [
                group.create_task(parts.keep_running(name, job), name=name)
                for name, job in jobs.items()
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


async def serve_tls(
    settings: Settings,
    runner: web.AppRunner,
    pki: Pki,
    point: AccessPoint,
    certificate: ServerCertificate,
    clock: Clock,
) -> None:
    """Write the kubeconfig, and serve the API over TCP. Raises `PodtuiError`."""
    await write_config(settings, point, pki)
    await TlsServer(runner, certificate, point, clock=clock).run()


async def write_config(settings: Settings, point: AccessPoint, pki: Pki) -> None:
    """Write the kubeconfig of the root directory's owner. Raises `PodtuiError`."""
    await asyncio.to_thread(
        write_kubeconfig, settings.kubeconfig_path, point, pki.authority, pki.token
    )


def _exit_if_calls_hang() -> None:
    """Exit the process if calls still wait for a hung engine: their threads cannot be cancelled.

    Nothing is lost: the records are written, and the next agent lists the engine's state.
    """
    _LOG.warning("the engine did not answer within %.0f s: stopped without it", STOP_SECONDS)
    os._exit(0)


def _tune_garbage_collection() -> None:
    """Exclude the long-lived objects of the program from garbage collection, and collect less
    often.

    Each full collection blocks the event loop. With 1,000 pods, five collections in two minutes
    took up to 130 ms each; now they take up to 15 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 20, 20)


def _return_freed_memory() -> None:
    """Let glibc return freed memory at the end of its heap to the system, at 64 KiB.

    By default, glibc raises this limit to twice the size of the largest block that was freed. With
    1,000 pods, the agent then kept 9 MB that it did not use (docs/performance.md).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


def make_runtime(settings: Settings, clock: Clock) -> Runtime:
    """Create the runtime for the settings; does not connect yet."""
    if settings.engine == "memory":
        from podtui.runtime.memory import simulated_runtime

        return simulated_runtime(str(settings.rootDir), clock, settings.simulatedEngine)
    from podtui.runtime.docker import DockerRuntime, LogLimits

    url = None if settings.engine == "auto" else settings.engine
    limits = LogLimits(size=settings.containerLogMaxSize, files=settings.containerLogMaxFiles)
    return DockerRuntime(url, root=str(settings.rootDir), clock=clock, log_limits=limits)


def configz(settings: Settings) -> bytes:
    """Return the settings of the agent as ``/configz`` shows them: those of a
    ``KubeletConfiguration``, and podtui's own."""
    values = {
        key: shown_path(str(value)) if isinstance(value := getattr(settings, key), Path) else value
        for key, setting in SETTINGS.items()
        if not setting.screen
    }
    return msgspec.json.encode({"kubeletconfig": dict(sorted(values.items()))})


def manifest_reader(settings: Settings) -> ManifestReader:
    """Return a reader that parses data as if it were a file of the manifest folder."""
    path = str(settings.staticPodPath / "what-if.yaml")

    def read(data: bytes) -> ReadResult:
        return read_manifest(path, data, node_name=settings.nodeName, strict=settings.kubeletStrict)

    return read


def planner(folder: ManifestFolder, simulator: Simulator) -> Planner:
    """Return a planner for a watched folder; ``simulator`` is called for every new pod."""

    async def plan(name: str, data: bytes | None) -> Plan:
        preview = await folder.preview(name, data)
        wanted = pods_to_admit(plan_of(preview))
        rejections: dict[tuple[str, str], str] = {}
        for pod in preview.after.pods.values():
            key = (pod.metadata.namespace, pod.metadata.name)
            if key in wanted:
                answer = await simulator(pod)
                if not answer.admitted:
                    rejections[key] = f"{answer.reason}: {answer.message}"
        return plan_of(preview, rejections)

    return plan


async def last_good(store: Store) -> Mapping[str, tuple[Pod, ...]]:
    """Return the last pods by manifest path: the fallback for files that are invalid now."""
    listing = await store.list("pods")
    pods: dict[str, tuple[Pod, ...]] = {}
    for item in listing.items:
        # A client may have created a pod from the copy of a mirror record.
        if isinstance(item, Pod) and is_mirror(item):
            path = item.metadata.annotations.get(MANIFEST_PATH)
            if path is not None:
                pods[path] = (*pods.get(path, ()), item)
    return pods
