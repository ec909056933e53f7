"""The controllers of volumes and claims: binding, provisioning, reclaiming, protection, and the
claims of ephemeral volumes. `volume_binding` decides; here is what they write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec import structs

from podtui.api.claims import claim_names, ephemeral_claim_name, reserved
from podtui.api.storage import CSIDriver, CSINode, StorageClass
from podtui.api.times import rfc3339
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim, Pod
from podtui.client.cache import Cache, Key, Kind, controller_of
from podtui.clock import Clock
from podtui.controllers import volume_binding as binding
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents
from podtui.controllers.loop import Keys, own_key
from podtui.controllers.pods import owner_reference
from podtui.errors import ApiError, EngineError

COMPONENT: Final = "persistentvolume-controller"
EXPANSION: Final = "volume_expand"
RESIZER: Final = f"external-resizer {binding.PROVISIONER}"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_RETRY_SECONDS: Final = 15.0
"""The period after which a real controller looks at every claim again."""
T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


@dataclass(frozen=True, slots=True)
class VolumeDirectories:
    """Where provisioned volumes are, on the engine's machine. The calls raise `EngineError`."""

    path: str
    create: Callable[[str], Awaitable[None]]
    remove: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Tools:
    """What the controllers of volumes share."""

    cache: Cache
    writer: Writer
    events: ControllerEvents
    clock: Clock
    directories: VolumeDirectories

    def record(
        self,
        item: PersistentVolume | PersistentVolumeClaim,
        note: binding.Note,
        component: str = COMPONENT,
    ) -> None:
        self.events.record(component, item, note.type, note.reason, note.message)

    async def set_phase(
        self, volume: PersistentVolume, phase: binding.Phase, message: str = ""
    ) -> PersistentVolume:
        status = structs.replace(
            volume.status,
            phase=phase,
            message=message,
            lastPhaseTransitionTime=rfc3339(self.clock.now()),
        )
        changed = structs.replace(volume, status=status)
        return await self.writer.update(PersistentVolume, changed, subresource="status")

    def pods_of(self, claim: PersistentVolumeClaim) -> list[Pod]:
        """Return the pods that use a claim."""
        meta = claim.metadata
        return [
            pod for pod in self.cache.list(Pod, meta.namespace) if meta.name in claim_names(pod)
        ]


def claim_keys(pod: Pod) -> Iterable[Key]:
    """The keys of the claims that a pod uses."""
    return ((pod.metadata.namespace, name) for name in claim_names(pod))


class ClaimBinder:
    """Binds claims to volumes, and provisions volumes for them."""

    name = "persistentvolume-binder-controller"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._cache = tools.cache
        self._writer = tools.writer

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {
            PersistentVolumeClaim: own_key,
            PersistentVolume: self._of_volume,
            Pod: claim_keys,
            StorageClass: self._pending,
            CSIDriver: self._pending,
            CSINode: self._pending,
        }

    def _of_volume(self, volume: PersistentVolume) -> Iterable[Key]:
        ref = volume.spec.claimRef
        if ref is not None:
            yield (ref.namespace, ref.name)
        for claim in self._cache.list(PersistentVolumeClaim):
            named = claim.spec.volumeName == volume.metadata.name
            if named or (ref is None and not claim.spec.volumeName):
                yield (claim.metadata.namespace, claim.metadata.name)

    def _pending(self, _: StorageClass | CSIDriver | CSINode) -> Iterable[Key]:
        for claim in self._cache.list(PersistentVolumeClaim):
            if not claim.spec.volumeName:
                yield (claim.metadata.namespace, claim.metadata.name)

    async def sync(self, key: Key) -> float | None:
        claim = self._cache.get(PersistentVolumeClaim, *key)
        if claim is None:
            return None
        classes = {item.metadata.name: item for item in self._cache.list(StorageClass)}
        action = binding.decide_claim(
            claim,
            {item.metadata.name: item for item in self._cache.list(PersistentVolume)},
            classes,
            _default_class(classes.values()),
            self._tools.pods_of(claim),
            drivers=self._drivers(),
        )
        match action:
            case binding.Wait(note):
                if note is not None:
                    self._tools.record(claim, note)
                await self._set_phase(claim, "Pending", None)
            case binding.Lose(note):
                if claim.status.phase != "Lost":
                    await self._set_phase(claim, "Lost", None)
                    self._tools.record(claim, note)
            case binding.SetClass(name):
                spec = structs.replace(claim.spec, storageClassName=name)
                await self._write(structs.replace(claim, spec=spec))
            case binding.Bind(volume, note):
                await self._bind(claim, volume)
                if note is not None:
                    self._tools.record(claim, note, EXPANSION)
            case binding.Expand(volume):
                await self._expand(claim, volume)
            case binding.Provision(storage_class, node, note):
                if note is not None:
                    self._tools.record(claim, note)
                await self._provision(claim, storage_class, node)
            case binding.AskProvisioner(storage_class, node, note):
                changed = binding.asked(claim, storage_class, node)
                if changed != claim:
                    await self._write(changed)
                    self._tools.record(claim, note)
        return None

    def _drivers(self) -> frozenset[str]:
        """Return the CSI drivers that are installed, or have registered on a node."""
        installed = {item.metadata.name for item in self._cache.list(CSIDriver)}
        nodes = self._cache.list(CSINode)
        return frozenset(
            installed | {driver.name for node in nodes for driver in node.spec.drivers}
        )

    async def _write(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return await self._writer.update(PersistentVolumeClaim, claim)

    async def _set_phase(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None
    ) -> None:
        changed = binding.claim_with_phase(claim, phase, volume)
        if changed.status != claim.status:
            await self._writer.update(PersistentVolumeClaim, changed, subresource="status")

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        taken = reserved(volume, claim)
        if taken is not volume:
            volume = await self._writer.update(PersistentVolume, taken)
        if volume.status.phase != "Bound":
            volume = await self._tools.set_phase(volume, "Bound")
        changed = binding.bound_claim(claim, volume)
        if changed != claim:
            claim = await self._write(changed)
        await self._set_phase(claim, "Bound", volume)

    async def _expand(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        text = f"External resizer is resizing volume {volume.metadata.name}"
        self._tools.record(claim, binding.Note("Normal", "Resizing", text), RESIZER)
        larger = binding.expanded(volume, claim)
        if larger is not volume:
            await self._writer.update(PersistentVolume, larger)
        changed = binding.claim_with_size(claim)
        await self._writer.update(PersistentVolumeClaim, changed, subresource="status")
        note = binding.Note("Normal", "VolumeResizeSuccessful", "Resize volume succeeded")
        self._tools.record(claim, note, RESIZER)

    async def _provision(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: str
    ) -> None:
        asked = binding.asked(claim, storage_class, node)
        if asked != claim:
            claim = await self._write(asked)
        directories = self._tools.directories
        volume = binding.provisioned(claim, storage_class, directories.path)
        host = volume.spec.hostPath
        assert host is not None
        try:
            await directories.create(host.path)
            volume = await self._writer.create(PersistentVolume, volume)
        except EngineError as error:
            name = storage_class.metadata.name
            why = f'Failed to provision volume with StorageClass "{name}": {error}'
            self._tools.record(claim, binding.Note("Warning", "ProvisioningFailed", why))
            raise
        except ApiError as error:
            if error.code != 409:
                raise
            # It was created before an interruption. Its claim is bound when the cache has it.
            return
        name = volume.metadata.name
        why = f"Successfully provisioned volume {name} using {binding.PROVISIONER}"
        self._tools.record(claim, binding.Note("Normal", "ProvisioningSucceeded", why))


class VolumeReclaimer:
    """Sets the phases of volumes, and deletes those whose claims are gone."""

    name = "persistentvolume-reclaimer-controller"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._cache = tools.cache
        self._writer = tools.writer

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {PersistentVolume: own_key, PersistentVolumeClaim: self._of_claim}

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        meta = claim.metadata
        if claim.spec.volumeName:
            yield ("", claim.spec.volumeName)
        for volume in self._cache.list(PersistentVolume):
            ref = volume.spec.claimRef
            if ref is not None and (ref.namespace, ref.name) == (meta.namespace, meta.name):
                yield ("", volume.metadata.name)

    async def sync(self, key: Key) -> float | None:
        volume = self._cache.get(PersistentVolume, *key)
        if volume is None:
            return None
        ref = volume.spec.claimRef
        claim = None
        if ref is not None:
            claim = self._cache.get(PersistentVolumeClaim, ref.namespace, ref.name)
        directory = self._tools.directories.path
        match binding.decide_volume(volume, claim, directory):
            case binding.SetPhase(phase, message, note):
                volume = await self._tools.set_phase(volume, phase, message)
                if note is not None:
                    self._tools.record(volume, note)
            case binding.Unbind():
                volume = await self._writer.update(PersistentVolume, binding.unbound(volume))
            case binding.DeleteData(path):
                return await self._delete(volume, path)
            case None:
                pass
        held = binding.DELETION_FINALIZER in volume.metadata.finalizers
        keeps = volume.spec.persistentVolumeReclaimPolicy != "Delete"
        if held and (keeps or volume.spec.claimRef is None):
            await self._without(volume, binding.DELETION_FINALIZER)
        return None

    async def _without(self, volume: PersistentVolume, finalizer: str) -> PersistentVolume:
        meta = binding.without_finalizer(volume.metadata, finalizer)
        return await self._writer.update(PersistentVolume, structs.replace(volume, metadata=meta))

    async def _delete(self, volume: PersistentVolume, path: str) -> float | None:
        try:
            await self._tools.directories.remove(path)
        except EngineError as error:
            if volume.status.phase != "Failed":
                volume = await self._tools.set_phase(volume, "Failed", str(error))
                note = binding.Note("Warning", "VolumeFailedDelete", str(error))
                self._tools.record(volume, note)
            return _RETRY_SECONDS
        if binding.DELETION_FINALIZER in volume.metadata.finalizers:
            volume = await self._without(volume, binding.DELETION_FINALIZER)
        if volume.metadata.deletionTimestamp is None:
            await self._writer.delete(PersistentVolume, volume)
        return None


class ClaimProtection:
    """Lets a deleted claim go when no pod uses it any more."""

    name = "pvc-protection-controller"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {PersistentVolumeClaim: own_key, Pod: claim_keys}

    async def sync(self, key: Key) -> float | None:
        claim = self._tools.cache.get(PersistentVolumeClaim, *key)
        if claim is not None:
            used = binding.is_claim_used(claim, self._tools.pods_of(claim))
            await _protect(self._tools.writer, claim, CLAIM_PROTECTION, used=used)
        return None


class VolumeProtection:
    """Lets a deleted volume go when it is not bound any more."""

    name = "pv-protection-controller"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {PersistentVolume: own_key}

    async def sync(self, key: Key) -> float | None:
        volume = self._tools.cache.get(PersistentVolume, *key)
        if volume is not None:
            used = volume.status.phase == "Bound"
            await _protect(self._tools.writer, volume, VOLUME_PROTECTION, used=used)
        return None


async def _protect(writer: Writer, item: T, finalizer: str, *, used: bool) -> None:
    meta = item.metadata
    if meta.deletionTimestamp is None:
        if finalizer not in meta.finalizers:
            meta = structs.replace(meta, finalizers=(*meta.finalizers, finalizer))
    elif not used:
        meta = binding.without_finalizer(meta, finalizer)
    if meta != item.metadata:
        await writer.update(type(item), structs.replace(item, metadata=meta))


class EphemeralVolumes:
    """Creates the claims of generic ephemeral volumes. Their pods own them."""

    name = "ephemeral-volume-controller"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {Pod: _if_ephemeral, PersistentVolumeClaim: self._of_claim}

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        owner = controller_of(claim)
        if owner is not None and owner.kind == "Pod":
            yield (claim.metadata.namespace, owner.name)

    async def sync(self, key: Key) -> float | None:
        pod = self._tools.cache.get(Pod, *key)
        if pod is None or pod.metadata.deletionTimestamp is not None:
            return None
        for volume in pod.spec.volumes:
            source = volume.ephemeral
            if source is None or source.volumeClaimTemplate is None:
                continue
            try:
                await self._ensure(pod, volume.name)
            except ApiError as error:
                name = ephemeral_claim_name(pod, volume.name)
                self._fail(pod, volume.name, f"create PVC {name}: {error}")
                raise
        return None

    async def _ensure(self, pod: Pod, volume: str) -> None:
        name = ephemeral_claim_name(pod, volume)
        existing = self._tools.cache.get(PersistentVolumeClaim, pod.metadata.namespace, name)
        if existing is None:
            claim = binding.ephemeral_claim(pod, volume, owner_reference(pod))
            await self._tools.writer.create(PersistentVolumeClaim, claim)
            return
        owner = controller_of(existing)
        if owner is None or owner.uid != pod.metadata.uid:
            meta = pod.metadata
            why = (
                f"PVC {meta.namespace}/{name} was not created for pod"
                f" {meta.namespace}/{meta.name} (pod is not owner)"
            )
            self._fail(pod, volume, why)

    def _fail(self, pod: Pod, volume: str, why: str) -> None:
        text = f"ephemeral volume {volume}: {why}"
        self._tools.events.record("ephemeral_volume", pod, "Warning", "FailedBinding", text)


def _if_ephemeral(pod: Pod) -> Iterable[Key]:
    if any(volume.ephemeral is not None for volume in pod.spec.volumes):
        yield from own_key(pod)


def _default_class(classes: Iterable[StorageClass]) -> str:
    """Return the newest default class; empty if there is none."""
    defaults = [
        item.metadata
        for item in classes
        if any(item.metadata.annotations.get(name) == "true" for name in _DEFAULT)
    ]
    newest = max((meta.creationTimestamp or "" for meta in defaults), default="")
    names = (meta.name for meta in defaults if (meta.creationTimestamp or "") == newest)
    return min(names, default="")
