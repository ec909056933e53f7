"""Map pods to the names and labels of engine containers, and back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from podtui.api import names
from podtui.runtime.docker.answers import labels_of, mapping
from podtui.runtime.docker.errors import parsing
from podtui.runtime.docker.pause import PAUSE_LABEL
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerRecord,
    ContainerState,
    ForeignSandbox,
    NamespaceMode,
    OtherContainer,
    RuntimeSnapshot,
    SandboxConfig,
    SandboxRecord,
    SandboxState,
)

# On containers: the image reference of the pod spec, and the path of the termination message.
IMAGE_LABEL: Final = "podtui.dev/image"
TERMINATION_LABEL: Final = "podtui.dev/termination"
# On sandboxes and volumes: JSON, volume name → location.
PLACES_LABEL: Final = "podtui.dev/places"
# On sandboxes and volumes: the attempt that created it, to distinguish new ones from existing ones.
NONCE_LABEL: Final = "podtui.dev/nonce"
# Information missing in Podman's responses: a host-network sandbox (lists have no HostConfig), and
# a container whose stdin ends with the first client (inspections say false).
NETWORK_LABEL: Final = "podtui.dev/network"
STDIN_ONCE_LABEL: Final = "podtui.dev/stdin-once"
_INTERNAL: Final = frozenset(
    {
        names.DOCKER_TYPE,
        names.SANDBOX_ID,
        names.ROOT_LABEL,
        names.ROOT_DIR_LABEL,
        IMAGE_LABEL,
        TERMINATION_LABEL,
        PLACES_LABEL,
        NONCE_LABEL,
        NETWORK_LABEL,
        STDIN_ONCE_LABEL,
        PAUSE_LABEL,
    }
)
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9.-]")


def _fit(text: str) -> str:
    """Make text valid as part of an engine name; different texts stay different."""
    cleaned = _UNFIT.sub("-", text)
    if cleaned == text:
        return text
    return f"{cleaned}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def sandbox_name(config: SandboxConfig) -> str:
    pod = f"{_fit(config.name)}_{_fit(config.namespace)}_{_fit(config.uid)}"
    return f"k8s_{names.SANDBOX_CONTAINER_NAME}_{pod}_{config.attempt}"


def container_name(config: ContainerConfig) -> str:
    pod = f"{_fit(config.pod_name)}_{_fit(config.pod_namespace)}_{_fit(config.pod_uid)}"
    return f"k8s_{_fit(config.name)}_{pod}_{config.attempt}"


def volume_name(root: str, pod_uid: str, volume: str = "") -> str:
    """Return the name of a pod's volume, or of one of its tmpfs volumes. ``root`` is a
    `root_key`."""
    return "-".join(["podtui", root, _fit(pod_uid), *([_fit(volume)] if volume else [])])


def holder_name(root: str, pod_uid: str) -> str:
    """Return the name of the container that keeps a pod's memory mounted."""
    return f"{volume_name(root, pod_uid)}-memory"


def _with_annotations(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    return {**labels, **{names.ANNOTATION_PREFIX + key: v for key, v in annotations.items()}}


def sandbox_labels(config: SandboxConfig, root: str, places: Mapping[str, str]) -> dict[str, str]:
    of_host = config.network is NamespaceMode.NODE
    return {
        **_with_annotations(config.labels, config.annotations),
        names.POD_NAME: config.name,
        names.POD_NAMESPACE: config.namespace,
        names.POD_UID: config.uid,
        names.CONTAINER_NAME: names.SANDBOX_CONTAINER_NAME,
        names.DOCKER_TYPE: names.DOCKER_TYPE_SANDBOX,
        names.ROOT_LABEL: root,
        PLACES_LABEL: json.dumps(dict(places), separators=(",", ":")),
        **({NETWORK_LABEL: "host"} if of_host else {}),
    }


def on_host_network(entry: Mapping[str, Any]) -> bool:
    """Return whether an inspected sandbox shares the host's network."""
    labels = labels_of(mapping(entry, "Config"))
    reported = mapping(entry, "HostConfig").get("NetworkMode")
    return "host" in (reported, labels.get(NETWORK_LABEL))


def container_labels(
    config: ContainerConfig, root: str, sandbox_id: str, termination: str
) -> dict[str, str]:
    """``termination`` is the path of the termination file in the pod's volume, empty for none."""
    labels = {
        **_with_annotations(config.labels, config.annotations),
        names.POD_NAME: config.pod_name,
        names.POD_NAMESPACE: config.pod_namespace,
        names.POD_UID: config.pod_uid,
        names.CONTAINER_NAME: config.name,
        names.DOCKER_TYPE: names.DOCKER_TYPE_CONTAINER,
        names.SANDBOX_ID: sandbox_id,
        names.ROOT_LABEL: root,
        IMAGE_LABEL: config.image,
    }
    if termination:
        labels[TERMINATION_LABEL] = termination
    if config.stdin_once:
        labels[STDIN_ONCE_LABEL] = "true"
    return labels


# --- read back


@dataclass(frozen=True, slots=True)
class EngineContainer:
    """An engine container, from a list entry or an inspection."""

    id: str
    name: str
    labels: Mapping[str, str]
    state: str
    """The engine's state name: ``created``, ``running``, ``paused``, ``exited`` …"""
    created_at: datetime


def listed_container(entry: Mapping[str, Any]) -> EngineContainer:
    container_names: list[str] = entry.get("Names") or []
    return EngineContainer(
        id=str(entry["Id"]),
        # A container linked to by others has more names, each with an inner slash.
        name=next((n[1:] for n in container_names if n.count("/") == 1), ""),
        labels=entry.get("Labels") or {},
        state=str(entry.get("State", "")).lower(),
        created_at=datetime.fromtimestamp(int(entry.get("Created", 0)), UTC),
    )


def inspected_container(inspection: Mapping[str, Any]) -> EngineContainer:
    return EngineContainer(
        id=str(inspection["Id"]),
        name=str(inspection.get("Name", "")).removeprefix("/"),
        labels=inspection["Config"].get("Labels") or {},
        state=str(inspection["State"].get("Status", "")).lower(),
        created_at=instant(inspection.get("Created")) or datetime.fromtimestamp(0, UTC),
    )


def instant(text: object) -> datetime | None:
    """Parse an engine's time (nanoseconds, any zone); None for the zero time."""
    if not isinstance(text, str) or not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).astimezone(UTC)


def _attempt(name: str) -> int | None:
    tail = name.rpartition("_")[2]
    return int(tail) if tail.isascii() and tail.isdigit() else None


def _split(labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the original labels and annotations of the container."""
    plain: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for key, value in labels.items():
        if key.startswith(names.ANNOTATION_PREFIX):
            annotations[key.removeprefix(names.ANNOTATION_PREFIX)] = value
        elif key not in _INTERNAL:
            plain[key] = value
    return plain, annotations


def sandbox_record(seen: EngineContainer) -> SandboxRecord | None:
    """Return None if it is not a sandbox in our format."""
    labels, attempt = seen.labels, _attempt(seen.name)
    uid = labels.get(names.POD_UID)
    if labels.get(names.DOCKER_TYPE) != names.DOCKER_TYPE_SANDBOX or attempt is None or not uid:
        return None
    plain, annotations = _split(labels)
    running = seen.state in ("running", "paused")
    return SandboxRecord(
        id=seen.id,
        name=labels.get(names.POD_NAME, ""),
        namespace=labels.get(names.POD_NAMESPACE, ""),
        uid=uid,
        attempt=attempt,
        state=SandboxState.READY if running else SandboxState.NOT_READY,
        created_at=seen.created_at,
        labels=plain,
        annotations=annotations,
    )


_STATES: Final = {
    "created": ContainerState.CREATED,
    "configured": ContainerState.CREATED,
    "initialized": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "paused": ContainerState.RUNNING,
    "restarting": ContainerState.RUNNING,
    "stopping": ContainerState.RUNNING,
    "exited": ContainerState.EXITED,
    "stopped": ContainerState.EXITED,
    "dead": ContainerState.EXITED,
    "removing": ContainerState.EXITED,
}


def container_record(
    seen: EngineContainer, state: ContainerState | None = None
) -> ContainerRecord | None:
    """Return None if it is not a container in our format. ``state`` overrides the listed state."""
    labels, attempt = seen.labels, _attempt(seen.name)
    uid, name = labels.get(names.POD_UID), labels.get(names.CONTAINER_NAME)
    kind = labels.get(names.DOCKER_TYPE)
    if kind != names.DOCKER_TYPE_CONTAINER or attempt is None or not uid or not name:
        return None
    plain, annotations = _split(labels)
    return ContainerRecord(
        id=seen.id,
        name=name,
        attempt=attempt,
        sandbox_id=labels.get(names.SANDBOX_ID, ""),
        pod_name=labels.get(names.POD_NAME, ""),
        pod_namespace=labels.get(names.POD_NAMESPACE, ""),
        pod_uid=uid,
        state=state or _STATES.get(seen.state, ContainerState.UNKNOWN),
        created_at=seen.created_at,
        image=labels.get(IMAGE_LABEL, ""),
        labels=plain,
        annotations=annotations,
    )


@parsing("the list of containers")
def snapshot(entries: list[dict[str, Any]]) -> RuntimeSnapshot:
    """Convert the result of a list call; foreign entries are left out."""
    sandboxes: list[SandboxRecord] = []
    containers: list[ContainerRecord] = []
    for entry in entries:
        seen = listed_container(entry)
        if sandbox := sandbox_record(seen):
            sandboxes.append(sandbox)
        elif container := container_record(seen):
            containers.append(container)
    return RuntimeSnapshot(sandboxes=tuple(sandboxes), containers=tuple(containers))


def other_containers(entries: list[dict[str, Any]], root: str) -> tuple[OtherContainer, ...]:
    """Return the containers without the label of this root directory."""
    return tuple(
        OtherContainer(name=container.name, image_id=str(entry["ImageID"]))
        for entry in entries
        if (container := listed_container(entry)).labels.get(names.ROOT_LABEL) != root
    )


def foreign_sandboxes(entries: list[dict[str, Any]], root: str) -> tuple[ForeignSandbox, ...]:
    """Return the sandboxes of a list call whose root label differs from ``root``."""
    foreign: list[ForeignSandbox] = []
    for entry in entries:
        seen = listed_container(entry)
        owner = seen.labels.get(names.ROOT_LABEL)
        if owner and owner != root and (record := sandbox_record(seen)):
            root_dir = seen.labels.get(names.ROOT_DIR_LABEL, "")
            foreign.append(ForeignSandbox(root_dir=root_dir, record=record))
    return tuple(foreign)
