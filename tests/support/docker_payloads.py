"""Configurations of sandboxes and containers, and the payloads of the Docker driver."""

from __future__ import annotations

from typing import Any

from podtui.runtime.docker.abilities import Abilities
from podtui.runtime.docker.payload import (
    ContainerFiles,
    JoinedSandbox,
    Json,
    LogLimits,
    container_payload,
)
from podtui.runtime.protocol import (
    ContainerConfig,
    SandboxConfig,
)

ABLE = Abilities()


def sandbox(**changes: Any) -> SandboxConfig:
    values: dict[str, Any] = {"name": "web-n", "namespace": "default", "uid": "u1", "attempt": 2}
    return SandboxConfig(**(values | changes))


def container(**changes: Any) -> ContainerConfig:
    values: dict[str, Any] = {
        "name": "app",
        "attempt": 3,
        "image": "busybox:1.36",
        "image_id": "sha256:" + "a" * 64,
        "pod_name": "web-n",
        "pod_namespace": "default",
        "pod_uid": "u1",
    }
    return ContainerConfig(**(values | changes))


def payload_of(
    config: ContainerConfig,
    *,
    able: Abilities = ABLE,
    files: ContainerFiles | None = None,
    seccomp_profile: str | None = None,
    **sandbox: Any,
) -> tuple[Json, tuple[str, ...]]:
    """``sandbox`` are fields of the `JoinedSandbox`."""
    return container_payload(
        config,
        JoinedSandbox(id="S", **sandbox),
        files or ContainerFiles(sources={}),
        labels={},
        abilities=able,
        logs=LogLimits(),
        seccomp_profile=seccomp_profile,
    )
