"""Deleting, editing and creating pods of the API on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from action_scene import open_dialog
from msgspec import structs
from textual.pilot import Pilot
from tui_app import notified, running, wait_for
from tui_records import texts
from tui_scene import FakeClient, ended, node, pod, status

from podtui.api.v1 import (
    ContainerState,
    ContainerStatus,
    OwnerReference,
    Pod,
    PodCondition,
    PodReadinessGate,
)
from podtui.client.protocol import Changed, Removed
from podtui.errors import ApiError
from podtui.tui.app import PodtuiApp
from podtui.tui.commands import edit_manifest
from podtui.tui.commands.saved_pods import SavedPods
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.widgets.dialogs import Dialog
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
        self.lost: asyncio.Event | None = None
        """Set when a creation begins that never ends."""

    async def get(self, kind: type, namespace: str, name: str) -> Pod:
        assert (kind, namespace, name) == (Pod, "default", "web-n1")
        if self.one.metadata.name in self.deleted:
            raise ApiError(404, "NotFound", "not found")
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

    async def create_pod(self, namespace: str, text: bytes, *, dry_run: bool = False) -> None:
        if self.lost is not None and not dry_run:
            self.lost.set()
            await asyncio.Event().wait()
        if dry_run:
            raise ApiError(409, "AlreadyExists", f"{namespace}: exists")
        self.created.append((namespace, text))


@asynccontextmanager
async def api_pod_screen(
    one: Pod | None = None, **settings: Any
) -> AsyncIterator[tuple[PodtuiApp, Pilot[None], ApiClient]]:
    """A screen with one pod, which the API created."""
    if one is None:
        one = pod("web", status("app"))
        one = structs.replace(one, metadata=structs.replace(one.metadata, annotations={}))
    client = ApiClient(one)
    client.fill((one,), (), (), (node(),))
    async with running(client, **settings) as (app, pilot):
        yield app, pilot, client


def edits(monkeypatch: pytest.MonkeyPatch, *edit: Callable[[str], str]) -> None:
    """Replace the editor: one function for each time that it is opened."""
    left = list(edit)

    def change(file: Path) -> None:
        file.write_text(left.pop(0)(file.read_text()))

    async def run(app: object, words: list[str]) -> None:
        change(Path(words[-1]))

    monkeypatch.setattr(edit_manifest, "run_in_terminal", run)


async def apply_fix(app: PodtuiApp, pilot: Pilot[None]) -> None:
    """Open the why screen of the pod, and confirm its fix."""
    await pilot.press("X")
    await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
    await wait_for(pilot, lambda: app.screen.check_action("apply", ()), "a fix")
    await pilot.press("f")
    await open_dialog(app, pilot)
    await pilot.press("y")


async def test_a_pod_of_the_api_is_deleted_through_the_api() -> None:
    async with api_pod_screen() as (app, pilot, client):
        await pilot.press("ctrl+d")
        dialog = await open_dialog(app, pilot)
        text = "\n".join("".join(span.text for span in line) for line in dialog.view.lines)
        assert "terminates (up to 30 s); no owner recreates it" in text
        assert client.deleted == []
        await pilot.press("y")
        await notified(app, pilot, "web-n1")
        assert client.deleted == ["web-n1"]


def text_of(dialog: Dialog) -> str:
    lines = ("".join(span.text for span in line) for line in dialog.view.lines)
    return "\n".join((*lines, *(option.label for option in dialog.buttons.options)))


async def test_an_edit_shows_the_change_before_the_api_gets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits(monkeypatch, lambda text: text.replace("app: web", "app: web\n    a: b"))
    async with api_pod_screen() as (app, pilot, client):
        await pilot.press("e")
        text = text_of(await open_dialog(app, pilot))
        assert "+     a: b" in text
        assert "The API updates the pod in place." in text
        assert client.replaced == []
        await pilot.press("y")
        await notified(app, pilot, "web-n1: edit")
        (replaced,) = client.replaced
        assert b"a: b" in replaced
        assert b"phase" not in replaced


async def test_an_edit_that_the_api_does_not_allow_in_place_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits(monkeypatch, lambda text: text + "# one\n", lambda text: text + "# two\n")
    async with api_pod_screen() as (app, pilot, client):
        client.refusals += ["Forbidden", "spec: Forbidden: pod updates may not change fields"]
        await pilot.press("e")
        first = await open_dialog(app, pilot)
        text = text_of(first)
        assert "pod updates may not change fields" in text
        assert "Delete and create again" in text
        await pilot.press("e")
        await wait_for(pilot, lambda: app.screen is not first, "the editor")
        assert "# two" in text_of(await open_dialog(app, pilot))
        await pilot.press("y")
        await notified(app, pilot, "web-n1: edit")
        (replaced,) = client.replaced
        assert replaced.endswith(b"# one\n# two\n")
        assert client.deleted == []


async def test_an_edit_that_is_not_applied_is_kept_as_a_draft(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits(monkeypatch, lambda text: text + "# one\n", lambda text: text + "# two\n")
    async with api_pod_screen() as (app, pilot, client):
        await pilot.press("e")
        await open_dialog(app, pilot)
        await pilot.press("escape")
        await notified(app, pilot, "e reopens your draft")
        await pilot.press("e")
        assert "# one" in text_of(await open_dialog(app, pilot))
        await pilot.press("d")
        await notified(app, pilot, "Draft discarded")
        assert (client.replaced, app.session.drafts) == ([], {})


async def test_an_edit_says_that_the_pod_has_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with api_pod_screen() as (app, pilot, client):

        def edit(text: str) -> str:
            meta = structs.replace(client.one.metadata, labels={"by": "another"})
            client.one = structs.replace(client.one, metadata=meta)
            return text + "# one\n"

        edits(monkeypatch, edit)
        await pilot.press("e")
        text = text_of(await open_dialog(app, pilot))
        assert "-     by: another" in text
        assert "The pod has changed" in text


async def test_an_edit_of_a_pod_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    edits(monkeypatch, lambda text: text.replace("app: web", "app: web\n    a: b"))
    async with api_pod_screen() as (app, pilot, client):
        await pilot.press("e")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "web-n1: edit")
        meta = structs.replace(client.one.metadata, labels={"app": "web", "a": "b"})
        client.one = structs.replace(client.one, metadata=meta)
        await pilot.press("u")
        assert "-     a: b" in text_of(await open_dialog(app, pilot))
        await pilot.press("y")
        await notified(app, pilot, "Undone: edit")
        assert b"a: b" not in client.replaced[-1]
        assert app.session.undoable == []


async def test_a_deleted_pod_is_created_again_by_undo() -> None:
    async with api_pod_screen() as (app, pilot, client):
        await pilot.press("ctrl+d")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "web-n1 deleted")
        await pilot.press("u")
        await notified(app, pilot, "Created again")
        ((namespace, text),) = client.created
        assert namespace == "default"
        assert b"name: web-n1" in text
        assert app.session.undoable == []


async def test_a_screen_that_ends_between_delete_and_create_loses_no_pod(tmp_path: Path) -> None:
    async with api_pod_screen(oom_killed_pod(), saved_pods=SavedPods(tmp_path, "s")) as (
        app,
        pilot,
        client,
    ):
        client.refusals += ["Forbidden", "Forbidden"]
        client.lost = asyncio.Event()
        await apply_fix(app, pilot)
        await wait_for(pilot, client.lost.is_set, "the creation")
        leaving = ["".join(span.text for span in line) for line in app.session.ended_by_leaving]
        assert leaving == ["✖ creation of pod web-n1"]
    (kept,) = tmp_path.rglob("*.yaml")  # noqa: ASYNC240
    assert kept.stat().st_mode & 0o777 == 0o600
    client = ApiClient(oom_killed_pod())
    client.deleted.append("web-n1")
    client.fill((), (), (), (node(),))
    async with running(client, saved_pods=SavedPods(tmp_path, "s")) as (app, pilot):
        assert "default/web-n1 was deleted to change it" in text_of(await open_dialog(app, pilot))
        await pilot.press("y")
        await notified(app, pilot, "Created again")
        assert b"memory: 32Mi" in client.created[0][1]
        await wait_for(pilot, lambda: not kept.exists(), "the file is removed")


async def test_nothing_is_deleted_if_the_manifest_cannot_be_saved(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    async with api_pod_screen(oom_killed_pod(), saved_pods=SavedPods(tmp_path, "s")) as (
        app,
        pilot,
        client,
    ):
        client.refusals += ["Forbidden", "Forbidden"]
        await apply_fix(app, pilot)
        await notified(app, pilot, "the pod was not deleted")
        assert client.deleted == []


def oom_killed_pod() -> Pod:
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
    async with api_pod_screen(oom_killed_pod()) as (app, pilot, client):
        client.refusals += refusals
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        await wait_for(pilot, lambda: app.screen.check_action("apply", ()), "a fix")
        await pilot.press("f")
        dialog = await open_dialog(app, pilot)
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


@pytest.mark.parametrize("recreated", [False, True], ids=["resized", "recreated"])
async def test_the_fix_of_an_api_pod_is_followed(recreated: bool) -> None:
    broken = oom_killed_pod()
    async with api_pod_screen(broken) as (app, pilot, client):
        client.refusals += ["Forbidden"] * (2 if recreated else 1)

        def why_text() -> str:
            return "\n".join(texts(app.screen.query_one("#why-text", LinesView).lines))

        def show(state: ContainerStatus) -> None:
            fixed = pod(
                "web", state, limits={"memory": "32Mi"}, uid="new" if recreated else "uid-web"
            )
            meta = structs.replace(fixed.metadata, annotations={})
            app.model.fold(Pod, Changed((structs.replace(fixed, metadata=meta),)))
            app.publish_pending()

        await apply_fix(app, pilot)
        await wait_for(
            pilot,
            lambda: "not verified yet: waiting for the pod to be changed" in why_text(),
            "wait",
        )
        if recreated:
            app.model.fold(Pod, Removed((broken,)))
        runs = status("app", restarts=1, last=ended(137, reason="OOMKilled", minutes=40))
        show(status("app") if recreated else runs)
        await wait_for(
            pilot, lambda: "applied and verified: app has run for" in why_text(), "it runs"
        )
        end = ended(137, reason="OOMKilled").terminated
        assert end is not None
        end = structs.replace(end, containerID="docker://app1")
        show(status("app", ContainerState(terminated=end), restarts=1))
        await wait_for(
            pilot, lambda: "applied, but it failed again" in why_text(), "it failed again"
        )


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
    async with api_pod_screen(one) as (app, pilot, client):
        client.refusals.append("Forbidden")
        await apply_fix(app, pilot)
        await notified(app, pilot, "Remove the readiness gates")
        assert client.replaced == []
        assert client.deleted == ["web-n1"]
        assert b"readinessGates" not in client.created[0][1]


async def test_a_terminating_pod_is_explained() -> None:
    one = pod("web", status("app"), deleted=True)
    one = structs.replace(
        one, metadata=structs.replace(one.metadata, annotations={}, finalizers=("a.b/hold",))
    )
    async with api_pod_screen(one) as (app, pilot, _):
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        shown = app.screen.query_one("#why-text", LinesView)
        await wait_for(pilot, lambda: "a.b/hold" in str(shown.lines), "the explanation")
        assert "a.b/hold" in str(shown.lines)


async def test_the_pod_of_an_owner_has_no_fix_of_its_own() -> None:
    owner = OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="web", uid="u")
    one = oom_killed_pod()
    one = structs.replace(one, metadata=structs.replace(one.metadata, ownerReferences=(owner,)))
    async with api_pod_screen(one) as (app, pilot, _):
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the screen")
        await pilot.pause()
        assert not app.screen.check_action("apply", ())


async def test_an_unchanged_text_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    edits(monkeypatch, lambda text: text)
    async with api_pod_screen() as (app, pilot, client):
        await pilot.press("e")
        await notified(app, pilot, "Nothing was changed.")
        assert client.replaced == []


async def test_a_pod_is_created_through_the_api_from_a_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits(monkeypatch, lambda text: text)
    async with api_pod_screen() as (_, pilot, client):
        await pilot.press("colon", *"create", "enter")
        await pilot.pause()
        await pilot.press("enter")
        await wait_for(pilot, lambda: client.created, "a pod")
        ((namespace, text),) = client.created
        assert namespace == "default"
        assert b"kind: Pod" in text
