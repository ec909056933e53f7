"""Image pulls, as recorded by pods, in one line."""

from __future__ import annotations

from textual.app import App
from tui_app import main, running, wait_for
from tui_records import pulling
from tui_scene import FakeClient, node, pod, status

from podtui.tui.widgets.tones import LinesView

MIB = 1024 * 1024


def screen_text(app: App[None]) -> str:
    overview = app.screen.query_one("#overview", LinesView)
    return "\n".join("".join(span.text for span in line) for line in overview.lines)


async def test_pull_progress_appears_below_the_table_until_the_pull_ends() -> None:
    client = FakeClient()
    client.fill([pulling("web", f"app: x: Downloading {12 * MIB}/{29 * MIB}")], nodes=[node()])

    async with running(client, size=(80, 24)) as (app, pilot):

        def text_below_pods() -> str:
            return "".join(span.text for line in main(app).pods.explanation for span in line)

        await wait_for(
            pilot, lambda: text_below_pods() == "◔ pulling big:1 41% 12/29Mi", "the pull"
        )
        client.change(pulling("web", f"app: x: Downloading {24 * MIB}/{29 * MIB}"))
        await wait_for(
            pilot, lambda: text_below_pods() == "◔ pulling big:1 83% 24/29Mi", "more of it"
        )
        await pilot.press("enter")
        overview = "◔ pulling big:1 83% 24/29Mi"
        await wait_for(pilot, lambda: overview in screen_text(app), "the overview's line")
        client.change(pod("web", status()))
        await wait_for(pilot, lambda: "pulling" not in screen_text(app), "it is done")
        await pilot.press("escape")
        assert "pulling" not in text_below_pods()
