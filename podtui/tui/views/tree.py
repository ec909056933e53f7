"""The tree of pods: nodes, their pods, the pods' containers, and the containers' ports, mounts,
environment sources and probes; also manifest files, workloads, Services and claims with their pods.

`TreeView` selects the visible items by folding and filter, and turns them into rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
from msgspec import Struct

from podtui.api.apps import ReplicaSet
from podtui.api.batch import Job
from podtui.api.local import Manifest, ManifestState
from podtui.api.networking import Ingress
from podtui.api.pods import is_sidecar
from podtui.api.printing import ending
from podtui.api.selectors import label_text
from podtui.api.times import epoch
from podtui.api.v1 import (
    Container,
    ContainerStatus,
    EphemeralContainer,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Service,
    Volume,
)
from podtui.text.terminal_text import plural
from podtui.tui.model.model import Changes, Model, pod_key
from podtui.tui.views.labels import manifest_message, pod_label
from podtui.tui.views.pod_status import FAMILIES, GLYPHS, Family, pod_status_line
from podtui.tui.views.pods.describe import probe_text
from podtui.tui.views.why import inventory_of
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    Span,
    Value,
    ValueKind,
    content_of,
)
from podtui.tui.widgets.filters import ALL, Filter
from podtui.tui.widgets.format import natural_key
from podtui.tui.widgets.sanitize import clean
from podtui.why import Diagnosis, Kind
from podtui.why.claims import claim_users
from podtui.why.endpoints import selected_pods
from podtui.why.ingresses import routes_of
from podtui.why.inventory import WORKLOADS, Inventory, object_name
from podtui.why.objects import diagnose_object


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
    by_source: dict[str, list[str]] = {}
    for variable in container.env:
        origin = variable.valueFrom
        if origin is None:
            by_source.setdefault("values", []).append(variable.name)
        elif origin.configMapKeyRef is not None:
            by_source.setdefault(f"ConfigMap {origin.configMapKeyRef.name}", []).append(
                f"{origin.configMapKeyRef.key} → {variable.name}"
            )
        elif origin.secretKeyRef is not None:
            by_source.setdefault(f"Secret {origin.secretKeyRef.name}", []).append(
                f"{origin.secretKeyRef.key} → {variable.name}"
            )
        elif origin.fieldRef is not None:
            by_source.setdefault("fields", []).append(
                f"{origin.fieldRef.fieldPath} → {variable.name}"
            )
        elif origin.resourceFieldRef is not None:
            text = f"{origin.resourceFieldRef.resource} → {variable.name}"
            by_source.setdefault("resources", []).append(text)
        else:
            by_source.setdefault("files", []).append(variable.name)
    for source, names in by_source.items():
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


# The order of an item begins with the order of its parent. So one sort of all rows gives the tree,
# and an update of one item needs no knowledge of the others.
Order = tuple[Any, ...]
"""The sort key of an item: the key of its parent plus one step, so that parents come first."""
FILES: Final = "files:"
"""The key of the item of the manifest folder, and the prefix of the keys of files."""
NODES: Final = "node:"
"""The prefix of the keys of nodes; alone, the key of the item for pods without a node."""
_FINE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_STATES: Final = {
    ManifestState.ACCEPTED: ("● Accepted", "running"),
    ManifestState.LAST_GOOD: ("▲ KeepsLastGood", "warning"),
    ManifestState.DUPLICATE: ("▲ Duplicate", "warning"),
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
    ref: tuple[str, str, str] | None = None
    """The kind, the namespace and the name of an object that is no pod."""
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
        return "\0".join(part[2] for part in self.order)


def step(rank: int, name: str) -> tuple[int, Any, str]:
    """Return one step of an `Order`: sort by rank, then by name in natural order."""
    return rank, natural_key(name), name


# --- nodes and files


def node_key(name: str) -> str:
    return NODES + name


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
        detail=f"{plural(pods, 'pod')}{wrong}",
        parent_of_others=pods > 0,
        fault=node is not None and not ready,
    )


def files_item(count: int) -> Item:
    """Return the item of the manifest folder."""
    detail = plural(count, "file")
    return Item(FILES, "", (step(2, FILES),), "manifests", "heading", detail=detail,
                parent_of_others=count > 0, folded=True)  # fmt: skip


def file_items(manifest: Manifest, pods: Sequence[Pod], now: float) -> tuple[Item, ...]:
    """Return the item of a manifest file, and below it references to its pods."""
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
        pod=pod_key(pods[0]) if pods else "",
        parent_of_others=bool(pods),
        fault=wrong,
    )
    references = (
        _reference(pod_head(pod, file_item.key, (*order, step(0, pod.metadata.name)), now), number)
        for number, pod in enumerate(pods)
    )
    return (file_item, *references)


def _reference(head: Item, number: int) -> Item:
    """Return a second item for a pod of a file, without its children."""
    parent = head.parent
    # A key of its own, because the pod has a row of its own, and keys of rows are unique.
    return Item(
        key=f"{parent}/pod{number or ''}", parent=parent, order=head.order, label=f"→ {head.label}",
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
        by_name = {status.name: status for status in statuses}
        for number, container in enumerate(containers):
            kind = ("init", "", "debug")[rank]
            if rank == 0 and isinstance(container, Container) and is_sidecar(container):
                kind = "sidecar"
            # Keep the order of the spec, in which init containers run.
            order = (*head.order, (rank, (number,), container.name))
            below = tuple(container_parts(container, volumes))
            container_item = _container(
                container, by_name.get(container.name), kind, head, order, bool(below)
            )
            yield container_item
            for index, (label, detail) in enumerate(below):
                yield Item(
                    key=f"{container_item.key}/{index}:{label}",
                    parent=container_item.key,
                    order=(*order, (0, (index,), label)),
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


# --- workloads, services and claims

OWNERS: Final = "owners:"
"""The prefix of the keys of workloads, services, claims and what is below them."""
_HEADS: Final[Mapping[str, str]] = {
    "workloads": "workload",
    "services": "service",
    "ingresses": "ingress",
    "claims": "claim",
}
"""The items above the objects of the API, with what one object is called."""


def owner_heads(counts: Sequence[int]) -> Iterator[Item]:
    """Yield the items above workloads, services, ingresses and claims; no item for none of them."""
    for rank, ((name, noun), count) in enumerate(zip(_HEADS.items(), counts, strict=True)):
        if count:
            yield Item(
                OWNERS + name, "", (step(3 + rank, name),), name, "heading",
                detail=plural(count, noun, name), parent_of_others=True, folded=True,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Branch:
    """An object with what is below it: ``children`` in the order of their names, and pods."""

    item: Any
    diagnosis: Diagnosis | None = None
    detail: str = ""
    children: tuple[Branch, ...] = ()
    pods: tuple[Pod, ...] = ()


def branch_items(branch: Branch, parent: str, order: Order, now: float) -> Iterator[Item]:
    """Yield the items of an object and all that is below it, parents first."""
    meta, name = branch.item.metadata, object_name(branch.item)
    where = f"{meta.namespace}/" if meta.namespace not in ("", "default") else ""
    label = f"{where}{name}" if parent.removeprefix(OWNERS) in _HEADS else name
    key, path = f"{parent}/{name}:{meta.uid}", (*order, step(0, label))
    glyph, tone, state = "", "", ""
    diagnosis = branch.diagnosis
    if diagnosis is not None and diagnosis.health is not None:
        family = FAMILIES[diagnosis.health]
        glyph, tone = GLYPHS[family], family.value
        state = diagnosis.state or str(diagnosis.health)
    yield Item(
        key=key,
        parent=parent,
        order=path,
        label=clean(label),
        tone="name",
        state=f"{glyph} {clean(state)}".strip(),
        state_tone=tone,
        detail=clean(branch.detail),
        since=epoch(meta.creationTimestamp),
        ref=(type(branch.item).__name__, meta.namespace, meta.name),
        parent_of_others=bool(branch.children or branch.pods),
        fault=diagnosis is not None and diagnosis.kind is Kind.FAILURE,
        labels=meta.labels,
    )
    for child in branch.children:
        yield from branch_items(child, key, path, now)
    for pod in branch.pods:
        below = (*path, (1, (natural_key(pod.metadata.name), pod.metadata.uid), pod.metadata.name))
        head = pod_head(pod, key, below, now)
        # A key of its own, because the pod has a row below its node, too.
        head = replace(head, key=f"{key}/{head.key}", label=clean(pod.metadata.name))
        yield head
        yield from _contents(pod, head)


def owner_branches(inventory: Inventory) -> tuple[list[Branch], ...]:
    """Return the workloads that no other owns, the Services with their pods, the Ingresses with
    their Services, and the claims with their volumes and pods."""
    workloads = [
        _workload_branch(inventory, item)
        for kind in WORKLOADS
        for item in inventory.list(kind)
        if inventory.owner(item) is None
    ]
    services = [_service_branch(inventory, item) for item in inventory.list(Service)]
    ingresses = [_ingress_branch(inventory, item) for item in inventory.list(Ingress)]
    claims = [_claim_branch(inventory, item) for item in inventory.list(PersistentVolumeClaim)]
    return workloads, services, ingresses, claims


def _service_branch(inventory: Inventory, item: Service) -> Branch:
    pods = tuple(selected_pods(inventory, item))
    diagnosis = diagnose_object(inventory, item)
    return Branch(item, diagnosis, label_text(item.spec.selector), pods=pods)


def _ingress_branch(inventory: Inventory, item: Ingress) -> Branch:
    routes = routes_of(inventory, item)
    services = {r.service.metadata.name: r.service for r in routes if r.service is not None}
    children = tuple(_service_branch(inventory, service) for service in services.values())
    diagnosis = diagnose_object(inventory, item)
    shown = ", ".join(route.shown for route in routes)
    return Branch(item, diagnosis, diagnosis.brief or shown, children)


def _workload_branch(inventory: Inventory, item: Any) -> Branch:
    pods = tuple(inventory.owned(Pod, item))
    children = tuple(
        _workload_branch(inventory, child)
        for kind in (ReplicaSet, Job)
        for child in inventory.owned(kind, item)
        # An earlier revision without pods is of no interest here.
        if not isinstance(child, ReplicaSet) or child.spec.replicas or child.status.replicas
    )
    diagnosis = diagnose_object(inventory, item)
    return Branch(item, diagnosis, diagnosis.brief or diagnosis.title, children, pods)


def _claim_branch(inventory: Inventory, item: PersistentVolumeClaim) -> Branch:
    diagnosis = diagnose_object(inventory, item)
    pods = tuple(claim_users(inventory, item))
    volume = inventory.get(PersistentVolume, "", item.spec.volumeName) if (
        item.spec.volumeName) else None  # fmt: skip
    size = item.status.capacity.get("storage", "")
    detail = diagnosis.brief or size or diagnosis.title
    if volume is None:
        return Branch(item, diagnosis, detail, pods=pods)
    path = volume.spec.hostPath.path if volume.spec.hostPath is not None else ""
    below = Branch(volume, diagnose_object(inventory, volume), path, pods=pods)
    return Branch(item, diagnosis, detail, (below,))


# --- rows

OPEN: Final = "▾"
FOLDED: Final = "▸"
INDENT: Final = 2
_NOTHING: Final = Cell("", "muted")

Folds = Mapping[str, bool]
"""The items that the user folded (True) or opened (False), by path."""


def is_folded(item: Item, folds: Folds) -> bool:
    return item.parent_of_others and folds.get(item.path, item.folded)


def sign_of(row: Row) -> str:
    """Return `OPEN`, `FOLDED`, or a blank for an item without children."""
    return row.cells[0].text.lstrip(" ")[:1] if fold_column(row) is not None else " "


def fold_column(row: Row) -> int | None:
    """Return the column of the fold sign in its row; None if there is none."""
    text = row.cells[0].text
    column = len(text) - len(text.lstrip(" "))
    return column if text[column : column + 1] in (OPEN, FOLDED) else None


class _Entry(Struct, frozen=True):
    """The object of `TREE_COLUMNS`. All columns sort by the order of the tree."""

    item: Item
    folded: bool

    def field(self, cell: Cell, value: Value) -> ColumnValue:
        return ColumnValue(cell, self.item.order, value)


def _name(entry: _Entry) -> ColumnValue:
    item = entry.item
    sign = (FOLDED if entry.folded else OPEN) if item.parent_of_others else " "
    label = f"{' ' * (INDENT * item.depth)}{sign} {item.label}"
    return entry.field(Cell(label, item.tone), item.label)


def _status_word(item: Item) -> str:
    return item.state.partition(" ")[2]


def _status(entry: _Entry) -> ColumnValue:
    item = entry.item
    cell = Cell(item.state, item.state_tone) if item.state else _NOTHING
    return entry.field(cell, _status_word(item))


def _restarts(entry: _Entry) -> ColumnValue:
    count = entry.item.restarts
    if count is None:
        return entry.field(_NOTHING, None)
    return entry.field(Cell(str(count), "warning" if count else "muted"), float(count))


def _detail_tone(item: Item) -> str:
    return "soft" if item.parent_of_others else "muted"


def _since(entry: _Entry) -> ColumnValue:
    since = entry.item.since
    return entry.field(Cell("", "muted", since) if since is not None else _NOTHING, since)


TREE_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=24, maximum=72, flexible=True, middle_cut=True, of=_name),
    Column("status", "STATUS", 95, minimum=18, maximum=28, flexible=True, usual_width=12,
           of=_status),
    Column("restarts", "RESTARTS", 70, align="right", kind=ValueKind.COUNT, of=_restarts),
    Column("detail", "WHAT", 80, minimum=12, maximum=400, flexible=True, filling=True,
           of=lambda entry: entry.field(Cell(entry.item.detail, _detail_tone(entry.item)),
                                    entry.item.detail)),
    Column("age", "AGE", 60, align="right", kind=ValueKind.AGE, usual_width=5, of=_since),
)  # fmt: skip


def tree_row(item: Item, folded: bool) -> Row:
    """Return the row of an item, with the cells of `TREE_COLUMNS`."""
    # Without restarts and age, the detail may use their columns as well.
    bare = item.restarts is None and item.since is None
    tail = Span(item.detail, _detail_tone(item)) if bare and item.detail else None
    return Row(
        item.key,
        *content_of(TREE_COLUMNS, _Entry(item, folded)),
        search=f"{item.label} {_status_word(item)} {item.detail}",
        labels=item.labels,
        tail=tail,
        tail_from=2 if item.state else 1,
        identity=item.path,
        fault=item.fault,
    )


def visible_rows(
    items: Sequence[Item],
    folds: Folds,
    wanted: Filter,
    now: float,
    make: Callable[[Item, bool], Row],
) -> list[tuple[Item, Row]]:
    """Return the visible items of a subtree with their rows, parents first.

    ``make`` is `tree_row` or a cached version. An item that matches the filter is shown with all
    its ancestors, which are opened unless the user folded them, and with its visible children.
    """
    hits, above = _matches(items, wanted, now, make) if wanted.text else (set[str](), set[str]())
    parents = {item.key for item in items}
    opened: set[str] = set()
    visible: list[tuple[Item, Row]] = []
    # Parents come first, so that one pass is enough. The parent of a subtree's root is not in
    # ``items``: the caller has checked that it is open.
    for item in items:
        if item.parent in parents and item.parent not in opened:
            continue
        if wanted.text:
            if item.parent in hits:
                hits.add(item.key)
            if item.key not in hits and item.key not in above:
                continue
        folded = is_folded(item, folds)
        if folded and item.key in above and item.path not in folds:
            folded = False
        if not folded:
            opened.add(item.key)
        visible.append((item, make(item, folded)))
    return visible


def _matches(
    items: Sequence[Item], wanted: Filter, now: float, make: Callable[[Item, bool], Row]
) -> tuple[set[str], set[str]]:
    """Return (keys that match, keys of their ancestors)."""
    up = {item.key: item.parent for item in items}
    hits = {i.key for i in items if wanted.matches(make(i, False), now)}
    above: set[str] = set()
    for key in hits:
        parent = up[key]
        while parent in up and parent not in above:
            above.add(parent)
            parent = up[parent]
    return hits, above


class TreeView:
    """The tree rows of a `Model`. ``shown`` contains the visible items by key."""

    # Everything is kept by pod, so that a change of one pod costs its own rows. Objects of the
    # model are replaced, never changed: as long as the object is the same, so are its items.
    def __init__(
        self,
        model: Model,
        wanted: Filter = ALL,
        read: Callable[[type[Any]], Iterable[Any] | None] = lambda kind: None,
    ) -> None:
        """``read`` returns the objects of a kind that is not in the model."""
        self._model = model
        self._read = read
        self.filter = wanted
        self.folds: dict[str, bool] = {}
        self.shown: dict[str, Item] = {}
        self._opened = False
        """True if the items below workloads, services and claims are initially open."""
        self._of: dict[str, tuple[str, ...]] = {}
        """The keys of the visible rows, by pod; those of the files under `FILES`, those of the
        nodes under `NODES`."""
        self._heads: dict[str, Item] = {}
        self._items: dict[str, tuple[Pod, str, tuple[Item, ...]]] = {}
        """By pod key: the pod and the node name on which the items are based, and the items."""
        self._rows: dict[tuple[str, bool], tuple[Item, Row]] = {}
        """By item key and folded state: the row, and the item on which it is based."""

    # --- changes

    def update(self, changes: Changes, now: float) -> tuple[list[Row], list[str]]:
        """Return (new and changed rows, keys of removed rows)."""
        rows: list[Row] = []
        gone: list[str] = []
        for key in changes.pods:
            self._take(key, list(self._pod(key, now)), rows, gone)
        if changes.pods or changes.manifests:
            self._take(FILES, list(self._files(now)), rows, gone)
        # After the pods, because the rows of the nodes count them.
        if changes.pods or changes.node:
            self._take(NODES, list(self._nodes()), rows, gone)
        if changes.pods - changes.measured:
            self._take(OWNERS, list(self._owners(now)), rows, gone)
        return rows, gone

    def update_owners(self, now: float) -> tuple[list[Row], list[str]]:
        """Return the same for workloads, services and claims, after a change of such objects."""
        rows: list[Row] = []
        gone: list[str] = []
        self._take(OWNERS, list(self._owners(now)), rows, gone)
        return rows, gone

    def all(self, now: float) -> list[Row]:
        """Rebuild and return all visible rows."""
        self.shown, self._of, self._heads = {}, {}, {}
        return [*self.update(self._model.all_changes(), now)[0], *self.update_owners(now)[0]]

    def _take(
        self, name: str, items: list[tuple[Item, Row]], rows: list[Row], gone: list[str]
    ) -> None:
        keys = tuple(item.key for item, _ in items)
        kept = set(keys)
        for key in self._of.get(name, ()):
            if key not in kept:
                gone.append(key)
                self.shown.pop(key, None)
        self._of[name] = keys
        for item, row in items:
            self.shown[item.key] = item
            rows.append(row)

    # --- parts

    def _node_of(self, pod: Pod) -> str:
        """Return the node name of a pod; all pods of an agent, even not yet admitted ones, are on
        its node."""
        home = self._model.home_of(pod)
        return home.metadata.name if home is not None else pod.spec.nodeName

    def _pod(self, key: str, now: float) -> Iterator[tuple[Item, Row]]:
        pod = self._model.pods.get(key)
        if pod is None:
            self._forget(key)
            return
        node = self._node_of(pod)
        # Kept even if the node is folded, because the row of the node counts its faults.
        head = self._heads[key] = pod_head(pod, node_key(node), pod_order(pod, node), now)
        if self.is_folded_away(head.parent):
            return
        # Without a filter, do not build the children of a folded pod.
        bare = not self.filter.text and is_folded(head, self.folds)
        items = (head,) if bare else self._all_of(key, pod, node, now)
        yield from self._visible(items, now)

    def _all_of(self, key: str, pod: Pod, node: str, now: float) -> tuple[Item, ...]:
        # The fault is compared, too: it also depends on the time.
        cached, fault = self._items.get(key), self._heads[key].fault
        if (
            cached is None
            or cached[0] is not pod
            or cached[1] != node
            or cached[2][0].fault is not fault
        ):
            cached = self._items[key] = (pod, node, pod_items(pod, node, now))
        return cached[2]

    def _forget(self, key: str) -> None:
        self._heads.pop(key, None)
        for item in self._items.pop(key, (None, "", ()))[2]:
            for folded in (False, True):
                self._rows.pop((item.key, folded), None)

    def _visible(self, items: Sequence[Item], now: float) -> list[tuple[Item, Row]]:
        return visible_rows(items, self.folds, self.filter, now, self._row)

    def _row(self, item: Item, folded: bool) -> Row:
        cached = self._rows.get((item.key, folded))
        if cached is None or cached[0] is not item:
            cached = self._rows[item.key, folded] = (item, tree_row(item, folded))
        return cached[1]

    def is_folded_away(self, node: str) -> bool:
        return self.folds.get(node.removeprefix(NODES), False)

    def _nodes(self) -> Iterator[tuple[Item, Row]]:
        pods = Counter(head.parent for head in self._heads.values())
        faults = Counter(head.parent for head in self._heads.values() if head.fault)
        names = {node_key(name) for name in self._model.nodes} | pods.keys()
        for key in names:
            name = key.removeprefix(NODES)
            item = node_item(name, self._model.nodes.get(name), pods[key], faults[key])
            yield item, tree_row(item, is_folded(item, self.folds))

    def _files(self, now: float) -> Iterator[tuple[Item, Row]]:
        manifests = self._model.manifests
        if not manifests:
            return
        head = files_item(len(manifests))
        if not self.filter.text and is_folded(head, self.folds):
            yield head, tree_row(head, True)
            return
        by_name = {(p.metadata.namespace, p.metadata.name): p for p in self._model.pods.values()}
        items = [head]
        for manifest in manifests.values():
            status = manifest.status
            named = [(status.podUID, status.podNamespace, status.podName)]
            named += [(o.uid, o.namespace, o.name) for o in status.objects if o.uid]
            pods = [
                pod
                for uid, namespace, name in dict.fromkeys(named)
                if (pod := self._model.pods.get(uid) or by_name.get((namespace, name)))
            ]
            items += file_items(manifest, pods, now)
        yield from self._visible(items, now)

    def _owners(self, now: float) -> Iterator[tuple[Item, Row]]:
        inventory = inventory_of(self._model, self._read, now)
        items = (item for kind in WORKLOADS for item in inventory.list(kind))
        roots = (
            sum(inventory.owner(item) is None for item in items),
            len(inventory.list(Service)),
            len(inventory.list(Ingress)),
            len(inventory.list(PersistentVolumeClaim)),
        )
        heads = list(owner_heads(roots))
        if not self.filter.text and all(is_folded(head, self.folds) for head in heads):
            # Nothing below them is visible: diagnosing everything is not needed.
            yield from ((head, tree_row(head, True)) for head in heads)
            return
        branches: dict[str, list[Branch]] = {}
        branches |= zip(_HEADS, owner_branches(inventory), strict=True)
        for head in heads:
            items = [head]
            for branch in branches[head.label]:
                items += branch_items(branch, head.key, head.order, now)
            if self._opened:
                items = [replace(item, folded=False) for item in items]
            yield from visible_rows(items, self.folds, self.filter, now, tree_row)

    # --- folding

    def fold(self, key: str, folded: bool) -> None:
        item = self.shown.get(key)
        if item is not None:
            self.folds[item.path] = folded

    def fold_all(self, folded: bool) -> None:
        """Open all items, or fold all pods so that only pods and the manifest folder are shown."""
        self.folds = {}
        self._opened = not folded
        for head in self._heads.values():
            self.folds[head.path] = folded
        if not folded:
            self.folds[FILES] = False
            self.folds |= dict.fromkeys(_HEADS, False)

    def nearest(self, key: str, before: dict[str, Item]) -> str:
        """Return the key if its row is visible, otherwise that of its nearest visible ancestor."""
        while key and key not in self.shown:
            item = before.get(key)
            key = item.parent if item is not None else ""
        return key
