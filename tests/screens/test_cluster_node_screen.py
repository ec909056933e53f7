"""The screen of an agent whose node belongs to a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from action_scene import open_dialog, write_manifest
from msgspec import structs
from textual.pilot import Pilot
from tui_app import bar_text, main, notified, running, screen_text, table_text, view_text, wait_for
from tui_scene import FakeClient, ago, ended, node, pod, status

from podtui.api.names import (
    CLUSTER,
    CLUSTER_UNAVAILABLE,
    CONFIG_MIRROR,
    CONFIG_SOURCE,
    LEASE_NOT_RENEWED,
    MIRROR_PROBLEM,
)
from podtui.api.v1 import Node, NodeCondition, Pod
from podtui.tui.app import PodtuiApp
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.widgets.tones import LinesView

URL = "https://10.0.0.1:6443"
REFUSED = "A node of a cluster: Its objects are copies of those of the cluster at"
LOST = "10.0.0.1:6443: connection refused"


def member(*, lost: bool = False) -> Node:
    item = node()
    reached, message = ("True", LOST) if lost else ("False", f"{URL} answers")
    conditions = (
        NodeCondition(type=CLUSTER_UNAVAILABLE, status=reached, reason="ClusterLost",
                      message=message, lastTransitionTime=ago(minutes=7)),
        NodeCondition(type=LEASE_NOT_RENEWED, status="False", reason="LeaseRenewed",
                      message="kube-node-lease/n1 is valid for 40 s after each renewal"),
    )  # fmt: skip
    changed = structs.replace(item.status, conditions=(*item.status.conditions, *conditions))
    meta = structs.replace(item.metadata, annotations={CLUSTER: URL})
    return structs.replace(item, metadata=meta, status=changed)


def annotated(item: Pod, **annotations: str) -> Pod:
    return structs.replace(item, metadata=structs.replace(item.metadata, annotations=annotations))


def of_cluster(name: str) -> Pod:
    return annotated(pod(name, status("app")), **{CONFIG_SOURCE: "api"})


def static(name: str, problem: str = "") -> Pod:
    item = pod(name, status("app"))
    more = {CONFIG_SOURCE: "file", CONFIG_MIRROR: "h"}
    more |= {MIRROR_PROBLEM: problem} if problem else {}
    return annotated(item, **item.metadata.annotations, **more)


@asynccontextmanager
async def member_screen(
    *pods: Pod,
    item: Node | None = None,
    folder: Path | None = None,
    size: tuple[int, int] = (120, 36),
) -> AsyncIterator[tuple[PodtuiApp, Pilot[None]]]:
    client = FakeClient()
    files = [write_manifest("web", folder)] if folder is not None else []
    client.fill(pods, (), files, (item or member(),))
    async with running(client, size=size) as (app, pilot):
        yield app, pilot


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_pods_of_the_folder_and_of_the_cluster_are_told_apart(size: tuple[int, int]) -> None:
    pods = (of_cluster("app"), static("web"), static("x", 'refused: namespaces "x" not found'),
            static("y", "not yet: connection refused"))  # fmt: skip
    async with member_screen(*pods, size=size) as (app, _):
        head, *lines = table_text(app)
        begin = head.index("SOURCE")
        shown = [line for line in lines if line.strip()]
        assert {line.lstrip(" ▌").split()[0]: line[begin:].split("  ")[0] for line in shown} == {
            "app-n1": "api", "web-n1": "file", "x-n1": "file, refused", "y-n1": "file, not yet",
        }  # fmt: skip


async def test_a_node_at_home_has_no_column_of_sources() -> None:
    async with member_screen(static("web"), item=node()) as (app, _):
        assert "SOURCE" not in table_text(app)[0]


async def test_the_node_shows_lease_and_connection() -> None:
    async with member_screen(static("web"), item=member(lost=True)) as (app, pilot):
        assert "Ready ClusterUnavailable" in bar_text(app, "header")
        assert f"cluster lost: {LOST}" in bar_text(app, "status")
        await pilot.press("4", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the screen")
        await wait_for(pilot, lambda: "ClusterUnavailable" in screen_text(app), "the conditions")
        (lost,) = [line for line in screen_text(app).splitlines() if LOST in line]
        assert "✖ ClusterUnavailable  True" in lost
        assert "for 7m" in lost
        assert "✔ LeaseNotRenewed     False" in screen_text(app)
        assert f"Cluster    {URL}" in screen_text(app)


@pytest.mark.parametrize("keys", [("e",), ("ctrl+d",), ("D",), ("colon", *"create", "enter")])
async def test_pods_of_the_cluster_cannot_be_changed(keys: tuple[str, ...]) -> None:
    async with member_screen(of_cluster("web")) as (app, pilot):
        await pilot.press(*keys)
        await notified(app, pilot, REFUSED)
        assert app.screen is main(app)


async def test_a_file_of_the_folder_can_be_deleted(tmp_path: Path) -> None:
    async with member_screen(static("web"), folder=tmp_path) as (app, pilot):
        await pilot.press("ctrl+d")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await wait_for(pilot, lambda: not (tmp_path / "web.yaml").exists(), "the file is moved")


async def test_a_fix_is_not_offered_for_a_pod_of_the_cluster() -> None:
    killed = status("app", state=ended(137, reason="OOMKilled"), ready=False)
    item = pod("web", killed, limits={"memory": "16Mi"})
    async with member_screen(annotated(item, **{CONFIG_SOURCE: "api"})) as (app, pilot):
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        text = app.screen.query_one("#why-text", LinesView)
        await wait_for(pilot, lambda: "memory" in view_text(text), "the diagnosis")
        assert "Fix" not in view_text(text)
        assert app.screen.check_action("apply", ()) is False
