"""Services on the screen: how they are reached, who connects to them, and why one does not work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from service_scene import SERVICES, send_shop, shop_objects, with_services
from textual.pilot import Pilot
from tui_app import bar_text, notified, running, screen_text, wait_for
from tui_scene import FakeClient, node
from why_objects import crashing_pod

from podtui.api.insight import ConnectionAttempt, ConnectionCheck, Outcome
from podtui.tui.app import PodtuiApp
from podtui.tui.screens.map_screen import MapScreen
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.tui.screens.objects.object_screen import ObjectScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.why_screen import WhyScreen

URL = "http://127.0.0.1:30080/"


@asynccontextmanager
async def open_service(
    size: tuple[int, int] = (120, 36), **more: Any
) -> AsyncIterator[tuple[PodtuiApp, Pilot[Any], ObjectScreen]]:
    async with running(with_services(), size=size, **more) as (app, pilot):
        await wait_for(pilot, lambda: len(app.model.pods) == 2 and app.model.kinds, "the objects")
        screen = ObjectScreen(SERVICES, shop_objects()["web"].metadata)
        app.session.push(screen)
        await wait_for(pilot, lambda: screen.opened and len(screen.network_table.set) == 8,
                       "its endpoints")  # fmt: skip
        yield app, pilot, screen


async def test_the_list_counts_ready_endpoints() -> None:
    async with running(with_services()) as (app, pilot):
        await wait_for(pilot, lambda: len(app.model.pods) == 2 and app.model.kinds, "the objects")
        app.run_command("svc")
        await wait_for(pilot, lambda: " 1/2 " in screen_text(app), "its ready endpoints")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, ObjectScreen), "the Service")


async def test_a_url_is_opened_where_a_browser_can_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    for name in ("SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    async with open_service() as (app, pilot, _):
        monkeypatch.setattr(app, "open_url", opened.append)
        await pilot.press("enter")
        await wait_for(pilot, lambda: opened == [URL], "the browser")
        assert app.clipboard == URL


async def test_over_ssh_the_port_to_forward_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    async with open_service() as (app, pilot, _):
        monkeypatch.setattr(app, "open_url", opened.append)
        await pilot.press("enter")
        await notified(app, pilot, "ssh -L 30080:127.0.0.1:30080")
        assert opened == []


async def test_rows_are_copied_and_endpoints_open_their_pod() -> None:
    async with open_service() as (app, pilot, screen):
        await pilot.press("down", "c")
        assert app.clipboard == "web.default.svc.cluster.local"
        await pilot.press("end", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
        assert "web-2" in bar_text(app, "header")
        assert screen.tab == "network"


async def test_a_service_is_explained_by_a_key() -> None:
    async with open_service() as (app, pilot, _):
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, ObjectWhyScreen), "why")
        assert "svc/web" in bar_text(app, "header")


async def test_a_narrow_screen_shows_names_and_states() -> None:
    async with open_service((80, 24)) as (app, _, _):
        text = screen_text(app)
        assert URL in text
        assert "web.default.svc.cluster.local" in text
        assert "✖ not ready" in text


async def test_the_map_explains_a_service_or_the_object_that_names_it() -> None:
    async with running(with_services()) as (app, pilot):
        await wait_for(pilot, lambda: len(app.model.pods) == 2, "the pods")
        app.run_command("map dbb")
        await wait_for(pilot, lambda: "no Service dbb" in screen_text(app), "the connection")
        screen = app.screen
        assert isinstance(screen, MapScreen)
        assert "4 broken" in bar_text(app, "header")
        assert len(screen.table.set) == 1
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, ObjectWhyScreen), "why")
        assert "deploy/shop" in bar_text(app, "header")


REFUSED = ConnectionCheck(
    host="dbb", port=5432, name="dbb.lan", addresses=("10.0.0.9",),
    attempts=(ConnectionAttempt(address="10.0.0.9", outcome=Outcome.REFUSED, seconds=0.1),),
)  # fmt: skip


async def test_a_connection_of_the_map_is_tried_from_inside_a_pod() -> None:
    client = with_services()
    client.connection_checks["dbb", 5432] = REFUSED
    async with running(client) as (app, pilot):
        await wait_for(pilot, lambda: len(app.model.pods) == 2, "the pods")
        app.run_command("map dbb")
        await wait_for(pilot, lambda: "no Service dbb" in screen_text(app), "the connection")
        await pilot.press("t")
        await notified(app, pilot, "No pod of it runs.")
        client.change(crashing_pod("shop-1", shop_objects()["front"]))
        await wait_for(pilot, lambda: len(app.model.pods) == 3, "the pod")
        await pilot.press("t")
        await notified(app, pilot, "dbb.lan is 10.0.0.9, port 5432 refused the connection.")
        assert client.checked == [("shop-1", "dbb", 5432)]


async def test_a_pod_is_explained_by_what_was_asked_from_inside() -> None:
    spec = {"containers": [{"name": "c", "image": "shop:2", "env": [
        {"name": "DB", "value": "http://dbb:5432"}]}]}  # fmt: skip
    pod = crashing_pod("front", spec=spec)
    client = FakeClient()
    client.fill((pod,), (), (), (node(),))
    client.log_lines["c"] = [b"2026-11-20T11:59:50Z dial tcp: lookup dbb: no such host"]
    client.connection_checks["dbb", 5432] = ConnectionCheck(
        host="dbb", port=5432, source="10.96.0.10", error="NXDOMAIN"
    )
    async with running(client) as (app, pilot):
        await wait_for(pilot, lambda: len(app.model.pods) == 1, "the pod")
        send_shop(client)
        screen = WhyScreen(pod)
        app.session.push(screen)
        await wait_for(pilot, lambda: screen.opened, "why")
        text = "dbb does not exist (NXDOMAIN from 10.96.0.10)"
        await wait_for(pilot, lambda: text in screen_text(app), "the answer")
        assert "there is no Service dbb" in screen_text(app)
        assert client.checked == [("front", "dbb", 5432)]
