"""A runtime under test, and one pod for the contract tests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerState,
    ContainerStatus,
    EngineInfo,
    ImageRecord,
    LogLine,
    LogOptions,
    Runtime,
    RuntimeEvent,
    SandboxConfig,
)

IMAGE = "busybox:1.36"
PATIENCE = 120.0
T = TypeVar("T")
MakeRuntime = Callable[[str], Runtime]


def rooted() -> str:
    return f"contract-{uuid.uuid4().hex[:12]}"


class Bench:
    """``runtime`` is connected; all objects of the test are removed after it."""

    def __init__(self, make: MakeRuntime) -> None:
        self._make = make
        self._opened: list[Runtime] = []
        self.root = rooted()
        self.uid = str(uuid.uuid4())

    runtime: Runtime
    info: EngineInfo
    image: ImageRecord

    async def set_up(self) -> None:
        self.runtime = await self.open(self.root)
        self.info = await self.runtime.connect()
        image = await self.runtime.image_status(IMAGE)
        assert image is not None, f"the engine has no {IMAGE}: run scripts/sample_image.py"
        self.image = image

    async def open(self, root: str) -> Runtime:
        """Return another connected runtime on the same engine."""
        runtime = self._make(root)
        self._opened.append(runtime)
        await runtime.connect()
        return runtime

    async def tear_down(self) -> None:
        """Remove all objects of every root that was opened. Fail if any remain."""
        async with AsyncExitStack() as stack:
            for runtime in self._opened:
                stack.push_async_callback(runtime.close)
            for runtime in self._opened:
                await runtime.connect()
                await _clear(runtime, self.uid)

    # --- configs

    def sandbox_config(self, attempt: int = 0, **changes: object) -> SandboxConfig:
        values: dict[str, object] = {
            "name": "contract",
            "namespace": "default",
            "uid": self.uid,
            "attempt": attempt,
            "hostname": "contract",
        }
        return SandboxConfig(**(values | changes))  # type: ignore[arg-type]

    def container_config(
        self, script: str | Sequence[str] = "sleep 300", **changes: object
    ) -> ContainerConfig:
        """``script`` is for ``sh -c``, or a complete argv."""
        command = ("sh", "-c", script) if isinstance(script, str) else tuple(script)
        values: dict[str, object] = {
            "name": "app",
            "attempt": 0,
            "image": IMAGE,
            "image_id": self.image.id,
            "pod_name": "contract",
            "pod_namespace": "default",
            "pod_uid": self.uid,
            "command": command,
        }
        return ContainerConfig(**(values | changes))  # type: ignore[arg-type]

    # --- shortcuts

    async def sandbox(self, attempt: int = 0, **changes: object) -> str:
        return (await self.runtime.run_sandbox(self.sandbox_config(attempt, **changes))).id

    async def create(self, sandbox: str, script: str | Sequence[str], **changes: object) -> str:
        config = self.container_config(script, **changes)
        return (await self.runtime.create_container(sandbox, config)).id

    async def start(
        self, sandbox: str, script: str | Sequence[str] = "sleep 300", **changes: object
    ) -> str:
        created = await self.create(sandbox, script, **changes)
        return (await self.runtime.start_container(created)).id

    async def ended(self, container: str) -> ContainerStatus:
        async def over() -> ContainerStatus | None:
            status = await self.runtime.container_status(container)
            return status if status.record.state is ContainerState.EXITED else None

        return await until(over)

    async def run(
        self, sandbox: str, script: str | Sequence[str], **changes: object
    ) -> tuple[int, list[str]]:
        """Return the exit code and all output lines of a container."""
        container = await self.start(sandbox, script, **changes)
        status = await self.ended(container)
        return status.exit_code, await self.text(container)

    async def lines(self, container: str, **options: object) -> list[LogLine]:
        wanted = LogOptions(**options)  # type: ignore[arg-type]
        async with asyncio.timeout(PATIENCE):
            batches = self.runtime.logs(container, wanted)
            return [line async for lines in batches for line in lines]

    async def text(self, container: str, **options: object) -> list[str]:
        return [line.content.decode() for line in await self.lines(container, **options)]

    async def shows(self, container: str, line: str) -> None:
        """Wait until the log contains the line."""

        async def there() -> bool:
            return line in await self.text(container)

        await until(there)

    @asynccontextmanager
    async def watching(self, sandbox: str) -> AsyncIterator[list[RuntimeEvent]]:
        """Collect events. A stream does not report that it is open: cause events until one
        arrives.
        """
        seen: list[RuntimeEvent] = []

        async def collect() -> None:
            async for event in self.runtime.events():
                seen.append(event)  # noqa: PERF401 - read while it grows

        async with asyncio.TaskGroup() as group:
            task = group.create_task(collect())
            try:
                for attempt in range(50):
                    knocker = await self.create(sandbox, "true", name="knock", attempt=attempt)
                    await self.runtime.remove_container(knocker)
                    if seen:
                        break
                    await asyncio.sleep(0.05)
                yield seen
            finally:
                task.cancel()


async def until(condition: Callable[[], Awaitable[T | None]]) -> T:
    """Poll until the result is true, and return it. Raises `TimeoutError`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await condition()
            if answer:
                return answer
            await asyncio.sleep(0.03)


def now() -> datetime:
    return datetime.now(UTC)


def moment(stamp: str) -> datetime:
    """Return a log line's time in microseconds; not every engine records fractions of a second."""
    whole, _, rest = stamp.partition(".")
    text = f"{whole}.{rest[:6]}" if rest else whole
    return datetime.fromisoformat(text.rstrip("Z")).replace(tzinfo=UTC)


async def _clear(runtime: Runtime, uid: str) -> None:
    snapshot = await runtime.list()
    async with asyncio.timeout(PATIENCE):
        for sandbox in snapshot.sandboxes:
            await runtime.remove_sandbox(sandbox.id)
        for container in snapshot.containers:
            await runtime.remove_container(container.id)
        for pod in {uid, *(sandbox.uid for sandbox in snapshot.sandboxes)}:
            await runtime.remove_pod_data(pod)
    left = await runtime.list()
    assert (left.sandboxes, left.containers) == ((), ())
