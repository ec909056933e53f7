"""A screen with a real manifest folder and a scripted agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import structs
from textual.pilot import Pilot
from tui_app import running, wait_for
from tui_scene import FakeClient, manifest, node, pod, status

from podtui.api.local import FieldChange, Manifest, Plan, PlanOutcome, PodPlan
from podtui.api.v1 import ObjectMeta, Pod
from podtui.tui.app import PodtuiApp
from podtui.tui.widgets.dialogs import Dialog

WEB = b"kind: Pod\n"


def plan(outcome: PlanOutcome = PlanOutcome.REPLACED) -> Plan:
    image = FieldChange(field="spec.containers[0].image", old="a:1", new="a:2", line=9)
    return Plan(
        metadata=ObjectMeta(name="web.yaml"),
        path="/m/web.yaml",
        pods=(PodPlan(outcome=outcome, namespace="default", name="web-n1", changes=(image,)),),
    )


def write_manifest(name: str, folder: Path) -> Manifest:
    """Write a file into the folder and return it with its record."""
    path = folder / f"{name}.yaml"
    path.write_bytes(WEB)
    record = manifest(path.name, pod_name=f"{name}-n1")
    return structs.replace(record, spec=structs.replace(record.spec, path=str(path)))


@asynccontextmanager
async def running_app(
    folder: Path, *pods: Pod, **settings: object
) -> AsyncIterator[tuple[PodtuiApp, Pilot[None], FakeClient]]:
    client = FakeClient()
    pods = pods or (pod("web", status("app")),)
    names = [one.metadata.name.removesuffix("-n1") for one in pods]
    client.fill(pods, (), [write_manifest(name, folder) for name in names], (node(),))
    client.answer_plan = plan()
    async with running(client, **settings) as (app, pilot):
        yield app, pilot, client


async def open_dialog(app: PodtuiApp, pilot: Pilot[None]) -> Dialog:
    await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "a dialog")
    assert isinstance(app.screen, Dialog)
    await wait_for(pilot, lambda: app.screen.view.lines, "it has something to say")
    return app.screen
