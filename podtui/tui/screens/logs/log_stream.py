"""Read one container's log for as long as it is shown.

If the stream ends because the container ended, it continues with the next instance. If it breaks,
it resumes at the same place and reports missing lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import takewhile
from typing import Any, Final, Protocol, cast

from podtui.api.names import LOG_GAP
from podtui.api.v1 import Pod
from podtui.client.protocol import Client, LogQuery
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.screens.logs.earlier_lines import EarlierLines, stamp_of, to_rfc3339
from podtui.tui.views.logs.line_buffer import GAP, RULE
from podtui.tui.views.logs.target import (
    LogTarget,
    container_status,
    describe_end,
    describe_previous,
    instance,
)
from podtui.tui.views.logs.times import SECOND, clock, parse_stamp, rfc3339
from podtui.tui.widgets.sanitize import clean

RETRY: Final = 2.0
OPEN: Final = 1.0
"""Seconds after which a request that has not failed counts as open: a quiet log delivers nothing,
and some servers send no headers before the first line."""
_GAP: Final = LOG_GAP.encode()


class Sink(Protocol):
    """Receives logs; ``source`` is the number of the log."""

    def take_lines(self, source: int, lines: list[bytes]) -> None: ...

    def take_remark(self, source: int, tag: int, text: str, stamp: int = 0) -> None:
        """Add a remark at this place of the log; ``tag`` is RULE or GAP.

        ``stamp`` is its time in nanoseconds, 0 for the time of the newest line.
        """
        ...

    def take_state(self, source: int, state: str, *, quiet: bool) -> None:
        """Report why there is nothing to show; empty if there are lines.

        ``quiet`` means that no line is expected for now.
        """
        ...


class LogStream:
    """Reads one log into a sink.

    ``source`` identifies the log for the sink; ``server`` is the name of the server in the error
    message if it does not answer.
    """

    def __init__(
        self,
        client: Client,
        target: LogTarget,
        source: int,
        sink: Sink,
        pod: Pod,
        server: str = "agent",
    ) -> None:
        self.target = target
        self._server = server
        self._client = client
        self._source = source
        self._sink = sink
        self._pod = pod
        self._instance = instance(pod, target.container)
        self._wake = asyncio.Event()
        self._any = False
        self._gap = ""
        self._resumption = Resumption()
        self.earlier = EarlierLines(client, target)

    def publish(self, pod: Pod) -> None:
        """Update the pod; if its container changed, a finished log may continue."""
        self._pod = pod
        now = instance(pod, self.target.container)
        if now != self._instance:
            self._instance = now
            self._wake.set()

    def reconnect_now(self) -> None:
        """Reconnect now instead of waiting."""
        self._wake.set()

    async def run(self) -> None:
        """Read the log forever; return only at the end of the log of a previous instance."""
        seen = self._instance
        same = True
        while True:
            self._wake.clear()
            self._resumption.reopen(same_log=same)
            pause: float | None = None
            try:
                await self._read()
                self._report_state("" if self._any else "The log is empty.", quiet=True)
            except ApiError as error:
                self._report_state(clean(str(error)), quiet=True)
                pause = RETRY
            except AgentUnavailable as error:
                self._report_state(
                    f"The {self._server} does not respond: {clean(str(error))}", quiet=True
                )
                pause = RETRY
            if self.target.previous and pause is None:
                self._add_remark(RULE, describe_end(self.target.container, self._status()))
                return
            if pause is None and self._runs():
                # The server may end the stream of a running container: on restart or timeout.
                pause = RETRY
            same = True
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue
            if self._instance != seen and self._restarted(seen):
                same = False
                self._add_remark(RULE, describe_end(self.target.container, self._status()))
            # A container without an id is not created yet: keep the last known instance.
            seen = self._instance if _id_of(self._instance) else seen

    async def _read(self) -> None:
        target = self.target
        last = self._resumption.last_stamp
        moment = parse_stamp(last.encode())
        query = LogQuery(
            container=target.container,
            follow=not target.previous,
            previous=target.previous,
            tail=target.range.tail if not last else None,
            since_seconds=None if moment else target.range.since,
            # Whole seconds: `Resumption` drops the lines that were already shown.
            since_time=rfc3339(moment // SECOND * SECOND),
            gaps=True,
        )
        self._gap = ""
        # Without a line, the error of the last attempt would stay.
        opened = asyncio.get_running_loop().call_later(
            OPEN, partial(self._report_state, "", quiet=True)
        )
        try:
            batches = self._client.logs(target.namespace, target.pod, query)
            async with aclosing(cast("Any", batches)):
                async for lines in batches:
                    for gap, part in split_gaps(lines):
                        self._gap = gap or self._gap
                        self._take(part)
        finally:
            opened.cancel()

    def _take(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        fresh = list(self._resumption.take(lines))
        # A gap before lines that are already shown is not new: ignore it.
        gap, self._gap = self._gap if len(fresh) == len(lines) else "", ""
        if not fresh:
            return
        if not self._any and self.target.previous:
            self._add_remark(RULE, describe_previous(self.target.container, self._status()))
        if lost := self._resumption.lost_after:
            before, after = (clock(parse_stamp(to_rfc3339(s))) for s in (lost, stamp_of(fresh[0])))
            self._add_remark(GAP, f"… lines between {before} and {after} are not shown: the log was"
                              " cut while it could not be read")  # fmt: skip
        elif gap:
            stamp = parse_stamp(to_rfc3339(stamp_of(fresh[0])))
            self._sink.take_remark(self._source, GAP, f"▲ {clean(gap)}", stamp)
        self._any = True
        self.earlier.add(fresh, self._container_id())
        self._sink.take_lines(self._source, fresh)
        self._report_state("", quiet=False)

    def _restarted(self, seen: str) -> bool:
        before, now = _id_of(seen), _id_of(self._instance)
        return bool(before and now and before != now and self._any)

    @property
    def first_is_previous(self) -> bool | None:
        """True if the first shown line is in the log of the previous instance; None if the server
        has no log with it any more.
        """
        status, instance = self._status(), self.earlier.instance
        if status is None or not instance:
            return self.target.previous
        if status.containerID == instance:
            return False
        ended = status.lastState.terminated
        return True if ended is not None and ended.containerID == instance else None

    def _container_id(self) -> str:
        """Return the id of the container whose log is read."""
        if not self.target.previous:
            return _id_of(self._instance)
        status = self._status()
        ended = status.lastState.terminated if status is not None else None
        return ended.containerID if ended is not None else ""

    def _runs(self) -> bool:
        status = self._status()
        return status is not None and status.state.running is not None

    def _status(self) -> Any:
        return container_status(self._pod, self.target.container)

    def _add_remark(self, tag: int, text: str) -> None:
        self._sink.take_remark(self._source, tag, text)

    def _report_state(self, state: str, *, quiet: bool) -> None:
        self._sink.take_state(self._source, state, quiet=quiet)


def _id_of(instance: str) -> str:
    """Return the container id from a value of `podtui.tui.views.logs.target.instance`."""
    return instance.partition(" ")[0]


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
        return to_rfc3339(self._last).decode(errors="replace") if self._last else ""

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
