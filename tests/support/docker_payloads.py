"""Configurations of sandboxes and containers, and the payloads of the Docker driver."""

from __future__ import annotations

from typing import Any

from podtui.runtime.docker.abilities import Abilities
from podtui.runtime.docker.payload import (
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
    config: ContainerConfig, *, able: Abilities = ABLE, **changes: Any
) -> tuple[Json, tuple[str, ...]]:
    values: dict[str, Any] = {
        "sandbox_id": "S",
        "host_ipc": False,
        "labels": {},
        "sources": {},
        "termination": "",
        "logs": LogLimits(),
        "seccomp_profile": None,
    }
    return container_payload(config, abilities=able, **(values | changes))
