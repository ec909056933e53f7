"""A kubelet that is killed at a chosen runtime call: before, during or after its effect.

As after ``kill -9``, it makes no further calls to the engine or the records, not even in clean-up
code. The engine and its containers continue.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kubelet_world import World

from podtui.errors import NotFound
from podtui.kubelet.kubelet import Kubelet
from podtui.runtime.memory import MemoryRuntime
from podtui.runtime.memory.cells import ContainerCell
from podtui.runtime.protocol import ContainerConfig, ImageRecord
from podtui.store.protocol import Records

VERBS: Final = (
    "run_sandbox",
    "stop_sandbox",
    "remove_sandbox",
    "remove_pod_data",
    "write_volume",
    "pull_image",
    "create_container",
    "start_container",
    "stop_container",
    "remove_container",
    "exec",
)
"""The calls that change something: only these can be interrupted halfway."""


class When(StrEnum):
    BEFORE = "before"
    WITHIN = "within"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class KillPoint:
    """The kubelet dies at its ``call``-th change from now on, counted from 0."""

    call: int
    when: When


class KubeletRun:
    """The changes that one kubelet requested, and its end, if any."""

    def __init__(self) -> None:
        self._death: KillPoint | None = None
        self.calls: list[tuple[str, str]] = []
        """Verb, and the name of the container, if any."""
        self.over = asyncio.Event()
        self.deaf = False
        """Ignore the kubelet's changes of records."""

    def kill_at(self, death: KillPoint) -> None:
        """Count changes from now on."""
        self._death = KillPoint(len(self.calls) + death.call, death.when)

    async def check(self) -> None:
        """Block the calls of a dead kubelet."""
        if self.over.is_set():
            await asyncio.Event().wait()

    async def around(
        self,
        verb: str,
        name: str,
        call: Callable[[], Awaitable[Any]],
        half: Callable[[], Awaitable[None]],
    ) -> Any:
        await self.check()
        death = self._death
        when = death.when if death is not None and death.call == len(self.calls) else None
        self.calls.append((verb, name))
        if when is When.AFTER:
            await call()
        elif when is When.WITHIN:
            await half()
        if when is not None:
            self.over.set()
        await self.check()
        result = await call()
        await self.check()
        return result


class KillableRuntime(MemoryRuntime):
    life: KubeletRun

    async def _enter(self, verb: str, delay: float = 0.0) -> None:
        await self.life.check()
        await super()._enter(verb, delay)
        await self.life.check()

    async def _half(self, verb: str, call: Callable[[], Awaitable[Any]], *args: Any) -> None:
        """Do half of the call: create but not start a sandbox, or remove only its containers."""
        if verb == "run_sandbox":
            made = await call()
            self.engine.stop_sandbox(self.engine.sandbox("memory", made.id))
        elif verb == "remove_sandbox":
            for one in list(self.engine.containers.values()):
                if one.record.sandbox_id == args[0]:
                    self.engine.remove_container(one)

    def _name(self, verb: str, *args: Any) -> str:
        if verb == "create_container":
            return str(args[1].name)
        cell = self.engine.containers.get(args[0]) if isinstance(args[0], str) else None
        return cell.record.name if cell is not None else ""


def _killable(verb: str) -> Callable[..., Awaitable[Any]]:
    plain = getattr(MemoryRuntime, verb)

    async def call(self: KillableRuntime, *args: Any, **kwargs: Any) -> Any:
        async def act() -> Any:
            return await plain(self, *args, **kwargs)

        return await self.life.around(
            verb, self._name(verb, *args), act, lambda: self._half(verb, act, *args)
        )

    return call


for _verb in VERBS:
    setattr(KillableRuntime, _verb, _killable(_verb))


class KillableRecords:
    """Ignores all changes of a dead kubelet."""

    def __init__(self, records: Records, life: KubeletRun) -> None:
        self._records = records
        self._life = life

    async def put(self, resource: Any, item: Any) -> Any:
        return item if self._silent else await self._records.put(resource, item)

    async def create(self, resource: Any, item: Any) -> Any:
        return item if self._silent else await self._records.create(resource, item)

    async def update(self, resource: Any, namespace: str, name: str, change: Any) -> Any:
        if not self._silent:
            return await self._records.update(resource, namespace, name, change)
        found = await self._records.get(resource, namespace, name)
        if found is None:
            raise NotFound(name)
        return change(found)

    async def delete(self, resource: Any, namespace: str, name: str, check: Any = None) -> bool:
        return not self._silent and await self._records.delete(resource, namespace, name, check)

    @property
    def _silent(self) -> bool:
        return self._life.deaf or self._life.over.is_set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)


class KillableWorld(World):
    """``life`` is that of the current kubelet. ``made`` and ``begun`` count, by pod UID and
    container name, the containers created and started by all kubelets; ``pulled`` counts pulls.
    """

    life: KubeletRun

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.made = Counter[tuple[str, str]]()
        self.begun = Counter[tuple[str, str]]()
        self.pulled = Counter[str]()
        create, start = self.engine.create_container, self.engine.start_container

        def counted_create(root: str, sandbox: Any, config: ContainerConfig) -> Any:
            self.made[config.pod_uid, config.name] += 1
            return create(root, sandbox, config)

        def counted_start(cell: ContainerCell) -> None:
            self.begun[cell.record.pod_uid, cell.record.name] += 1
            start(cell)

        add = self.engine.images.add

        def counted_add(record: ImageRecord, name: str) -> None:
            self.pulled[name] += 1
            add(record, name)

        self.engine.images.add = counted_add  # type: ignore[method-assign]
        self.engine.create_container = counted_create  # type: ignore[method-assign]
        self.engine.start_container = counted_start  # type: ignore[method-assign]

    def _new_runtime(self) -> MemoryRuntime:
        self.life = KubeletRun()
        runtime = KillableRuntime(
            clock=self.clock, engine=self.engine, exec_behave=self._command, **self._delays
        )
        runtime.life = self.life
        return runtime

    def new_kubelet(self) -> Kubelet:
        store = self.store
        self.store = KillableRecords(store, self.life)  # type: ignore[assignment]
        try:
            return super().new_kubelet()
        finally:
            self.store = store

    async def next_kubelet(self) -> None:
        """Replace the killed kubelet by another."""
        self.life.over.set()
        await self.stop_kubelet()
        await self.start_kubelet()
