from __future__ import annotations

from textual.app import App, ComposeResult

from podtui.tui.log_time import Times
from podtui.tui.log_view import LogView

STAMP = b"2026-11-21T07:08:09.123456789Z "


class LogApp(App[None]):
    CSS = "LogView { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield LogView()

    @property
    def log_view(self) -> LogView:
        return self.query_one(LogView)


def shown(view: LogView) -> list[str]:
    """Rows without their gutters."""
    return [view.render_line(y).text.rstrip()[3:] for y in range(view.size.height)]


def numbered(count: int, start: int = 0, text: bytes = b"line") -> list[bytes]:
    return [STAMP + text + b" %d" % n for n in range(start, start + count)]


async def fill(app: LogApp, lines: list[bytes]) -> LogView:
    view = app.log_view
    view.write(lines)
    view._frame()
    return view


async def test_follows_the_end_and_hides_the_stamps() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)):
        view = await fill(app, numbered(100))
        assert shown(view)[-1] == "line 99"
        view.write(numbered(5, 100))
        view._frame()
        assert shown(view)[-1] == "line 104"
        view.times = Times.ABSOLUTE
        assert shown(view)[-1] == "07:08:09.123 line 104"


async def test_scrolling_up_stops_following_and_the_end_starts_it_again() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(100))
        view.focus()
        await pilot.press("g")
        await pilot.pause()
        assert not view.follow
        assert shown(view)[0] == "line 0"
        view.write(numbered(50, 100))
        view._frame()
        assert shown(view)[0] == "line 0"
        await pilot.press("G")
        await pilot.pause()
        assert view.follow
        assert shown(view)[-1] == "line 149"


async def test_wrapping_keeps_the_end_in_view() -> None:
    app = LogApp()
    async with app.run_test(size=(20, 6)) as pilot:
        view = await fill(app, [STAMP + b"a" * 45, STAMP + b"b" * 25])
        view.wrap = True
        await pilot.pause()
        width = view.scrollable_content_region.width
        rows = -(-45 // width) + -(-25 // width)
        assert view.virtual_size.height == rows
        assert shown(view)[rows - 1].strip("b") == ""
        view.wrap = False
        assert view.virtual_size.height == 2


async def test_search_counts_walks_and_follows_new_lines() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)):
        view = await fill(app, numbered(3000))
        view.search("line 1.99$".replace("$", ""))
        view._frame()
        assert view.match_count == sum(
            1 for n in range(3000) if str(n)[:1] == "1" and "99" in str(n)[2:4]
        )
        view.next_match()
        first = view.match_number
        view.next_match()
        assert view.match_number == first % view.match_count + 1
        assert not view.follow
        before = view.match_count
        view.write(numbered(1, 1199))
        view._frame()
        assert view.match_count == before + 1
        view.search("")
        assert view.match_count == 0


async def test_dropped_lines_do_not_move_what_is_read() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.log_view
        view.buffer.disk_bytes = 300_000
        view.buffer._store._segment_bytes = 100_000
        view.write(numbered(10_000))
        view._frame()
        view.focus()
        await pilot.press("pageup")
        await pilot.pause()
        top = shown(view)[0]
        view.write(numbered(5_000, 10_000))
        view._frame()
        assert view.buffer.dropped > 0
        assert shown(view)[0] == top


async def test_a_burst_costs_one_pass_a_frame_not_a_line() -> None:
    app = LogApp()
    async with app.run_test(size=(80, 24)):
        view = app.log_view
        passes = 0
        original = view.lines.refresh

        def counted() -> None:
            nonlocal passes
            passes += 1
            original()

        view.lines.refresh = counted  # type: ignore[method-assign]
        for start in range(0, 10_000, 100):
            view.write(numbered(100, start))
        view._frame()
        view._frame()
        assert passes == 1
        assert shown(view)[-1] == "line 9999"


async def test_gaps_and_emptiness_are_said() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.log_view
        view.empty_text = "waiting to start"
        assert any("waiting to start" in row for row in shown(view))
        words = "no log yet: the image registry.example/漢字 could not be found anywhere"
        view.empty_text = words
        said = [row for row in shown(view) if row]
        assert len(said) > 1
        assert " ".join(" ".join(said).split()) == words
        assert all(view.render_line(y).cell_length == 40 for y in range(10))
        await pilot.resize_terminal(90, 10)
        assert len([row for row in shown(view) if row]) == 1
        view.mark_gap("17 lines lost")
        view._frame()
        assert "17 lines lost" in shown(view)[0]
