"""The screen on a cluster: unsupported features are hidden, the others work."""

from __future__ import annotations

import pytest
from msgspec import structs
from tui_records import node_named, placed, pods_on_two_nodes
from tui_scene import events as some_events
from tui_scene import gallery

from podtui.api.local import NodeMetrics
from podtui.api.v1 import Event, Node, ObjectMeta, OwnerReference, Pod
from podtui.client.protocol import AGENT, CLUSTER, Lost, Server, ServerCapabilities, Synced
from podtui.tui.commands.actions import ACTIONS
from podtui.tui.commands.availability import NEEDS, is_available, is_binding_available
from podtui.tui.commands.delete import deletion_effect
from podtui.tui.commands.key_registry import known_bindings
from podtui.tui.commands.registry import COMMANDS, available_commands
from podtui.tui.model.model import Model
from podtui.tui.screens.node.node_screen import NODE_TABS
from podtui.tui.screens.pods.pod_screen import POD_TABS
from podtui.tui.views.node.allocation import allocation_of, whole_node, whole_use

SERVER = Server(
    capabilities=CLUSTER,
    host="api.example:6443",
    context="prod-eu",
    cluster="eu-1",
    user="anne",
    contexts=("prod-eu", "staging"),
)


# --- what there is, as data


def test_capabilities_are_complete_for_an_agent() -> None:
    needs = (*NEEDS.values(), *(action.needs for action in ACTIONS.values()))
    names = {name for group in needs for name in group}
    assert all(isinstance(getattr(AGENT, name), bool) for name in names)
    assert not any(getattr(AGENT, name) for name in ("deletes", "several_nodes", "contexts"))


def test_listed_actions_tabs_and_bindings_exist() -> None:
    """A renamed key must not become available on a cluster unnoticed."""
    actions = {known.action.partition("(")[0].rpartition(".")[2] for known in known_bindings()}
    actions |= {command.action.rpartition(".")[2] for command in COMMANDS}
    tabs = {f"tab.{tab}" for tab in (*POD_TABS, *NODE_TABS)}
    assert NEEDS.keys() <= actions | tabs | {known.id for known in known_bindings()}
    assert {"tab", "open_node", "do"} <= actions


def test_bindings_of_a_tab_or_screen_are_hidden_with_it() -> None:
    hidden = {
        known.id
        for known in known_bindings()
        if not is_binding_available(CLUSTER, known.id, known.action)
    }
    groups = {
        "timeline",
        "resources",
        "probes",
        "what-if",
        "journal",
        "trash",
        "manifest",
        "images",
    }
    assert {known.id for known in known_bindings() if known.group in groups} <= hidden
    assert {"why.apply", "why.next", "why.before", "act.restart", "pod.probes"} <= hidden
    assert not hidden & {"log-prompt.earlier", "act.shell", "pod.yaml"}


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
    assert is_available(CLUSTER, action, parameters) is there
    assert is_available(AGENT, action, parameters) is (action != "context")


def test_deleting_needs_files_or_records() -> None:
    neither = ServerCapabilities(manifests=False)
    assert not is_available(neither, "delete")
    assert not is_binding_available(CLUSTER, "probes.run", "run")
    assert is_binding_available(AGENT, "probes.run", "run")


def test_commands() -> None:
    names = {command.name for command in available_commands(CLUSTER)}
    assert {"pods", "node", "context", "forwards"} <= names
    assert not {"new", "undo", "trash", "journal", "images", "rejected", "what-if"} & names
    assert "context" not in {command.name for command in available_commands(AGENT)}


def test_commands_mention_an_agent_only_if_there_is_one() -> None:
    assert any("agent" in command.help for command in available_commands(AGENT))
    assert not [command.help for command in available_commands(CLUSTER) if "agent" in command.help]


# --- several nodes


def test_all_nodes_together() -> None:
    whole = whole_node({"a": node_named("a"), "b": node_named("b")})
    assert whole is not None
    one = node_named("a").status.allocatable
    assert whole.status.allocatable["pods"] == str(2 * int(one["pods"]))
    assert whole.metadata.name == "2 nodes"
    assert whole_node({}) is None


def test_allocations_are_of_the_pods_node() -> None:
    from podtui.tui.views.node.allocation import requests_of

    model = Model(SERVER)
    model.fold(Node, Synced((node_named("n0"), node_named("n1"))))
    model.fold(Pod, Synced(tuple(pods_on_two_nodes())))
    asks = {key: requests_of(pod) for key, pod in model.pods.items()}
    first = next(pod for pod in model.pods.values() if pod.spec.nodeName == "n1")
    books = allocation_of(model, asks, first)
    assert books is not None
    assert books.node.metadata.name == "n1"
    assert {model.pods[ask.key].spec.nodeName for ask in books.asks} == {"n1"}
    everything = allocation_of(model, asks, None)
    assert everything is not None
    assert len(everything.asks) == len(model.pods)


def test_total_usage_requires_usage_of_each_node() -> None:
    model = Model(SERVER)
    model.fold(Node, Synced((node_named("n0"), node_named("n1"))))
    model.set_node_usages((use("n0"),))
    assert whole_use(model) is None
    model.set_node_usages((use("n0"), use("n1")))
    found = whole_use(model)
    assert found is not None
    assert found.cpu == 200
    assert model.use_of(node_named("n1")) is not None


def use(name: str) -> NodeMetrics:
    return NodeMetrics(
        metadata=ObjectMeta(name=name),
        timestamp="2026-01-01T00:00:00Z",
        window="10s",
        usage={"cpu": "100m", "memory": "1Mi"},
    )


async def test_a_kind_that_becomes_readable_is_shown() -> None:
    model = Model(SERVER)
    model.fold(Event, Lost("no", refused=True))
    assert model.refusals == {Event: "no"}
    model.fold(Event, Synced(some_events()))
    assert model.refusals == {}
    assert model.events


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (("ReplicaSet", "web-1"), "terminates (up to 30 s); ReplicaSet web-1 recreates it"),
        (("Job", "j"), "terminates (up to 30 s); Job j may recreate it"),
        (("Node", "n1"), "is a static pod of Node n1; its kubelet recreates the mirror pod"),
        (None, "terminates (up to 30 s); no owner recreates it"),
    ],
)
def test_consequences_of_a_deletion(owner: tuple[str, str] | None, words: str) -> None:
    owners = ()
    if owner is not None:
        kind, name = owner
        owners = (OwnerReference(apiVersion="v1", kind=kind, name=name, uid="u", controller=True),)
    pod = placed(gallery()[0], "n0", ownerReferences=owners)
    pod = structs.replace(pod, spec=structs.replace(pod.spec, terminationGracePeriodSeconds=None))
    assert deletion_effect(pod) == words
