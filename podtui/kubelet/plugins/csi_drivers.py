"""The CSI drivers that have registered on this node, in the objects Node and CSINode as well."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, cast

from msgspec import structs

from podtui.api.storage import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources
from podtui.api.v1 import Node, ObjectMeta, OwnerReference
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.backoff import Backoff
from podtui.kubelet.plugins.csi_api import CsiError, CsiNodeService, NodeInfo, Topology
from podtui.kubelet.ports import NodeClient, StorageClient
from podtui.text.go_format import quoted

_LOG = logging.getLogger(__name__)
CSI_PLUGIN_TYPE: Final = "CSIPlugin"
NODE_ID: Final = "csi.volume.kubernetes.io/nodeid"
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 120.0
_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)+)")
_MAX_COUNT: Final = (1 << 31) - 1
Version = tuple[int, ...]


class CsiDrivers:
    """Implements `podtui.kubelet.plugins.plugin_registry.PluginHandler`. A driver whose socket is
    gone leaves both objects; those of an agent that is stopped stay, as a kubelet's do."""

    def __init__(self, nodes: NodeClient, storage: StorageClient, clock: Clock) -> None:
        self._nodes = nodes
        self._storage = storage
        self._clock = clock
        self._drivers: dict[str, tuple[str, Version]] = {}
        """The socket and the version of each driver."""
        self._leaving: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()

    def service(self, name: str) -> CsiNodeService:
        """Return the connection to a driver. Raises `CsiError`."""
        if name not in self._drivers:
            text = f"driver name {name} not found in the list of registered CSI drivers"
            raise CsiError(text)
        return _service(self._drivers[name][0])

    # --- PluginHandler

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        try:
            version = self._accepted_version(name, versions)
        except CsiError as error:
            where = f"CSI Driver {name} at endpoint {endpoint}"
            text = f"plugin validation failed with err: validation failed for {where}: {error}"
            raise CsiError(text) from error
        try:
            info = await _service(endpoint).info()
            async with self._lock:
                self._leaving.pop(name, None)
                await self._install(name, info)
        except PodtuiError as error:
            raise CsiError(f"plugin registration failed with err: {error}") from error
        self._drivers[name] = endpoint, version
        _LOG.info("CSI driver %s registered", name)

    def deregister(self, name: str) -> None:
        if self._drivers.pop(name, None) is not None:
            self._leaving[name] = None
            self._changed.set()

    def _accepted_version(self, name: str, versions: Sequence[str]) -> Version:
        failed = f"kubernetes.io/csi: ValidatePlugin for CSI driver {quoted(name)} failed."
        if not versions:
            raise CsiError(f"{failed} Plugin returned an empty list for supported versions")
        try:
            version = highest_version(versions)
        except CsiError as error:
            listed = " ".join(map(quoted, versions))
            text = f"None of the versions specified [{listed}] are supported. err={error}"
            raise CsiError(f"{failed} {text}") from error
        if name in self._drivers and self._drivers[name][1] >= version:
            held = ".".join(map(str, self._drivers[name][1]))
            raise CsiError(
                f"{failed} Another driver with the same name is already registered with a higher"
                f" supported version: {quoted(held)}"
            )
        return version

    # --- the objects

    async def run(self) -> NoReturn:
        """Create the CSINode, and remove drivers that have gone from both objects. Runs forever."""
        created = False
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            try:
                async with self._lock:
                    created = created or await self._create()
                    for name in list(self._leaving):
                        await self._uninstall(name)
                        self._leaving.pop(name, None)
            except PodtuiError as error:
                _LOG.warning("cannot write the CSI drivers of the node: %s", error)
            if created and not self._leaving:
                pauses.forget(self)
                await self._changed.wait()
                self._changed.clear()
            else:
                await self._clock.sleep(pauses.next(self, self._clock.monotonic()))

    async def _create(self) -> bool:
        node = await self._nodes.get()
        if node is None or not node.metadata.uid:
            # It is not registered yet.
            return False
        await self._storage.set_node(lambda item: csi_node(item, node))
        return True

    async def _install(self, name: str, info: NodeInfo) -> None:
        """Raises `PodtuiError`, without the texts of an API server's library around it."""
        if not info.node_id:
            raise CsiError("error adding CSI driver node info: driverNodeID must not be empty")
        topology = (info.accessible_topology or Topology()).segments
        where = "object with CSI driver node info"
        try:
            node = await self._nodes.update(lambda node: with_driver(node, name, info, topology))
        except PodtuiError as error:
            raise CsiError(f"error updating Node {where}: error updating node: {error}") from error
        driver = node_driver(name, info, topology)
        try:
            await self._storage.set_node(lambda item: installed(csi_node(item, node), driver))
        except PodtuiError as error:
            text = f"error updating CSINode {where}: error updating CSINode: {error}"
            raise CsiError(text) from error

    async def _uninstall(self, name: str) -> None:
        item = await self._storage.node()
        if item is not None and any(driver.name == name for driver in item.spec.drivers):
            await self._storage.set_node(lambda old: uninstalled(old or item, name))
        node = await self._nodes.get()
        if node is not None and name in _node_ids(node):
            await self._nodes.update(lambda node: _with_ids(node, name, ""))


def _service(endpoint: str) -> CsiNodeService:
    from podtui.kubelet.plugins.csi_calls import CsiConnection

    return CsiConnection(endpoint)


def highest_version(versions: Sequence[str]) -> Version:
    """Return the highest version 1.x. Raises `CsiError`."""
    highest: Version | None = None
    problem = "<nil>"
    for text in reversed(versions):
        match = _VERSION.match(text)
        if match is None:
            problem = f"could not parse {quoted(text)} as version"
            continue
        version = tuple(map(int, match[1].split(".")))
        if version[0] <= 1 and (highest is None or highest < version):
            highest = version
    if highest is None:
        raise CsiError(
            "could not find a highest supported version from versions"
            f" ([{' '.join(versions)}]) reported: {problem}"
        )
    if highest[0] != 1:
        shown = ".".join(map(str, highest))
        raise CsiError(f"highest supported version reported is {shown}, must be v1.x")
    return highest


# --- changed objects


def csi_node(item: CSINode | None, node: Node) -> CSINode:
    """Return the CSINode of a node; a new one if it belongs to another node of the same name."""
    uid = node.metadata.uid
    if item is not None and any(owner.uid == uid for owner in item.metadata.ownerReferences):
        return item
    owner = OwnerReference(apiVersion="v1", kind="Node", name=node.metadata.name, uid=uid)
    meta = ObjectMeta(name=node.metadata.name) if item is None else item.metadata
    return CSINode(
        apiVersion="storage.k8s.io/v1",
        kind="CSINode",
        metadata=structs.replace(meta, ownerReferences=(owner,)),
        spec=CSINodeSpec(drivers=()),
    )


def node_driver(name: str, info: NodeInfo, topology: Mapping[str, str]) -> CSINodeDriver:
    count = info.max_volumes_per_node
    limit = VolumeNodeResources(count=min(count, _MAX_COUNT)) if count > 0 else None
    return CSINodeDriver(
        name=name, nodeID=info.node_id, topologyKeys=tuple(sorted(topology)), allocatable=limit
    )


def installed(item: CSINode, driver: CSINodeDriver) -> CSINode:
    if driver in item.spec.drivers:
        return item
    return structs.replace(
        item,
        spec=CSINodeSpec(drivers=(*uninstalled(item, driver.name).spec.drivers, driver)),
    )


def uninstalled(item: CSINode, name: str) -> CSINode:
    drivers = tuple(driver for driver in item.spec.drivers if driver.name != name)
    return structs.replace(item, spec=CSINodeSpec(drivers=drivers))


def with_driver(node: Node, name: str, info: NodeInfo, topology: Mapping[str, str]) -> Node:
    """Return the node with the id that it has for the driver, and the labels of its topology.
    Raises `CsiError` if it has other labels."""
    labels = node.metadata.labels
    for key, value in topology.items():
        if labels.get(key, value) != value:
            raise CsiError(
                f"detected topology value collision: driver reported {quoted(key)}:{quoted(value)}"
                f" but existing label is {quoted(key)}:{quoted(labels[key])}"
            )
    node = _with_ids(node, name, info.node_id)
    return structs.replace(
        node, metadata=structs.replace(node.metadata, labels={**labels, **topology})
    )


def _node_ids(node: Node) -> dict[str, str]:
    """Raises `CsiError`."""
    text = node.metadata.annotations.get(NODE_ID, "")
    try:
        ids: object = json.loads(text) if text else {}
    except ValueError as error:
        raise _unreadable(text, error) from error
    if not isinstance(ids, dict):
        raise _unreadable(text, "it is no map")
    return cast("dict[str, str]", ids)


def _unreadable(text: str, why: object) -> CsiError:
    return CsiError(
        f"failed to parse node's {quoted(NODE_ID)} annotation value ({quoted(text)}) err={why}"
    )


def _with_ids(node: Node, name: str, node_id: str) -> Node:
    """Return the node with the id for one driver; without it if it is empty."""
    ids = {key: value for key, value in _node_ids(node).items() if key != name}
    if node_id:
        ids[name] = node_id
    annotations = {key: text for key, text in node.metadata.annotations.items() if key != NODE_ID}
    if ids:
        annotations[NODE_ID] = json.dumps(ids, sort_keys=True, separators=(",", ":"))
    return structs.replace(node, metadata=structs.replace(node.metadata, annotations=annotations))
