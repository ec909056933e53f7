from __future__ import annotations

from textual.app import App, ComposeResult

from podtui.tui.widgets.text_view import Mark, TextView

YAML = "kind: Pod\nmetadata:\n  name: web # a name\nspec:\n  restart: 3\n"


class TextApp(App[None]):
    def __init__(self, *, line_numbers: bool = False) -> None:
        super().__init__()
        self.text_view = TextView(line_numbers=line_numbers)

    def compose(self) -> ComposeResult:
        yield self.text_view


def visible_rows(view: TextView) -> list[str]:
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def test_text_is_shown_unchanged() -> None:
    app = TextApp()
    async with app.run_test(size=(40, 10)):
        app.text_view.load(YAML, language="yaml")
        assert visible_rows(app.text_view)[:5] == YAML.splitlines()


async def test_keys_and_comments_have_different_colours() -> None:
    app = TextApp()
    async with app.run_test(size=(40, 10)):
        view = app.text_view
        view.load(YAML, language="yaml")
        styles = {s.text.strip(): s.style for s in view.render_line(2) if s.text.strip()}
        assert len({str(style) for style in styles.values()}) >= 3


async def test_marks_appear_below_their_line_at_their_column() -> None:
    app = TextApp(line_numbers=True)
    async with app.run_test(size=(60, 10)):
        view = app.text_view
        view.load(YAML, language="yaml", marks=[Mark(5, 3, "unknown field", "Error")])
        rows = visible_rows(view)
        assert rows[4].endswith("5   restart: 3")
        assert rows[5].endswith("▲   ^ unknown field")


async def test_search_wraps_around() -> None:
    app = TextApp()
    async with app.run_test(size=(40, 5)) as pilot:
        view = app.text_view
        view.load("\n".join(f"row {n}" for n in range(100)))
        await pilot.pause()
        view.search("row .5")
        assert view.match_count == 9
        view.next_match()
        assert view.match_number == 1
        view.previous_match()
        assert view.match_number == 9
        await pilot.pause()
        assert any("row 95" in row for row in visible_rows(view))
        view.search("")
        assert view.match_count == 0


async def test_long_lines_scroll_sideways() -> None:
    app = TextApp()
    async with app.run_test(size=(20, 5)) as pilot:
        view = app.text_view
        view.load("0123456789" * 5)
        view.focus()
        await pilot.press("right")
        assert visible_rows(view)[0].startswith("89012")
        await pilot.press("left")
        assert visible_rows(view)[0].startswith("01234")
