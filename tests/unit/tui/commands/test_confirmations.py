"""What the confirmations say, compared with what their actions end or lose."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_scene import plan
from msgspec import structs
from tui_records import text_of
from tui_scene import ended, manifest, pod, status, waiting

from podtui.api.local import PlanOutcome
from podtui.api.v1 import EmptyDirVolumeSource, OwnerReference, Pod, Volume
from podtui.tui.commands.agent import stale_line, switch_dialog
from podtui.tui.commands.delete import delete_dialog
from podtui.tui.commands.edit_manifest import plan_dialog, rewrite_dialog
from podtui.tui.commands.edit_record import (
    RECREATE,
    RESIZE,
    UPDATE,
    UpdateMethod,
    change_dialog,
    edit_dialog,
)
from podtui.tui.commands.manifest_file import Rewrite
from podtui.tui.commands.restart import container_dialog, refusal, restart_dialog
from podtui.tui.commands.session import RecordChange
from podtui.tui.views.pods.live_manifest import restarted_containers
from podtui.tui.widgets.cells import line_width
from podtui.tui.widgets.dialogs import Dialog


def api_pod(name: str, **changes: object) -> Pod:
    made = pod(name, status("app"))
    meta = structs.replace(made.metadata, annotations={})
    return structs.replace(made, metadata=meta, **changes)


def with_data(made: Pod, *names: str) -> Pod:
    volumes = tuple(Volume(name=name, emptyDir=EmptyDirVolumeSource()) for name in names)
    return structs.replace(made, spec=structs.replace(made.spec, volumes=volumes))


def text(dialog: Dialog) -> str:
    return text_of(dialog._text)  # pyright: ignore[reportPrivateUsage]


def words(dialog: Dialog) -> list[str]:
    return [option.label for option in dialog.buttons.options]


def test_a_switch_of_the_folder_ends_static_pods_only() -> None:
    static = with_data(pod("web", status("app")), "cache")
    over = pod("batch", status("job", ended(0)), phase="Succeeded")
    leaving = pod("old", status("app"), deleted=True)
    pods = [static, over, leaving, api_pod("api"), api_pod("other")]
    said = text(switch_dialog("./one", "./two", pods, ["127.0.0.1:8080"]))
    assert "✖ web-n1  terminates (up to 30 s)" in said
    assert "✖ batch-n1  has ended, and is removed" in said
    assert "✖ old-n1  is terminating already" in said
    assert "Their logs, their containers' files and the data of volume cache are lost." in said
    assert "= api-n1, other-n1  keep running: created through the API" in said
    assert "✖ connections of 127.0.0.1:8080  are cut" in said
    assert "✖ api-n1" not in said


def test_a_switch_without_static_pods_ends_nothing() -> None:
    said = text(switch_dialog("./one", "./two", [api_pod("api")]))
    assert "✖" not in said
    assert "lost" not in said


def test_one_dialog_deletes_files_and_pods_of_the_api() -> None:
    web = with_data(pod("web", status("app")), "cache")
    api = with_data(api_pod("api"), "work")
    removed = plan(PlanOutcome.REMOVED)
    dialog = delete_dialog([manifest("web.yaml")], [removed], [api], all_pods=[web, api], undo=True)
    assert words(dialog) == ["Cancel", "Delete 2 pods"]
    said = text(dialog)
    assert "web.yaml → .trash/" in said
    assert "✖ api-n1" in said
    assert "volumes cache, work are lost" in said
    assert "u restores the file and starts its pod again." in said
    assert "Another u creates the deleted pods again." in said


def test_a_deletion_names_the_namespace_of_its_pod() -> None:
    removed = plan(PlanOutcome.REMOVED)
    removed = structs.replace(removed, pods=(structs.replace(removed.pods[0], namespace="shop"),))
    dialog = delete_dialog([manifest("web.yaml")], [removed])
    assert words(dialog) == ["Cancel", "Delete shop/web-n1"]
    assert "− shop/web-n1 is removed" in text(dialog)


def test_undo_restores_as_many_files_and_pods_as_are_deleted() -> None:
    removed = plan(PlanOutcome.REMOVED)
    without_pod = structs.replace(removed, pods=())
    web, other = manifest("web.yaml"), manifest("other.yaml")
    said = text(delete_dialog([web, other], [removed, removed]))
    assert "u restores the files and starts their pods again." in said
    assert "u restores the files and starts their pod again." in text(
        delete_dialog([web, other], [removed, without_pod])
    )
    assert text(delete_dialog([web], [without_pod])).endswith("u restores the file.")


@pytest.mark.parametrize("outcome", [PlanOutcome.UNCHANGED, PlanOutcome.NEW, PlanOutcome.REPLACED])
def test_a_deletion_is_named_after_a_pod_only_if_the_pod_ends(outcome: PlanOutcome) -> None:
    dialog = delete_dialog([manifest("web.yaml")], [plan(outcome)])
    assert words(dialog) == ["Cancel", "Delete web.yaml"]


def test_undo_is_promised_only_for_pods_without_an_owner() -> None:
    owner = OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="r", uid="u")
    alone, owned = api_pod("a"), api_pod("b")
    owned = structs.replace(
        owned, metadata=structs.replace(owned.metadata, ownerReferences=(owner,))
    )
    assert "u creates" not in text(delete_dialog([], [], [owned], undo=True))
    assert "u creates those without an owner again." in text(
        delete_dialog([], [], [alone, owned], undo=True)
    )
    assert "The API has no undo." in text(delete_dialog([], [], [alone]))


def test_the_record_of_a_static_pod_of_a_cluster_loses_nothing() -> None:
    owner = OwnerReference(apiVersion="v1", kind="Node", name="n1", uid="u")
    mirror = api_pod("a")
    mirror = structs.replace(
        mirror, metadata=structs.replace(mirror.metadata, ownerReferences=(owner,))
    )
    said = text(delete_dialog([], [], [mirror]))
    assert "its kubelet recreates the mirror pod" in said
    assert "lost" not in said


def test_a_restart_names_the_pods_that_the_agent_refuses() -> None:
    over = api_pod("over", status=pod("x", status("app", ended(0)), phase="Succeeded").status)
    leaving = pod("leaving", status("app"), deleted=True)
    rejected = pod("big", phase="Failed", reason="OutOfcpu", message="no room")
    web = with_data(pod("web", status("app")), "cache")
    assert refusal(over)
    assert refusal(leaving)
    assert not refusal(web)
    dialog = restart_dialog([web, over, leaving, rejected])
    said = text(dialog)
    assert words(dialog)[1] == "Restart 2 pods"
    assert "= over-n1  is not restarted: it was created through the API" in said
    assert "= leaving-n1  is not restarted: it is terminating" in said
    assert "↻ big-n1  is admitted again, if it fits now" in said
    assert "↻ web-n1  its containers are stopped (up to 30 s) and started again" in said
    assert "cache" not in said, "a restart in place keeps the volumes"


def test_a_restart_of_what_does_not_run_ends_nothing() -> None:
    loop = pod("loop", status("app", waiting("CrashLoopBackOff"), restarts=3))
    assert "start now, without back-off; nothing of it runs" in text(restart_dialog([loop]))
    said = text(container_dialog(loop, "app", "Restart"))
    assert "It does not run; it starts now, without back-off." in said


def test_a_pod_that_starts_over_loses_its_volumes() -> None:
    over = with_data(pod("batch", status("job", ended(0)), phase="Succeeded"), "cache")
    lost = "its containers, their logs, what they wrote and the data of cache are lost"
    assert lost in text(restart_dialog([over]))


def test_the_restart_of_a_container_says_what_is_lost() -> None:
    said = text(container_dialog(pod("web", status("app")), "app", "Restart"))
    assert "It is stopped (up to 30 s) and started again" in said


BEFORE = """\
spec:
  initContainers:
  - {name: setup, image: "a:1"}
  - {name: mesh, image: "m:1", restartPolicy: Always}
  containers:
  - name: app
    image: a:1
    resources: {requests: {cpu: 100m, memory: 1Mi}}
    resizePolicy:
    - {resourceName: memory, restartPolicy: RestartContainer}
    - {resourceName: cpu, restartPolicy: NotRequired}
"""


@pytest.mark.parametrize(
    ("old", "new", "restarts"),
    [
        ("image: a:1", "image: a:2", ("app",)),
        ("m:1", "m:2", ("mesh",)),
        ('setup, image: "a:1"', 'setup, image: "a:2"', ()),
        ("memory: 1Mi", "memory: 2Mi", ("app",)),
        ("cpu: 100m", "cpu: 200m", ()),
    ],
)
def test_containers_that_an_update_in_place_restarts(
    old: str, new: str, restarts: tuple[str, ...]
) -> None:
    after = BEFORE.replace(old, new)
    assert after != BEFORE
    assert restarted_containers(BEFORE, after) == restarts
    method = UpdateMethod(RESIZE if "cpu" in old or "memory" in old else UPDATE)
    change = RecordChange(api_pod("web"), BEFORE, after, "edit")
    dialog = edit_dialog(change, method)
    assert ("↻ Restarts (up to 30 s to stop): " + ", ".join(restarts) in text(dialog)) is bool(
        restarts
    )
    # What ends a container is never preselected.
    assert (words(dialog)[0] == "Apply") is not bool(restarts)


def test_a_pod_that_is_created_again_loses_its_volumes() -> None:
    change = RecordChange(with_data(api_pod("web"), "work"), BEFORE, BEFORE + "#", "edit")
    said = text(change_dialog(change, UpdateMethod(RECREATE), "Edit?", "Apply"))
    assert "it is deleted, and created again. It terminates (up to 30 s)." in said
    assert "the data of volume work are lost" in said


@pytest.mark.parametrize("outcome", [PlanOutcome.REPLACED, PlanOutcome.REMOVED])
def test_a_changed_file_says_what_is_lost_with_its_pod(outcome: PlanOutcome) -> None:
    pods = [with_data(pod("web"), "work"), with_data(pod("other"), "kept")]
    made = plan(outcome)
    change = Rewrite(Path("web.yaml"), b"a: 1\n", b"a: 2\n", "set a")
    for dialog in (
        plan_dialog("web.yaml", made, pods=pods),
        rewrite_dialog(change, "Set a?", "Apply", made, pods=pods),
    ):
        said = text(dialog)
        assert "Its logs, its containers' files and the data of volume work are lost." in said
        assert "kept" not in said


def test_a_changed_file_says_what_restarted_containers_lose() -> None:
    made = plan(PlanOutcome.IN_PLACE)
    in_place = structs.replace(made, pods=(structs.replace(made.pods[0], restarts=("app",)),))
    said = text(plan_dialog("web.yaml", in_place, pods=[pod("web")]))
    assert "What restarted containers wrote outside of volumes is lost." in said


def test_a_changed_file_that_replaces_nothing_loses_nothing() -> None:
    for outcome in (PlanOutcome.UNCHANGED, PlanOutcome.NEW, PlanOutcome.IN_PLACE):
        assert "lost" not in text(plan_dialog("web.yaml", plan(outcome), pods=[pod("web")]))


def test_a_file_that_changed_meanwhile_is_not_overwritten_by_enter() -> None:
    for made in (plan(PlanOutcome.UNCHANGED), plan(PlanOutcome.NEW), plan(PlanOutcome.REPLACED)):
        dialog = plan_dialog("web.yaml", made, changed=True)
        assert "The file has changed since the editor opened" in text(dialog)
        assert words(dialog)[0] == "Keep draft"
    assert words(plan_dialog("web.yaml", plan(PlanOutcome.NEW)))[0] == "Apply"


def test_a_pod_that_changed_meanwhile_is_not_overwritten_by_enter() -> None:
    change = RecordChange(api_pod("web"), BEFORE, BEFORE.replace("100m", "200m"), "edit")
    assert words(edit_dialog(change, UpdateMethod(RESIZE)))[0] == "Apply"
    dialog = edit_dialog(change, UpdateMethod(RESIZE), changed=True)
    assert "The pod has changed since the editor opened" in text(dialog)
    assert words(dialog)[0] == "Keep draft"


@pytest.mark.parametrize("width", [30, 45, 60, 80, 120, 200])
def test_the_key_that_restarts_a_lost_agent_fits_every_terminal(width: int) -> None:
    line = stale_line(1000.0, 1025.0, "^t", width)
    assert line_width(line) < width
    assert "STALE" in line[0].text
    assert "^t" in line[1].text
    assert ("25s ago" in line[0].text) is (width >= 80)
    assert "^" not in text_of([stale_line(1000.0, 1025.0, "", width)])
