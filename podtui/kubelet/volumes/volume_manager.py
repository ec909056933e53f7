"""Set up the volumes of pods and keep their files up to date (kubelet.md §10.2).

`podtui.kubelet.volumes.pod_volumes` decides what a volume consists of. This module asks the engine,
writes files, records failures and schedules retries. It never waits: a sync that finds a volume
that is not ready returns, and `next_try` gives the time until the next retry.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec import structs

from podtui.api.v1 import HostPathVolumeSource, Pod, Volume
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.backoff import Backoff
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.tasks import gather_all
from podtui.kubelet.types import NodeView
from podtui.kubelet.value_sources import ValueSources
from podtui.kubelet.volumes.csi_mounter import (
    CsiMounter,
    MountError,
    NotAttachedYet,
    Published,
)
from podtui.kubelet.volumes.csi_volumes import CsiMount
from podtui.kubelet.volumes.documents import Documents
from podtui.kubelet.volumes.pod_volumes import (
    Check,
    NfsCheck,
    PublishedDevice,
    VolumePlan,
    created_as,
    host_path_problem,
    plan_volumes,
    used_volumes,
)
from podtui.kubelet.volumes.tokens import PodTokens
from podtui.runtime.protocol import PodVolume, Runtime

FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 122.0
ATTACH_RETRY: Final = 1.0
ATTACH_QUIET_SECONDS: Final = 5.0
"""Attaching a volume takes a moment: a shorter wait is no event."""
REPUBLISH_SECONDS: Final = 60.0
NO_CSI: Final = "CSI drivers cannot be used: the kubelet has no directory for plugins"
_NO_PLUGIN: Final = (
    'failed to get Plugin from volumeSpec for volume "{}" err=no volume plugin matched'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """``ready``: all volumes of the pod are set up. ``foreign``: some volumes can never be set up,
    so the whole sync has failed."""

    ready: bool
    foreign: bool


@dataclass(slots=True)
class _Mounted:
    """A CSI volume that is published; ``due`` is when its driver is to be asked again."""

    mount: CsiMount
    due: float


@dataclass(slots=True)
class _PodState:
    """One pod's volumes after the last setup."""

    ready_volumes: dict[str, PodVolume] = field(default_factory=dict[str, PodVolume])
    checked: set[Check] = field(default_factory=set[Check])
    """Host paths that passed their type check, and shares that could be mounted."""
    written: dict[str, tuple[str, PodVolume]] = field(
        default_factory=dict[str, tuple[str, PodVolume]]
    )
    """The sandbox and content that each volume was last written with."""
    mounted: dict[str, _Mounted] = field(default_factory=dict[str, _Mounted])
    attaching: dict[str, float] = field(default_factory=dict[str, float])
    """Since when a CSI volume is being attached to the node."""
    lacking: set[str] = field(default_factory=set[str])
    """Volumes with a missing source, or with a host path of the wrong type."""
    unwritten: set[str] = field(default_factory=set[str])
    """Volumes whose files the engine failed to write."""

    @property
    def failing(self) -> set[str]:
        return self.lacking | self.unwritten


class VolumeManager:
    """Sets up volumes, refreshes their files and retries failures with back-off.

    ``strict`` disables the features that a kubelet without an API server does not have.
    """

    def __init__(
        self,
        runtime: Runtime,
        documents: Documents,
        tokens: PodTokens,
        events: EventRecorder,
        clock: Clock,
        *,
        strict: bool,
        csi: CsiMounter | None = None,
    ) -> None:
        self._csi = csi
        self._runtime = runtime
        self._documents = documents
        self._tokens = tokens
        self._events = events
        self._clock = clock
        self._strict = strict
        self._pods: dict[str, _PodState] = {}
        self._backoff = Backoff(FIRST_RETRY, LAST_RETRY, reset_after=math.inf)

    async def set_up(
        self,
        pod: Pod,
        node: NodeView,
        lacking: Mapping[str, str] = MappingProxyType({}),
        stopping: asyncio.Event | None = None,
    ) -> SetUp:
        """Plan all volumes, and run the host path checks that are due. A volume stays set up; if
        its source disappears, it keeps the last content. ``lacking``: the volumes of claims that
        cannot be used now, with the texts of their events, empty for none. If the pod is
        ``stopping``, calls of CSI drivers end. Raises `EngineUnavailable`."""
        uid = pod.metadata.uid
        state = self._pods.setdefault(uid, _PodState())
        documents = await self._documents.of(pod)
        values = ValueSources(
            node=node,
            config_maps=documents.config_maps,
            secrets=documents.secrets,
            tokens=await self._tokens.of(pod),
        )
        plan = plan_volumes(pod, values, strict=self._strict)
        volumes = state.ready_volumes
        # Unchanged files stay the same objects: those that were written are kept as well.
        state.ready_volumes = {
            name: volume for name, volume in volumes.items() if name in plan.failures
        } | {
            volume.name: volumes[volume.name] if volumes.get(volume.name) == volume else volume
            for volume in plan.volumes
        }
        tried = plan.failures.keys() | _names(plan.checks) | {volume.name for volume in plan.csi}
        for name in state.lacking - tried:
            self._succeeded(uid, state.lacking, name)
        for name in state.unwritten - state.ready_volumes.keys():
            self._succeeded(uid, state.unwritten, name)
        for name, text in plan.failures.items():
            self._failed(pod, state.lacking, name, _set_up_failed(name, text))
        due = [
            check
            for check in plan.checks
            if check not in state.checked and self._is_due(uid, check.volume)
        ]
        await gather_all(partial(self._check, pod, state, check) for check in due)
        await self._mount_all(pod, state, plan.csi, stopping or asyncio.Event())
        missing = _missing(pod, plan, state)
        if plan.foreign:
            self._report_foreign(pod, plan.foreign, missing, lacking)
        return SetUp(ready=not missing, foreign=bool(plan.foreign))

    def directories(self, uid: str) -> tuple[PodVolume, ...]:
        """Return the directories that the pod's sandbox needs, as of the last `set_up`."""
        return tuple(self._pods[uid].ready_volumes.values())

    def mounted(self, pod: Pod) -> Pod:
        """Return the pod with its CSI volumes as directories of the engine's machine."""
        state = self._pods[pod.metadata.uid]
        volumes = tuple(
            Volume(name=volume.name, hostPath=_published(mounted.mount))
            if (mounted := state.mounted.get(volume.name)) is not None
            else volume
            for volume in pod.spec.volumes
        )
        if volumes == pod.spec.volumes:
            return pod
        return structs.replace(pod, spec=structs.replace(pod.spec, volumes=volumes))

    def csi_mounts(self) -> tuple[CsiMount, ...]:
        """Return the CSI volumes that are published for pods."""
        return tuple(
            volume.mount for state in self._pods.values() for volume in state.mounted.values()
        )

    async def unmount(self, uid: str) -> None:
        """Unpublish the CSI volumes of a pod that has stopped. Raises
        `podtui.kubelet.plugins.csi_api.CsiError`."""
        if self._csi is not None:
            await self._csi.unmount(uid)
            state = self._pods.get(uid)
            if state is not None:
                state.mounted.clear()

    def next_try(self, uid: str) -> float | None:
        """Return the seconds until a volume is tried again; None if there is none."""
        state = self._pods.get(uid)
        if state is None:
            return None
        now = self._clock.monotonic()
        waits = [self._backoff.remaining((uid, name), now) for name in state.failing]
        waits += [ATTACH_RETRY for _ in state.attaching]
        waits += [max(0.0, item.due - now) for item in state.mounted.values()]
        return min((wait for wait in waits if wait < math.inf), default=None)

    def sandbox_created(self, uid: str, sandbox_id: str) -> None:
        """Note that the pod's first sandbox was created with the files of the last `set_up`."""
        state = self._pods[uid]
        state.written = {name: (sandbox_id, volume) for name, volume in state.ready_volumes.items()}

    async def refresh(self, pod: Pod, sandbox_id: str) -> None:
        """Write the files that changed since this agent last wrote them; all of them once after a
        restart of the agent. Raises `EngineUnavailable`."""
        state = self._pods[pod.metadata.uid]
        for name, volume in state.ready_volumes.items():
            if volume.files and state.written.get(name) != (sandbox_id, volume):
                await self._write(pod, state, sandbox_id, volume)
            else:
                self._succeeded(pod.metadata.uid, state.unwritten, name)

    async def _write(self, pod: Pod, state: _PodState, sandbox_id: str, volume: PodVolume) -> None:
        uid, name = pod.metadata.uid, volume.name
        if not self._is_due(uid, name):
            return
        try:
            await self._runtime.write_volume(sandbox_id, volume)
        except EngineUnavailable:
            raise
        except EngineError as error:
            self._failed(pod, state.unwritten, name, _set_up_failed(name, str(error)))
        else:
            state.written[name] = (sandbox_id, volume)
            self._succeeded(uid, state.unwritten, name)

    def forget(self, uid: str) -> None:
        """Drop all state of a pod that is gone or starts fresh."""
        self._tokens.forget(uid)
        state = self._pods.pop(uid, None)
        for name in () if state is None else state.failing:
            self._backoff.forget((uid, name))

    # --- CSI volumes

    async def _mount_all(
        self, pod: Pod, state: _PodState, volumes: Iterable[Volume], stopping: asyncio.Event
    ) -> None:
        """Mount those that are due, unless the pod is to stop."""
        now = self._clock.monotonic()
        due = [
            volume
            for volume in volumes
            if self._is_due(pod.metadata.uid, volume.name)
            and (volume.name not in state.mounted or state.mounted[volume.name].due <= now)
        ]
        if not due or stopping.is_set():
            return

        async def mount() -> None:
            async with asyncio.TaskGroup() as group:
                for volume in due:
                    group.create_task(self._mount(pod, state, volume))

        async with asyncio.TaskGroup() as group:
            mounts = group.create_task(mount(), name="mount CSI volumes")
            stop = group.create_task(stopping.wait(), name="wait for the pod's end")
            await asyncio.wait((mounts, stop), return_when=asyncio.FIRST_COMPLETED)
            mounts.cancel()
            stop.cancel()

    async def _mount(self, pod: Pod, state: _PodState, volume: Volume) -> None:
        uid, name = pod.metadata.uid, volume.name
        again = name in state.mounted
        try:
            if self._csi is None:
                raise MountError("MountVolume.SetUp", name, NO_CSI)
            published = await self._csi.mount(pod, volume, again=again)
        except NotAttachedYet as error:
            now = self._clock.monotonic()
            since = state.attaching.setdefault(name, now)
            if now - since >= ATTACH_QUIET_SECONDS and name not in state.lacking:
                state.lacking.add(name)
                self._events.pod(pod, WARNING, "FailedMount", str(error))
        except MountError as error:
            state.attaching.pop(name, None)
            self._failed(pod, state.lacking, name, str(error))
            if again:
                state.mounted[name].due = self._clock.monotonic() + REPUBLISH_SECONDS
        else:
            state.attaching.pop(name, None)
            state.mounted[name] = _Mounted(published.mount, self._due_again(published))
            self._succeeded(uid, state.lacking, name)

    def _due_again(self, published: Published) -> float:
        return self._clock.monotonic() + REPUBLISH_SECONDS if published.again else math.inf

    # --- other volumes

    async def _check(self, pod: Pod, state: _PodState, check: Check) -> None:
        try:
            problem = await self._problem(check)
        except EngineUnavailable:
            raise
        except EngineError as error:
            problem = str(error)
        if problem:
            self._failed(pod, state.lacking, check.volume, _set_up_failed(check.volume, problem))
        else:
            state.checked.add(check)
            self._succeeded(pod.metadata.uid, state.lacking, check.volume)

    async def _problem(self, check: Check) -> str:
        """Return what is wrong with a host path; empty if nothing is. Raises `EngineError`."""
        if isinstance(check, NfsCheck):
            await self._runtime.check_nfs(check.share)
            return ""
        kind = await self._runtime.host_path(check.path, create=created_as(check.kind))
        return host_path_problem(check.path, check.kind, kind)

    # --- failures and retries

    def _is_due(self, uid: str, name: str) -> bool:
        return self._backoff.remaining((uid, name), self._clock.monotonic()) <= 0

    def _failed(self, pod: Pod, failing: set[str], name: str, message: str) -> None:
        """Record a failure once per retry. Checks without cost run in each sync, so a failure
        before the retry is due is ignored."""
        uid = pod.metadata.uid
        if not self._is_due(uid, name):
            return
        failing.add(name)
        self._backoff.next((uid, name), self._clock.monotonic())
        self._events.pod(pod, WARNING, "FailedMount", message)

    def _succeeded(self, uid: str, failing: set[str], name: str) -> None:
        if name in failing:
            failing.remove(name)
            self._backoff.forget((uid, name))

    def _report_foreign(
        self, pod: Pod, foreign: tuple[str, ...], missing: list[str], lacking: Mapping[str, str]
    ) -> None:
        texts = [lacking.get(name, _NO_PLUGIN.format(name)) for name in foreign]
        if not all(texts):
            return
        why = "; ".join(texts)
        text = (
            f"Unable to attach or mount volumes: unmounted volumes=[{' '.join(missing)}],"
            f" unattached volumes=[], failed to process volumes=[{' '.join(foreign)}]: {why}"
        )
        self._events.pod(pod, WARNING, "FailedMount", text)


def _published(mount: CsiMount) -> HostPathVolumeSource:
    if mount.volume.block:
        return PublishedDevice(path=mount.path, read_only=mount.volume.read_only)
    return HostPathVolumeSource(path=mount.path)


def _set_up_failed(name: str, why: str) -> str:
    return f'MountVolume.SetUp failed for volume "{name}" : {why}'


def _names(checks: Iterable[Check]) -> set[str]:
    return {check.volume for check in checks}


def _missing(pod: Pod, plan: VolumePlan, state: _PodState) -> list[str]:
    """Return the sorted names of the mounted volumes that were never set up."""
    unchecked = {check.volume for check in plan.checks if check not in state.checked}
    not_ready = (plan.failures.keys() | set(plan.foreign)) - state.ready_volumes.keys()
    unmounted = {volume.name for volume in plan.csi} - state.mounted.keys()
    used = {volume.name for volume in used_volumes(pod)}
    return sorted(used & (unchecked | not_ready | unmounted))
