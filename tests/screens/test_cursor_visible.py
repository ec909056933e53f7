"""The row of the cursor is always visible."""

from __future__ import annotations

from tui_app import main, running, table_text, wait_for
from tui_scene import FakeClient, node, pod, status

from podtui.tui.views.pods.rows import pod_row


async def test_a_new_row_scrolls_into_view() -> None:
    client = FakeClient()
    client.fill((), (), (), (node(),))
    async with running(client, size=(80, 24)) as (app, pilot):
        table = main(app).pods.table
        # Without a layout between the calls, so there is no scroll bar yet.
        table.change([pod_row(pod(f"p{n:02}", status("app")), None, now=0.0) for n in range(40)])
        assert table.select("uid-p39")
        bar = table.vertical_scrollbar
        await wait_for(pilot, lambda: 0 < bar.position == table.max_scroll_y, "the scroll bar")
        await wait_for(pilot, lambda: any("p39-n1" in x for x in table_text(app)), "the last row")
        assert table.show_vertical_scrollbar
        assert bar.position == table.scroll_y == table.max_scroll_y
        assert table.select("uid-p00")
        await wait_for(pilot, lambda: any("p00-n1" in x for x in table_text(app)), "the first row")
        assert table.cursor_key == "uid-p00"
