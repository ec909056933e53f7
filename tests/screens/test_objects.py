"""Lists of objects of any kind, and the screen of one object, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from action_scene import open_dialog
from cluster_server import cluster_client
from object_scene import (
    cron_job,
    deployment,
    object_world,
    open_list,
    open_object,
    running_on,
    secret,
)
from tui_app import bar_text, notified, screen_text, view_text, wait_for

from podtui.client.protocol import CLUSTER, Server
from podtui.tui.screens.objects.kinds_screen import KindsScreen
from podtui.tui.screens.objects.object_screen import ObjectScreen, ValueScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.widgets.dialogs import Dialog, TextDialog

SERVER = Server(
    capabilities=CLUSTER, host="api.example:6443", context="prod-eu", cluster="eu-1", user="anne",
    contexts=("prod-eu",),
)  # fmt: skip


async def test_a_list_has_the_columns_of_kubectl_and_follows_changes(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        await world.create("deployments.apps", deployment())
        screen = await open_list(app, pilot, "deploy")
        await pilot.pause()
        titles = screen.pane.table.render_line(0).text.split()
        assert titles[:5] == ["NAME↑", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
        assert "nginx:1.27" in screen_text(app)  # a wide column, where there is space
        assert "1 · apps/v1" in bar_text(app, "header")
        await world.create("deployments.apps", deployment("api"))
        await wait_for(pilot, lambda: len(screen.pane.table.set) == 2, "the new one")
        # Filters know the columns of the Table.
        await pilot.press("slash", *"ready=0/2", "space", *"name=api", "enter")
        assert screen.chosen_objects()[0].name == "api"
        assert len(screen.pane.table.set) == 1


async def test_narrow_lists_leave_wide_columns_out(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world, (80, 24)) as (app, pilot):
        await world.create("deployments.apps", deployment())
        screen = await open_list(app, pilot, "deploy")
        await pilot.pause()
        text = screen.pane.table.render_line(0).text
        assert "AGE" in text
        assert "SELECTOR" not in text


async def test_namespaces_have_a_column_until_one_is_selected(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        content = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await world.create("namespaces", content)
        for namespace in ("default", "shop"):
            made = secret()
            made["metadata"]["namespace"] = namespace
            await world.create("secrets", made)
        screen = await open_list(app, pilot, "secrets", 2)
        await pilot.pause()
        assert "NAMESPACE" in screen.pane.table.render_line(0).text
        await pilot.press("n", "3")
        await wait_for(pilot, lambda: len(screen.pane.table.set) == 1, "one namespace")
        assert screen.chosen_objects()[0].namespace == "shop"
        assert "1 in namespace shop" in bar_text(app, "header")


async def test_the_picker_counts_the_objects_of_each_kind(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        for name in ("a", "b"):
            await world.create("secrets", secret(name))
        app.run_command("kinds")
        await wait_for(pilot, lambda: isinstance(app.screen, KindsScreen), "the picker")
        table = app.screen.table  # type: ignore[attr-defined]
        await wait_for(pilot, lambda: "secrets" in table.set.rows, "its rows")
        assert table.set.rows["secrets"].cells[1].text == "2"
        assert table.set.rows["deployments.apps"].cells[2].text == "deploy"
        assert table.select("secrets")
        await pilot.press("enter")
        await wait_for(pilot, lambda: "secrets" in bar_text(app, "header"), "the secrets")


async def test_an_unknown_name_is_refused_and_a_name_completes(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        app.run_command("deployed")
        await notified(app, pilot, "did you mean :deploy")
        assert "statefulsets" in app.command_words()


async def test_tabs_of_a_deployment(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        owner = await world.create("deployments.apps", deployment())
        current = await world.replica_set(owner, 1, "nginx:1.27", "first")
        await world.pod(current, "web-1-abc")
        await world.pod(owner, "other-abc", kind="Deployment")
        screen = await open_object(app, pilot, "deploy")
        # A pod of its ReplicaSet, and one of its own.
        await wait_for(pilot, lambda: len(screen.pods_table.set) == 2, "the pods")
        assert bar_text(app, "tabs").split() == [
            "1", "Pods", "2", "Rollout", "3", "Events", "4", "Logs", "5", "YAML",
        ]  # fmt: skip
        await pilot.press("2")
        await wait_for(pilot, lambda: len(screen.revision_table.set) == 1, "the revision")
        assert "first" in screen_text(app)
        assert "Waiting for deployment" in view_text(screen.rollout_text)
        await pilot.press("4")
        await wait_for(pilot, lambda: "2 pods, 2 logs" in str(screen.logs.border_title), "merged")
        await pilot.press("5")
        await wait_for(pilot, lambda: "kind: Deployment" in screen_text(app), "the text")
        await pilot.press("1", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")


async def test_an_owned_object_names_its_owner(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        owner = await world.create("deployments.apps", deployment())
        await world.replica_set(owner, 1, "nginx:1.27")
        screen = await open_object(app, pilot, "rs")
        await wait_for(pilot, lambda: "owned by Deployment web" in bar_text(app, "header"), "it")
        await pilot.press("o")
        await wait_for(
            pilot, lambda: isinstance(app.screen, ObjectScreen) and app.screen is not screen, "up"
        )
        assert app.screen.meta.name == "web"  # type: ignore[attr-defined]


async def test_scale_asks_and_is_undone(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        await world.create("deployments.apps", deployment())
        await open_list(app, pilot, "deploy")
        await pilot.press("s")
        await wait_for(pilot, lambda: isinstance(app.screen, TextDialog), "the number")
        await pilot.press("x", "enter")
        assert isinstance(app.screen, TextDialog)  # not a number
        await pilot.press("backspace", "5", "enter")
        dialog = await open_dialog(app, pilot)
        assert "2 → 5 replicas: 3 pods more" in view_text(dialog.view)
        assert (await world.read("deployments.apps", "web"))["spec"]["replicas"] == 2
        await pilot.press("y")
        await notified(app, pilot, "2 → 5 replicas")
        assert (await world.read("deployments.apps", "web"))["spec"]["replicas"] == 5
        assert "--replicas=5" in app.session.journal[-1].line
        await pilot.press("u")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "Undone")
        assert (await world.read("deployments.apps", "web"))["spec"]["replicas"] == 2


async def test_roll_back_and_undo(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        made = deployment(image="nginx:2")
        made["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "2"}
        owner = await world.create("deployments.apps", made)
        await world.replica_set(owner, 1, "nginx:1", "the first")
        await world.replica_set(owner, 2, "nginx:2")
        screen = await open_object(app, pilot, "deploy")
        await pilot.press("2")
        await wait_for(pilot, lambda: len(screen.revision_table.set) == 2, "the revisions")
        assert screen.revision_table.set.rows["web-2"].cells[0].text == "2 ●"
        assert screen.revision_table.select("web-1")
        await pilot.press("enter")
        dialog = await open_dialog(app, pilot)
        plan = view_text(dialog.view)
        assert "- image: nginx:2" in plan.replace("    ", "")
        assert "+ " in plan
        await pilot.press("y")
        await notified(app, pilot, "rolled back to revision 1")
        changed = await world.read("deployments.apps", "web")
        assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1"
        assert changed["metadata"]["annotations"]["kubernetes.io/change-cause"] == "the first"
        assert "pod-template-hash" not in changed["spec"]["template"]["metadata"]["labels"]
        await pilot.press("u")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "Undone")
        changed = await world.read("deployments.apps", "web")
        assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"


async def test_restart_pause_and_a_refused_restart(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        await world.create("deployments.apps", deployment())
        await open_list(app, pilot, "deploy")
        await pilot.press("r")
        dialog = await open_dialog(app, pilot)
        assert "RollingUpdate: maxSurge 25%" in view_text(dialog.view)
        await pilot.press("y")
        await notified(app, pilot, "restarted; 2 pods to replace")
        template = (await world.read("deployments.apps", "web"))["spec"]["template"]
        assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]
        await pilot.press("p")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "paused: true")
        await pilot.press("r")
        await notified(app, pilot, "It is paused; resume it first.")


async def test_suspend_and_run_a_cron_job(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        meta = await world.create("cronjobs.batch", cron_job())
        await open_list(app, pilot, "cj")
        await pilot.press("p")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "suspend: true")
        assert (await world.read("cronjobs.batch", "backup"))["spec"]["suspend"] is True
        await pilot.press("t")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "was created")
        await pilot.press("escape")
        screen = await open_list(app, pilot, "jobs")
        name = screen.chosen_objects()[0].name
        job = (await world.read("jobs.batch", name))["metadata"]
        assert job["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
        assert job["ownerReferences"][0]["uid"] == meta.uid


async def test_delete_names_what_ends_and_is_undone(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        owner = await world.create("deployments.apps", deployment())
        await world.pod(await world.replica_set(owner, 1, "nginx:1.27"), "web-1-abc")
        screen = await open_list(app, pilot, "deploy")
        await wait_for(pilot, lambda: app.model.pods, "the pod")
        await pilot.press("ctrl+d")
        dialog = await open_dialog(app, pilot)
        plan = view_text(dialog.view)
        assert "its 1 pod end" in plan
        assert "u creates it again" in plan
        await pilot.press("y")
        await wait_for(pilot, lambda: not len(screen.pane.table.set), "it is gone")
        await pilot.press("u")
        await wait_for(pilot, lambda: len(screen.pane.table.set) == 1, "it is back")
        assert (await world.read("deployments.apps", "web"))["spec"]["replicas"] == 2


async def test_the_values_of_a_secret_are_shown_on_demand(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        await world.create("secrets", secret())
        screen = await open_object(app, pilot, "secret")
        await wait_for(pilot, lambda: len(screen.data_table.set) == 2, "the keys")
        assert "open sesame" not in screen_text(app)
        assert screen.data_table.select("password")
        await pilot.press("x")
        assert "open sesame" in screen_text(app)
        await pilot.press("x", "c")
        assert app.clipboard == "open sesame"
        assert "open sesame" not in screen_text(app)
        await pilot.press("5")
        await wait_for(pilot, lambda: "kind: Secret" in screen_text(app), "its text")
        assert "(11 bytes)" in screen_text(app)
        assert "b3BlbiBzZXNhbWU" not in screen_text(app)
        await pilot.press("6", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, ValueScreen), "the value")
        await wait_for(pilot, lambda: "open sesame" in screen_text(app), "its text")


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Return a function that sets the sed script that the editor runs."""
    script = tmp_path / "change.sed"
    program = tmp_path / "editor"
    program.write_text(f'#!/bin/sh\nsed -i -f {script} "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PODTUI_EDITOR", str(program))
    return script.write_text


async def test_edit_shows_the_difference_and_is_undone(
    tmp_path: Path, editor: Callable[[str], object]
) -> None:
    async with object_world(tmp_path) as world, running_on(world) as (app, pilot):
        await world.create("deployments.apps", deployment())
        await open_list(app, pilot, "deploy")
        editor("s/replicas: 2/replicas: -1/\n")
        await pilot.press("e")
        dialog = await open_dialog(app, pilot)
        assert "must be greater than or equal to 0" in " ".join(view_text(dialog.view).split())
        editor("s/replicas: -1/replicas: 4/\n")
        await pilot.press("e")
        await wait_for(
            pilot,
            lambda: (
                isinstance(app.screen, Dialog) and "+   replicas: 4" in view_text(app.screen.view)
            ),
            "the plan",
        )
        await pilot.press("y")
        await notified(app, pilot, "edited")
        assert (await world.read("deployments.apps", "web"))["spec"]["replicas"] == 4
        await pilot.press("u")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "Undone")
        assert (await world.read("deployments.apps", "web"))["spec"]["replicas"] == 2


async def test_a_read_only_session_refuses_changes(tmp_path: Path) -> None:
    async with (
        object_world(tmp_path) as world,
        running_on(world, readonly=True) as (app, pilot),
    ):
        await world.create("deployments.apps", deployment())
        await open_list(app, pilot, "deploy")
        for key in ("s", "r", "ctrl+d", "e", "p"):
            await pilot.press(key)
        await notified(app, pilot, "read-only")
        assert not isinstance(app.screen, Dialog | TextDialog)
        assert not json.dumps(list(app.session.undoable)).strip("[]")


async def test_the_same_lists_work_on_a_cluster(tmp_path: Path) -> None:
    async with object_world(tmp_path) as world:
        client = await cluster_client(world.served, tmp_path)
        await world.create("deployments.apps", deployment())
        async with running_on(world, client=client, server=SERVER) as (app, pilot):
            await open_list(app, pilot, "deploy")
            assert "Scale" in bar_text(app, "hints")
            await pilot.press("p")
            await open_dialog(app, pilot)
            await pilot.press("y")
            await notified(app, pilot, "paused: true")
            assert not app.session.undoable
            assert "--context=prod-eu" in app.session.journal[-1].line
            await pilot.press("ctrl+d")
            dialog = await open_dialog(app, pilot)
            assert "The API has no undo." in view_text(dialog.view)
