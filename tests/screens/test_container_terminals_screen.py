"""Terminals connected to containers, and ports and paths that users type."""

from __future__ import annotations

from tui_app import main, running, wait_for
from tui_records import ordered_pod
from tui_scene import full_client

from podtui.tui.commands.restart import restartable_names
from podtui.tui.commands.shell import running_names
from podtui.tui.model.model import pod_key
from podtui.tui.widgets.dialogs import Picker


async def test_every_picker_lists_containers_in_the_order_of_the_manifest() -> None:
    client = full_client()
    client.change(found := ordered_pod())
    async with running(client) as (app, pilot):
        await wait_for(pilot, lambda: main(app).pods.table.select(pod_key(found)), "the pod")
        for key, names in (
            ("s", running_names(found)),
            ("a", running_names(found)),
            ("D", ["mesh", "zeta", "api"]),
            ("t", restartable_names(found)),
            ("ctrl+k", restartable_names(found)),
        ):
            await pilot.press(key)
            await wait_for(pilot, lambda: isinstance(app.screen, Picker), f"the picker of {key}")
            assert isinstance(app.screen, Picker)
            lines = ["".join(span.text for span in line) for line in app.screen.items]
            assert [line.split()[0] for line in lines] == names
            assert names[app.screen.place] == "zeta"
            await pilot.press("escape")
        await pilot.press("l")
        for name in ("api", "debugger-1", "setup", "mesh", "zeta"):
            await pilot.press("right_square_bracket")
            await wait_for(
                pilot,
                lambda name=name: f"› {name}" in str(main(app).logs.border_title),
                f"the log of {name}",
            )
