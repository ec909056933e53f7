"""The mutable state of each simulated sandbox and container."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime

from podtui.runtime.memory.files import ContainerFiles, PodVolumes
from podtui.runtime.memory.process import Behaviour, Process
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerRecord,
    ContainerState,
    ContainerStatus,
    Resources,
    SandboxConfig,
    SandboxRecord,
    SandboxState,
    SecurityContext,
)


class Signal:
    """Wakes all tasks that wait for a change. It exists several times per container, and few of
    them are waited for: only a waiting task makes an event."""

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None

    def notify(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()


@dataclass(slots=True)
class SandboxCell:
    root: str
    config: SandboxConfig
    record: SandboxRecord
    ip: str
    pid: int | None

    @property
    def ready(self) -> bool:
        return self.record.state is SandboxState.READY

    def set_not_ready(self) -> None:
        self.record = replace(self.record, state=SandboxState.NOT_READY)
        self.pid = None


@dataclass(slots=True)
class ContainerCell:
    root: str
    config: ContainerConfig
    record: ContainerRecord
    image_id: str
    files: ContainerFiles
    behaviour: Behaviour
    resources: Resources
    user: tuple[int, int, tuple[int, ...]] | None
    process: Process | None = None
    started_mono: float = 0.0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    pid: int | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    timer: asyncio.TimerHandle | None = None
    signal: Signal = field(default_factory=Signal)
    removed: bool = False

    @property
    def running(self) -> bool:
        return self.record.state is ContainerState.RUNNING

    @property
    def over(self) -> bool:
        """The container has ended or is removed."""
        return self.removed or self.record.state is ContainerState.EXITED

    def set_state(self, state: ContainerState) -> None:
        self.record = replace(self.record, state=state)

    def set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        """Replace the container's only timer."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = timer

    def status(self) -> ContainerStatus:
        return ContainerStatus(
            record=self.record,
            image_id=self.image_id,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            reason=self.reason,
            message=self.message,
            pid=self.pid,
            resources=self.resources,
            user=self.user,
        )


@dataclass(slots=True)
class PodCell:
    """The sandboxes and containers of one pod of one root, oldest first."""

    volumes: PodVolumes = field(default_factory=PodVolumes)
    sandboxes: dict[str, SandboxCell] = field(default_factory=dict[str, SandboxCell])
    containers: dict[str, ContainerCell] = field(default_factory=dict[str, ContainerCell])


def user_of(security: SecurityContext, image_user: str) -> tuple[int, int, tuple[int, ...]] | None:
    """Return None for a user name: simulated images have no accounts."""
    uid, _, gid = (security.user or image_user or "0:0").partition(":")
    if not uid.isdecimal() or not (gid or "0").isdecimal():
        return None
    primary = int(gid or 0)
    return int(uid), primary, tuple(dict.fromkeys((primary, *security.groups)))
