"""Short builders of pods and their observed states, for tests of decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from podtui.api.v1 import Pod
from podtui.kubelet.types import (
    NodeResources,
    NodeView,
    ObservedContainer,
    ObservedPod,
    ObservedSandbox,
    ProbeResult,
    ProbeView,
)
from podtui.runtime.protocol import ContainerState, EngineInfo, SandboxState

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GI = 1024**3
MI = 1024**2


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def ctr(name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1", **fields}


def sidecar(name: str = "side", **fields: Any) -> dict[str, Any]:
    return ctr(name, restartPolicy="Always", **fields)


def need(cpu: str = "", memory: str = "", /, **limits: str) -> dict[str, Any]:
    """Return the ``resources`` of a container with these requests and limits."""
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"resources": {"requests": requests, "limits": limits}}


def make_pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    name: str = "web-n1",
    uid: str = "u1",
    static: bool = True,
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """Return a pod of the node ``n1``, static by default, with restart policy Always."""
    annotations = {"kubernetes.io/config.source": "file"} if static else {}
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "labels": labels or {},
                "annotations": annotations,
                **(metadata or {}),
            },
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "nodeName": "n1",
                **spec,
                "containers": list(containers or (ctr(),)),
                "initContainers": list(init),
            },
            "status": status or {},
        },
        Pod,
    )


def box(
    attempt: int = 0,
    *,
    ready: bool = True,
    ips: tuple[str, ...] = ("10.0.0.7",),
    host_network: bool = False,
) -> ObservedSandbox:
    return ObservedSandbox(
        id=f"s{attempt}",
        attempt=attempt,
        state=SandboxState.READY if ready else SandboxState.NOT_READY,
        created_at=at(attempt),
        ips=ips if ready and not host_network else (),
        host_network=host_network,
    )


def _one(name: str, state: ContainerState, **fields: Any) -> ObservedContainer:
    count = fields.pop("count", 0)
    known: dict[str, Any] = {
        "id": f"{name}-{count}",
        "sandbox_id": "s0",
        "created_at": at(count),
        "image": "busybox:1",
        "image_id": "sha256:1",
        **fields,
    }
    return ObservedContainer(name=name, restart_count=count, state=state, **known)


def up(name: str = "c", **fields: Any) -> ObservedContainer:
    """Return a running instance; ``count`` is its restart count."""
    return _one(name, ContainerState.RUNNING, **{"started_at": at(1), **fields})


def down(name: str = "c", code: int = 0, **fields: Any) -> ObservedContainer:
    """Return an instance that exited."""
    reason = "Completed" if code == 0 else "Error"
    times = {"started_at": at(1), "finished_at": at(2)}
    return _one(
        name, ContainerState.EXITED, **{"exit_code": code, "reason": reason, **times, **fields}
    )


def created(name: str = "c", **fields: Any) -> ObservedContainer:
    return _one(name, ContainerState.CREATED, **fields)


def unknown(name: str = "c", **fields: Any) -> ObservedContainer:
    return _one(name, ContainerState.UNKNOWN, **fields)


def seen(
    *containers: ObservedContainer,
    sandboxes: tuple[ObservedSandbox, ...] | None = None,
    uid: str = "u1",
) -> ObservedPod:
    """Return a pod with one ready sandbox, unless others are given; newest of each name first."""
    return ObservedPod(
        uid=uid,
        name="web-n1",
        namespace="default",
        sandboxes=(box(),) if sandboxes is None else sandboxes,
        containers=containers,
    )


def probes(**results: dict[str, str]) -> ProbeView:
    """``probes(liveness={"c-0": "Failure"})``"""
    return ProbeView(
        **{
            kind: {one: ProbeResult(result) for one, result in found.items()}
            for kind, found in results.items()
        }
    )


def node(*, cpu: int = 2000, memory: int = 4 * GI, pods: int = 110, **fields: Any) -> NodeView:
    amounts = {"cpu": cpu, "memory": memory, "ephemeral-storage": 100 * GI, "pods": pods}
    labels = {"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux"}
    return NodeView(
        **{
            "name": "n1",
            "labels": labels,
            "resources": NodeResources(capacity=amounts, allocatable=amounts),
            **fields,
        }
    )


def engine(**fields: Any) -> EngineInfo:
    known: dict[str, Any] = {
        "name": "docker",
        "version": "20.10.24",
        "api_version": "1.41",
        "os": "linux",
        "architecture": "x86_64",
        "kernel": "6.1.0",
        "cgroup_version": 2,
        "cgroup_driver": "cgroupfs",
        "rootless": False,
        "local": True,
        "cpus": 2,
        "memory": 24684084 * 1024,
        "root_dir": "/var/lib/docker",
        "operating_system": "Debian GNU/Linux 12 (bookworm)",
    }
    return EngineInfo(**{**known, **fields})


def pod_with_uid(uid: str, *containers: dict[str, Any], **spec: Any) -> Pod:
    return make_pod(*containers, name=f"{uid}-n1", uid=uid, **spec)
