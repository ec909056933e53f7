"""Stage and publish CSI volumes through their drivers, and undo it.

What is published is known from the files in the directories of the volumes, so that an agent which
was killed at any moment leaves nothing behind that a later one cannot unpublish.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from podtui.api.claims import attachment_name, volume_in_use
from podtui.api.quantity import Quantity
from podtui.api.storage import CSIDriver
from podtui.api.times import rfc3339
from podtui.api.v1 import Pod, Secret, SecretReference, Volume
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.backoff import Backoff
from podtui.kubelet.plugins.csi_api import (
    Capability,
    CsiError,
    CsiNodeService,
    StatsRequest,
    UnpublishRequest,
    UnstageRequest,
    VolumeStats,
)
from podtui.kubelet.plugins.csi_drivers import CsiDrivers
from podtui.kubelet.ports import (
    DocumentSource,
    ServiceAccountTokens,
    StorageClient,
    TokenRequest,
)
from podtui.kubelet.volumes import csi_files as files
from podtui.kubelet.volumes import csi_volumes as csi
from podtui.kubelet.volumes.csi_expander import CsiExpander, NotExpandable
from podtui.kubelet.volumes.csi_volumes import CsiMount, CsiVolume

_LOG = logging.getLogger(__name__)
COLLECT_PERIOD: Final = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0
_START: Final = "kubernetes.io/csi: "
_ONE_POD: Final = "ReadWriteOncePod"
_TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"
_TOKEN_SECONDS: Final = 3600
Key = tuple[str, str]


class MountError(PodtuiError):
    """Raised if a volume cannot be mounted, with the kubelet's message."""

    def __init__(self, step: str, name: str, why: object, during: str = "") -> None:
        super().__init__(f'{step} failed{during} for volume "{name}" : {why}')


class NotAttachedYet(MountError):
    """Raised for a volume that may be attached soon."""


@dataclass(frozen=True, slots=True)
class Published:
    """``again``: the driver wants to be asked again from time to time."""

    mount: CsiMount
    again: bool


@dataclass(frozen=True, slots=True)
class _Mount:
    """One volume for one pod, with what its mount depends on."""

    pod: Pod
    volume: CsiVolume
    driver: CSIDriver | None
    service: CsiNodeService
    capabilities: frozenset[int]
    publish_context: Mapping[str, str]

    @property
    def group(self) -> int | None:
        security = self.pod.spec.securityContext
        return None if security is None else security.fsGroup

    @property
    def is_staged(self) -> bool:
        stages = Capability.STAGE_UNSTAGE_VOLUME in self.capabilities
        return stages and self.volume.mode == csi.PERSISTENT


class CsiMounter:
    """``root`` has the directories ``pods`` and ``plugins``. ``unusable`` returns why the engine
    cannot see what a driver mounts, or an empty text. ``on_use`` is called when `in_use` changes;
    ``is_reported`` returns whether the node's stored status has a name of `in_use`.
    """

    def __init__(
        self,
        *,
        root: Path,
        node_name: str,
        drivers: CsiDrivers,
        storage: StorageClient,
        documents: DocumentSource,
        tokens: ServiceAccountTokens | None,
        expander: CsiExpander,
        clock: Clock,
        unusable: Callable[[], str],
        on_use: Callable[[], None] = lambda: None,
        is_reported: Callable[[str], bool] = lambda volume: True,
    ) -> None:
        self._on_use = on_use
        self._is_reported = is_reported
        self._in_use: frozenset[Key] = frozenset()
        self._root = root
        self._node_name = node_name
        self._drivers = drivers
        self._storage = storage
        self._documents = documents
        self._tokens = tokens
        self._expander = expander
        self._clock = clock
        self._unusable = unusable
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._wanted: dict[Key, set[str]] = {}
        """The UIDs of the pods that use a volume, or try to."""
        self._staged: set[Key] = set()
        """The volumes that this agent staged; those of earlier agents are staged again."""
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)

    def _lock(self, key: Key) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def in_use(self) -> tuple[str, ...]:
        """Return the names of the volumes that must stay attached to the node."""
        return tuple(sorted(volume_in_use(*key) for key in self._in_use))

    def _set_in_use(self, keys: Iterable[Key]) -> None:
        keys = frozenset(keys)
        if keys != self._in_use:
            self._in_use = keys
            self._on_use()

    async def load(self) -> None:
        """Read which volumes earlier agents left in use. Raises OSError and `CsiError`."""
        kept = await asyncio.to_thread(files.in_use, self._root)
        self._set_in_use({*kept, *(key for key in self._wanted if key in self._in_use)})

    # --- mounting

    async def mount(self, pod: Pod, source: Volume, *, again: bool) -> Published:
        """Stage the volume if its driver wants that, and publish it for the pod. It may be called
        at any time; ``again`` if it was published by this agent. Raises `MountError`."""
        volume = csi.csi_volume(pod, source)
        if why := self._unusable():
            raise MountError("MountVolume.SetUp", volume.name, why)
        lock = self._lock(volume.key)
        async with lock:
            self._wanted.setdefault(volume.key, set()).add(pod.metadata.uid)
            if volume.mode == csi.PERSISTENT:
                self._set_in_use({*self._in_use, volume.key})
            target, driver = await self._mount(pod, volume, again=again)
            mount = CsiMount(pod=pod, source=source, volume=volume, path=str(target))
            if volume.mode == csi.PERSISTENT:
                try:
                    await self._expander.expand_at_mount(mount, partial(self._expand, mount))
                except CsiError as error:
                    during = " while expanding volume"
                    raise MountError("MountVolume.Setup", volume.name, error, during) from error
        return Published(mount, driver is not None and bool(driver.spec.requiresRepublish))

    async def _mount(
        self, pod: Pod, volume: CsiVolume, *, again: bool
    ) -> tuple[Path, CSIDriver | None]:
        step = "MountVolume.WaitForAttach"
        try:
            driver = await self._storage.driver(volume.driver)
            context = await self._publish_context(volume, driver)
            step = "MountVolume.MountDevice"
            if volume.mode == csi.EPHEMERAL:
                step = "MountVolume.SetUp"
            service = self._service(volume)
            capabilities = await service.capabilities()
            mount = _Mount(pod, volume, driver, service, capabilities, context)
            await self._check_one_pod(pod, volume)
            staging = await self._stage(mount) if mount.is_staged else None
            step = "MountVolume.SetUp"
            return await self._publish(mount, staging, again=again), driver
        except MountError:
            raise
        except (PodtuiError, OSError) as error:
            raise MountError(step, volume.name, error) from error

    async def _publish_context(
        self, volume: CsiVolume, driver: CSIDriver | None
    ) -> Mapping[str, str]:
        if not csi.needs_attachment(volume, driver):
            return {}
        if not self._is_reported(volume_in_use(*volume.key)):
            # Until then, the volume may be detached at any moment.
            why = (
                "Volume has not been added to the list of VolumesInUse in the node's volume status"
            )
            raise NotAttachedYet("MountVolume.WaitForAttach", volume.name, why)
        name = attachment_name(volume.handle, volume.driver, self._node_name)
        item = await self._storage.attachment(name)
        if why := csi.attachment_problem(item, name, volume):
            kind = NotAttachedYet if csi.is_being_attached(item) else MountError
            raise kind("MountVolume.WaitForAttach", volume.name, why)
        return {} if item is None else item.status.attachmentMetadata

    def _service(self, volume: CsiVolume) -> CsiNodeService:
        try:
            return self._drivers.service(volume.driver)
        except CsiError as error:
            start = f"{_START}attacher.MountDevice failed to create newCsiDriverClient"
            if volume.mode == csi.EPHEMERAL:
                start = f"{_START}mounter.SetUpAt failed to get CSI client"
            raise CsiError(f"{start}: {error}") from error

    async def _check_one_pod(self, pod: Pod, volume: CsiVolume) -> None:
        if volume.access_modes != (_ONE_POD,):
            return
        users = await asyncio.to_thread(files.users, self._root, volume.key)
        if users - {pod.metadata.uid}:
            why = (
                "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
            )
            raise MountError("MountVolume.SetUp", volume.name, why)

    async def _stage(self, mount: _Mount) -> Path:
        volume = mount.volume
        path = csi.staging_path(self._root, volume.driver, volume.handle)
        if volume.key in self._staged:
            return path
        secrets = await self._secrets(volume.stage_secret, "fetching NodeStageSecretRef {} failed")
        await asyncio.to_thread(files.prepare, path, csi.staging_data(volume), mount_point=True)
        request = csi.stage_request(
            volume,
            path,
            capability=csi.volume_capability(volume, mount.capabilities, mount.group),
            publish_context=mount.publish_context,
            secrets=secrets,
        )
        try:
            await mount.service.stage(request)
        except CsiError as error:
            if error.is_final:
                await self._clean(path)
            raise
        self._staged.add(volume.key)
        return path

    async def _publish(self, mount: _Mount, staging: Path | None, *, again: bool) -> Path:
        pod, volume, driver = mount.pod, mount.volume, mount.driver
        if why := csi.lifecycle_problem(volume, driver):
            start = f"{_START}mounter.SetupAt failed to check volume lifecycle mode"
            raise CsiError(f"{start}: {why}")
        target = csi.target_path(self._root, pod.metadata.uid, volume)
        secrets = await self._secrets(
            volume.publish_secret, "fetching NodePublishSecretRef {} failed"
        )
        tokens = await self._token_attributes(pod, driver)
        attributes: dict[str, str] = {}
        if driver is not None and driver.spec.podInfoOnMount:
            attributes |= csi.pod_attributes(pod, volume)
        if driver is not None and driver.spec.serviceAccountTokenInSecrets:
            secrets = {**secrets, **tokens}
        else:
            attributes |= tokens
        data = csi.volume_data(volume, self._node_name)
        await asyncio.to_thread(files.prepare, target, data, mount_point=False)
        request = csi.publish_request(
            volume,
            target,
            staging,
            capability=csi.volume_capability(volume, mount.capabilities, mount.group),
            publish_context=mount.publish_context,
            secrets=secrets,
            attributes=attributes,
        )
        try:
            await mount.service.publish(request)
        except CsiError as error:
            if error.is_final and not again:
                await self._clean(target)
            raise
        # An engine would create the directory, and the container would write to this disk.
        if not await asyncio.to_thread(target.exists):
            raise CsiError(f"the driver {volume.driver} published nothing at {target}")
        await self._set_group(mount, target)
        return target

    async def _set_group(self, mount: _Mount, target: Path) -> None:
        if mount.group is None or Capability.VOLUME_MOUNT_GROUP in mount.capabilities:
            return
        if not csi.takes_group(mount.volume, mount.driver):
            return
        security = mount.pod.spec.securityContext
        policy = "" if security is None else security.fsGroupChangePolicy
        try:
            await asyncio.to_thread(files.set_group, target, mount.group, policy=policy)
        except OSError as error:
            text = f"applyFSGroup failed for vol {mount.volume.handle}: {error}"
            raise CsiError(text) from error

    async def _clean(self, path: Path) -> None:
        """Remove the directory of a volume that a driver refused."""
        try:
            await asyncio.to_thread(files.remove, path)
        except OSError as error:
            _LOG.warning("the directory of a volume stays: %s", error)

    async def _secrets(self, ref: SecretReference | None, failed: str) -> dict[str, str]:
        """Return the data of a secret. ``failed`` is the start of the error's text, with ``{}`` for
        the secret."""
        if ref is None:
            return {}
        start = failed.format(f"{ref.namespace}/{ref.name}")
        why = f'secrets "{ref.name}" not found'
        try:
            secret = await self._documents.get(("Secret", ref.namespace, ref.name))
            if isinstance(secret, Secret):
                return {key: base64.b64decode(text).decode() for key, text in secret.data.items()}
        except PodtuiError as error:
            why = str(error)
        except ValueError as error:
            # The error of the decoder quotes the data.
            raise CsiError(f"{start}: a value is not UTF-8 text") from error
        where = f"the secret {ref.name} in the namespace {ref.namespace}"
        raise CsiError(f"{start}: {_START}failed to find {where} with error: {why}")

    async def _token_attributes(self, pod: Pod, driver: CSIDriver | None) -> dict[str, str]:
        requests = () if driver is None else driver.spec.tokenRequests
        if not requests:
            return {}
        start = f"{_START}mounter.SetUpAt failed to get service accoount token attributes"
        if self._tokens is None:
            raise CsiError(f"{start}: there are no tokens without an API")
        issued: dict[str, dict[str, str]] = {}
        for wanted in requests:
            request = TokenRequest(
                pod=pod,
                service_account=pod.spec.serviceAccountName or "default",
                audience=wanted.audience,
                seconds=wanted.expirationSeconds or _TOKEN_SECONDS,
            )
            try:
                token = await self._tokens.token(request)
            except PodtuiError as error:
                raise CsiError(f"{start}: {error}") from error
            expires = rfc3339(token.expires)
            issued[wanted.audience] = {"token": token.text, "expirationTimestamp": expires}
        return {_TOKENS: json.dumps(issued, sort_keys=True, separators=(",", ":"))}

    # --- published volumes

    async def stats(self, mount: CsiMount) -> VolumeStats | None:
        """Return the usage of a volume; None if its driver does not report it. Raises
        `CsiError`."""
        service = self._drivers.service(mount.volume.driver)
        if Capability.GET_VOLUME_STATS not in await service.capabilities():
            return None
        return await service.stats(StatsRequest(mount.volume.handle, mount.path))

    async def expand(self, mount: CsiMount) -> None:
        """Expand the volume of a claim while its pod runs, if it is to be expanded. Raises
        `CsiError`."""
        lock = self._lock(mount.volume.key)
        async with lock:
            if mount.pod.metadata.uid in self._wanted.get(mount.volume.key, ()):
                await self._expander.expand_mounted(mount, partial(self._expand, mount))

    async def _expand(self, mount: CsiMount, size: Quantity) -> None:
        """Let the driver expand a volume, with the texts of a kubelet. Raises `CsiError`."""
        volume = mount.volume
        service = self._drivers.service(volume.driver)
        try:
            capabilities = await service.capabilities()
        except CsiError as error:
            start = "Expander.NodeExpand failed to check if node supports expansion"
            raise CsiError(f"{start} : {error}") from error
        if Capability.EXPAND_VOLUME not in capabilities:
            text = f"NodeExpand is not supported by the CSI driver {volume.driver}"
            raise NotExpandable(text)
        failed = "expander.NodeExpand failed to get NodeExpandSecretRef {}"
        secrets = await self._secrets(volume.expand_secret, failed)
        is_staged = Capability.STAGE_UNSTAGE_VOLUME in capabilities
        staging = csi.staging_path(self._root, volume.driver, volume.handle)
        request = csi.expand_request(
            volume,
            mount.path,
            staging if is_staged else None,
            size=size.value(),
            capability=csi.volume_capability(volume, capabilities, None),
            secrets=secrets,
        )
        try:
            await service.expand(request)
        except CsiError as error:
            separator = "" if error.is_infeasible else ": "
            text = f"Expander.NodeExpand failed to expand the volume {separator}{error}"
            raise CsiError(text, error.code) from error

    # --- unmounting

    async def unmount(self, uid: str, is_used: Callable[[str], bool] = lambda uid: False) -> None:
        """Unpublish all volumes of a pod that has stopped, and unstage those that no other pod
        uses. ``is_used`` is asked again while no volume can be mounted: the pod may have started.
        Raises `CsiError` if a volume is still published."""
        wanted = {key: users - {uid} for key, users in self._wanted.items()}
        self._wanted = {key: users for key, users in wanted.items() if users}
        for key in wanted.keys() - self._wanted.keys():
            self._expander.forget(key)
        try:
            volumes = await asyncio.to_thread(files.published, self._root, uid)
            for target, data in volumes.items():
                if data is None:
                    await asyncio.to_thread(files.remove, target)
                    continue
                lock = self._lock(data.key)
                async with lock:
                    if is_used(uid):
                        return
                    if not await asyncio.to_thread(files.is_kept, target):
                        continue
                    await self._unpublish(target, data.driver, data.handle)
            if volumes:
                await asyncio.to_thread(files.remove_pod, self._root, uid)
        except OSError as error:
            raise CsiError(f"cannot remove the CSI volumes of pod {uid}: {error}") from error
        await self._unstage_unused()

    async def _unpublish(self, target: Path, driver: str, handle: str) -> None:
        start = f'UnmountVolume.TearDown failed for volume "{target.parent.name}" : {_START}'
        try:
            service = self._drivers.service(driver)
        except CsiError as error:
            text = f"{start}Unmounter.TearDownAt failed to get CSI client: {error}"
            raise CsiError(text) from error
        try:
            await service.unpublish(UnpublishRequest(handle, str(target)))
        except CsiError as error:
            raise CsiError(f"{start}Unmounter.TearDownAt failed: {error}") from error
        try:
            await asyncio.to_thread(files.remove, target)
        except OSError as error:
            text = f"{start}Unmounter.TearDownAt failed to clean mount dir [{target}]: {error}"
            raise CsiError(text) from error

    async def _unstage_unused(self) -> None:
        """Unstage the volumes that no pod uses. One that fails is tried again later."""
        try:
            for path, data in (await asyncio.to_thread(files.staged, self._root)).items():
                if self._backoff.remaining(path, self._clock.monotonic()) > 0:
                    continue
                lock = self._lock(data.key)
                async with lock:
                    if await self._is_unused(path, data.key):
                        await self._unstage(path, data.driver, data.handle)
            await self.load()
        except (CsiError, OSError) as error:
            _LOG.warning("cannot read which CSI volumes are staged: %s", error)

    async def _is_unused(self, path: Path, key: Key) -> bool:
        if self._wanted.get(key) or not await asyncio.to_thread(files.is_kept, path):
            return False
        return not await asyncio.to_thread(files.users, self._root, key)

    async def _unstage(self, path: Path, driver: str, handle: str) -> None:
        step = "attacher.UnmountDevice failed to create newCsiDriverClient"
        try:
            service = self._drivers.service(driver)
            step = "attacher.UnmountDevice failed"
            await service.unstage(UnstageRequest(handle, str(path)))
        except CsiError as error:
            start = f'UnmountDevice failed for volume "{driver}^{handle}" : {_START}'
            _LOG.warning("%s%s: %s", start, step, error)
            self._backoff.next(path, self._clock.monotonic())
            return
        self._backoff.forget(path)
        self._staged.discard((driver, handle))
        await asyncio.to_thread(files.remove, path)

    async def collect(self, is_used: Callable[[str], bool]) -> None:
        """Unmount the volumes of pods that do not use them any more, or that are gone: an agent
        that was killed may have left them."""
        try:
            uids = await asyncio.to_thread(files.pods, self._root)
        except OSError as error:
            _LOG.warning("cannot read the directories of CSI volumes: %s", error)
            return
        for uid in uids:
            if is_used(uid) or self._backoff.remaining(uid, self._clock.monotonic()) > 0:
                continue
            try:
                await self.unmount(uid, is_used)
                self._backoff.forget(uid)
            except CsiError as error:
                _LOG.warning("pod %s: %s", uid, error)
                self._backoff.next(uid, self._clock.monotonic())
        await self._unstage_unused()
