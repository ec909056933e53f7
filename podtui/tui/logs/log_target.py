"""Whose log is shown, and how a stream that broke goes on without losing or repeating a line."""

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
from podtui.tui.logs.log_tags import SOURCES
from podtui.tui.logs.log_time import clock, parse_stamp
from podtui.tui.overview.rows import pod_key
from podtui.tui.pods.pod_status import Family, pod_status_line
from podtui.tui.widgets.sanitize import clean

_GAP: Final = LOG_GAP.encode()
TAIL: Final = 5000
"""Lines of the past that a glance at a log asks for."""


class Range(Struct, frozen=True):
    """How much of the past is asked for; neither ``tail`` (lines) nor ``since`` (seconds) is all of
    it. ``from_start`` shows its beginning first."""

    words: str
    tail: int | None = None
    since: int | None = None
    from_start: bool = False


GLANCE: Final = Range("", tail=TAIL)
WHOLE: Final = Range("")
# 1 to 6 of the picker are k9s' keys for the same ranges.
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
    """The logs that are shown of some pods: of ``chosen(pod)``, or with ``everything`` of all
    containers. What is beyond `SOURCES` is left out."""
    targets = [
        LogTarget(
            pod_key(pod), pod.metadata.namespace, pod.metadata.name, container, previous, range
        )
        for pod in pods
        for container in (container_names(pod) if everything else [chosen(pod)])
    ]
    return tuple(targets[:SOURCES])


def source_names(targets: Sequence[LogTarget]) -> tuple[str, ...]:
    """What tells the targets apart, as short as that can be."""
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
    """What happened between two instances, for the line that parts their logs."""
    ended = status.lastState.terminated if status is not None else None
    if status is None or ended is None:
        return f"{clean(container)} started again"
    return (
        f"{clean(container)} ended with exit code {ended.exitCode} ({clean(ending(ended))}),"
        f" restart {status.restartCount}{_at(ended.finishedAt)}"
    )


def describe_previous(container: str, status: ContainerStatus | None) -> str:
    """Which instance the log before is of, for the line above it."""
    ended = status.lastState.terminated if status is not None else None
    if status is None or ended is None:
        return f"{clean(container)}, the instance before"
    number = status.restartCount - 1
    which = "the first instance" if number <= 0 else f"the instance of restart {number}"
    return f"{clean(container)}, {which}{_at(run_began(ended), 'started')}"


def _at(moment: str | None, word: str = "at") -> str:
    shown = clock(parse_stamp(str(moment).encode())) if moment else ""
    return f", {word} {shown[:8]}" if shown else ""


def default_container(pod: Pod) -> str:
    """The container that somebody who looks most likely wants: the one in trouble, the init
    container at work, else the first."""
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
        self._met = True
        self.lost_after = b""
        """Set by `take`: the time of the last line before a gap; empty where nothing is missing."""

    @property
    def last_stamp(self) -> str:
        """The time of the newest line, empty before the first."""
        return zoned(self._last).decode(errors="replace") if self._last else ""

    def reopen(self, *, same_log: bool = True) -> None:
        """Another stream begins; it may tell again what is known, and does if it is of the same
        log."""
        self._resuming = bool(self._last)
        self._met = not same_log
        self._skip = self._same

    def take(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """The lines that are new."""
        self.lost_after = b""
        if self._resuming:
            lines = self._after(lines)
        if not lines:
            return lines
        last = stamp_of(lines[-1])
        # They never go back, so all with the last time stand together at the end.
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
    """Runs of lines, each with what the agent says is missing before it, empty for nothing."""
    gap, start = "", 0
    for number, line in enumerate(lines):
        if line.startswith(_GAP):
            yield gap, lines[start:number]
            gap, start = line[len(_GAP) :].decode(errors="replace"), number + 1
    yield gap, lines[start:]


def stamp_of(line: bytes) -> bytes:
    """The time stamp without its ``Z``, so that more digits compare as later."""
    return line.partition(b" ")[0].removesuffix(b"Z")


def zoned(stamp: bytes) -> bytes:
    """What `stamp_of` gave as a time again: engines write offsets where their zone has one."""
    return stamp if stamp[-6:-5] in (b"+", b"-") else stamp + b"Z"
