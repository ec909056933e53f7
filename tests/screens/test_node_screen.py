"""The node's screen on a scripted client."""

from __future__ import annotations

import json

import pytest
from tui_app import main, running, view_text, wait_for
from tui_scene import ago, full_client

from podtui.api.local import NodeImage, PortHolder, WhatIf
from podtui.api.v1 import ObjectMeta
from podtui.tui.screens.node import tabs
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.widgets.tones import LinesView


async def test_what_if_is_answered_while_typing(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine, the keys may take longer than the usual time.
    monkeypatch.setattr(tabs, "DEBOUNCE", 2.0)
    client = full_client()
    async with running(client) as (app, pilot):
        await pilot.press("4", "w")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the screen")
        screen = app.screen
        assert isinstance(screen, NodeScreen)
        verdict = screen.what_if.verdict
        await wait_for(pilot, lambda: "web.yaml" in view_text(verdict), "the files to choose from")
        await pilot.press(*"cpus=1")
        await wait_for(pilot, lambda: "did you mean cpu?" in view_text(verdict), "what is wrong")
        assert client.what_if_requests == []
        for _ in range(3):
            await pilot.press("backspace")
        await pilot.press(*"=1 hostPort=80")
        await wait_for(pilot, lambda: "fits" in view_text(verdict), "the verdict")
        assert len(client.what_if_requests) == 1, "one request for all the keys"
        container = json.loads(client.what_if_requests[0])["spec"]["containers"][0]
        assert container["resources"]["requests"] == {"cpu": "1"}
        holder = PortHolder(port=80, protocol="TCP", process="nginx", pid=7)
        client.verdict = WhatIf(
            metadata=ObjectMeta(name="what-if-n1"), admitted=True, holders=(holder,)
        )
        await pilot.press("enter")
        await wait_for(pilot, lambda: "nginx (pid 7)" in view_text(verdict), "who holds the port")
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.screen is main(app), "the main screen")


async def test_tabs_of_the_node() -> None:
    client = full_client()
    client.image_list = (NodeImage(id="sha256:a", names=("busybox:1.36",), created=ago(days=3)),)
    async with running(client, size=(80, 24)) as (app, pilot):
        await pilot.press("colon", *"node", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the screen")
        screen = app.screen
        assert isinstance(screen, NodeScreen)
        overview = screen.query_one("#overview", LinesView)
        await wait_for(pilot, lambda: "KubeletReady" in view_text(overview), "the overview")
        await pilot.press("3")
        history = screen.query_one("#history", LinesView)
        await wait_for(pilot, lambda: "allocatable" in view_text(history), "the plots")
        await pilot.press("4")
        await wait_for(pilot, lambda: "sha256:a" in screen.images.set.rows, "the images")
        await pilot.press("5")
        assert [screen.rejected.set.rows[k].cells[0].text for k in screen.rejected.set.order] == [
            "too-big-n1"
        ]
        await pilot.press("r")
        await wait_for(pilot, lambda: client.retried == ["too-big-n1"], "another try")
        await pilot.press("w")
        await wait_for(pilot, lambda: screen.what_if.input.value == "too-big.yaml", "its file")
        await pilot.press("tab", "2", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
