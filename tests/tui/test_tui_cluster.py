"""The screen on a cluster: what does not apply is not there, what does works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from textual.pilot import Pilot
from tui_app import bar_text, main, make_app, notified, screen_text, table_text, wait_for
from tui_scene import FakeClient, gallery, node
from tui_scene import events as some_events

from podtui.api.local import Manifest, NodeMetrics
from podtui.api.v1 import Event, Node, ObjectMeta, OwnerReference, Pod
from podtui.client.protocol import AGENT, CLUSTER, Lost, Server, ServerCapabilities, Synced
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.app import PodtuiApp
from podtui.tui.commands.availability import NEEDS, PARTS, is_binding_offered, is_offered
from podtui.tui.commands.delete import fate
from podtui.tui.commands.key_registry import known_bindings
from podtui.tui.commands.registry import COMMANDS, offered_commands
from podtui.tui.model.model import Link, Model
from podtui.tui.screens.help_screen import HelpScreen
from podtui.tui.screens.key_lines import key_lines
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.views.node.nodes import books_of, whole_node, whole_use
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
    """Says also what only clusters have; refuses to delete what is in ``kept``."""

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


def placed(pod: Pod, node: str, **meta: Any) -> Pod:
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, **meta),
        spec=structs.replace(pod.spec, nodeName=node),
    )


def named(name: str) -> Node:
    made = node()
    return structs.replace(made, metadata=structs.replace(made.metadata, name=name))


def pods() -> list[Pod]:
    return [placed(pod, f"n{number % 2}") for number, pod in enumerate(gallery())]


def client() -> ClusterClient:
    made = ClusterClient()
    made.say(Node, Synced((named("n0"), named("n1"))))
    made.say(Pod, Synced(tuple(pods())))
    made.say(Event, Synced(some_events()))
    return made


@asynccontextmanager
async def running(
    made: ClusterClient | None = None, size: tuple[int, int] = (160, 44), **settings: Any
) -> AsyncIterator[tuple[PodtuiApp, Pilot[None]]]:
    app = make_app(made or client(), server=SERVER, asked_path=None, **settings)
    async with app.run_test(size=size) as pilot:
        await wait_for(pilot, lambda: app.model.link is Link.CONNECTED, "an answer")
        await wait_for(pilot, lambda: not app.model._dirty[Pod], "the pods")
        await pilot.pause()
        yield app, pilot


# --- what there is, as data


def test_everything_named_is_a_capability_and_an_agent_has_all_of_its_own() -> None:
    names = {field for fields in (*NEEDS.values(), *PARTS.values()) for field in fields}
    assert all(isinstance(getattr(AGENT, name), bool) for name in names)
    assert not any(getattr(AGENT, name) for name in ("deletes", "several_nodes", "contexts"))


def test_actions_that_are_named_exist() -> None:
    """A key that is renamed must not come back on a cluster unseen."""
    actions = {known.action.partition("(")[0].rpartition(".")[2] for known in known_bindings()}
    actions |= {command.action.rpartition(".")[2] for command in COMMANDS}
    assert set(NEEDS) <= actions
    assert {action for action, _ in PARTS} <= actions


@pytest.mark.parametrize(
    ("action", "parameters", "there"),
    [
        ("edit", (), False),
        ("delete", (), True),
        ("restart", (), False),
        ("shell", (), True),
        ("tab", ("yaml",), True),
        ("tab", ("probes",), False),
        ("open_node", ("overview",), True),
        ("open_node", ("what-if", "cpu=1"), False),
        ("context", ("",), True),
    ],
)
def test_what_a_cluster_offers(action: str, parameters: tuple[object, ...], there: bool) -> None:
    assert is_offered(CLUSTER, action, parameters) is there
    assert is_offered(AGENT, action, parameters) is (action != "context")


def test_deleting_needs_files_or_records() -> None:
    neither = ServerCapabilities(manifests=False)
    assert not is_offered(neither, "delete")
    assert not is_binding_offered(CLUSTER, "probes.run", "run")
    assert is_binding_offered(AGENT, "probes.run", "run")


def test_commands() -> None:
    names = {command.name for command in offered_commands(CLUSTER)}
    assert {"pods", "node", "context", "forwards"} <= names
    assert not {"new", "undo", "trash", "journal", "images", "rejected", "what-if"} & names
    assert "context" not in {command.name for command in offered_commands(AGENT)}


def test_commands_speak_of_an_agent_only_where_there_is_one() -> None:
    assert any("agent" in command.words for command in offered_commands(AGENT))
    assert not [command.words for command in offered_commands(CLUSTER) if "agent" in command.words]


# --- several nodes


def test_all_nodes_together() -> None:
    whole = whole_node({"a": named("a"), "b": named("b")})
    assert whole is not None
    one = named("a").status.allocatable
    assert whole.status.allocatable["pods"] == str(2 * int(one["pods"]))
    assert whole.metadata.name == "2 nodes"
    assert whole_node({}) is None


def test_the_books_are_of_the_pod_s_node() -> None:
    from podtui.tui.views.node.gauges import ask_of

    model = Model(SERVER)
    model.fold(Node, Synced((named("n0"), named("n1"))))
    model.fold(Pod, Synced(tuple(pods())))
    asks = {key: ask_of(pod) for key, pod in model.pods.items()}
    first = next(pod for pod in model.pods.values() if pod.spec.nodeName == "n1")
    books = books_of(model, asks, first)
    assert books is not None
    assert books.node.metadata.name == "n1"
    assert {model.pods[ask.key].spec.nodeName for ask in books.asks} == {"n1"}
    everything = books_of(model, asks, None)
    assert everything is not None
    assert len(everything.asks) == len(model.pods)
    neighbours = {pod.spec.nodeName for pod in model.neighbours_of(first)}
    assert neighbours == {"n1"}


def test_use_of_all_is_known_where_it_is_of_each() -> None:
    model = Model(SERVER)
    model.fold(Node, Synced((named("n0"), named("n1"))))
    model.measure_nodes((use("n0"),))
    assert whole_use(model) is None
    model.measure_nodes((use("n0"), use("n1")))
    found = whole_use(model)
    assert found is not None
    assert found.cpu == 200
    assert model.use_of(named("n1")) is not None


def use(name: str) -> NodeMetrics:
    return NodeMetrics(
        metadata=ObjectMeta(name=name),
        timestamp="2026-01-01T00:00:00Z",
        window="10s",
        usage={"cpu": "100m", "memory": "1Mi"},
    )


# --- on the screen


@pytest.mark.screen
async def test_head_and_foot_say_whom_one_looks_at() -> None:
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


@pytest.mark.screen
async def test_keys_that_do_not_apply_are_neither_in_the_footer_nor_in_the_help() -> None:
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


@pytest.mark.screen
async def test_a_log_that_breaks_off_is_the_clusters_doing() -> None:
    class Silent(ClusterClient):
        async def logs(self, namespace, pod, query):
            raise AgentUnavailable("api.example: it takes too long to answer")
            yield []

    made = Silent()
    made.say(Node, Synced((named("n0"), named("n1"))))
    made.say(Pod, Synced(tuple(pods())))
    async with running(made) as (app, pilot):
        view = main(app).logs.view

        def said() -> str:
            lines = (view.render_line(y).text for y in range(view.size.height))
            return " ".join(" ".join(lines).split())

        words = "The cluster does not answer: api.example: it takes too long"
        await wait_for(pilot, lambda: words in said(), "who does not answer")


@pytest.mark.screen
async def test_keys_that_do_not_apply_do_nothing() -> None:
    async with running() as (app, pilot):
        for key in ("e", "r", "n", "J", "u", "ctrl+k", "w"):
            await pilot.press(key)
        await pilot.pause()
        assert app.screen is main(app)
        assert app.client.restarted == []  # type: ignore[attr-defined]
        assert not app.notices


@pytest.mark.screen
async def test_the_tabs_of_a_pod() -> None:
    async with running() as (app, pilot):
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
        await pilot.pause()
        tabs = bar_text(app, "tabs")
        assert tabs.split() == ["1", "Overview", "3", "Events", "4", "Logs", "5", "YAML"]
        for expected in ("events", "logs", "yaml", "overview"):
            await pilot.press("tab")
            await wait_for(pilot, lambda to=expected: app.screen._tab == to, expected)
        for key in ("2", "6", "7", "8"):
            await pilot.press(key)
            assert app.screen._tab == "overview"


@pytest.mark.screen
async def test_the_node_is_that_of_the_chosen_pod() -> None:
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


@pytest.mark.screen
async def test_what_one_may_not_see_is_said_where_it_would_be() -> None:
    made = ClusterClient()
    refusal = 'is forbidden: User "anne" cannot list resource at the cluster scope, says the server'
    made.say(Node, Lost(f"nodes {refusal}", refused=True))
    made.say(Event, Lost(f"events {refusal}", refused=True))
    made.say(Pod, Synced(tuple(pods())))
    async with running(made) as (app, pilot):
        await pilot.press("4")
        view = app.screen.query_one("#node-view", LinesView)

        def said() -> str:
            rows = [view.render_line(y).text for y in range(view.size.height)]
            return " ".join("".join(rows).split())

        await wait_for(pilot, lambda: f"nodes {refusal}" in said(), "the refusal, to its end")
        assert app.model.link is Link.CONNECTED
        assert len(main(app).pods.table.set.rows) == len(app.model.pods)
        await pilot.press("2")
        await pilot.pause()
        assert f"events {refusal}" in " ".join("".join(table_text(app, "events")).split())


async def test_a_refused_kind_that_comes_is_shown() -> None:
    model = Model(SERVER)
    model.fold(Event, Lost("no", refused=True))
    assert model.refusals == {Event: "no"}
    model.fold(Event, Synced(some_events()))
    assert model.refusals == {}
    assert model.events


@pytest.mark.screen
async def test_a_lost_server_is_named() -> None:
    made = ClusterClient()
    for kind in (Node, Pod, Event):
        made.say(kind, Lost("api.example:6443: nothing listens there"))
    app = make_app(made, server=SERVER)
    async with app.run_test(size=(120, 36)) as pilot:
        await wait_for(
            pilot, lambda: "nothing listens" in "".join(table_text(app)), "what went wrong"
        )
        assert "agent" not in "".join(table_text(app))
        assert "lost: api.example:6443" in bar_text(app, "status")


@pytest.mark.screen
async def test_delete_asks_first_and_tells_what_the_server_refused() -> None:
    made = client()
    async with running(made) as (app, pilot):
        pod = main(app).pods.pod
        assert pod is not None
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        asked = screen_text(app)
        assert "A cluster has no undo." in asked
        assert fate(pod) in asked
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is main(app), "the screen again")
        assert made.deleted == []
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        await pilot.press("y")
        await wait_for(pilot, lambda: made.deleted == [pod.metadata.name], "the deletion")
        await wait_for(pilot, lambda: not app.session._asking, "the end of it")
        made.kept = {pod.metadata.name}
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        await pilot.press("y")
        await notified(app, pilot, "is forbidden")


@pytest.mark.screen
async def test_read_only_deletes_nothing() -> None:
    made = client()
    async with running(made, readonly=True) as (app, pilot):
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert app.screen is main(app)


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (("ReplicaSet", "web-1"), "has 30 s to end; ReplicaSet web-1 makes another"),
        (("Job", "j"), "has 30 s to end; Job j may make another"),
        (("Node", "n1"), "is a static pod of Node n1: its kubelet makes the record again"),
        (None, "has 30 s to end; it has no owner: it is not recreated"),
    ],
)
def test_what_becomes_of_a_deleted_pod(owner: tuple[str, str] | None, words: str) -> None:
    owners = ()
    if owner is not None:
        kind, name = owner
        owners = (OwnerReference(apiVersion="v1", kind=kind, name=name, uid="u", controller=True),)
    pod = placed(gallery()[0], "n0", ownerReferences=owners)
    pod = structs.replace(pod, spec=structs.replace(pod.spec, terminationGracePeriodSeconds=None))
    assert fate(pod) == words


@pytest.mark.screen
@pytest.mark.parametrize(("typed", "wanted"), [("staging", "staging"), ("prod-eu", "")])
async def test_turning_to_another_context(typed: str, wanted: str) -> None:
    async with running() as (app, pilot):
        app.run_command(f"ctx {typed}")
        await pilot.pause()
        await asyncio.sleep(0)
        assert app.turn_to == wanted


@pytest.mark.screen
async def test_an_unknown_context_lists_those_there_are() -> None:
    async with running() as (app, pilot):
        app.run_command("ctx nowhere")
        await wait_for(pilot, lambda: len(app.notices) > 0, "the words")
        assert any("there are prod-eu, staging" in n.message for n in app.notices)
