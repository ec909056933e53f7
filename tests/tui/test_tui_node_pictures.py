"""Pictures of the node's screen. Look at each before taking a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from tui_app import make_app, wait_for
from tui_scene import full_client, now

from podtui.api.v1 import ObjectMeta
from podtui.api.what_if import Lack, Leaver, PortHolder, WhatIf
from podtui.tui.app import PodtuiApp
from podtui.tui.node.node_history import Sample
from podtui.tui.node.node_screen import NodeScreen

REFUSED = WhatIf(
    metadata=ObjectMeta(name="what-if-n1", namespace="default"),
    admitted=False,
    reason="UnexpectedAdmissionError",
    message="no set of running pods found to reclaim resources: [(res: cpu, q: 850), ]",
    lacks=(Lack(resource="cpu", requested=4000, used=650, capacity=3800),),
    holders=(
        PortHolder(port=8080, protocol="TCP", namespace="default", pod="web-n1"),
        PortHolder(port=53, protocol="UDP", process="dnsmasq", pid=612),
    ),
    leave=(Leaver(namespace="default", name="web-n1", uid="u", frees={"cpu": 500}, ports=(8080,)),),
    remarks=("Other programs have ports that it wants, too: its sandbox could not start.",),
)


def opened(tab: str, wish: str = "") -> Callable[[Pilot[Any]], Any]:
    async def before(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, PodtuiApp)
        await wait_for(pilot, lambda: app.model.node_use and app.model.manifests, "the agent")
        samples = app.model.node_history.samples
        samples.clear()
        samples.extend(
            Sample(now() - 3 * n, 400 + 40 * (n % 40), (2 << 30) + (n << 22))
            for n in range(200, 0, -1)
        )
        screen = NodeScreen(tab, wish)
        app.push_screen(screen)
        if wish:
            await wait_for(pilot, lambda: screen.opened, "the screen")
            screen.what_if.input.cursor_blink = False
            await wait_for(pilot, lambda: len(screen.what_if.verdict.lines) > 9, "the verdict")
        await pilot.pause(0.3)

    return before


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_node_overview(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap_compare(make_app(), terminal_size=size, run_before=opened("overview"))


def test_what_if(snap_compare: Callable[..., bool]) -> None:
    client = full_client()
    client.verdict = REFUSED
    before = opened("what-if", "cpu=4 hostPort=8080,53/UDP")
    assert snap_compare(make_app(client), terminal_size=(80, 24), run_before=before)
