"""Objects that are no pods on the screen: why, the label of the node, and the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui_app import notified, running, wait_for
from tui_records import texts
from tui_scene import FakeClient, node
from why_objects import failing_deployment, unschedulable_pod

from podtui.client.any_kind import ServedKind
from podtui.client.protocol import Synced
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.tui.screens.tree_screen import TreeScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.widgets.dialogs import Dialog
from podtui.tui.widgets.tones import LinesView

NO_NODE = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


class Client(FakeClient):
    """Records patches."""

    def __init__(self, pods: list[Any], objects: Sequence[Any] = ()) -> None:
        super().__init__()
        self.patches: list[tuple[str, str, Any]] = []
        self.fill(pods, (), (), (node(),))
        for item in objects:
            self.send(type(item), Synced((item,)))

    async def patch_object(
        self, kind: ServedKind, namespace: str, name: str, patch: Mapping[str, Any], **more: Any
    ) -> Any:
        self.patches.append((kind.plural, name, patch))


def scene() -> Client:
    return Client(*failing_deployment())


def shown(screen: Any) -> str:
    return "\n".join(texts(screen.query_one("#why-text", LinesView).lines))


async def test_why_of_a_deployment_shows_its_failing_pod() -> None:
    async with running(scene(), (120, 36)) as (app, pilot):
        app.run_command("why deploy/web")
        await wait_for(pilot, lambda: isinstance(app.screen, ObjectWhyScreen), "the screen")
        await wait_for(pilot, lambda: "pod/web-1-b" in shown(app.screen), "the pod")
        text = shown(app.screen)
        assert "Not all of its pods are available: 2 of 2 pods updated, 1 available." in text
        assert "code 3" in text
        assert "web-1-a" not in text


async def test_why_of_an_unknown_kind_suggests_one() -> None:
    async with running(scene(), (120, 36)) as (app, pilot):
        app.run_command("why deploymnt/web")
        await notified(app, pilot, "did you mean deployment?")


async def test_the_tree_shows_owners_services_and_claims() -> None:
    async with running(scene(), (140, 50)) as (app, pilot):
        app.run_command("tree")
        await wait_for(pilot, lambda: isinstance(app.screen, TreeScreen), "the tree")
        screen = app.screen
        assert isinstance(screen, TreeScreen)

        def lines() -> list[str]:
            rows = (screen.table.set.rows[key] for key in screen.table.set.order)
            return [" ".join(row.cells[0].text.split()) for row in rows]

        await wait_for(pilot, lambda: "▸ claims" in lines(), "the heads")
        assert lines()[-3:] == ["▸ workloads", "▸ services", "▸ claims"]
        await pilot.press("plus")
        await wait_for(pilot, lambda: "▾ workloads" in lines(), "all is open")
        tree = lines()
        below = tree[tree.index("▾ workloads") :]
        assert below == [
            "▾ workloads", "▾ deploy/web", "▾ rs/web-1", "▾ web-1-a", "c", "▾ web-1-b", "c",
            "▾ services", "▾ svc/web", "▾ web-1-a", "c", "▾ web-1-b", "c",
            "▾ claims", "▾ pvc/data", "▾ pv/v1", "▾ web-1-a", "c",
        ]  # fmt: skip
        key = next(key for key, item in screen.view.shown.items() if item.label == "svc/web")
        screen.table.select(key)
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, ObjectWhyScreen), "why")


async def test_a_pod_names_its_workload() -> None:
    async with running(scene(), (120, 36)) as (app, pilot):
        app.run_command("why pod/web-1-b")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        await wait_for(pilot, lambda: "It belongs to rs/web-1 of deploy/web." in shown(app.screen),
                       "the owner")  # fmt: skip


async def test_a_key_labels_the_node() -> None:
    pod = unschedulable_pod("ssd", NO_NODE, nodeSelector={"disk": "ssd"})
    client = Client([pod])
    async with running(client, (120, 36)) as (app, pilot):
        app.run_command("why pod/ssd")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        await wait_for(pilot, lambda: "disk=ssd" in shown(app.screen), "the label")
        await pilot.press("L")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        await pilot.press("y")
        await wait_for(pilot, lambda: bool(client.patches), "the patch")
        assert client.patches == [("nodes", "n1", {"metadata": {"labels": {"disk": "ssd"}}})]
        assert "kubectl label node n1 --overwrite disk=ssd" in app.session.journal[-1].line
