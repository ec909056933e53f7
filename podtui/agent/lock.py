"""Allow one agent per root directory, with an advisory lock that ends with its process.

The lock file is never deleted; its agent record is valid only while a process holds the lock. The
agent's settings stay in the file after the agent has stopped: its containers keep running, and a
restart or a cleanup needs the settings.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import asdict

from podtui import __version__
from podtui.errors import PodtuiError
from podtui.private_files import (
    RootDenied,
    check_root,
    open_private,
    permission_denied,
    read_private,
)
from podtui.settings import Settings

_TRIES: Final = 5
_PAUSE: Final = 0.02


class AgentRunning(PodtuiError):
    """Raised when another agent holds the lock of the root directory."""


class AgentRecord(Struct, frozen=True, kw_only=True):
    """The record of a running agent in its lock file; ``started`` is RFC 3339."""

    pid: int
    version: str
    nodeName: str
    staticPodPath: str
    engine: str
    started: str
    nodeKubeconfig: str = ""

    @classmethod
    def of(cls, settings: Settings, *, started: str = "") -> AgentRecord:
        """Return the record of this process."""
        return cls(
            pid=os.getpid(),
            version=__version__,
            nodeName=settings.nodeName,
            staticPodPath=str(settings.staticPodPath),
            engine=settings.engine,
            started=started,
            nodeKubeconfig=str(settings.nodeKubeconfig or ""),
        )


class LastSettings(Struct, frozen=True, kw_only=True):
    """The settings of the current or last holder of the lock."""

    staticPodPath: str
    nodeName: str
    engine: str
    nodeKubeconfig: str = ""
    """Empty for an agent that is its own cluster."""


class AgentLock:
    """Holds the lock until `release` or until the process ends for any reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._left: dict[str, Any] = {}

    def acquire(self, record: AgentRecord) -> None:
        """Acquire the lock and write the record. Raises `AgentRunning` and `RootDenied`."""
        descriptor = _open(self._path, os.O_CREAT)
        try:
            _take(descriptor)
        except BlockingIOError as error:
            os.close(descriptor)
            holder = read_agent(self._path)
            owner = f"process {holder.pid}" if holder else "another process"
            raise AgentRunning(
                f"{self._path.parent}: an agent already serves this root directory ({owner})"
            ) from error
        record_fields = asdict(record)
        _write(descriptor, record_fields)
        self._descriptor = descriptor
        self._left = {name: record_fields[name] for name in LastSettings.__struct_fields__}

    def release(self) -> None:
        """Release the lock. Only the settings stay in the file. Idempotent."""
        if self._descriptor is not None:
            _write(self._descriptor, self._left)
            os.close(self._descriptor)
            self._descriptor = None


def _open(path: Path, flags: int = 0) -> int:
    """Raises `RootDenied`, also for a link in place of the file, and FileNotFoundError."""
    try:
        check_root(path.parent)
        return open_private(path, os.O_RDWR | flags)
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise permission_denied(path.parent) from error
    except OSError as error:
        text = error.strerror if error.errno == errno.ELOOP else f"{path}: {error.strerror}"
        raise RootDenied(text) from error


def _take(descriptor: int) -> None:
    """Acquire the lock; blocks for a short time at most. Raises BlockingIOError if another process
    keeps it."""
    for _ in range(_TRIES - 1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # `is_held` in another process holds the lock for an instant.
            time.sleep(_PAUSE)
        else:
            return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write(descriptor: int, record: dict[str, Any]) -> None:
    import json

    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(record).encode(), 0)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock now. Raises `RootDenied`."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_agent(path: Path) -> AgentRecord | None:
    """Return the agent that holds the lock; None if none runs or it has not written its record
    yet."""
    return last_agent(path) if is_held(path) else None


def last_agent(path: Path) -> AgentRecord | None:
    """Return the agent that holds the lock or held it when it was killed; None if the last agent
    stopped cleanly."""
    try:
        return AgentRecord(**_fields(path))  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None


def last_settings(path: Path) -> LastSettings | None:
    """Return the settings of the current or last holder of the lock; None if unknown."""
    fields = _fields(path)
    values = [fields.get(name) for name in LastSettings.__struct_fields__]
    folder, node, engine, member = (value if isinstance(value, str) else "" for value in values)
    if not (folder and node and engine):
        return None
    return LastSettings(staticPodPath=folder, nodeName=node, engine=engine, nodeKubeconfig=member)


def last_engine(path: Path) -> str | None:
    """Return the engine setting of the current or last holder of the lock; None if unknown."""
    engine = _fields(path).get("engine")
    return engine if isinstance(engine, str) and engine else None


def _fields(path: Path) -> dict[str, object]:
    """Return the fields in the lock file; none if it cannot be read."""
    import json

    try:
        document: object = json.loads(read_private(path) or b"")
    except (ValueError, RecursionError, OSError):
        return {}
    return cast("dict[str, object]", document) if isinstance(document, dict) else {}
