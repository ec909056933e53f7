"""The screen on a cluster: unsupported features are hidden, the others work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from tui_app import bar_text, main, make_app, notified, screen_text, table_text, wait_for
from tui_records import node_named, pods_on_two_nodes
from tui_scene import FakeClient
from tui_scene import events as some_events

from podtui.api.local import Manifest, NodeMetrics
from podtui.api.v1 import Event, Node, Pod
from podtui.client.protocol import CLUSTER, Lost, Server, Synced
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.app import PodtuiApp
from podtui.tui.commands.delete import deletion_effect
from podtui.tui.model.model import LinkState
from podtui.tui.screens.help_screen import HelpScreen, key_lines
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.widgets.dialogs import Dialog
from podtui.tui.widgets.tones import LinesView

SERVER = Server(
    capabilities=CLUSTER,
    host="api.example:6443",
    context="prod-eu",
    cluster="eu-1",
    user="anne",
    contexts=("prod-eu", "staging"),
)


class ClusterClient(FakeClient):
    """Has cluster-only objects, too; refuses to delete pods in ``kept``."""

    target = "https://api.example:6443"

    def __init__(self) -> None:
        super().__init__()
        self.namespace: str | None = ""
        self.deleted: list[str] = []
        self.kept: set[str] = set()
        self.node_uses: tuple[NodeMetrics, ...] = ()
        self.followed: list[type] = []

    async def follow(self, kind: Any, namespace: str = "") -> AsyncIterator[Any]:
        self.followed.append(kind)
        async for delta in super().follow(kind, namespace):
            yield delta

    async def nodes_metrics(self) -> tuple[NodeMetrics, ...]:
        return self.node_uses

    async def delete_pod(self, pod: Pod) -> None:
        if pod.metadata.name in self.kept:
            raise ApiError(403, "Forbidden", f'pods "{pod.metadata.name}" is forbidden')
        self.deleted.append(pod.metadata.name)


def client() -> ClusterClient:
    made = ClusterClient()
    made.send(Node, Synced((node_named("n0"), node_named("n1"))))
    made.send(Pod, Synced(tuple(pods_on_two_nodes())))
    made.send(Event, Synced(some_events()))
    return made


@asynccontextmanager
async def running(
    made: ClusterClient | None = None, size: tuple[int, int] = (160, 44), **settings: Any
) -> AsyncIterator[tuple[PodtuiApp, Pilot[None]]]:
    app = make_app(made or client(), server=SERVER, requested_path=None, **settings)
    async with app.run_test(size=size) as pilot:
        await wait_for(pilot, lambda: app.model.link is LinkState.CONNECTED, "an answer")
        await wait_for(pilot, lambda: app.model.is_synced(Pod), "the pods")
        await wait_for(
            pilot, lambda: main(app).pods.table.set.rows.keys() == app.model.pods.keys(), "rows"
        )
        await pilot.pause()
        yield app, pilot


# --- on the screen


async def test_header_and_footer_show_the_context() -> None:
    async with running() as (app, _):
        head = bar_text(app, "header")
        for words in ("cluster", "prod-eu", "eu-1", "as anne", "2 nodes"):
            assert words in head
        status = bar_text(app, "status")
        assert "namespace all" in status
        assert "API server connected" in status
        assert "agent" not in head + status
        rows = table_text(app)
        assert "NAMESPACE" in rows[0]
        assert "NODE" in rows[0]
        assert Manifest not in app.client.followed


async def test_inapplicable_keys_are_neither_in_footer_nor_help() -> None:
    async with running(size=(240, 50)) as (app, pilot):
        hints = bar_text(app, "hints")
        assert "Delete" in hints
        assert "Shell" in hints
        for word in ("Edit", "Restart", "What if"):
            assert word not in hints
        lines = key_lines(app.screen, {}, app.model.server.capabilities)
        ids = {line.id for line in lines}
        assert {"act.delete", "act.shell", "main.why", "pod.yaml"} <= ids
        hidden = {
            "act.edit", "act.restart", "act.new", "act.journal", "pod.manifest", "yaml.source",
            "node.what-if", "node-pane.what-if", "probes.run", "trash.restore", "why.apply",
        }  # fmt: skip
        assert not hidden & ids
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)


async def test_a_failed_log_request_names_the_cluster() -> None:
    class Silent(ClusterClient):
        async def logs(self, namespace, pod, query):
            raise AgentUnavailable("api.example: it takes too long to answer")
            yield []

    made = Silent()
    made.send(Node, Synced((node_named("n0"), node_named("n1"))))
    made.send(Pod, Synced(tuple(pods_on_two_nodes())))
    async with running(made) as (app, pilot):
        view = main(app).logs.view

        def view_text() -> str:
            lines = (view.render_line(y).text for y in range(view.size.height))
            return " ".join(" ".join(lines).split())

        words = "The cluster does not respond: api.example: it takes too long"
        await wait_for(pilot, lambda: words in view_text(), "who does not answer")
        assert words in view_text()


async def test_keys_that_do_not_apply_do_nothing() -> None:
    async with running() as (app, pilot):
        for key in ("e", "r", "n", "J", "u", "ctrl+k", "w"):
            await pilot.press(key)
        await pilot.pause()
        assert app.screen is main(app)
        assert app.client.restarted == []  # type: ignore[attr-defined]
        assert not app.notices


async def test_the_tabs_of_a_pod() -> None:
    async with running() as (app, pilot):
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
        await pilot.pause()
        tabs = bar_text(app, "tabs")
        assert tabs.split() == ["1", "Overview", "3", "Events", "4", "Logs", "5", "YAML"]
        for expected in ("events", "logs", "yaml", "overview"):
            await pilot.press("tab")
            await wait_for(pilot, lambda to=expected: app.screen.tab == to, expected)
        for key in ("2", "6", "7", "8"):
            await pilot.press(key)
            assert app.screen.tab == "overview"


async def test_the_node_pane_shows_the_node_of_the_selected_pod() -> None:
    async with running() as (app, pilot):
        pane = main(app).node
        pod = main(app).pods.pod
        assert pod is not None
        await wait_for(pilot, lambda: pod.spec.nodeName in str(pane.border_title), "its node")
        await pilot.press("4", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the node")
        await pilot.pause()
        assert pod.spec.nodeName in bar_text(app, "header")
        assert bar_text(app, "tabs").split() == ["1", "Overview", "2", "Pods"]


async def test_forbidden_resources_are_reported_in_their_pane() -> None:
    made = ClusterClient()
    refusal = 'is forbidden: User "anne" cannot list resource at the cluster scope, says the server'
    made.send(Node, Lost(f"nodes {refusal}", refused=True))
    made.send(Event, Lost(f"events {refusal}", refused=True))
    made.send(Pod, Synced(tuple(pods_on_two_nodes())))
    async with running(made) as (app, pilot):
        await pilot.press("4")
        view = app.screen.query_one("#node-view", LinesView)

        def view_text() -> str:
            rows = [view.render_line(y).text for y in range(view.size.height)]
            return " ".join("".join(rows).split())

        await wait_for(pilot, lambda: f"nodes {refusal}" in view_text(), "the refusal, to its end")
        assert app.model.link is LinkState.CONNECTED
        assert len(main(app).pods.table.set.rows) == len(app.model.pods)
        await pilot.press("2")
        await pilot.pause()
        assert f"events {refusal}" in " ".join("".join(table_text(app, "events")).split())


async def test_a_lost_server_is_reported_with_its_name() -> None:
    made = ClusterClient()
    for kind in (Node, Pod, Event):
        made.send(kind, Lost("api.example:6443: connection refused"))
    app = make_app(made, server=SERVER)
    async with app.run_test(size=(120, 36)) as pilot:
        await wait_for(
            pilot, lambda: "connection refused" in "".join(table_text(app)), "what went wrong"
        )
        assert "agent" not in "".join(table_text(app))
        # The table and the status line are drawn one after the other.
        lost = "lost: api.example:6443"
        await wait_for(pilot, lambda: lost in bar_text(app, "status"), "the lost server")


async def test_delete_asks_for_confirmation_and_reports_a_refusal() -> None:
    made = client()
    async with running(made) as (app, pilot):
        pod = main(app).pods.pod
        assert pod is not None
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        text = screen_text(app)
        assert "The API has no undo." in text
        assert deletion_effect(pod) in text
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is main(app), "the screen again")
        assert made.deleted == []
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        await pilot.press("y")
        await wait_for(pilot, lambda: made.deleted == [pod.metadata.name], "the deletion")
        await wait_for(pilot, lambda: not app.session.asking, "the end of it")
        made.kept = {pod.metadata.name}
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        await pilot.press("y")
        await notified(app, pilot, "is forbidden")


async def test_read_only_prevents_deletes() -> None:
    made = client()
    async with running(made, readonly=True) as (app, pilot):
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert app.screen is main(app)


@pytest.mark.parametrize(("typed", "wanted"), [("staging", "staging"), ("prod-eu", "")])
async def test_switches_to_another_context(typed: str, wanted: str) -> None:
    async with running() as (app, pilot):
        app.run_command(f"ctx {typed}")
        await pilot.pause()
        await asyncio.sleep(0)
        assert app.next_context == wanted


async def test_an_unknown_context_lists_the_available_ones() -> None:
    async with running() as (app, pilot):
        app.run_command("ctx nowhere")
        await wait_for(pilot, lambda: len(app.notices) > 0, "the words")
        assert any("available: prod-eu, staging" in n.message for n in app.notices)
