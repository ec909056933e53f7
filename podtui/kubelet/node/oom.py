"""The kernel's out-of-memory killer, as its log tells of it (reference §14.3)."""

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
    """Takes the kernel's lines one by one. What a group of processes ran into is its container's
    own affair; what is left concerns the machine."""

    def __init__(self) -> None:
        self._under_way = False
        self._in_group = False

    def feed(self, line: str) -> tuple[str, int] | None:
        """Name and number of a process that was killed because the machine ran out of memory."""
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
    """Endless: a Warning on the node for every process that a machine out of memory lost. Ends
    where the kernel's log may not be read, and says so in ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        _LOG.info("no SystemOOM events: the kernel's log %s cannot be read: %s", path, error)
        return
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        await hear(events, descriptor)
    finally:
        os.close(descriptor)


async def hear(events: EventRecorder, descriptor: int) -> None:
    """The same of an open log that does not block, from where it stands."""
    parser = OomParser()
    async with aclosing(_records(descriptor)) as records:
        async for line in records:
            victim = parser.feed(line)
            if victim is not None:
                text = "System OOM encountered, victim process: {}, pid: {}".format(*victim)
                events.node(WARNING, "SystemOOM", text)


async def _records(descriptor: int) -> AsyncGenerator[str]:
    """The texts of the records that come from now on."""
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
            # "priority,sequence,time,flags;text", then lines about it that begin with a space
            yield record.decode("utf-8", "replace").partition(";")[2].partition("\n")[0]
    finally:
        loop.remove_reader(descriptor)
