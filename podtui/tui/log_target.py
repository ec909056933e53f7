"""Whose log is shown, and how a stream that broke goes on without losing or repeating a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtui.api.v1 import ContainerStatus, Pod
from podtui.tui.pod_status import Family, pod_status_line


@dataclass(frozen=True, slots=True)
class LogTarget:
    """One container's log. ``tail`` None means from its beginning."""

    key: str
    namespace: str
    pod: str
    container: str
    previous: bool = False
    tail: int | None = None


def container_names(pod: Pod) -> list[str]:
    """Init containers first, as they run."""
    return [c.name for c in (*pod.spec.initContainers, *pod.spec.containers)]


def default_container(pod: Pod) -> str:
    """The container that somebody who looks most likely wants: the one in trouble, the init
    container at work, else the first."""
    family = pod_status_line(pod).family
    if family in (Family.INIT, Family.ERROR):
        for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
            ended = status.state.terminated
            if ended is not None and ended.exitCode == 0:
                continue
            if status.ready and status.state.running is not None:
                continue
            return status.name
    return pod.spec.containers[0].name if pod.spec.containers else ""


def container_status(pod: Pod, container: str) -> ContainerStatus | None:
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        if status.name == container:
            return status
    return None


def instance(pod: Pod, container: str) -> str:
    """What changes when a container starts, ends or is replaced: then a log may go on."""
    status = container_status(pod, container)
    if status is None:
        return ""
    state = status.state
    kind = "running" if state.running else "ended" if state.terminated else "waiting"
    return f"{status.containerID} {kind} {status.restartCount}"


class Resumption:
    """Drops what was already shown when a stream is opened again.

    Lines begin with RFC 3339 time stamps; those of a container never go back.
    """

    def __init__(self) -> None:
        self._last = b""
        self._same = 0
        self._skip = 0
        self._resuming = False

    @property
    def last_stamp(self) -> str:
        """The time of the newest line, empty before the first."""
        return self._last.decode(errors="replace") + "Z" if self._last else ""

    def reopen(self) -> None:
        """Another stream begins; it may tell again what is known."""
        self._resuming = bool(self._last)
        self._skip = self._same

    def take(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """The lines that are new."""
        if self._resuming:
            lines = self._after(lines)
        if not lines:
            return lines
        last = stamp_of(lines[-1])
        same = sum(stamp_of(line) == last for line in lines)
        self._same = self._same + same if last == self._last else same
        self._last = last
        return lines

    def _after(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        for number, line in enumerate(lines):
            stamp = stamp_of(line)
            if stamp < self._last:
                continue
            if stamp == self._last and self._skip:
                self._skip -= 1
                continue
            self._resuming = False
            return lines[number:]
        return ()


def stamp_of(line: bytes) -> bytes:
    """The time stamp without its ``Z``, so that more digits compare as later."""
    return line.partition(b" ")[0].removesuffix(b"Z")
