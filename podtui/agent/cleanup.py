"""``podtui down``: remove the containers and the records of a root directory."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from msgspec.structs import asdict, replace

from podtui.agent.lock import AgentLock, AgentRecord, last_engine, last_settings
from podtui.agent.pod_networks import host_table
from podtui.agent.run import make_runtime
from podtui.clock import SystemClock
from podtui.errors import EngineError, EngineUnavailable, PodtuiError
from podtui.kubelet.containers.log_files import LOGS
from podtui.kubelet.resize.allocations import FILE_NAME as ALLOCATIONS
from podtui.kubelet.volumes import csi_files
from podtui.runtime.protocol import Runtime
from podtui.services.rules import table_deletion
from podtui.settings import CLUSTER_RECORDS, RECORDS, Settings
from podtui.text.terminal_text import plural

_LOG = logging.getLogger(__name__)


def remove_all(settings: Settings) -> str:
    """Remove everything of this root directory from the engine of ``settings``, then the records.

    Return a message about the removed objects. Raises `AgentRunning` while an agent serves the
    directory.
    """
    if not settings.rootDir.is_dir():
        return _remove_leftovers(settings)
    last, engine = last_settings(settings.lock_path), last_engine(settings.lock_path)
    lock = AgentLock(settings.lock_path)
    record = AgentRecord.of(settings)
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
    mounted = _mounted(settings.pluginDir or settings.rootDir)
    if settings.engine == "memory":
        removed = "Removed the records; simulated pods (--engine memory) end with their agent."
    else:
        removed = (
            f"Removed {plural(pods, 'pod')}, {plural(containers, 'container')}, their volumes and"
            f" the records (--engine {settings.engine})."
        )
    return f"{removed} {mounted}" if mounted else removed


def _mounted(directory: Path) -> str:
    """Return a sentence about the volumes of CSI drivers, which only their drivers can unmount."""
    count = sum(len(csi_files.published(directory, uid)) for uid in csi_files.pods(directory))
    if not count:
        return ""
    return (
        f"{plural(count, 'volume')} of CSI drivers may still be mounted below {directory}/pods:"
        " the next agent unmounts them as soon as their drivers are registered."
    )


def _remove_leftovers(settings: Settings) -> str:
    """Remove the containers of a root directory that does not exist. No agent can serve it."""
    absent = f"{settings.rootDir} does not exist"
    try:
        pods, containers = asyncio.run(_remove_containers(settings))
    except EngineUnavailable:
        return f"{absent}, and no engine answers: nothing was removed."
    if not pods:
        return f"{absent}: nothing to remove."
    removed = f"{plural(pods, 'pod')} and {plural(containers, 'container')}"
    return f"{absent}, but the engine had its containers: removed {removed}."


def _records_of(settings: Settings) -> list[Path]:
    """Return the files with the records of an agent, whether or not it was a node of a cluster."""
    paths = [settings.rootDir / ALLOCATIONS]
    for base in (settings.rootDir / RECORDS, settings.rootDir / CLUSTER_RECORDS):
        files = (base.name, f"{base.name}-wal", f"{base.name}-shm")
        paths += [*map(base.with_name, files), *base.parent.glob(f"{base.name}.backup-*")]
    return paths


async def _remove_rules(runtime: Runtime, settings: Settings) -> None:
    """Remove the rules of pods with the host's network; those of other pods end with the pods."""
    try:
        await runtime.set_pod_rules("", table_deletion(host_table(str(settings.rootDir))))
    except EngineUnavailable:
        raise
    except EngineError as error:
        # Usually, there are none.
        _LOG.debug("no rules of the host's network are removed: %s", error)


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
        await _remove_rules(runtime, settings)
        if failures:
            raise PodtuiError("some pods could not be removed: " + "; ".join(failures))
        return len(uids), len(snapshot.containers)
    finally:
        await runtime.close()
