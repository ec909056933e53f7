"""One agent per root directory, by an advisory lock that dies with its process.

The lock file stays; what it says of an agent is believed only while somebody holds the lock. The
agent's settings stay in it, to restart the agent with them and to clear up: what runs on its engine
outlives it.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import asdict

from podtui.errors import PodtuiError

_TRIES: Final = 5
_PAUSE: Final = 0.02


class AgentRunning(PodtuiError):
    """Raised when another agent holds the root directory."""


class AgentRecord(Struct, frozen=True, kw_only=True):
    """What a running agent says of itself in its lock file; ``started`` is RFC 3339."""

    pid: int
    version: str
    nodeName: str
    staticPodPath: str
    engine: str
    started: str


class LastSettings(Struct, frozen=True, kw_only=True):
    """The settings of the agent that holds the lock or held it last."""

    staticPodPath: str
    nodeName: str
    engine: str


class AgentLock:
    """Holds the root directory until `release`, or until the process ends however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._left: dict[str, Any] = {}

    def acquire(self, record: AgentRecord) -> None:
        """Raises `AgentRunning`."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(descriptor)
        except BlockingIOError as error:
            os.close(descriptor)
            holder = read_agent(self._path)
            who = f"process {holder.pid}" if holder else "another process"
            raise AgentRunning(
                f"{self._path.parent}: an agent already serves this root directory ({who})"
            ) from error
        said = asdict(record)
        _write(descriptor, said)
        self._descriptor = descriptor
        self._left = {name: said[name] for name in LastSettings.__struct_fields__}

    def release(self) -> None:
        """Leave the settings behind, and nothing that reads like an agent. Idempotent."""
        if self._descriptor is not None:
            _write(self._descriptor, self._left)
            os.close(self._descriptor)
            self._descriptor = None


def _take(descriptor: int) -> None:
    """Blocks for a moment at most. Raises BlockingIOError where the lock stays another's."""
    for _ in range(_TRIES - 1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Who only looks whether it is held holds it for an instant.
            time.sleep(_PAUSE)
        else:
            return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write(descriptor: int, said: dict[str, Any]) -> None:
    import json

    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(said).encode(), 0)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock now."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
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
    """The agent that holds the lock, None where none runs or it has not yet said who it is."""
    return last_agent(path) if is_held(path) else None


def last_agent(path: Path) -> AgentRecord | None:
    """The agent that holds the lock, or held it when it was killed; None where the last one ended
    by itself."""
    import json

    try:
        return AgentRecord(**json.loads(path.read_text()))
    except (ValueError, TypeError, OSError):
        return None


def last_settings(path: Path) -> LastSettings | None:
    """The settings of the agent that holds the lock or held it last; None where they are not
    known."""
    import json

    try:
        said: object = json.loads(path.read_text())
    except (ValueError, OSError):
        return None
    if not isinstance(said, dict):
        return None
    found = [cast("dict[str, object]", said).get(n) for n in LastSettings.__struct_fields__]
    folder, node, engine = (value if isinstance(value, str) else "" for value in found)
    if not (folder and node and engine):
        return None
    return LastSettings(staticPodPath=folder, nodeName=node, engine=engine)


def last_engine(path: Path) -> str | None:
    """The engine of the agent that holds the lock or held it last, as its settings named it; None
    where that is not known."""
    import json

    try:
        said: object = json.loads(path.read_text())
    except (ValueError, OSError):
        return None
    engine = cast("dict[str, object]", said).get("engine") if isinstance(said, dict) else None
    return engine if isinstance(engine, str) and engine else None
