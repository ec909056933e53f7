"""Files whose pods cannot start while the node is not ready."""

from __future__ import annotations

from tui_app import bar_text, running, table_text, wait_for
from tui_scene import FakeClient, manifest, node, pod

from podtui.tui.screens.why_screen import WhyScreen

DOWN = "container runtime is down: Cannot connect to the Docker daemon"


async def test_files_stay_visible_while_the_node_is_not_ready() -> None:
    client = FakeClient()
    client.fill((), (), (manifest("web.yaml", pod_name="web-n1"),), (node(ready=False),))
    async with running(client) as (app, pilot):
        await wait_for(pilot, lambda: "Pending" in "\n".join(table_text(app)), "the file")
        assert any("web.yaml" in row and DOWN[:20] in row for row in table_text(app))
        await pilot.press("X")
        assert isinstance(app.screen, WhyScreen)
        assert "pending" in bar_text(app, "header")
        await pilot.press("escape")
        client.change(node())
        client.change(pod("web"))
        await wait_for(pilot, lambda: "web-n1" in "\n".join(table_text(app)), "its pod")
        assert "Pending" not in "\n".join(table_text(app))
