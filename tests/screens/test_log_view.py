from __future__ import annotations

import asyncio

from log_app import STAMP, LogApp, fill, numbered

from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.views.logs.filters import parse_log_filter
from podtui.tui.views.logs.line_buffer import GAP
from podtui.tui.views.logs.times import Times


def visible_rows(view: LogView) -> list[str]:
    """Return the rows without their gutters."""
    return [view.render_line(y).text.rstrip()[3:] for y in range(view.size.height)]


async def test_follows_the_end_and_hides_timestamps() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)):
        view = await fill(app, numbered(100))
        assert visible_rows(view)[-1] == "line 99"
        view.write(numbered(5, 100))
        view.draw_frame()
        assert visible_rows(view)[-1] == "line 104"
        view.times = Times.ABSOLUTE
        assert visible_rows(view)[-1] == "07:08:09.123 line 104"


async def test_scrolling_up_stops_following_and_end_resumes_it() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(100))
        view.focus()
        await pilot.press("g")
        await pilot.pause()
        assert not view.follow
        assert visible_rows(view)[0] == "line 0"
        view.write(numbered(50, 100))
        view.draw_frame()
        assert visible_rows(view)[0] == "line 0"
        await pilot.press("G")
        await pilot.pause()
        assert view.follow
        assert visible_rows(view)[-1] == "line 149"


async def test_wrapping_keeps_the_end_in_view() -> None:
    app = LogApp()
    async with app.run_test(size=(20, 6)) as pilot:
        view = await fill(app, [STAMP + b"a" * 45, STAMP + b"b" * 25])
        view.wrap = True
        await pilot.pause()
        width = view.scrollable_content_region.width
        rows = -(-45 // width) + -(-25 // width)
        assert view.virtual_size.height == rows
        assert visible_rows(view)[rows - 1].strip("b") == ""
        view.wrap = False
        assert view.virtual_size.height == 2


async def test_search_counts_matches_and_includes_new_lines() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)):
        view = await fill(app, numbered(3000))
        view.search("line 1.99$".replace("$", ""))
        view.draw_frame()
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
        view.draw_frame()
        assert view.match_count == before + 1
        view.search("")
        assert view.match_count == 0


async def test_dropped_lines_do_not_move_the_visible_lines() -> None:
    app = LogApp(disk_bytes=300_000)
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.log_view
        view.write(numbered(10_000))
        view.draw_frame()
        view.focus()
        await pilot.press("pageup")
        await pilot.pause()
        top = visible_rows(view)[0]
        view.write(numbered(5_000, 10_000))
        view.draw_frame()
        assert view.buffer.dropped > 0
        assert visible_rows(view)[0] == top


async def test_a_burst_is_processed_once_for_each_frame() -> None:
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
        view.draw_frame()
        view.draw_frame()
        assert passes == 1
        assert visible_rows(view)[-1] == "line 9999"


async def test_gaps_and_empty_logs_are_reported() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.log_view
        view.empty_text = "waiting to start"
        assert any("waiting to start" in row for row in visible_rows(view))
        words = "no log yet: the image registry.example/漢字 could not be found anywhere"
        view.empty_text = words
        rows = [row for row in visible_rows(view) if row]
        assert len(rows) > 1
        assert " ".join(" ".join(rows).split()) == words
        assert all(view.render_line(y).cell_length == view.shown_width for y in range(10))
        await pilot.resize_terminal(90, 10)
        assert len([row for row in visible_rows(view) if row]) == 1
        view.add([0], [b"17 lines lost"], GAP)
        view.draw_frame()
        assert "17 lines lost" in visible_rows(view)[0]


async def test_keys_work_during_a_search_of_a_million_words() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(60_000))
        turns = 0
        view.ask(filter=parse_log_filter("-f 9l"))
        view.search("9")
        while view.lines.progress < 1:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 5
        assert view.lines.rows.rows == 0
        await pilot.pause()
        assert any("No line passes" in row for row in visible_rows(view))


async def test_the_cursor_moves_by_line_and_follows_at_the_end() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(100))
        view.focus()
        await pilot.press("k", "k")
        assert not view.follow
        assert view.current == 97
        await pilot.press("j")
        assert view.current == 98
        await pilot.press("j", "j")
        assert view.follow
        await pilot.press("g", "j", "j")
        assert (view.current, visible_rows(view)[0]) == (2, "line 0")
        for _ in range(12):
            await pilot.press("j")
        assert view.current == 14
        assert visible_rows(view)[-1] == "line 14"
        await pilot.click(view, offset=(5, 3))
        assert visible_rows(view)[3] == f"line {view.current}"


async def test_a_line_taller_than_the_view_scrolls_by_row() -> None:
    app = LogApp()
    async with app.run_test(size=(20, 6)) as pilot:
        tall = b"".join(b"%04d " % n for n in range(60))
        view = await fill(app, [STAMP + b"first", STAMP + tall, STAMP + b"last"])
        view.wrap = True
        view.focus()
        await pilot.press("g")
        seen = "".join(visible_rows(view))
        for _ in range(60):
            await pilot.press("j")
            seen += "".join(visible_rows(view))
        assert all(f"{n:04d}" in seen.replace("\n", "") for n in range(60))
        assert view.follow


async def test_json_expands_below_its_line() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 12)) as pilot:
        view = await fill(app, [STAMP + b"plain", STAMP + b'{"a": 1, "b": "x"}', STAMP + b"end"])
        view.focus()
        await pilot.press("k")
        assert view.toggle_json()
        assert [row for row in visible_rows(view) if row] == [
            "plain", '{"a": 1, "b": "x"}', "{", '  "a": 1,', '  "b": "x"', "}", "end",
        ]  # fmt: skip
        assert view.toggle_json()
        assert len([row for row in visible_rows(view) if row]) == 3
        await pilot.press("k")
        assert not view.toggle_json()
        view.json_all = True
        assert len([row for row in visible_rows(view) if row]) == 7


async def test_filtering_keeps_the_current_line_visible() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(3000))
        view.go_to(1777)
        view.ask(filter=parse_log_filter("77"))
        view.draw_frame()
        await pilot.pause()
        assert view.lines.progress == 1
        assert view.current == 1777
        assert "line 1777" in visible_rows(view)
        view.ask(filter=parse_log_filter(""))
        await pilot.pause()
        assert view.current == 1777
        assert "line 1777" in visible_rows(view)


async def test_dropped_lines_are_reported_at_the_top() -> None:
    app = LogApp(disk_bytes=300_000)
    async with app.run_test(size=(60, 10)) as pilot:
        view = app.log_view
        for start in range(0, 20_000, 1000):
            view.write(numbered(1000, start))
            view.draw_frame()
        view.focus()
        await pilot.press("g")
        assert f"… {view.buffer.dropped:,} lines not kept" in view.render_line(0).text
        assert visible_rows(view)[1] == f"line {view.buffer.first}"


async def test_the_scroll_bar_covers_no_cell_of_a_wrapped_line() -> None:
    app = LogApp()
    async with app.run_test(size=(30, 8)) as pilot:
        text = b"".join(b"%c" % (33 + n % 90) for n in range(100))
        view = await fill(app, [STAMP + text])
        view.wrap = True
        await pilot.pause()
        rows = [view.render_line(y) for y in range(view.size.height)]
        assert all(row.cell_length == view.scrollable_content_region.width for row in rows)
        assert view.scrollable_content_region.width == 29
        assert "".join(row.text[3:] for row in rows).strip() == text.decode()


async def test_find_jumps_to_the_first_match_while_typing_and_returns_on_cancel() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(20_000))
        view.begin_find()
        view.search("line 1[0-9]{3}$")
        view.seek()
        while view.lines.progress < 1:
            await pilot.pause()
            view.draw_frame()
        assert not view.follow
        assert (view.match_number, view.match_count) == (1, 1000)
        assert view.current == 1000
        view.search("line 77")
        view.seek()
        while view.lines.progress < 1:
            await pilot.pause()
            view.draw_frame()
        assert view.current == 77
        view.search("")
        view.end_find()
        assert view.follow

        view.go_to(500)
        view.begin_find()
        for pattern, place in (("line 5[0-9]{2}$", 500), ("line 88$", 88), ("none", 500)):
            view.search(pattern)
            view.seek()
            while view.lines.progress < 1:
                await pilot.pause()
                view.draw_frame()
            assert pattern == "none" or view.current == place
        view.end_find()
        assert view.current == 500
        assert not view.follow


async def test_a_search_finds_lines_that_are_not_drawn_yet() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)):
        view = await fill(app, numbered(100))
        view.begin_find()
        # Several chunks between two frames, like a fast log while keys are pressed.
        view.write(numbered(20_000, 100))
        view.search("line 20099$")
        view.seek()
        assert view.current == 20_099
        assert "line 20099" in visible_rows(view)
        view.go_to(0)
        view.begin_find()
        view.write(numbered(20_000, 20_100))
        view.search("line 40099$")
        view.seek()
        assert view.current == 40_099
        assert "line 40099" in visible_rows(view)


async def test_a_frame_after_the_view_was_removed_draws_nothing() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)):
        view = await fill(app, numbered(20_000))
        view.go_to(15_000)
        view.search("line")
        await view.remove()
        view.draw_frame()
        assert view.current is None


async def test_a_find_does_not_move_a_cursor_that_moved_meanwhile() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(50_000))
        view.begin_find()
        view.search("line")
        view.seek()
        view.go_to(30_000)
        view.action_scroll_down()
        while view.lines.progress < 1:
            await pilot.pause()
            view.draw_frame()
        assert view.current == 30_001
