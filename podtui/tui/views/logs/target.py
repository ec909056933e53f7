"""Select the logs to show, and resume a broken stream without losing or repeating a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct

from podtui.api.names import LOG_GAP
from podtui.api.pods import container_names, container_statuses, run_began
from podtui.api.printing import ending
from podtui.api.v1 import ContainerStatus, Pod
from podtui.tui.model.model import pod_key
from podtui.tui.views.logs.line_buffer import SOURCES
from podtui.tui.views.logs.times import clock, parse_stamp
from podtui.tui.views.pod_status import Family, pod_status_line
from podtui.tui.widgets.sanitize import clean

_GAP: Final = LOG_GAP.encode()
TAIL: Final = 5000
"""Number of past lines requested by default."""


class Range(Struct, frozen=True):
    """The part of the history to request: ``tail`` lines, ``since`` seconds, or all if neither.

    ``from_start`` shows the beginning of the log first.
    """

    words: str
    tail: int | None = None
    since: int | None = None
    from_start: bool = False


GLANCE: Final = Range("", tail=TAIL)
WHOLE: Final = Range("")
# The digits 1 to 6 in the picker select the same ranges as in k9s.
RANGES: Final = (
    Range("from the start", from_start=True),
    Range("last 1m", since=60),
    Range("last 5m", since=300),
    Range("last 15m", since=900),
    Range("last 30m", since=1800),
    Range("last 1h", since=3600),
    Range(f"last {TAIL:,} lines", tail=TAIL),
)


class LogTarget(Struct, frozen=True):
    """One container's log."""

    key: str
    namespace: str
    pod: str
    container: str
    previous: bool = False
    range: Range = GLANCE


def targets_of(
    pods: Sequence[Pod],
    chosen: Callable[[Pod], str],
    *,
    everything: bool = False,
    previous: bool = False,
    range: Range = GLANCE,
) -> tuple[LogTarget, ...]:
    """Return the logs of some pods: of the container ``chosen(pod)``, or with ``everything`` of all
    containers; at most `SOURCES` logs."""
    targets = [
        LogTarget(
            pod_key(pod), pod.metadata.namespace, pod.metadata.name, container, previous, range
        )
        for pod in pods
        for container in (container_names(pod) if everything else [chosen(pod)])
    ]
    return tuple(targets[:SOURCES])


def source_names(targets: Sequence[LogTarget]) -> tuple[str, ...]:
    """Return the shortest names that distinguish the targets."""
    pods = {(t.namespace, t.pod) for t in targets}
    one_each = len(pods) == len(targets)
    names = len({t.pod for t in targets}) == len(pods)
    return tuple(
        clean(
            t.container
            if len(pods) == 1
            else (t.pod if names else f"{t.namespace}/{t.pod}")
            + ("" if one_each else f"/{t.container}")
        )
        for t in targets
    )


def describe_end(container: str, status: ContainerStatus | None) -> str:
    """Describe the end of the last instance, for the separator between two logs."""
    ended = status.lastState.terminated if status is not None else None
    if status is None or ended is None:
        return f"{clean(container)} started again"
    return (
        f"{clean(container)} ended with exit code {ended.exitCode} ({clean(ending(ended))}),"
        f" restart {status.restartCount}{_at(ended.finishedAt)}"
    )


def describe_previous(container: str, status: ContainerStatus | None) -> str:
    """Describe the previous instance, for the line above its log."""
    ended = status.lastState.terminated if status is not None else None
    if status is None or ended is None:
        return f"{clean(container)}, the previous instance"
    number = status.restartCount - 1
    which = "the first instance" if number <= 0 else f"the instance of restart {number}"
    return f"{clean(container)}, {which}{_at(run_began(ended), 'started')}"


def _at(moment: str | None, word: str = "at") -> str:
    shown = clock(parse_stamp(str(moment).encode())) if moment else ""
    return f", {word} {shown[:8]}" if shown else ""


def default_container(pod: Pod) -> str:
    """Return the container whose log is most likely wanted.

    If the pod is initializing or failing: the first container that is neither ready and running
    nor ended with exit code 0. Otherwise the first container.
    """
    family = pod_status_line(pod, math.inf).family
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
    return next((one for one in container_statuses(pod) if one.name == container), None)


def instance(pod: Pod, container: str) -> str:
    """Return a text that changes when a container starts, ends or is replaced.

    After such a change, a finished log may continue.
    """
    status = container_status(pod, container)
    if status is None:
        return ""
    state = status.state
    kind = "running" if state.running else "ended" if state.terminated else "waiting"
    return f"{status.containerID} {kind} {status.restartCount}"


class Resumption:
    """Drops the lines that were already shown when a stream is opened again.

    Lines begin with RFC 3339 time stamps, which never decrease within the log of a container. The
    server filters by time, so only a prefix of the new stream can be known; the agent itself has no
    such filter on rotated logs and searches for the last lines (`podtui/runtime/docker/logs.py`).
    """

    def __init__(self) -> None:
        self._last = b""
        self._same = 0
        self._skip = 0
        self._resuming = False
        self._met = True
        self.lost_after = b""
        """Set by `take`: the time of the last line before a gap; empty if no lines are missing."""

    @property
    def last_stamp(self) -> str:
        """The time of the newest line, empty before the first."""
        return zoned(self._last).decode(errors="replace") if self._last else ""

    def reopen(self, *, same_log: bool = True) -> None:
        """Prepare for a new stream that may repeat known lines.

        With ``same_log``, a stream that repeats no known line has a gap before its first line.
        """
        self._resuming = bool(self._last)
        self._met = not same_log
        self._skip = self._same

    def take(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines that are new."""
        self.lost_after = b""
        if self._resuming:
            lines = self._after(lines)
        if not lines:
            return lines
        last = stamp_of(lines[-1])
        # Time stamps never decrease, so all lines with the last time are at the end.
        same = sum(1 for _ in takewhile(lambda line: stamp_of(line) == last, reversed(lines)))
        self._same = self._same + same if last == self._last else same
        self._last = last
        return lines

    def _after(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        for number, line in enumerate(lines):
            stamp = stamp_of(line)
            if stamp < self._last:
                self._met = True
                continue
            if stamp == self._last and self._skip:
                self._met = True
                self._skip -= 1
                continue
            self._resuming = False
            if not self._met and stamp > self._last:
                self.lost_after = self._last
            return lines[number:]
        return ()


def split_gaps(lines: Sequence[bytes]) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Split lines at the gaps that the agent reports.

    Yields (message about the gap before these lines or an empty string, lines).
    """
    gap, start = "", 0
    for number, line in enumerate(lines):
        if line.startswith(_GAP):
            yield gap, lines[start:number]
            gap, start = line[len(_GAP) :].decode(errors="replace"), number + 1
    yield gap, lines[start:]


def stamp_of(line: bytes) -> bytes:
    """Return the time stamp without its ``Z``, so that more digits compare as later."""
    return line.partition(b" ")[0].removesuffix(b"Z")


def zoned(stamp: bytes) -> bytes:
    """Convert a value of `stamp_of` back to an RFC 3339 time.

    A time with a zone offset stays as it is: engines write one if their zone is not UTC.
    """
    return stamp if stamp[-6:-5] in (b"+", b"-") else stamp + b"Z"
