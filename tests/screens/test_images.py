"""Manual image actions on the node's tab: remove, prune, pull, and refusals."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from textual.pilot import Pilot
from tui_app import notified, running, wait_for
from tui_scene import FakeClient, full_client, now

from podtui.api.local import NodeImage, PullStep
from podtui.tui.app import PodtuiApp
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.widgets.dialogs import Dialog

MIB = 1024 * 1024
USED = NodeImage(id="sha256:u", names=("used:1",), sizeBytes=9 * MIB, usedBy=("default/web-n1",))
SPARE = NodeImage(id="sha256:s", names=("spare:1",), sizeBytes=5 * MIB, collectable=True)
OLD = NodeImage(id="sha256:o", names=("old:1", "old:2"), sizeBytes=3 * MIB, collectable=True)
MINE = NodeImage(id="sha256:m", names=("mine:1",), sizeBytes=MIB)


@asynccontextmanager
async def tab(
    client: FakeClient, size: tuple[int, int] = (80, 24), **settings: Any
) -> AsyncGenerator[tuple[PodtuiApp, Pilot[None], NodeScreen]]:
    """Open the images tab with four images."""
    client.image_list = (USED, SPARE, OLD, MINE)
    async with running(client, size, **settings) as (app, pilot):
        app.push_screen(NodeScreen("images"))
        await wait_for(
            pilot,
            lambda: (
                isinstance(app.screen, NodeScreen)
                and app.screen.opened
                and len(app.screen.images.set.rows) == 4
            ),
            "the images",
        )
        assert isinstance(app.screen, NodeScreen)
        yield app, pilot, app.screen


def open_dialog(app: PodtuiApp) -> tuple[str, str]:
    """Return title and text of the open confirmation."""
    dialog = app.screen
    assert isinstance(dialog, Dialog)
    lines = ("".join(span.text for span in line) for line in dialog.view.lines)
    return str(dialog.box.border_title).strip(), "\n".join(lines)


def notices(app: PodtuiApp) -> list[tuple[str, str]]:
    return [(one.title, one.message) for one in app.notices]


async def test_an_unused_image_is_removed_after_confirmation() -> None:
    client = full_client()
    async with tab(client) as (app, pilot, screen):
        assert screen.images.select("sha256:o")
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        title, text = open_dialog(app)
        assert title == "Remove old:1?"
        assert "old:1  3Mi" in text
        assert "also old:2" in text
        assert "podtui did not pull it" not in text
        dialog = app.screen
        assert isinstance(dialog, Dialog)
        assert [option.label for option in dialog.buttons.options] == ["Cancel", "Remove image"]
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is screen, "the tab again")
        assert client.images_removed == []
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question again")
        await pilot.press("y")
        await wait_for(pilot, lambda: "sha256:o" not in screen.images.set.rows, "it is gone")
        assert client.images_removed == ["sha256:o"]
        assert notices(app)[-1] == ("Removed", "old:1, 3Mi")
        (entry,) = app.session.journal
        assert entry.line.endswith("-X DELETE http://podtui/apis/podtui.dev/v1alpha1/images/"
                                  "sha256%3Ao")  # fmt: skip


async def test_an_image_not_pulled_by_podtui_is_labelled() -> None:
    async with tab(full_client()) as (app, pilot, screen):
        assert screen.images.select("sha256:m")
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        assert "podtui did not pull it" in open_dialog(app)[1]


async def test_removing_an_image_in_use_is_refused_with_its_users() -> None:
    client = full_client()
    async with tab(client) as (app, pilot, screen):
        assert screen.images.select("sha256:u")
        await pilot.press("ctrl+d")
        notice = ("Not removed", "used:1 is used by default/web-n1")
        await wait_for(pilot, lambda: notice in notices(app), "the refusal")
        assert app.screen is screen
        assert client.images_removed == []


async def test_prune_reports_count_and_size_and_removes_only_podtui_images() -> None:
    client = full_client()
    client.images_kept = ("late:1: in use by a container",)
    async with tab(client) as (app, pilot, screen):
        await pilot.press("P")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        title, text = open_dialog(app)
        assert title == "Remove 2 unused images, 8Mi?"
        assert "spare:1" in text
        assert "mine:1" not in text
        await pilot.press("y")
        await wait_for(pilot, lambda: len(screen.images.set.rows) == 2, "they are gone")
        assert set(screen.images.set.rows) == {"sha256:u", "sha256:m"}
        assert notices(app)[-2:] == [
            ("Pruned", "spare:1, old:1: 8Mi"),
            ("Not removed", "late:1: in use by a container"),
        ]
        await pilot.press("P")
        nothing = ("Nothing to prune", "Every image that podtui pulled is in use.")
        await wait_for(pilot, lambda: nothing in notices(app), "nothing is left")


async def test_a_pull_by_command_shows_progress_and_then_the_image() -> None:
    client = full_client()
    client.image_list = (USED,)
    async with running(client, (80, 24)) as (app, pilot):
        seconds = count(now())
        app.session.clock = lambda: float(next(seconds))
        await pilot.press("colon", *"pull fresh:1", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the images")
        screen = app.screen
        assert isinstance(screen, NodeScreen)
        client.pull_steps.put_nowait(
            PullStep(status="x: Downloading", current=12 * MIB, total=29 * MIB)
        )

        def title() -> str:
            return str(screen.images.border_title or "").strip() if screen.opened else ""

        await wait_for(pilot, lambda: title() == "◔ pulling fresh:1 41% 12/29Mi", "how far")
        await pilot.press("colon", *"pull fresh:1", "enter")
        again = ("Pull", "fresh:1 is already being pulled")
        await wait_for(pilot, lambda: again in notices(app), "it is not pulled twice")
        client.pull_steps.put_nowait(
            PullStep(image=NodeImage(id="sha256:f", names=("fresh:1",), sizeBytes=29 * MIB))
        )
        await wait_for(pilot, lambda: ("Pulled", "fresh:1, 29Mi") in notices(app), "it is there")
        assert client.images_pulled == ["fresh:1"]
        assert app.session.pulls == {}


async def test_a_pull_by_key_asks_for_the_name() -> None:
    client = full_client()
    async with tab(client) as (app, pilot, screen):
        await pilot.press("p")
        await wait_for(pilot, lambda: app.screen is not screen, "the question")
        await pilot.press(*"fresh:1", "enter")
        await wait_for(pilot, lambda: client.images_pulled == ["fresh:1"], "the pull")
        client.pull_steps.put_nowait(PullStep(image=NodeImage(id="sha256:f", names=("fresh:1",))))
        await wait_for(pilot, lambda: "sha256:f" in screen.images.set.rows, "it is seen at once")
        assert "sha256:f" in screen.images.set.rows


async def test_a_failed_pull_shows_the_reason_and_allows_another() -> None:
    client = full_client()
    async with tab(client) as (app, pilot, _):
        app.session.pulls.clear()
        await pilot.press("colon", *"pull nosuch:1", "enter")
        client.pull_steps.put_nowait(PullStep(error="manifest unknown"))
        await wait_for(
            pilot, lambda: ("Pull", "manifest unknown") in notices(app), "why there is none"
        )
        assert app.session.pulls == {}


async def test_an_invalid_image_name_is_not_pulled() -> None:
    client = full_client()
    async with running(client, (80, 24)) as (app, pilot):
        await pilot.press("colon", *"pull No:Image", "enter")
        notice = ("Pull", "'No:Image' is not a valid image reference")
        await wait_for(pilot, lambda: notice in notices(app), "it is refused")
        assert client.images_pulled == []


async def test_read_only_changes_no_image() -> None:
    client = full_client()
    async with tab(client, readonly=True) as (app, pilot, screen):
        assert screen.images.select("sha256:o")
        await pilot.press("ctrl+d", "P", "p")
        await notified(app, pilot, "Read-only ×3")
        assert app.screen is screen
        await pilot.press("colon", *"pull fresh:1", "enter")
        await pilot.pause(0.1)
        assert (client.images_removed, client.images_pulled) == ([], [])
        assert len(client.image_list) == 4
