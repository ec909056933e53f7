from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.names import LOG_GAP
from podtui.client.protocol import LogQuery
from podtui.tui.screens.logs import earlier_lines
from podtui.tui.screens.logs.earlier_lines import PART_BYTES, EarlierLines
from podtui.tui.views.logs.target import DEFAULT_RANGE, RANGES, WHOLE_LOG, LogTarget, Range

PAGE = 10


@pytest.fixture(autouse=True)
def _small_pages() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(earlier_lines, "PAGE_LINES", PAGE)
        yield


def line(number: int, text: str = "") -> bytes:
    return b"2026-11-21T12:00:00.%09dZ %b" % (number, text.encode() or b"line %d" % number)


class Server:
    """A log that answers like a kubelet: the last lines, in batches. ``grow`` changes it before
    each answer."""

    def __init__(self, log: list[bytes], grow: Callable[[list[bytes]], None] | None = None) -> None:
        self.log = log
        self.grow = grow
        self.queries: list[LogQuery] = []
        self.gap = ""
        self.sent = 0

    async def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[list[bytes]]:
        self.queries.append(query)
        if self.grow is not None:
            self.grow(self.log)
        lines = self.log if query.tail is None else self.log[-query.tail :]
        if query.gaps and self.gap:
            yield [LOG_GAP.encode() + self.gap.encode()]
        for start in range(0, len(lines), 3):
            self.sent += 3
            yield lines[start : start + 3]


def earlier_of(server: Server, shown: int, range_: Range = DEFAULT_RANGE) -> EarlierLines:
    """Return the earlier lines of a log whose last lines are shown."""
    target = LogTarget("uid", "default", "web", "app", range=range_)
    earlier = EarlierLines(server, target)  # type: ignore[arg-type]
    lines = server.log[-shown:]
    for start in range(0, len(lines), 4):
        earlier.add(lines[start : start + 4], "a")
    return earlier


async def all_before(earlier: EarlierLines) -> list[bytes]:
    found: list[bytes] = []
    for _ in range(100):
        page = await earlier.page(previous=False)
        found = [*page.lines, *found]
        if not page.more:
            return found
    pytest.fail("the pages do not end")


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=120), st.data(), st.sampled_from([0, 1, 4, 30])
)
async def test_the_pages_are_all_earlier_lines_in_order(
    steps: list[int], data: st.DataObject, speed: int
) -> None:
    """Also if lines have the same time, and while new lines arrive."""
    time = 0
    log: list[bytes] = []
    for step in steps:
        time += step
        log.append(line(time, f"{len(log)}"))
    shown = data.draw(st.integers(1, len(log)))
    before = log[:-shown]

    def grow(log: list[bytes]) -> None:
        log += [line(time + 1 + n) for n in range(len(log), len(log) + speed)]

    server = Server(list(log))
    earlier = earlier_of(server, shown)
    server.grow = grow
    assert await all_before(earlier) == before
    assert earlier.loaded == len(before)


async def test_a_page_of_lines_with_the_time_of_the_first_line_is_loaded_once() -> None:
    log = [line(0, f"{number}") for number in range(PAGE + 1)]
    assert await all_before(earlier_of(Server(log), 1)) == log[:-1]


async def test_a_page_reads_no_more_than_the_page() -> None:
    server = Server([line(n) for n in range(5000)])
    page = await earlier_of(server, 4000).page(previous=False)
    assert [*page.lines] == [line(n) for n in range(1000 - PAGE, 1000)]
    assert server.sent <= PAGE + 6


async def test_lines_that_were_deleted_meanwhile_are_reported() -> None:
    server = Server([line(n) for n in range(100)])
    earlier = earlier_of(server, 50)
    server.log = [line(n) for n in range(70, 120)]
    page = await earlier.page(previous=False)
    assert not page.more
    assert not page.lines
    assert "Earlier lines are gone" in page.gap


async def test_the_agents_remark_is_above_the_oldest_line() -> None:
    server = Server([line(n) for n in range(25)])
    server.gap = "Older lines may be gone"
    earlier = earlier_of(server, 10)
    assert (await earlier.page(previous=False)).gap == ""
    page = await earlier.page(previous=False)
    assert (len(page.lines), page.more, page.gap) == (5, False, "Older lines may be gone")


async def test_a_page_of_long_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_lines, "MAX_PAGE_BYTES", 1000)
    log = [line(n, "x" * 300) for n in range(20)]
    server = Server(log)
    earlier = earlier_of(server, 10)
    page = await earlier.page(previous=False)
    assert [*page.lines] == log[7:10]
    assert page.more
    assert await all_before(earlier) == log[:7]


@pytest.mark.parametrize(("count", "exist"), [(10, False), (11, True)])
async def test_the_server_knows_whether_earlier_lines_exist(count: int, exist: bool) -> None:
    server = Server([line(n) for n in range(count)])
    earlier = earlier_of(server, 10)
    assert await earlier.exist(previous=True) is exist
    assert server.queries[0].previous


def test_earlier_lines_may_exist_above_a_full_tail() -> None:
    few = Range("", tail=8)
    server = Server([line(n) for n in range(10)])
    assert not earlier_of(server, 7, few).may_exist
    assert earlier_of(server, 8, few).may_exist
    assert earlier_of(server, 1, next(r for r in RANGES if r.since)).may_exist
    assert not earlier_of(server, 10, WHOLE_LOG).may_exist
    # A server counts each part of a long line, and sends fewer lines.
    server = Server([line(n, "x" * 2 * PART_BYTES) for n in range(3)])
    assert earlier_of(server, 3, few).may_exist
    # Without times, earlier lines cannot be told from shown ones.
    assert not earlier_of(Server([b"no time"] * 9), 9, few).may_exist


def test_lines_of_the_next_instance_do_not_count() -> None:
    few = Range("", tail=8)
    earlier = earlier_of(Server([line(n) for n in range(5)]), 5, few)
    earlier.add([line(n) for n in range(5, 20)], "b")
    assert not earlier.may_exist
    assert earlier.instance == "a"
