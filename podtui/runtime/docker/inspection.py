"""Convert inspections to the protocol's statuses (kubelet.md App. C, "state"). Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from podtui.errors import EngineNotFound
from podtui.runtime.docker.answers import labels_of, mapping
from podtui.runtime.docker.errors import parsing
from podtui.runtime.docker.identity import (
    container_record,
    inspected_container,
    instant,
    on_host_network,
    sandbox_record,
)
from podtui.runtime.docker.pause import PAUSE_LABEL, POD_DIRECTORY
from podtui.runtime.docker.payload import NO_MEMORY_LIMIT, host_dns
from podtui.runtime.docker.storage import SandboxStore, read_places
from podtui.runtime.protocol import (
    START_ERROR,
    START_EXIT_CODE,
    ContainerState,
    ContainerStatus,
    Resources,
    SandboxState,
    SandboxStatus,
)

# Docker writes this in place of "failed to create containerd task: " of containerd's CRI.
_TASK: Final = re.compile(
    "(?:failed to create task for container: )?(?=failed to create shim task: |OCI runtime create)"
)
_ALIVE = ("running", "paused", "restarting", "stopping")


@parsing("an inspected sandbox")
def sandbox_status(inspection: Mapping[str, Any]) -> SandboxStatus:
    """Raises `EngineNotFound` if it is not one of our sandboxes."""
    record = sandbox_record(inspected_container(inspection))
    if record is None:
        raise EngineNotFound(f"{inspection['Id'][:12]} is not a sandbox")
    host = on_host_network(inspection)
    ready = record.state is SandboxState.READY
    return SandboxStatus(
        record=record,
        ips=() if host or not ready else tuple(_gateways(mapping(inspection, "NetworkSettings"))),
        host_network=host,
        pid=(inspection["State"].get("Pid") or None) if ready else None,
    )


def _gateways(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return each address with the gateway of its network (empty for none), primary address
    first."""
    networks: list[Mapping[str, Any]] = list(mapping(settings, "Networks").values())
    gateways: dict[str, str] = {}
    for part in (*networks, settings):
        for key, gateway in (("IPAddress", "Gateway"), ("GlobalIPv6Address", "IPv6Gateway")):
            if address := part.get(key):
                gateways.setdefault(str(address), str(part.get(gateway) or ""))
    return gateways


def is_routable(inspection: Mapping[str, Any], source_of: Callable[[str], str]) -> bool:
    """Return whether this machine reaches the pod's primary address over the engine's bridge.

    ``source_of`` returns the local address that the kernel would send from, empty without a route.
    On the engine's bridge this is the gateway of the pod's network. Any other source address means
    that the address belongs to another host.
    """
    for address, gateway in _gateways(mapping(inspection, "NetworkSettings")).items():
        return bool(gateway) and source_of(address) == gateway
    return False


@parsing("an inspected container")
def container_status(inspection: Mapping[str, Any]) -> ContainerStatus:
    """Raises `EngineNotFound` if it is not one of our containers."""
    seen = inspected_container(inspection)
    state: Mapping[str, Any] = inspection["State"]
    started, finished = instant(state.get("StartedAt")), instant(state.get("FinishedAt"))
    code = int(state.get("ExitCode") or 0)
    message = start_failure(str(state.get("Error") or ""))
    reason, pid = "", None
    if seen.state in _ALIVE:
        kind, code, finished = ContainerState.RUNNING, 0, None
        pid = state.get("Pid") or None
    elif started is not None:
        kind = ContainerState.EXITED
        if finished is not None:
            # For a process that exits at once, the engine may record the exit before the start.
            started = min(started, finished)
        reason = "OOMKilled" if state.get("OOMKilled") else "Error" if code else "Completed"
    elif code:
        kind, code, reason = ContainerState.EXITED, START_EXIT_CODE, START_ERROR
        finished = seen.created_at
    else:
        kind, finished = ContainerState.CREATED, None
    record = container_record(seen, kind)
    if record is None:
        raise EngineNotFound(f"{inspection['Id'][:12]} is not a container of a pod")
    return ContainerStatus(
        record=record,
        image_id=str(inspection.get("Image", "")),
        started_at=started,
        finished_at=finished,
        exit_code=code,
        reason=reason,
        message=message,
        pid=pid,
        resources=_resources(mapping(inspection, "HostConfig")),
        log_path=log_path(inspection),
    )


def _resources(host: Mapping[str, Any]) -> Resources:
    def amount(key: str) -> int:
        return max(0, int(host.get(key) or 0))

    memory = amount("Memory")
    return Resources(
        cpu_shares=amount("CpuShares"),
        cpu_quota=amount("CpuQuota"),
        cpu_period=amount("CpuPeriod"),
        memory=memory if memory < NO_MEMORY_LIMIT else 0,
        oom_score_adj=int(host.get("OomScoreAdj") or 0),
        pids=amount("PidsLimit"),
        cpuset_cpus=str(host.get("CpusetCpus") or ""),
        cpuset_mems=str(host.get("CpusetMems") or ""),
    )


def log_path(inspection: Mapping[str, Any]) -> str:
    """Return the path of the engine's log file; empty for other log drivers."""
    driver = mapping(mapping(inspection, "HostConfig"), "LogConfig").get("Type")
    return str(inspection.get("LogPath") or "") if driver == "json-file" else ""


def never_ran(status: ContainerStatus, failure: str) -> ContainerStatus:
    """Return the status of a created container whose start is known to have failed."""
    return replace(
        status,
        record=replace(status.record, state=ContainerState.EXITED),
        finished_at=status.record.created_at,
        exit_code=START_EXIT_CODE,
        reason=START_ERROR,
        message=start_failure(failure),
    )


def start_failure(text: str) -> str:
    """Rewrite the engine's text of a failed start to match containerd's CRI."""
    task = _TASK.match(text)
    return text if task is None else f"failed to create containerd task: {text[task.end() :]}"


@parsing("an inspected sandbox")
def sandbox_store(inspection: Mapping[str, Any], places_label: str) -> SandboxStore:
    """Rebuild the storage of a sandbox that another instance created."""
    mountpoint = next(
        (
            str(mount["Source"])
            for mount in inspection.get("Mounts") or ()
            if mount.get("Destination") == POD_DIRECTORY
        ),
        "",
    )
    dns = host_dns(inspection["HostConfig"])
    return SandboxStore(
        mountpoint=mountpoint,
        places=read_places(labels_of(inspection["Config"]).get(places_label)),
        host_ipc=inspection["HostConfig"].get("IpcMode") == "host",
        runtime=str(inspection["HostConfig"].get("Runtime") or ""),
        hostname=str(inspection["Config"].get("Hostname") or "") if dns is None else "",
        host_dns=dns,
        pause_version=labels_of(inspection["Config"]).get(PAUSE_LABEL, ""),
    )
