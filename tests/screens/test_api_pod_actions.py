"""Deleting, editing and creating pods of the API on the screen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from action_scene import asked
from msgspec import structs
from textual.pilot import Pilot
from tui_app import notified, running, wait_for
from tui_scene import FakeClient, ended, node, pod, status

from podtui.api.v1 import OwnerReference, Pod, PodCondition, PodReadinessGate
from podtui.errors import ApiError
from podtui.tui.app import PodtuiApp
from podtui.tui.commands import edit_manifest
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.widgets.tones import LinesView


class ApiClient(FakeClient):
    """Accepts writes of pods, or refuses the next one."""

    def __init__(self, one: Pod) -> None:
        super().__init__()
        self.one = one
        self.deleted: list[str] = []
        self.replaced: list[bytes] = []
        self.subresources: list[str] = []
        self.created: list[tuple[str, bytes]] = []
        self.refusals: list[str] = []

    async def get(self, kind: type, namespace: str, name: str) -> Pod:
        assert (kind, namespace, name) == (Pod, "default", self.one.metadata.name)
        return self.one

    async def delete_pod(self, one: Pod) -> None:
        self.deleted.append(one.metadata.name)

    async def replace_pod(
        self,
        namespace: str,
        name: str,
        text: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> None:
        if self.refusals:
            raise ApiError(422, "Invalid", self.refusals.pop())
        if not dry_run:
            self.replaced.append(text)
            self.subresources.append(subresource)

    async def create_pod(self, namespace: str, text: bytes) -> None:
        self.created.append((namespace, text))


@asynccontextmanager
async def guest(one: Pod | None = None) -> AsyncIterator[tuple[PodtuiApp, Pilot[None], ApiClient]]:
    """A screen with one pod, which the API created."""
    if one is None:
        one = pod("web", status("app"))
        one = structs.replace(one, metadata=structs.replace(one.metadata, annotations={}))
    client = ApiClient(one)
    client.fill((one,), (), (), (node(),))
    async with running(client) as (app, pilot):
        yield app, pilot, client


def edits(monkeypatch: pytest.MonkeyPatch, *edit: Callable[[str], str]) -> None:
    """Replace the editor: one function for each time that it is opened."""
    left = list(edit)

    def change(file: Path) -> None:
        file.write_text(left.pop(0)(file.read_text()))

    async def run(app: object, words: list[str]) -> None:
        change(Path(words[-1]))

    monkeypatch.setattr(edit_manifest, "run_in_terminal", run)


async def test_a_pod_of_the_api_is_deleted_through_the_api() -> None:
    async with guest() as (app, pilot, client):
        await pilot.press("ctrl+d")
        dialog = await asked(app, pilot)
        text = "\n".join("".join(span.text for span in line) for line in dialog.view.lines)
        assert "has 30 s to terminate; no owner recreates it" in text
        assert client.deleted == []
        await pilot.press("y")
        await notified(app, pilot, "web-n1")
        assert client.deleted == ["web-n1"]


async def test_an_edit_goes_through_the_api_and_can_be_repeated_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits(monkeypatch, lambda text: text + "# one\n", lambda text: text + "# two\n")
    async with guest() as (app, pilot, client):
        client.refusals.append("spec: Forbidden: pod updates may not change fields")
        await pilot.press("e")
        dialog = await asked(app, pilot)
        text = "\n".join("".join(span.text for span in line) for line in dialog.view.lines)
        assert "pod updates may not change fields" in text
        await pilot.press("e")
        await notified(app, pilot, "Applied through the API.")
        (replaced,) = client.replaced
        assert replaced.startswith(b"apiVersion: v1\nkind: Pod\n")
        assert replaced.endswith(b"# one\n# two\n")


def hungry() -> Pod:
    """An API pod that was killed for using more memory than its limit."""
    over = status("app", ended(137, reason="OOMKilled"))
    one = pod("web", over, limits={"memory": "16Mi"})
    return structs.replace(one, metadata=structs.replace(one.metadata, annotations={}))


@pytest.mark.parametrize(
    ("refusals", "words", "replaced", "created"),
    [
        ([], "The API updates the pod in place.", [""], 0),
        (["Forbidden"], "The pod is resized in place.", ["resize"], 0),
        (["Forbidden", "Forbidden"], "it is deleted, and created again", [], 1),
    ],
    ids=["update", "resize", "recreate"],
)
async def test_a_fix_of_an_api_pod_goes_through_the_api(
    refusals: list[str], words: str, replaced: list[str], created: int
) -> None:
    async with guest(hungry()) as (app, pilot, client):
        client.refusals += refusals
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        await wait_for(pilot, lambda: app.screen.check_action("apply", ()), "a fix")
        await pilot.press("f")
        dialog = await asked(app, pilot)
        text = "\n".join("".join(span.text for span in line) for line in dialog.view.lines)
        assert "-         memory: 16Mi" in text
        assert "+         memory: 32Mi" in text
        assert words in text
        await pilot.press("y")
        await notified(app, pilot, "Double the memory limit to 32Mi")
        assert client.subresources == replaced
        assert client.deleted == ["web-n1"] * created
        sent = client.created[0][1] if created else client.replaced[0]
        assert b"memory: 32Mi" in sent
        assert b"uid:" not in sent
        assert b"phase" not in sent


async def test_a_fix_that_a_resize_would_ignore_creates_the_pod_again() -> None:
    one = pod("web", status("app"))
    text = 'the status of pod readiness gate "a.b/c" is not "True", but False'
    gate = PodCondition(type="Ready", status="False", reason="ReadinessGatesNotReady", message=text)
    gates = (PodReadinessGate(conditionType="a.b/c"),)
    one = structs.replace(
        one,
        metadata=structs.replace(one.metadata, annotations={}),
        spec=structs.replace(one.spec, readinessGates=gates),
        status=structs.replace(one.status, conditions=(gate,)),
    )
    async with guest(one) as (app, pilot, client):
        client.refusals.append("Forbidden")
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        await wait_for(pilot, lambda: app.screen.check_action("apply", ()), "a fix")
        await pilot.press("f")
        await asked(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "Remove the readiness gates")
        assert client.replaced == []
        assert client.deleted == ["web-n1"]
        assert b"readinessGates" not in client.created[0][1]


async def test_a_terminating_pod_is_explained() -> None:
    one = pod("web", status("app"), deleted=True)
    one = structs.replace(
        one, metadata=structs.replace(one.metadata, annotations={}, finalizers=("a.b/hold",))
    )
    async with guest(one) as (app, pilot, _):
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        shown = app.screen.query_one("#why-text", LinesView)
        await wait_for(pilot, lambda: "a.b/hold" in str(shown.lines), "the explanation")


async def test_the_pod_of_an_owner_has_no_fix_of_its_own() -> None:
    owner = OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="web", uid="u")
    one = hungry()
    one = structs.replace(one, metadata=structs.replace(one.metadata, ownerReferences=(owner,)))
    async with guest(one) as (app, pilot, _):
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        await pilot.pause()
        assert not app.screen.check_action("apply", ())


async def test_an_unchanged_text_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    edits(monkeypatch, lambda text: text)
    async with guest() as (app, pilot, client):
        await pilot.press("e")
        await notified(app, pilot, "Nothing was changed.")
        assert client.replaced == []


async def test_a_pod_is_created_through_the_api_from_a_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits(monkeypatch, lambda text: text)
    async with guest() as (_, pilot, client):
        await pilot.press("colon", *"create", "enter")
        await pilot.pause()
        await pilot.press("enter")
        await wait_for(pilot, lambda: client.created, "a pod")
        ((namespace, text),) = client.created
        assert namespace == "default"
        assert b"kind: Pod" in text
