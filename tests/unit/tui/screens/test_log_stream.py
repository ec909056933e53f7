from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest
from msgspec import structs
from tui_scene import ended, pod, status

from podtui.api.times import parse_time
from podtui.api.v1 import ContainerState, ContainerStateWaiting, Pod
from podtui.client.protocol import LogQuery
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.screens.logs import log_stream
from podtui.tui.screens.logs.log_stream import LogStream, Resumption
from podtui.tui.views.logs.line_buffer import GAP, RULE
from podtui.tui.views.logs.target import RANGES, LogTarget

pytestmark = pytest.mark.virtual_time


class Waits:
    """A stream that delivers nothing for now."""


class Script:
    """A client with scripted streams, one after the other."""

    def __init__(self, *streams: object) -> None:
        self.streams = list(streams)
        self.queries: list[LogQuery] = []

    async def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[list[bytes]]:
        self.queries.append(query)
        stream = self.streams.pop(0) if self.streams else ()
        for batch in stream:
            if isinstance(batch, Exception):
                raise batch
            if isinstance(batch, Waits):
                await asyncio.Event().wait()
            yield batch
        if not self.streams:
            await asyncio.Event().wait()


WAITING = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))


class Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.states: list[str] = []

    def take_lines(self, source: int, lines: list[bytes]) -> None:
        self.lines += [line.decode().partition(" ")[2] for line in lines]

    def take_remark(self, source: int, tag: int, text: str, stamp: int = 0) -> None:
        self.lines.append(f"{ {GAP: 'GAP', RULE: 'RULE'}[tag] } {text}")

    def take_state(self, source: int, state: str, *, quiet: bool) -> None:
        self.states.append(state)


def line(second: int, text: str) -> bytes:
    return f"2026-11-21T12:00:{second:02d}Z {text}".encode()


async def hear(script: Script, target: LogTarget, count: int) -> Heard:
    heard = Heard()
    stream = LogStream(script, target, 0, heard, pod("web", status()))  # type: ignore[arg-type]
    task = asyncio.get_running_loop().create_task(stream.run())
    for _ in range(500):
        if len(heard.lines) >= count or task.done():
            break
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return heard


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


CUT = "the log was cut while it could not be read"
TARGET = LogTarget("uid-web", "default", "web-n1", "app")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "RETRY", 0.001)


async def test_a_broken_stream_is_reopened_without_repeating_a_line() -> None:
    script = Script(
        ([line(1, "a"), line(2, "b")], AgentUnavailable("gone")),
        ([line(1, "a"), line(2, "b"), line(3, "c")],),
    )
    heard = await hear(script, TARGET, 3)
    assert heard.lines == ["a", "b", "c"]
    assert "The agent does not respond: gone" in heard.states
    assert heard.states[-1] == ""
    first, second = script.queries
    assert (first.tail, first.since_seconds) == (5000, None)
    assert second.tail is None
    assert parse_time(second.since_time) == datetime(2026, 11, 21, 12, 0, 2, tzinfo=UTC)


async def test_an_error_disappears_when_a_quiet_log_is_open_again() -> None:
    """After a restart of the agent, no line may come for hours."""
    script = Script(
        ([line(1, "a")], ApiError(404, "NotFound", 'pod "web" does not exist')),
        ([line(1, "a")], Waits()),
    )
    heard = Heard()
    stream = LogStream(script, TARGET, 0, heard, pod("web", status()))  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(stream.run())
        await until(lambda: 'pod "web" does not exist' in heard.states)
        await until(lambda: len(script.queries) == 2)
        await until(lambda: heard.states[-1] == "")
        task.cancel()
    assert heard.lines == ["a"]


@pytest.mark.parametrize(
    "stamp", ["2026-11-21T12:00:01.987654321Z", "2026-11-21T13:00:01.98+01:00"]
)
async def test_missed_lines_are_requested_by_the_logs_timestamps(stamp: str) -> None:
    script = Script(([f"{stamp} a".encode()], AgentUnavailable("gone")), ([line(9, "b")],))
    await hear(script, TARGET, 3)
    second = script.queries[1]
    assert parse_time(second.since_time) == datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)
    assert second.since_seconds is None


async def test_a_log_with_invalid_times_is_requested_again_completely() -> None:
    stamp = "0001-01-01T00:00:00+14:00"
    script = Script(([f"{stamp} a".encode()], AgentUnavailable("gone")), ([line(9, "b")],))
    heard = await hear(script, TARGET, 3)
    assert heard.lines[0] == "a"
    assert heard.lines[-1] == "b"
    assert (script.queries[1].since_time, script.queries[1].since_seconds) == ("", None)


async def test_a_stream_that_ends_before_its_container_is_reopened() -> None:
    script = Script(([line(1, "a")],), ([line(1, "a"), line(2, "b")],), ([line(3, "c")],))
    heard = await hear(script, TARGET, 4)
    assert heard.lines[:2] == ["a", "b"]
    assert heard.lines[-1] == "c"


async def test_the_log_of_a_terminated_container_is_requested_once() -> None:
    script = Script(([line(1, "a")],), ([line(1, "a")],), ())
    heard = Heard()
    over = pod("web", status(state=ended(0, seconds=1)))
    async with asyncio.TaskGroup() as group:
        stream = LogStream(script, TARGET, 0, heard, over)  # type: ignore[arg-type]
        task = group.create_task(stream.run())
        await until(lambda: heard.states[-1:] == [""])
        await asyncio.sleep(600 * log_stream.RETRY)
        assert not task.done(), "it waits for the next instance"
        task.cancel()
    assert heard.lines == ["a"]
    assert len(script.queries) == 1


@pytest.mark.parametrize("vanished", [False, True])
@pytest.mark.parametrize("first", [True, False], ids=["lines before", "no line before"])
async def test_the_next_instance_continues_below_a_separator(first: bool, vanished: bool) -> None:
    """Only if lines of the previous instance are shown; otherwise nothing is missing."""
    before = [line(1, "a")] if first else []
    batches = [()] if vanished else []
    script, heard = Script((before,), *batches, ([line(40, "b")],)), Heard()
    over = pod("web", status(state=ended(2, seconds=1)))
    stream = LogStream(script, TARGET, 0, heard, over)  # type: ignore[arg-type]
    task = asyncio.get_running_loop().create_task(stream.run())
    await until(lambda: "The log is empty." in heard.states or heard.states[-1:] == [""])
    if vanished:
        stream.publish(pod("web", structs.replace(status(), containerID="", state=WAITING)))
        await asyncio.sleep(0.01)
    stream.publish(pod("web", status(restarts=1, last=ended(2, seconds=1))))
    await until(lambda: heard.lines[-1:] == ["b"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    rules = [text for text in heard.lines if text.startswith("RULE app ended with exit code 2")]
    assert len(rules) == first
    assert heard.lines == [*(["a"] * first), *rules, "b"]


async def test_lines_lost_before_a_reconnect_are_a_gap() -> None:
    script = Script(([line(1, "a")], ApiError(500, "InternalError", "broken")), ([line(40, "z")],))
    heard = await hear(script, TARGET, 3)
    assert heard.lines == [
        "a",
        f"GAP … lines between 12:00:01.000 and 12:00:40.000 are not shown: {CUT}",
        "z",
    ]


async def test_the_range_is_requested_until_a_line_arrives() -> None:
    target = LogTarget("uid-web", "default", "web-n1", "app", range=RANGES[2])
    script = Script((ApiError(400, "BadRequest", "waiting"),), ([line(1, "a")],))
    heard = await hear(script, target, 1)
    assert heard.lines == ["a"]
    assert [query.since_seconds for query in script.queries] == [300, 300]


async def test_the_previous_log_ends() -> None:
    target = LogTarget("uid-web", "default", "web-n1", "app", previous=True)
    script = Script(([line(1, "a")],), ())
    heard = Heard()
    old = pod("web", status(restarts=1, last=ended(2, seconds=1)))
    await LogStream(script, target, 0, heard, old).run()  # type: ignore[arg-type]
    assert heard.lines[0].startswith("RULE app, the first instance")
    assert heard.lines[1] == "a"
    assert heard.lines[2].startswith("RULE app ended with exit code 2 (Error), restart 1")
    assert script.queries[0].previous
    assert not script.queries[0].follow


GONE = b"podtui-log-gap Older lines \x1b[2Jare gone"
GAP_LINE = "GAP ▲ Older lines are gone"


@pytest.mark.parametrize(
    "batches",
    [
        ([GONE, line(1, "a"), line(2, "b"), GONE, line(3, "c")],),
        ([GONE], [line(1, "a")], [line(2, "b"), GONE], [line(3, "c")]),
    ],
)
async def test_gaps_reported_by_the_agent_appear_in_place(
    batches: tuple[list[bytes], ...],
) -> None:
    script = Script(batches)
    heard = await hear(script, TARGET, 5)
    assert heard.lines == [GAP_LINE, "a", "b", GAP_LINE, "c"]
    assert script.queries[0].gaps


async def test_a_gap_before_shown_lines_is_not_reported_again() -> None:
    script = Script(
        ([GONE, line(1, "a"), line(2, "b")], AgentUnavailable("gone")),
        ([GONE, line(2, "b"), line(3, "c")], AgentUnavailable("gone")),
        ([GONE, line(5, "e")],),
    )
    heard = await hear(script, TARGET, 6)
    assert heard.lines == [
        GAP_LINE, "a", "b", "c",
        f"GAP … lines between 12:00:03.000 and 12:00:05.000 are not shown: {CUT}", "e",
    ]  # fmt: skip


def test_a_broken_stream_continues_without_repeated_or_missing_lines() -> None:
    resumption = Resumption()
    resumption.take([line(1, "x"), line(2, "a"), line(2, "b")])
    resumption.reopen()
    assert resumption.take([line(1, "x"), line(2, "a")]) == ()
    assert list(resumption.take([line(2, "b"), line(2, "c"), line(3, "x")])) == [
        line(2, "c"),
        line(3, "x"),
    ]
    assert not resumption.lost_after


def test_a_log_truncated_meanwhile_is_reported_once() -> None:
    resumption = Resumption()
    resumption.take([line(1, "x"), line(2, "x")])
    resumption.reopen()
    assert list(resumption.take([line(30, "x")])) == [line(30, "x")]
    assert resumption.lost_after == b"2026-11-21T12:00:02"
    resumption.take([line(31, "x")])
    assert not resumption.lost_after


def test_the_next_instance_is_not_compared_with_the_last() -> None:
    resumption = Resumption()
    resumption.take([line(1, "x")])
    resumption.reopen(same_log=False)
    assert list(resumption.take([line(30, "x")])) == [line(30, "x")]
    assert not resumption.lost_after


def test_a_reopened_stream_repeats_nothing() -> None:
    resumption = Resumption()
    first = [line(1, "a"), line(2, "b"), line(2, "c")]
    assert list(resumption.take(first)) == first
    resumption.reopen()
    again = [line(1, "a"), line(2, "b")]
    assert list(resumption.take(again)) == []
    rest = [line(2, "c"), line(2, "d"), line(3, "e")]
    assert list(resumption.take(rest)) == rest[1:]
    assert list(resumption.take([line(3, "f")])) == [line(3, "f")]
    resumption.reopen()
    assert list(resumption.take([b"2026-11-21T12:00:03.5Z g"])) == [b"2026-11-21T12:00:03.5Z g"]


@pytest.mark.parametrize(
    ("now", "last", "previous"),
    [("a", "", False), ("b", "a", True), ("c", "b", None)],
    ids=["the same instance", "restarted once", "restarted twice"],
)
async def test_earlier_lines_are_in_the_log_of_the_instance_that_wrote_the_first_line(
    now: str, last: str, previous: bool | None
) -> None:
    def instance(name: str, before: str) -> Pod:
        state = structs.replace(ended(1, seconds=1).terminated, containerID=before)  # type: ignore[arg-type]
        return pod(
            "web",
            structs.replace(
                status(restarts=1),
                containerID=name,
                lastState=ContainerState(terminated=state if before else None),
            ),
        )

    script = Script(([line(1, "a")], Waits()))
    heard = Heard()
    stream = LogStream(script, TARGET, 0, heard, instance("a", ""))  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(stream.run())
        await until(lambda: heard.lines)
        stream.publish(instance(now, last))
        assert stream.first_is_previous is previous
        task.cancel()
