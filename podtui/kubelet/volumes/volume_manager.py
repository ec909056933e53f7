"""Sets up the volumes of pods and keeps their files as they should be (reference §10.2).

What a volume comes to is decided in `podtui.kubelet.volumes.pod_volumes`; this asks the engine,
writes, says what failed and remembers when to try again. Nothing here waits: a pass that finds a
volume not ready ends, and `next_try` says when the next one makes sense.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.base.backoff import Backoff
from podtui.kubelet.base.together import together
from podtui.kubelet.base.types import NodeView
from podtui.kubelet.containers.environment import Surroundings
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.volumes.documents import Documents
from podtui.kubelet.volumes.host_paths import created_as, host_path_problem
from podtui.kubelet.volumes.pod_volumes import HostPathCheck, VolumePlan, plan_volumes, used_volumes
from podtui.runtime.protocol import PodVolume, Runtime

FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 122.0
_NO_PLUGIN: Final = (
    'failed to get Plugin from volumeSpec for volume "{}" err=no volume plugin matched'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """Whether all volumes of a pod are there. ``foreign``: some never will be, so that the pass has
    failed as a whole."""

    ready: bool
    foreign: bool


@dataclass(slots=True)
class _Known:
    """One pod's volumes as they were last set up."""

    made: dict[str, PodVolume] = field(default_factory=dict[str, PodVolume])
    checked: set[HostPathCheck] = field(default_factory=set[HostPathCheck])
    """Host paths that were what they have to be."""
    written: dict[str, tuple[str, PodVolume]] = field(
        default_factory=dict[str, tuple[str, PodVolume]]
    )
    """Which sandbox was last given which files."""
    lacking: set[str] = field(default_factory=set[str])
    """What they are to show, or the host path, is not as it has to be."""
    unwritten: set[str] = field(default_factory=set[str])
    """The engine failed to write the files."""

    @property
    def failing(self) -> set[str]:
        return self.lacking | self.unwritten


class VolumeManager:
    """``strict`` follows a kubelet without an API server where podtui does more."""

    def __init__(
        self,
        runtime: Runtime,
        documents: Documents,
        events: EventRecorder,
        clock: Clock,
        *,
        strict: bool,
    ) -> None:
        self._runtime = runtime
        self._documents = documents
        self._events = events
        self._clock = clock
        self._strict = strict
        self._pods: dict[str, _Known] = {}
        self._backoff = Backoff(FIRST_RETRY, LAST_RETRY, reset_after=math.inf)

    async def set_up(self, pod: Pod, node: NodeView) -> SetUp:
        """Look at every volume. One that was set up once stays so, whatever becomes of what it
        shows: it keeps what it has. Raises `EngineUnavailable`."""
        uid = pod.metadata.uid
        known = self._pods.setdefault(uid, _Known())
        around = Surroundings(
            node=node, config_maps=self._documents.config_maps, secrets=self._documents.secrets
        )
        plan = plan_volumes(pod, around, strict=self._strict)
        known.made = {
            name: volume for name, volume in known.made.items() if name in plan.failures
        } | {volume.name: volume for volume in plan.volumes}
        for name in known.lacking - plan.failures.keys() - _names(plan.checks):
            self._succeeded(uid, known.lacking, name)
        for name in known.unwritten - known.made.keys():
            self._succeeded(uid, known.unwritten, name)
        for name, text in plan.failures.items():
            self._failed(pod, known.lacking, name, text)
        due = [
            check
            for check in plan.checks
            if check not in known.checked and self._is_due(uid, check.volume)
        ]
        await together(partial(self._check, pod, known, check) for check in due)
        missing = _missing(pod, plan, known)
        if plan.foreign:
            self._say_foreign(pod, plan.foreign, missing)
        return SetUp(ready=not missing, foreign=bool(plan.foreign))

    def directories(self, uid: str) -> tuple[PodVolume, ...]:
        """What the last `set_up` found that the pod's sandbox has to make."""
        return tuple(self._pods[uid].made.values())

    def next_try(self, uid: str) -> float | None:
        """Seconds until a volume that failed is to be tried again; None when none did."""
        known = self._pods.get(uid)
        if known is None or not known.failing:
            return None
        now = self._clock.monotonic()
        return min(self._backoff.remaining((uid, name), now) for name in known.failing)

    def made(self, uid: str, sandbox_id: str) -> None:
        """The pod's first sandbox has just been made, with the files of the last `set_up`."""
        known = self._pods[uid]
        known.written = {name: (sandbox_id, volume) for name, volume in known.made.items()}

    async def refresh(self, pod: Pod, sandbox_id: str) -> None:
        """Write the files that changed since this agent last wrote them; after its start, all of
        them once. Raises `EngineUnavailable`."""
        known = self._pods[pod.metadata.uid]
        for name, volume in known.made.items():
            if volume.files and known.written.get(name) != (sandbox_id, volume):
                await self._write(pod, known, sandbox_id, volume)
            else:
                self._succeeded(pod.metadata.uid, known.unwritten, name)

    async def _write(self, pod: Pod, known: _Known, sandbox_id: str, volume: PodVolume) -> None:
        uid, name = pod.metadata.uid, volume.name
        if not self._is_due(uid, name):
            return
        try:
            await self._runtime.write_volume(sandbox_id, volume)
        except EngineUnavailable:
            raise
        except EngineError as error:
            self._failed(pod, known.unwritten, name, str(error))
        else:
            known.written[name] = (sandbox_id, volume)
            self._succeeded(uid, known.unwritten, name)

    def forget(self, uid: str) -> None:
        """The pod is gone, or begins anew."""
        known = self._pods.pop(uid, None)
        for name in () if known is None else known.failing:
            self._backoff.forget((uid, name))

    async def _check(self, pod: Pod, known: _Known, check: HostPathCheck) -> None:
        try:
            found = await self._runtime.host_path(check.path, create=created_as(check.kind))
            problem = host_path_problem(check.path, check.kind, found)
        except EngineUnavailable:
            raise
        except EngineError as error:
            problem = str(error)
        if problem:
            self._failed(pod, known.lacking, check.volume, problem)
        else:
            known.checked.add(check)
            self._succeeded(pod.metadata.uid, known.lacking, check.volume)

    # --- what failed, and when it is tried again

    def _is_due(self, uid: str, name: str) -> bool:
        return self._backoff.remaining((uid, name), self._clock.monotonic()) <= 0

    def _failed(self, pod: Pod, failing: set[str], name: str, text: str) -> None:
        """Said once per try; what costs nothing is looked at in every pass."""
        uid = pod.metadata.uid
        if not self._is_due(uid, name):
            return
        failing.add(name)
        self._backoff.next((uid, name), self._clock.monotonic())
        message = f'MountVolume.SetUp failed for volume "{name}" : {text}'
        self._events.pod(pod, WARNING, "FailedMount", message)

    def _succeeded(self, uid: str, failing: set[str], name: str) -> None:
        if name in failing:
            failing.remove(name)
            self._backoff.forget((uid, name))

    def _say_foreign(self, pod: Pod, foreign: tuple[str, ...], missing: list[str]) -> None:
        why = "; ".join(_NO_PLUGIN.format(name) for name in foreign)
        text = (
            f"Unable to attach or mount volumes: unmounted volumes=[{' '.join(missing)}],"
            f" unattached volumes=[], failed to process volumes=[{' '.join(foreign)}]: {why}"
        )
        self._events.pod(pod, WARNING, "FailedMount", text)


def _names(checks: Iterable[HostPathCheck]) -> set[str]:
    return {check.volume for check in checks}


def _missing(pod: Pod, plan: VolumePlan, known: _Known) -> list[str]:
    """Names of the volumes that were never set up, sorted."""
    unchecked = {check.volume for check in plan.checks if check not in known.checked}
    unmade = (plan.failures.keys() | set(plan.foreign)) - known.made.keys()
    used = {volume.name for volume in used_volumes(pod)}
    return sorted(used & (unchecked | unmade))
