"""Keys: their notation, errors in key maps, and the list of keys."""

from __future__ import annotations

from tui_app import running, wait_for

from podtui.tui.widgets.cells import width_of
from podtui.tui.widgets.tones import LinesView


async def test_help_and_commands_fit_into_forty_columns() -> None:
    async with running(size=(40, 20)) as (app, pilot):
        for key, words in (
            ("question_mark", "Go to the log of the pod"),
            ("ctrl+a", "Leave the screen"),
        ):
            await pilot.press(key)
            await wait_for(pilot, lambda: len(app.screen_stack) == 2, "the list")
            view = app.screen.query_one(LinesView)
            await wait_for(pilot, lambda view=view: view.lines, "lines")
            width = view.scrollable_content_region.width
            rows = ["".join(span.text for span in line) for line in view.lines]
            assert max(map(width_of, rows)) <= width
            assert words in " ".join(row.strip() for row in rows)
            await pilot.press("escape")
