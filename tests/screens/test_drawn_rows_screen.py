"""The number of composed rows and drawn lines, which determines the cost of an idle screen."""

from __future__ import annotations

import pytest
from recorded_calls import record_calls
from tui_app import main, running, wait_for
from tui_scene import FakeClient, node, pod, status

from podtui.api.times import epoch
from podtui.tui.model.model import Changes
from podtui.tui.widgets import table_lines
from podtui.tui.widgets.table import Table


async def test_each_second_redraws_only_visible_rows_whose_age_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    composed = record_calls(monkeypatch, table_lines, "row_line")
    drawn = record_calls(monkeypatch, Table, "render_line")
    client = FakeClient()
    born = epoch(pod("x", status()).metadata.creationTimestamp)
    assert born is not None
    pods = [pod(f"p{n:02}", status(), uid=f"u{n}") for n in range(50)]
    client.fill(pods, (), (), (node(),))
    async with running(client) as (app, pilot):
        screen = main(app)
        table = screen.pods.table
        await wait_for(pilot, lambda: table in drawn and len(table.set) == 50, "the pods")
        late = born + 86400 * 30 + 5

        async def at(moment: float) -> tuple[int, int]:
            app.session.clock = lambda: moment
            screen.publish(Changes(), moment)
            await pilot.pause()
            return len(composed), drawn.count(table)

        before = await at(late)
        for seconds in (1, 2, 3, 60):
            assert await at(late + seconds) == before, "ages of days"
        rows, lines = await at(born + 30)
        after = await at(born + 31)
        high = table.size.height - 1
        assert after == (rows + high, lines + high), "each row in sight once"
