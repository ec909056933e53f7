"""Messages of the kernel about processes that it killed."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from virtual_time import VirtualClock, settle

from podtui.agent.home import HomeEvents
from podtui.api.v1 import Event
from podtui.kubelet.events.recorder import EventRecorder
from podtui.kubelet.node.oom import OomParser, watch_log, watch_oom
from podtui.store import open_store

GLOBAL = (
    "stress invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0",
    "Mem-Info:",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/,task=stress,pid=4",
    "Out of memory: Killed process 4242 (stress) total-vm:1kB, anon-rss:1kB, file-rss:0kB",
)
GROUP = (
    "tail invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=1000",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/docker/abc,task=tail,pid=77",
    "Memory cgroup out of memory: Killed process 77 (tail) total-vm:1kB, anon-rss:1kB",
)
OLD_GROUP = (
    "tail invoked oom-killer: gfp_mask=0x24000c0, order=0",
    "Task in /docker/abc killed as a result of limit of /docker/abc",
    "Killed process 78 (tail) total-vm:1kB, anon-rss:1kB",
)


def victims(*lines: str) -> list[tuple[str, int]]:
    parser = OomParser()
    return [found for line in lines if (found := parser.feed(line)) is not None]


def test_a_machine_out_of_memory():
    assert victims(*GLOBAL) == [("stress", 4242)]


@pytest.mark.parametrize("lines", [GROUP, OLD_GROUP])
def test_a_container_oom_is_not_a_system_oom(lines):
    assert victims(*lines) == []
    assert victims(*lines, *GLOBAL, *lines) == [("stress", 4242)]


def test_a_kill_line_without_its_start_is_ignored():
    assert victims(GLOBAL[-1], "Killed process 1 (x)") == []


def test_process_names_may_contain_brackets_and_spaces():
    assert victims(GLOBAL[0], "Killed process 9 (a (b) c) total-vm:1kB") == [("a (b) c", 9)]


async def test_the_log_becomes_an_event_on_the_node() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    events = EventRecorder(HomeEvents(store, clock), clock, "n1")
    kernel, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with kernel, ours:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(watch_log(events, ours.fileno()))
            for number, line in enumerate((*GROUP, *GLOBAL)):
                kernel.send(f"6,{number},123,-;{line}\n SUBSYSTEM=x\n".encode())
            async with asyncio.timeout(120):
                while not (found := (await store.list("events")).items):
                    await events.drain()
                    await asyncio.sleep(0.01)
            listening.cancel()
    (event,) = (one for one in found if isinstance(one, Event))
    assert (event.type, event.reason) == ("Warning", "SystemOOM")
    assert event.message == "System OOM encountered, victim process: stress, pid: 4242"
    assert event.involvedObject.kind == "Node"
    await settle()


async def test_an_unreadable_kernel_log_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    events = EventRecorder(HomeEvents(open_store(None, clock=clock), clock), clock, "n1")
    with caplog.at_level(logging.INFO):
        await watch_oom(events, "/nowhere/kmsg")
    assert "no SystemOOM events" in caplog.text
