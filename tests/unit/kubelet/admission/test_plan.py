"""The plan of a changed manifest, computed from the old and the new text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from podtui.api.local import FieldChange, ManifestState, Plan, PlanOutcome, PodPlan
from podtui.kubelet.admission.plan import AT_ONCE, STARTS_OVER, plan_of, pods_to_admit
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.folder_state import FolderState
from podtui.manifest.listing import Stamp
from podtui.manifest.preview import Preview, read_preview

WEB = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  terminationGracePeriodSeconds: 7
  containers:
    - name: app
      image: busybox:1.35
      command: [sleep, "1000"]
      env:
        - name: COLOUR
          value: red
    - name: side
      image: busybox:1.36
"""
FIXED = WEB.replace("  name: web\n", "  name: web\n  uid: 7c1e\n")


def planned(
    folder: Path,
    old: str | None,
    new: str | None,
    *,
    others: Mapping[str, str] | None = None,
    strict: bool = False,
) -> Plan:
    """Return the plan for ``web.yaml`` in a folder with ``others``."""
    folder_state = FolderState(strict=strict, previous={})
    files = {**(others or {}), **({} if old is None else {"web.yaml": old})}
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        read = read_manifest(str(path), text.encode(), node_name="n1", strict=strict)
        folder_state.read(name, str(path), 1, Stamp(1, 1, 1, 1), text.encode(), read)
    before = folder_state.folder("2026-01-01T00:00:00.000000000Z")
    path = str(folder / "web.yaml")
    reading = read_preview(
        path, None if new is None else new.encode(), node_name="n1", strict=strict
    )
    after = folder_state.copy()
    if reading.result is None:
        after.forget("web.yaml")
    else:
        after.read("web.yaml", path, 2, Stamp(2, 2, 2, 2), b"", reading.result)
    shown = after.folder("2026-01-02T00:00:00.000000000Z")
    assert folder_state.folder("2026-01-03T00:00:00.000000000Z") is before, "the state is unchanged"
    return plan_of(Preview("web.yaml", before, shown, reading.old, reading.new))


def only(plan: Plan) -> PodPlan:
    (pod,) = plan.pods
    return pod


def test_comments_and_key_order_do_not_affect_the_pod(tmp_path: Path) -> None:
    text = "# mine\n" + WEB.replace("  name: web\n", "  name: web # the web\n")
    text = text.replace(
        "    - name: side\n      image: busybox:1.36\n",
        "    - image: busybox:1.36\n      name: side\n",
    )
    plan = planned(tmp_path, WEB, text)
    assert only(plan) == PodPlan(outcome=PlanOutcome.UNCHANGED, namespace="default", name="web-n1")
    assert plan.usable
    assert pods_to_admit(plan) == ()


def test_a_changed_image_replaces_the_pod_and_has_its_position(tmp_path: Path) -> None:
    plan = planned(tmp_path, WEB, WEB.replace("busybox:1.35", "busybox:1.37"))
    pod = only(plan)
    assert (pod.outcome, pod.grace) == (PlanOutcome.REPLACED, 7)
    assert pod.changes == (
        FieldChange(
            field="spec.containers[0].image",
            old="busybox:1.35",
            new="busybox:1.37",
            line=9,
            column=7,
        ),
    )
    assert pods_to_admit(plan) == (("default", "web-n1"),)


def test_containers_and_variables_are_compared_by_name(tmp_path: Path) -> None:
    first, second = WEB.split("    - name: side\n")
    head, app = first.split("    - name: app\n")
    swapped = f"{head}    - name: side\n{second}    - name: app\n{app}".replace("red", "blue")
    changes = only(planned(tmp_path, WEB, swapped)).changes
    assert [(c.field, c.old, c.new) for c in changes] == [
        ("spec.containers[1].env[0].value", "red", "blue")
    ]


def test_a_removed_field_is_shown_at_its_old_line(tmp_path: Path) -> None:
    text = WEB.replace("    - name: side\n      image: busybox:1.36\n", "")
    (change,) = only(planned(tmp_path, WEB, text)).changes
    assert (change.field, change.gone, change.line) == ("spec.containers[1]", True, 14)


def test_defaults_derived_from_other_fields_are_not_listed(tmp_path: Path) -> None:
    changes = only(planned(tmp_path, WEB, WEB.replace("busybox:1.35", "busybox:latest"))).changes
    assert [c.field for c in changes] == ["spec.containers[0].image"]


def test_a_field_that_is_new_has_its_line(tmp_path: Path) -> None:
    text = WEB.replace("spec:\n", "spec:\n  restartPolicy: Never\n")
    (change,) = only(planned(tmp_path, WEB, text)).changes
    assert (change.field, change.old, change.new, change.line) == (
        "spec.restartPolicy",
        "Always",
        "Never",
        6,
    )


def test_a_new_file_adds_a_pod(tmp_path: Path) -> None:
    plan = planned(tmp_path, None, WEB)
    assert only(plan).outcome is PlanOutcome.NEW
    assert plan.state is ManifestState.ACCEPTED


def test_a_changed_name_removes_one_pod_and_adds_another(tmp_path: Path) -> None:
    plan = planned(tmp_path, WEB, WEB.replace("name: web", "name: site"))
    assert {pod.name: pod.outcome for pod in plan.pods} == {
        "site-n1": PlanOutcome.NEW,
        "web-n1": PlanOutcome.REMOVED,
    }


def test_a_removed_file_removes_its_pod(tmp_path: Path) -> None:
    plan = planned(tmp_path, WEB, None)
    assert (only(plan).outcome, only(plan).grace) == (PlanOutcome.REMOVED, 7)
    assert plan.state is None
    assert plan.usable


def test_an_invalid_text_keeps_the_pod_and_reports_why(tmp_path: Path) -> None:
    plan = planned(tmp_path, WEB, WEB.replace("image: busybox:1.35", "imago: busybox:1.35"))
    assert not plan.usable
    assert plan.state is ManifestState.LAST_GOOD
    assert plan.diagnostics[0].line == 9
    assert only(plan).outcome is PlanOutcome.UNCHANGED


def test_under_strict_an_invalid_text_is_reported_the_same_way(tmp_path: Path) -> None:
    plan = planned(tmp_path, WEB, "kind: Pod\nmetadata: [\n", strict=True)
    assert not plan.usable
    assert plan.diagnostics


def test_a_name_used_by_another_file_is_a_duplicate(tmp_path: Path) -> None:
    plan = planned(tmp_path, None, WEB, others={"first.yaml": WEB})
    assert plan.state is ManifestState.DUPLICATE
    assert not plan.usable
    assert plan.pods == ()


RESIZED = """\
      resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]
      resources: {limits: {cpu: 100m}}
      env:
"""


@pytest.mark.parametrize(
    ("old", "new", "effect", "restarts"),
    [
        ("busybox:1.35", "busybox:1.37", "app restarts", ("app",)),
        ("value: red", "value: blue", "when app next restarts", ()),
        ("Seconds: 7", "Seconds: 9", AT_ONCE, ()),
        ("  uid: 7c1e\n", "  uid: 7c1e\n  labels: {a: b}\n", AT_ONCE, ()),
        ("spec:\n", "spec:\n  hostname: h\n", STARTS_OVER, ()),
        ("spec:\n", "spec:\n  hostNetwork: true\n",
         "the pod gets a new sandbox: every container restarts", ("app", "side")),
        ("    - name: side\n      image: busybox:1.36\n", "",
         "side keeps running until the pod starts over", ()),
        ("    - name: side\n", "    - name: new\n      image: a\n    - name: side\n",
         "new is started", ()),
        ("      env:\n", "      resources: {limits: {cpu: 100m}}\n      env:\n",
         "app is resized in place", ()),
        ("      env:\n",
         RESIZED,
         "app restarts to be resized", ("app",)),
    ],
)  # fmt: skip
def test_with_a_fixed_uid_each_field_has_its_effect(
    tmp_path: Path, old: str, new: str, effect: str, restarts: tuple[str, ...]
) -> None:
    assert old in FIXED
    plan = planned(tmp_path, FIXED, FIXED.replace(old, new))
    pod = only(plan)
    assert pod.outcome is PlanOutcome.IN_PLACE
    assert effect in {change.effect for change in pod.changes}
    assert pod.restarts == restarts
    assert pods_to_admit(plan) == ()


CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {key: one}\n"
READER = WEB.replace("      env:\n", "      envFrom: [{configMapRef: {name: conf}}]\n      env:\n")


def test_a_config_map_names_its_readers(tmp_path: Path) -> None:
    plan = planned(tmp_path, CONFIG, CONFIG.replace("one", "two"), others={"pod.yaml": READER})
    (item,) = plan.objects
    assert (item.outcome, item.kind, item.name, item.readers) == (
        PlanOutcome.IN_PLACE,
        "ConfigMap",
        "conf",
        ("web-n1",),
    )
    assert plan.pods == ()


def test_a_removed_config_map_names_its_readers(tmp_path: Path) -> None:
    plan = planned(tmp_path, CONFIG, None, others={"pod.yaml": READER})
    assert plan.files == ()
    [item] = plan.objects
    assert (item.kind, item.outcome) == ("ConfigMap", PlanOutcome.REMOVED)
    assert item.readers == ("web-n1",)


def test_the_difference_of_long_values_is_visible(tmp_path: Path) -> None:
    old, new = (f'value: "{"x" * 500}{end}{"y" * 500}"' for end in ("tick", "tock"))
    before, after = (WEB.replace("value: red", value) for value in (old, new))
    (change,) = only(planned(tmp_path, before, after)).changes
    assert "xtick" in change.old
    assert "xtock" in change.new
    assert change.old.startswith("…x")
    assert max(len(change.old), len(change.new)) <= 80


def test_values_are_shown_on_one_line_and_truncated(tmp_path: Path) -> None:
    text = WEB.replace("value: red", f'value: "{"x" * 500}\\n\\e[31m"')
    (change,) = only(planned(tmp_path, WEB, text)).changes
    assert len(change.new) <= 80
    assert change.new.isprintable()
