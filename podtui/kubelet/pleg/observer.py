"""Build `ObservedPod` from the runtime's records; inspect only what changed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from podtui.api.names import CONTAINER_HASH, CONTAINER_IMAGE_REF, CONTAINER_TERMINATION_POLICY
from podtui.api.v1 import Pod
from podtui.errors import EngineError, EngineNotFound, EngineUnavailable
from podtui.kubelet.types import ObservedContainer, ObservedPod, ObservedSandbox
from podtui.runtime.protocol import (
    START_ERROR,
    ContainerRecord,
    ContainerState,
    ContainerStatus,
    LogOptions,
    Runtime,
    SandboxRecord,
    SandboxState,
    SandboxStatus,
)

FILE_LIMIT: Final = 4096
"""Maximum number of bytes read from the end of the termination message file."""
LOG_BYTES: Final = 2048
LOG_LINES: Final = 80
POD_LIMIT: Final = 12 * 1024
"""Bytes shared by all messages of one pod."""
FALLBACK: Final = "FallbackToLogsOnError"
_LOG = logging.getLogger(__name__)
_SETTLED: Final = (ContainerState.EXITED,)
Signature = frozenset[tuple[str, str]]


def signature(
    sandboxes: Iterable[SandboxRecord], containers: Iterable[ContainerRecord]
) -> Signature:
    """Return what a list shows of a pod: ids with their states."""
    return frozenset(
        [(s.id, s.state.value) for s in sandboxes] + [(c.id, c.state.value) for c in containers]
    )


class PodObserver:
    """Turns lists into observations and caches what it inspected."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sandboxes: dict[str, ObservedSandbox] = {}
        self._containers: dict[str, ObservedContainer] = {}

    def note_sandbox(self, status: SandboxStatus) -> None:
        """Cache a sandbox that another component has just inspected."""
        self._sandboxes[status.record.id] = _sandbox(status)

    def sandbox(self, sandbox_id: str) -> ObservedSandbox | None:
        return self._sandboxes.get(sandbox_id)

    def forget(self, observed: ObservedPod | None) -> None:
        if observed is not None:
            for sandbox in observed.sandboxes:
                self._sandboxes.pop(sandbox.id, None)
            for container in observed.containers:
                self._containers.pop(container.id, None)

    def forget_running(self, observed: ObservedPod | None) -> None:
        """Inspect the running containers again at the next observation."""
        for container in () if observed is None else observed.containers:
            if container.state is ContainerState.RUNNING:
                self._containers.pop(container.id, None)

    async def observe(
        self,
        uid: str,
        before: ObservedPod | None,
        sandboxes: Iterable[SandboxRecord],
        containers: Iterable[ContainerRecord],
    ) -> ObservedPod | None:
        """Return the observed pod, or None when nothing is left. Raises `EngineError`."""
        boxes = [b for record in sandboxes if (b := await self._observe_sandbox(record))]
        observed = [c for record in containers if (c := await self._observe_container(record))]
        kept = {box.id for box in boxes} | {container.id for container in observed}
        if before is not None:
            for old in before.sandboxes:
                if old.id not in kept:
                    self._sandboxes.pop(old.id, None)
            for gone in before.containers:
                if gone.id not in kept:
                    self._containers.pop(gone.id, None)
        name, namespace = _name_of(sandboxes, containers)
        if not boxes and not observed:
            return None
        boxes.sort(key=lambda box: (box.attempt, box.created_at), reverse=True)
        observed.sort(key=lambda item: (item.restart_count, item.created_at), reverse=True)
        return ObservedPod(
            uid=uid,
            name=name,
            namespace=namespace,
            sandboxes=tuple(boxes),
            containers=tuple(observed),
        )

    async def _observe_sandbox(self, record: SandboxRecord) -> ObservedSandbox | None:
        previous = self._sandboxes.get(record.id)
        if previous is not None and previous.state is record.state:
            return previous
        if record.state is SandboxState.NOT_READY:
            # A dead sandbox has no address any more, so an inspect would add nothing.
            observed = ObservedSandbox(
                id=record.id,
                attempt=record.attempt,
                state=record.state,
                created_at=record.created_at,
                host_network=previous.host_network if previous else False,
            )
        else:
            try:
                observed = _sandbox(await self._runtime.sandbox_status(record.id))
            except EngineNotFound:
                return None
        self._sandboxes[record.id] = observed
        return observed

    async def _observe_container(self, record: ContainerRecord) -> ObservedContainer | None:
        previous = self._containers.get(record.id)
        if previous is not None and (previous.state is record.state or previous.state in _SETTLED):
            return previous
        try:
            status = await self._runtime.container_status(record.id)
        except EngineNotFound:
            return None
        message = status.message
        if status.record.state is ContainerState.EXITED:
            message = await self._message(status)
        observed = _container(status, message)
        self._containers[record.id] = observed
        return observed

    async def _message(self, status: ContainerStatus) -> str:
        """Return the termination message of an exited container (kubelet.md §7.7)."""
        record = status.record
        policy = _annotation(record, CONTAINER_TERMINATION_POLICY)
        content = log = b""
        try:
            content = await self._runtime.termination_message(record.id, FILE_LIMIT)
            if needs_logs(policy, content, status.exit_code, status.reason):
                log = await self._log_tail(record.id)
        except EngineUnavailable:
            raise
        except EngineError as error:
            _LOG.warning("termination message of %s: %s", record.name, error)
        return termination_message(
            content=content,
            log=log,
            policy=policy,
            exit_code=status.exit_code,
            reason=status.reason,
            runtime_message=status.message,
        )

    async def _log_tail(self, container_id: str) -> bytes:
        batches = self._runtime.logs(container_id, LogOptions(tail=LOG_LINES))
        lines = [line async for batch in batches for line in batch]
        return b"".join(line.content + (b"" if line.partial else b"\n") for line in lines)


def _sandbox(status: SandboxStatus) -> ObservedSandbox:
    record = status.record
    return ObservedSandbox(
        id=record.id,
        attempt=record.attempt,
        state=record.state,
        created_at=record.created_at,
        ips=status.ips,
        host_network=status.host_network,
        routable=status.routable,
        enterable=status.enterable,
    )


def _container(status: ContainerStatus, message: str) -> ObservedContainer:
    record = status.record
    return ObservedContainer(
        id=record.id,
        name=record.name,
        restart_count=record.attempt,
        sandbox_id=record.sandbox_id,
        state=record.state,
        created_at=record.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        reason=status.reason,
        message=message,
        image=record.image,
        image_id=status.image_id,
        image_ref=_annotation(record, CONTAINER_IMAGE_REF),
        hash=_annotation(record, CONTAINER_HASH),
        user=status.user,
        resources=status.resources,
        log_path=status.log_path,
    )


def _annotation(record: ContainerRecord, key: str) -> str:
    return record.annotations.get(key) or record.labels.get(key, "")


def _name_of(
    sandboxes: Iterable[SandboxRecord], containers: Iterable[ContainerRecord]
) -> tuple[str, str]:
    for sandbox in sandboxes:
        return sandbox.name, sandbox.namespace
    for container in containers:
        return container.pod_name, container.pod_namespace
    return "", ""


# --- termination messages (kubelet.md §7.7)


def needs_logs(policy: str, content: bytes, exit_code: int, reason: str) -> bool:
    """Return True if the end of the log replaces an empty or missing message file."""
    return policy == FALLBACK and not content and exit_code != 0 and reason != START_ERROR


def log_tail(log: bytes) -> bytes:
    """Return the last 80 lines of a log, at most its last 2048 bytes."""
    lines = log[-LOG_BYTES:].splitlines(keepends=True)
    return b"".join(lines[-LOG_LINES:])


def termination_message(
    *,
    content: bytes,
    log: bytes = b"",
    policy: str = "File",
    exit_code: int = 0,
    reason: str = "",
    runtime_message: str = "",
) -> str:
    """Return an instance's message: the runtime's own, then its file or the end of its log.

    ``content`` is the file's; ``log`` is used only if `needs_logs` holds.
    """
    text = content[-FILE_LIMIT:]
    if needs_logs(policy, content, exit_code, reason):
        text = log_tail(log)
    message = text.decode("utf-8", "replace")
    if runtime_message and message:
        return f"{runtime_message}: {message}"
    return runtime_message or message


def message_limit(pod: Pod) -> int:
    """Return the maximum number of bytes of each container's message."""
    spec = pod.spec
    count = len(spec.initContainers) + len(spec.containers) + len(spec.ephemeralContainers)
    return POD_LIMIT // max(count, 1)


def cut(message: str, limit: int) -> str:
    """Cut a message to at most ``limit`` bytes of UTF-8, never within a character."""
    data = message.encode("utf-8", "replace")
    return message if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
