"""A few pictures: what no assertion about cells would notice. Look at each before taking a new one
(``pytest --snapshot-update``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from tui_app import main, make_app, wait_for
from tui_scene import FakeClient, node

from podtui.tui.app import PodtuiApp
from podtui.tui.model import Link

Picture = Callable[..., bool]


def settled(*keys: str, select: str = "uid-crash-loop") -> Callable[[Pilot[Any]], Any]:
    async def before(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, PodtuiApp)
        await wait_for(
            pilot, lambda: app.model.link is Link.CONNECTED and app.model.node_use, "the agent"
        )
        await pilot.pause(0.15)
        if select:
            main(app).pods.table.select(select)
            await wait_for(pilot, lambda: len(main(app).logs.view.buffer), "the log")
        await pilot.press(*keys)
        await stands_still(pilot)

    return before


async def stands_still(pilot: Pilot[Any]) -> None:
    """Let the app go on until nothing changes any more: logs and events come when they come."""
    last, same = None, 0
    for _ in range(100):
        await pilot.pause(0.1)
        # The cells, which cost a fraction of the picture that is made of them.
        cells = pilot.app.screen._compositor.render_strips()
        last, same = cells, same + 1 if cells == last else 0
        if same >= 4:
            return
    pytest.fail("the picture goes on changing")


@pytest.mark.parametrize("theme", ["podtui-dark", "podtui-light"])
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
def test_main(snap_compare: Picture, size: tuple[int, int], theme: str) -> None:
    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=settled())


SCREENS = {
    "node-zoomed": ("4", "plus"),
    "pod": ("enter",),
    "pod-timeline": ("enter", "2"),
    "pod-events": ("enter", "3"),
    "pod-yaml": ("enter", "y"),
    "pod-manifest": ("enter", "m"),
    "why": ("X",),
    "event": ("2", "enter"),
    "help-ids": ("question_mark", "i"),
    "commands": ("ctrl+a",),
    "columns": ("W",),
    "menu": ("m",),
    "logs": ("3", "plus"),
    "pod-resources": ("enter", "7"),
    "pod-probes": ("enter", "8"),
    "node": ("4", "enter"),
    "node-pods": ("4", "enter", "2"),
    "node-images": ("4", "enter", "4"),
    "node-rejected": ("4", "enter", "5"),
    "delete": ("ctrl+d",),
    "new-pod": ("n",),
    "journal": ("J",),
    "forwards": ("f",),
}


@pytest.mark.parametrize("theme", ["podtui-dark", "podtui-light"])
@pytest.mark.parametrize("screen", SCREENS)
def test_screen(snap_compare: Picture, screen: str, theme: str) -> None:
    app = make_app(theme=theme)
    assert snap_compare(app, terminal_size=(100, 34), run_before=settled(*SCREENS[screen]))


def test_broken_manifest(snap_compare: Picture) -> None:
    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=settled("1", "g", "enter"))


def test_empty(snap_compare: Picture) -> None:
    client = FakeClient()
    client.fill((), (), (), (node(ready=False),))

    async def before(pilot: Pilot[Any]) -> None:
        await pilot.pause(0.4)

    assert snap_compare(make_app(client, simulated=True), terminal_size=(80, 24), run_before=before)
