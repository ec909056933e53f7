"""The pod tree as plain data: nodes, their pods, the pods' containers, and the containers' ports,
mounts, environment sources and probes; also manifest files with their pods.

This module neither draws nor tracks which items are folded; `podtui.tui.views.tree.rows` creates
the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from podtui.api.local import Manifest, ManifestState
from podtui.api.pods import is_sidecar
from podtui.api.printing import ending
from podtui.api.times import epoch
from podtui.api.v1 import Container, ContainerStatus, EphemeralContainer, Node, Pod, Volume
from podtui.tui.model.model import pod_key
from podtui.tui.views.labels import manifest_message, pod_label
from podtui.tui.views.pod_status import GLYPHS, Family, pod_status_line
from podtui.tui.views.pods.describe import probe_text
from podtui.tui.widgets.format import natural_key
from podtui.tui.widgets.sanitize import clean


def container_parts(
    container: Container | EphemeralContainer, volumes: Mapping[str, Volume]
) -> Iterator[tuple[str, str]]:
    """Yield (label, detail) for ports, mounts, environment sources and probes.

    The values of variables are never included.
    """
    for port in container.ports:
        name = f" {port.name}" if port.name else ""
        outside = f"{port.hostIP}:" if port.hostIP else ""
        host = f"← node {outside}{port.hostPort}" if port.hostPort else ""
        yield f"port {port.containerPort}/{port.protocol or 'TCP'}{name}", host
    for mount in container.volumeMounts:
        sub = mount.subPath or mount.subPathExpr
        only = " (read-only)" if mount.readOnly else ""
        volume = volumes.get(mount.name)
        source = volume_text(volume) if volume is not None else "no such volume"
        yield (
            f"mount {mount.mountPath}",
            f"← {mount.name}{f'/{sub}' if sub else ''}: {source}{only}",
        )
    yield from _variables(container)
    for name, probe in (
        ("startup", container.startupProbe),
        ("readiness", container.readinessProbe),
        ("liveness", container.livenessProbe),
    ):
        if probe is not None:
            yield f"probe {name}", probe_text(probe)


def _variables(container: Container | EphemeralContainer) -> Iterator[tuple[str, str]]:
    """Yield the environment variables grouped by source."""
    for source in container.envFrom:
        ref = source.configMapRef or source.secretRef
        kind = "Secret" if source.secretRef is not None else "ConfigMap"
        yield f"env {kind} {ref.name if ref is not None else ''}", f"→ {source.prefix}*"
    found: dict[str, list[str]] = {}
    for one in container.env:
        origin = one.valueFrom
        if origin is None:
            found.setdefault("values", []).append(one.name)
        elif origin.configMapKeyRef is not None:
            found.setdefault(f"ConfigMap {origin.configMapKeyRef.name}", []).append(
                f"{origin.configMapKeyRef.key} → {one.name}"
            )
        elif origin.secretKeyRef is not None:
            found.setdefault(f"Secret {origin.secretKeyRef.name}", []).append(
                f"{origin.secretKeyRef.key} → {one.name}"
            )
        elif origin.fieldRef is not None:
            found.setdefault("fields", []).append(f"{origin.fieldRef.fieldPath} → {one.name}")
        elif origin.resourceFieldRef is not None:
            text = f"{origin.resourceFieldRef.resource} → {one.name}"
            found.setdefault("resources", []).append(text)
        else:
            found.setdefault("files", []).append(one.name)
    for source, names in found.items():
        yield f"env {source}", ", ".join(names)


def volume_text(volume: Volume) -> str:
    """Return the type and the source of a volume: ``ConfigMap web``, ``hostPath /srv``."""
    if volume.configMap is not None:
        return f"ConfigMap {volume.configMap.name}"
    if volume.secret is not None:
        return f"Secret {volume.secret.secretName}"
    if volume.hostPath is not None:
        return f"hostPath {volume.hostPath.path}"
    if volume.emptyDir is not None:
        size = f" {volume.emptyDir.sizeLimit}" if volume.emptyDir.sizeLimit else ""
        memory = " in memory" if volume.emptyDir.medium == "Memory" else ""
        return f"emptyDir{size}{memory}"
    if volume.image is not None:
        return f"image {volume.image.reference}"
    if volume.persistentVolumeClaim is not None:
        return f"claim {volume.persistentVolumeClaim.claimName}"
    names = (f.name for f in msgspec.structs.fields(Volume) if f.name != "name")
    return next((name for name in names if getattr(volume, name) is not None), "emptyDir")


Order = tuple[Any, ...]
"""The sort key of an item: the key of its parent plus one step, so that parents come first."""
FILES: Final = "files:"
NOWHERE: Final = "node:"
"""The prefix of node keys; alone, the key of the item for pods without a node."""
_FINE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_STATES: Final = {
    ManifestState.ACCEPTED: ("● Accepted", "running"),
    ManifestState.LAST_GOOD: ("▲ KeepsLastGood", "warning"),
    ManifestState.DUPLICATE: ("▲ DuplicatePod", "warning"),
    ManifestState.IGNORED: ("- Ignored", "muted"),
    ManifestState.INVALID: ("✖ InvalidManifest", "error"),
}


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the tree; all texts are sanitized.

    ``pod`` and ``manifest`` are the keys of the objects it belongs to, ``since`` is in epoch
    seconds. ``folded`` is the initial state.
    """

    key: str
    parent: str
    order: Order
    label: str
    tone: str = ""
    state: str = ""
    state_tone: str = ""
    restarts: int | None = None
    detail: str = ""
    since: float | None = None
    pod: str = ""
    manifest: str = ""
    parent_of_others: bool = False
    folded: bool = False
    fault: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def depth(self) -> int:
        return len(self.order) - 1

    @property
    def path(self) -> str:
        """The names from the root to the item; a replaced object has the same path."""
        return "\0".join(one[2] for one in self.order)


def step(rank: int, name: str) -> tuple[int, Any, str]:
    """Return one step of an `Order`: sort by rank, then by name in natural order."""
    return rank, natural_key(name), name


# --- nodes and files


def node_key(name: str) -> str:
    return NOWHERE + name


def node_item(name: str, node: Node | None, pods: int, faults: int) -> Item:
    """Return the item of a node; an empty name is for pods without a node."""
    label = clean(name) or "no node yet"
    ready = node is not None and any(
        c.type == "Ready" and c.status == "True" for c in node.status.conditions
    )
    state = "● Ready" if ready else "✖ NotReady" if node is not None else ""
    wrong = f" · {faults:,} unhealthy" if faults else ""
    return Item(
        key=node_key(name),
        parent="",
        order=(step(0 if name else 1, name),),
        label=label,
        tone="heading",
        state=state,
        state_tone="running" if ready else "error",
        detail=f"{pods:,} {'pod' if pods == 1 else 'pods'}{wrong}",
        parent_of_others=pods > 0,
        fault=node is not None and not ready,
    )


def files_item(count: int) -> Item:
    """Return the item of the manifest folder."""
    detail = f"{count:,} {'file' if count == 1 else 'files'}"
    return Item(FILES, "", (step(2, FILES),), "manifests", "heading", detail=detail,
                parent_of_others=count > 0, folded=True)  # fmt: skip


def file_items(manifest: Manifest, pod: Pod | None, now: float) -> tuple[Item, ...]:
    """Return the item of a manifest file, and below it a reference to its pod."""
    name = manifest.metadata.name
    state, tone = _STATES[manifest.status.state]
    order = (step(2, FILES), step(0, name))
    wrong = manifest.status.state not in (ManifestState.ACCEPTED, ManifestState.IGNORED)
    file_item = Item(
        key=FILES + name,
        parent=FILES,
        order=order,
        label=clean(name),
        tone="name",
        state=state,
        state_tone=tone,
        detail=manifest_message(manifest),
        manifest=name,
        pod=pod_key(pod) if pod is not None else "",
        parent_of_others=pod is not None,
        fault=wrong,
    )
    if pod is None:
        return (file_item,)
    head = pod_head(pod, file_item.key, (*order, step(0, "")), now)
    return file_item, _reference(head, file_item.key)


def _reference(head: Item, parent: str) -> Item:
    """Return a second item for a pod, without its children."""
    return Item(
        key=f"{parent}/pod", parent=parent, order=head.order, label=f"→ {head.label}",
        tone=head.tone, state=head.state, state_tone=head.state_tone, restarts=head.restarts,
        detail=head.detail, since=head.since, pod=head.pod, fault=head.fault, labels=head.labels,
    )  # fmt: skip


# --- pods


def pod_head(pod: Pod, parent: str, order: Order, now: float) -> Item:
    """Return the item of a pod, without its children."""
    line = pod_status_line(pod, now)
    word = clean(line.word)
    return Item(
        key=f"pod:{pod_key(pod)}",
        parent=parent,
        order=order,
        label=pod_label(pod),
        tone="name",
        state=f"{GLYPHS[line.family]} {word}",
        state_tone=line.family.value,
        restarts=line.restarts,
        detail=f"{line.ready}/{line.wanted}"
        + (f" · {clean(pod.status.podIP)}" if pod.status.podIP else ""),
        since=epoch(pod.metadata.creationTimestamp),
        pod=pod_key(pod),
        parent_of_others=True,
        folded=True,
        fault=not line.health.well,
        labels=pod.metadata.labels,
    )


def pod_order(pod: Pod, node: str) -> Order:
    """Return the sort key of a pod on the given node."""
    label = pod_label(pod)
    # The UID distinguishes a terminating pod from its replacement.
    return step(0 if node else 1, node), (0, (natural_key(label), pod.metadata.uid), label)


def pod_items(pod: Pod, node: str, now: float) -> tuple[Item, ...]:
    """Return a pod and all its children, parents first. ``node`` is the name of its node."""
    head = pod_head(pod, node_key(node), pod_order(pod, node), now)
    return (head, *_contents(pod, head))


def _contents(pod: Pod, head: Item) -> Iterator[Item]:
    status, spec = pod.status, pod.spec
    groups: tuple[tuple[Iterable[Container | EphemeralContainer], Iterable[ContainerStatus]], ...]
    groups = (
        (spec.initContainers, status.initContainerStatuses),
        (spec.containers, status.containerStatuses),
        (spec.ephemeralContainers, status.ephemeralContainerStatuses),
    )
    volumes = {volume.name: volume for volume in spec.volumes}
    for rank, (containers, statuses) in enumerate(groups):
        known = {one.name: one for one in statuses}
        for number, container in enumerate(containers):
            kind = ("init", "", "debug")[rank]
            if rank == 0 and isinstance(container, Container) and is_sidecar(container):
                kind = "sidecar"
            # Keep the order of the spec, in which init containers run.
            order = (*head.order, (rank, (number,), container.name))
            below = tuple(container_parts(container, volumes))
            container_item = _container(
                container, known.get(container.name), kind, head, order, bool(below)
            )
            yield container_item
            for place, (label, detail) in enumerate(below):
                yield Item(
                    key=f"{container_item.key}/{place}:{label}",
                    parent=container_item.key,
                    order=(*order, (0, (place,), label)),
                    label=clean(label),
                    tone="key",
                    detail=clean(detail),
                    pod=head.pod,
                )


def _container(
    container: Container | EphemeralContainer,
    status: ContainerStatus | None,
    kind: str,
    head: Item,
    order: Order,
    has_more: bool,
) -> Item:
    family, word, since = _state(status)
    return Item(
        key=f"{head.key}/{container.name}",
        parent=head.key,
        order=order,
        label=clean(container.name) + (f" ({kind})" if kind else ""),
        tone="",
        state=f"{GLYPHS[family]} {word}",
        state_tone=family.value,
        restarts=status.restartCount if status is not None else None,
        detail=clean(container.image),
        since=since,
        pod=head.pod,
        parent_of_others=has_more,
        fault=family is Family.ERROR,
    )


def _state(status: ContainerStatus | None) -> tuple[Family, str, float | None]:
    """Return (family, state, epoch seconds since when, or None)."""
    if status is None:
        return Family.PENDING, "NotCreated", None
    state = status.state
    if state.running is not None:
        family = Family.RUNNING if status.ready else Family.UNREADY
        return family, "Running" if status.ready else "NotReady", epoch(state.running.startedAt)
    if state.terminated is not None:
        family = Family.COMPLETED if state.terminated.exitCode == 0 else Family.ERROR
        return family, clean(ending(state.terminated)), epoch(state.terminated.finishedAt)
    reason = clean(state.waiting.reason) if state.waiting is not None else ""
    return (Family.PENDING if reason in _FINE else Family.ERROR), reason or "Waiting", None
