"""Detect kills by the kernel's out-of-memory killer in its log (kubelet.md §14.3)."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from podtui.kubelet.events.recorder import WARNING, EventRecorder

_LOG = logging.getLogger(__name__)
_BEGIN: Final = "invoked oom-killer:"
_IN_GROUP: Final = re.compile(r"oom-kill:constraint=[^,]*,.*\boom_memcg=|^Task in /\S* killed as a")
_KILLED: Final = re.compile(r"Killed process ([0-9]+) \((.+)\)")
_RECORD_LIMIT: Final = 8192


class OomParser:
    """Parses the kernel's log line by line. Ignores kills caused by a cgroup limit, which concern
    only the container; all others concern the machine."""

    def __init__(self) -> None:
        self._under_way = False
        self._in_group = False

    def feed(self, line: str) -> tuple[str, int] | None:
        """Return name and PID of a process that was killed because the machine ran out of
        memory."""
        if _BEGIN in line:
            self._under_way, self._in_group = True, False
            return None
        if not self._under_way:
            return None
        if _IN_GROUP.search(line):
            self._in_group = True
        killed = _KILLED.search(line)
        if killed is None:
            return None
        self._under_way = False
        return None if self._in_group else (killed[2], int(killed[1]))


async def watch_oom(events: EventRecorder, path: str) -> None:
    """Watch the kernel's log forever, and record a Warning on the node for every process killed
    because the machine ran out of memory. If the log cannot be read, log that and return."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        _LOG.info("no SystemOOM events: the kernel's log %s cannot be read: %s", path, error)
        return
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        await watch_log(events, descriptor)
    finally:
        os.close(descriptor)


async def watch_log(events: EventRecorder, descriptor: int) -> None:
    """Read an open non-blocking log from its current position and record the kills."""
    parser = OomParser()
    async with aclosing(_records(descriptor)) as records:
        async for line in records:
            victim = parser.feed(line)
            if victim is not None:
                text = "System OOM encountered, victim process: {}, pid: {}".format(*victim)
                events.node(WARNING, "SystemOOM", text)


async def _records(descriptor: int) -> AsyncGenerator[str]:
    """Yield the texts of new log records."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD_LIMIT)
            except BlockingIOError:
                readable.clear()
                await readable.wait()
                continue
            except OSError as error:
                if error.errno != errno.EPIPE:  # some records were overwritten before we read them
                    raise
                continue
            # Format: "priority,sequence,time,flags;text", then continuation lines that start with a
            # space.
            yield record.decode("utf-8", "replace").partition(";")[2].partition("\n")[0]
    finally:
        loop.remove_reader(descriptor)
