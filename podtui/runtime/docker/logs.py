"""Read a container's log from the engine (kubelet.md §16), and follow it over rotations.

An engine's follow mode is unreliable when log files rotate: it repeats lines, drops lines, or
stops. Its stream is therefore only a trigger. New lines are read from the log itself: from its end
back to the last line that was already seen.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from itertools import dropwhile
from typing import Any, Final

from msgspec.structs import replace

from podtui.api.quantity import Format, Quantity
from podtui.api.times import parse_time, rfc3339_micros
from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.docker.answers import mapping
from podtui.runtime.docker.errors import Refused, translate_errors
from podtui.runtime.docker.host_files import HostFiles
from podtui.runtime.docker.inspection import log_path
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.log_stream import FramedLines, TerminalLines
from podtui.runtime.docker.removal import Ownership
from podtui.runtime.docker.wire import Response, pieces
from podtui.runtime.protocol import HostPathKind, LogLine, LogLines, LogOptions

_LOG = logging.getLogger(__name__)
_CALL_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 2.0
"""The initial poll interval without a trigger."""
_MAX_POLL_SECONDS: Final = 8.0
"""The longest poll interval, after polls without new lines: each poll costs CPU time."""
_GATHER_SECONDS: Final = 0.05
"""How long to collect triggers before one read."""
_CHUNK: Final = 64 * 1024
_REMEMBERED: Final = 8
_LEAST_TAIL: Final = 256
_NEWEST: Final = 5000
"""The number of newest lines to search first for a ``since`` time."""
_QUIET_TAIL: Final = 2 * _REMEMBERED
"""The number of newest lines to read first if no new lines are expected."""


LOST: Final = (
    "Lines are missing here: the engine rotated them away before they could be read"
    " (containerLogMaxSize, containerLogMaxFiles)"
)


class Rotation:
    """The log files that the engine keeps of an inspected container.

    The number of rotations is not recorded anywhere. Lines can only be lost once the maximum number
    of files exists, and they are certainly lost after one more rotation.
    """

    def __init__(self, inspection: dict[str, Any]) -> None:
        config = mapping(mapping(mapping(inspection, "HostConfig"), "LogConfig"), "Config")
        self.path = log_path(inspection)
        self._files = _number(str(config.get("max-file") or ""))
        self._size = _number(str(config.get("max-size") or ""))

    @property
    def oldest(self) -> tuple[str, ...]:
        """The possible names of the oldest file when the maximum number of files exists. Empty if
        the engine does not rotate, or if rotation leaves no trace."""
        if not self.path or not self._size or self._files < 2:
            return ()
        name = f"{self.path}.{self._files - 1}"
        return f"{name}.gz", name

    @property
    def older_lines(self) -> str:
        """A sentence about lines that may be missing before the oldest line."""
        size = Quantity.of(self._size, Format.BINARY_SI)
        return (
            f"Older lines may be gone: the engine keeps {self._files} files of {size}"
            " (containerLogMaxSize, containerLogMaxFiles)"
        )


def _number(text: str) -> int:
    """Parse a number in our format; 0 for other formats."""
    return int(text) if text.isdecimal() else 0


class _Hint(Enum):
    """A trigger from the engine's follow stream."""

    NEWS = auto()
    """There may be new lines."""
    NOTHING = auto()
    """The poll interval ended without a trigger."""
    END = auto()
    """The stream ended."""


class Trail:
    """The last lines seen of a log, to find the position again later.

    Unlike the screen's `Resumption`, which asks for a time and drops a prefix by time stamps alone,
    it searches backwards in tails of growing length, because an engine's filter by time skips
    rotated files. It therefore compares whole lines: many can have one time stamp.
    """

    def __init__(self) -> None:
        self._last: deque[LogLine] = deque(maxlen=_REMEMBERED)

    @property
    def empty(self) -> bool:
        return not self._last

    def add(self, lines: Sequence[LogLine]) -> None:
        self._last.extend(lines[-_REMEMBERED:])

    def ends_with(self, lines: deque[LogLine]) -> bool:
        """Return whether ``lines``, a part of the log, ends at this position. Compares backwards as
        many lines as both have."""
        pairs = zip(reversed(self._last), reversed(lines), strict=False)
        return bool(lines) and bool(self._last) and all(_equal(*pair) for pair in pairs)

    def after(self, lines: LogLines, passed: deque[LogLine]) -> LogLines | None:
        """Return the lines after this position; None if it is not in ``lines``. ``passed`` collects
        the last lines of the log up to there."""
        for number, line in enumerate(lines, 1):
            passed.append(line)
            if self.ends_with(passed):
                return lines[number:]
        return None

    def before(self, line: LogLine) -> bool:
        """Return whether all of the seen lines are older than ``line``."""
        # Time stamps of one log have the same length and zone, so they compare as text.
        return bool(self._last) and self._last[-1].timestamp < line.timestamp


class Logs:
    def __init__(self, connection: Connection, ownership: Ownership, host_files: HostFiles) -> None:
        self._connection = connection
        self._ownership = ownership
        self._host_files = host_files

    async def read(self, container_id: str, options: LogOptions) -> AsyncGenerator[LogLines]:
        link = self._connection.link
        inspection = await self._ownership.inspect(container_id)
        rotation = Rotation(inspection)
        log = ContainerLog(
            link,
            container_id,
            options,
            terminal=bool(inspection["Config"].get("Tty")),
            rotated=bool(rotation.oldest),
        )
        with translate_errors():
            tailed = options.tail is not None
            gaps = options.gaps and not (tailed and options.since is not None)
            oldest_matters = options.since is None and not tailed
            full = gaps and await self._has_all_files(rotation, ask_engine=oldest_matters)
            log.counts = full and tailed
            batches = self._followed(log) if options.follow else log.lines(options.tail)
            async with aclosing(batches):
                async for lines in batches:
                    yield _after_gap(lines, rotation.older_lines) if full and log.whole else lines
                    full = False

    async def _has_all_files(self, rotation: Rotation, *, ask_engine: bool) -> bool:
        """Return whether the maximum number of log files exists."""
        oldest = rotation.oldest
        if oldest and self._connection.link.info.local:
            here = await asyncio.to_thread(lambda: [*map(os.path.exists, (rotation.path, *oldest))])
            if here[0]:
                return any(here[1:])
        if not ask_engine:
            # Files on another host can only be inspected with a helper container.
            return False
        try:
            for path in oldest:
                if await self._host_files.kind(path) is HostPathKind.FILE:
                    return True
        except EngineError as error:
            _LOG.warning("can't tell whether %s was rotated: %s", rotation.path, error)
        return False

    async def _followed(self, log: ContainerLog) -> AsyncGenerator[LogLines]:
        trail = Trail()
        async with aclosing(log.first(trail)) as first:
            async for lines in first:
                yield lines
        try:
            while True:
                async with aclosing(log.lines_after(trail)) as lines_after:
                    async for lines in lines_after:
                        yield lines
                if log.options.until is not None or not await self._is_running(log.container_id):
                    return
        except Refused as error:
            # The container was removed meanwhile, so there are no more lines.
            if error.status != 404:
                raise

    async def _is_running(self, container_id: str) -> bool:
        """Check the container, because the engine's stream may end before the container does."""
        try:
            inspection = await self._ownership.inspect(container_id)
        except EngineNotFound:
            return False
        return bool(inspection["State"].get("Running"))


class ContainerLog:
    """One container's log on the engine. All methods raise `Refused`."""

    def __init__(
        self,
        link: Link,
        container_id: str,
        options: LogOptions,
        *,
        terminal: bool,
        rotated: bool = False,
    ) -> None:
        self._link = link
        # Docker, at least up to 20.10, skips all rotated files if the oldest of them ends before
        # ``since``. In that case, filter here.
        self._since = options.since if rotated else None
        self._path = f"/containers/{container_id}/logs"
        self._terminal = terminal
        self.container_id = container_id
        self.options = options
        self.whole = True
        """No line that the engine still has was skipped as too old."""
        self.counts = False
        """Count the lines of the tail first: fewer than requested means that the log has no
        more."""

    def lines(self, tail: int | None) -> AsyncGenerator[LogLines]:
        """Yield the existing lines that match the options, or the last ``tail`` of them."""
        if self.counts and tail is not None:
            return self._counted(tail)
        return self._read(tail) if self._since is None else self._not_before(self._since, tail)

    async def _counted(self, tail: int) -> AsyncGenerator[LogLines]:
        self.counts = False
        async with aclosing(self._read(tail)) as read:
            batches = [lines async for lines in read]
        self.whole = sum(map(len, batches)) < tail
        for lines in batches:
            yield lines

    async def _not_before(self, since: datetime, tail: int | None) -> AsyncGenerator[LogLines]:
        """Search ``since`` in the newest lines first, because reading a whole log can take
        seconds."""
        for size in (_NEWEST, None) if tail is None else (tail,):
            reached: bool | None = None
            async with aclosing(self._read(size)) as batches:
                async for lines in batches:
                    if reached is None:
                        self.whole = reached = not is_before(lines[0], since)
                        if reached and size == _NEWEST and tail is None:
                            break
                    if reached:
                        yield lines
                    elif rest := [*dropwhile(lambda line: is_before(line, since), lines)]:
                        reached = True
                        yield rest
                else:
                    return

    async def _read(self, tail: int | None) -> AsyncGenerator[LogLines]:
        query = self._query() | {"tail": "all" if tail is None else str(max(0, tail))}
        parser = TerminalLines() if self._terminal else FramedLines()
        async with self._link.wire.open(
            "GET", self._path, query=query, idle=_CALL_SECONDS
        ) as response:
            async for piece in pieces(response):
                if lines := parser.feed(piece):
                    yield lines
            if lines := parser.end():
                yield lines

    async def first(self, trail: Trail) -> AsyncGenerator[LogLines]:
        """Yield the requested lines that already exist."""
        wanted = self.options.tail
        tail = _REMEMBERED if wanted == 0 else wanted
        async with aclosing(self.lines(tail)) as batches:
            async for lines in batches:
                trail.add(lines)
                if wanted != 0:
                    yield lines

    async def lines_after(self, trail: Trail) -> AsyncGenerator[LogLines]:
        """Yield the lines after the trail, until the engine's follow stream ends."""
        query = self._query() | {"follow": "1", "tail": "0"}
        query.pop("since", None)
        tail, timeout, hint = _LEAST_TAIL, _POLL_SECONDS, _Hint.NEWS
        async with self._link.wire.open("GET", self._path, query=query) as hints:
            while True:
                count = 0
                async with aclosing(self._after(trail, tail)) as batches:
                    async for lines in batches:
                        trail.add(lines)
                        count += len(lines)
                        yield lines
                if hint is _Hint.END:
                    return
                # A stream that missed lines is unreliable, so poll at the short interval again.
                file_is_idle = hint is _Hint.NOTHING and not count
                timeout = min(_MAX_POLL_SECONDS, 2 * timeout) if file_is_idle else _POLL_SECONDS
                hint = await _wait_for_hint(hints, timeout)
                tail = _QUIET_TAIL if hint is _Hint.NOTHING else max(_LEAST_TAIL, 2 * count)

    async def _after(self, trail: Trail, tail: int) -> AsyncGenerator[LogLines]:
        """Yield the lines after the trail. Search for its end in the last ``tail`` lines first,
        then in more. If the engine has already deleted these lines, yield all that it has."""
        size = None if trail.empty else tail
        while size is not None:
            passed: deque[LogLine] = deque(maxlen=_REMEMBERED)
            count, reached = 0, False
            async with aclosing(self.lines(size)) as batches:
                async for lines in batches:
                    count += len(lines)
                    rest = lines if reached else trail.after(lines, passed)
                    reached = rest is not None
                    if rest:
                        yield rest
            if reached:
                return
            size = None if count < size else size * 8
        first = True
        async with aclosing(self.lines(None)) as batches:
            async for lines in batches:
                yield _after_gap(lines, LOST) if first and trail.before(lines[0]) else lines
                first = False

    def _query(self) -> dict[str, str]:
        query = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": "0"}
        if self.options.since is not None and self._since is None:
            query["since"] = _seconds(self.options.since)
        if self.options.until is not None:
            query["until"] = _seconds(self.options.until)
        return query


def _equal(line: LogLine, other: LogLine) -> bool:
    """Compare lines; gaps are found while reading, so they are not part of the log."""
    return (
        line.timestamp == other.timestamp
        and line.content == other.content
        and line.stream == other.stream
        and line.partial == other.partial
    )


def _after_gap(lines: LogLines, gap: str) -> LogLines:
    """Report lines that are missing right before the first of ``lines``."""
    return [replace(lines[0], gap=gap), *lines[1:]]


async def _wait_for_hint(hints: Response, timeout: float) -> _Hint:
    """Wait for a trigger."""
    try:
        async with asyncio.timeout(timeout):
            if not await hints.content.read(_CHUNK):
                return _Hint.END
    except TimeoutError:
        return _Hint.NOTHING
    try:
        async with asyncio.timeout(_GATHER_SECONDS):
            while await hints.content.read(_CHUNK):
                pass
    except TimeoutError:
        return _Hint.NEWS
    return _Hint.END


def is_before(line: LogLine, moment: datetime) -> bool:
    """Return whether a line was written before a moment; False if its time is malformed."""
    text = _stamp(moment)
    if len(line.timestamp) == len(text) and line.timestamp.endswith("Z"):
        return line.timestamp < text
    written = parse_time(line.timestamp)
    return written is not None and written < moment


@lru_cache(maxsize=16)
def _stamp(moment: datetime) -> str:
    """Format a time as Docker does."""
    return f"{rfc3339_micros(moment).removesuffix('Z')}000Z"


def _seconds(when: datetime) -> str:
    """Return Unix time with exact microseconds."""
    whole = int(when.replace(microsecond=0).timestamp())
    return f"{whole}.{when.microsecond:06}"
