from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from tui_scene import (
    RUNNING,
    broken,
    ended,
    event,
    gallery,
    manifest,
    now,
    pod,
    status,
    waiting,
)

from podtui.api.local import ManifestState
from podtui.api.v1 import Container, ContainerState, ContainerStateTerminated, Pod
from podtui.tui.cells import Row
from podtui.tui.pod_status import Family, pod_status_line
from podtui.tui.rows import POD_COLUMNS, event_row, manifest_row, pod_row
from podtui.tui.usage import Usage


def shown(row: Row, *, short: bool = False) -> list[str]:
    return [cell.shown(now(), short=short) for cell in row.cells]


def with_sidecar(p: Pod) -> Pod:
    first = msgspec.structs.replace(p.spec.initContainers[0], restartPolicy="Always")
    spec = msgspec.structs.replace(p.spec, initContainers=(first, *p.spec.initContainers[1:]))
    return msgspec.structs.replace(p, spec=spec)


CASES = [
    ("running", pod("a", status()), "Running", Family.RUNNING, (1, 1)),
    ("not ready", pod("a", status(ready=False)), "Running", Family.UNREADY, (0, 1)),
    ("nothing yet", pod("a", phase="Pending"), "Pending", Family.PENDING, (0, 1)),
    (
        "creating", pod("a", status(state=waiting("ContainerCreating")), phase="Pending"),
        "ContainerCreating", Family.PENDING, (0, 1),
    ),
    (
        "crash loop", pod("a", status(state=waiting("CrashLoopBackOff"), restarts=3)),
        "CrashLoopBackOff", Family.ERROR, (0, 1),
    ),
    ("exited 1", pod("a", status(state=ended(1))), "Error", Family.ERROR, (0, 1)),
    ("oom", pod("a", status(state=ended(137, "OOMKilled"))), "OOMKilled", Family.ERROR, (0, 1)),
    (
        "no reason", pod("a", status(state=ContainerState(
            terminated=ContainerStateTerminated(exitCode=3)))),
        "ExitCode:3", Family.ERROR, (0, 1),
    ),
    (
        "signal", pod("a", status(state=ContainerState(
            terminated=ContainerStateTerminated(exitCode=137, signal=9)))),
        "Signal:9", Family.ERROR, (0, 1),
    ),
    (
        "done", pod("a", status(state=ended(0)), phase="Succeeded"),
        "Completed", Family.COMPLETED, (0, 1),
    ),
    (
        "one of two done", pod("a", status("x"), status("y", ended(0))),
        "NotReady", Family.UNREADY, (1, 2),
    ),
    ("leaving", pod("a", status(), deleted=True), "Terminating", Family.TERMINATING, (1, 1)),
    (
        "init 1 of 2",
        pod("a", status(state=waiting("PodInitializing")), phase="Pending", initialized=False,
            init=(status("i", ended(0)), status("j", RUNNING, ready=False))),
        "Init:1/2", Family.INIT, (0, 1),
    ),
    (
        "init failed",
        pod("a", status(state=waiting("PodInitializing")), phase="Pending", initialized=False,
            init=(status("i", ended(2)),)),
        "Init:Error", Family.ERROR, (0, 1),
    ),
    (
        "init crash loop",
        pod("a", status(state=waiting("PodInitializing")), phase="Pending", initialized=False,
            init=(status("i", waiting("CrashLoopBackOff"), restarts=2),)),
        "Init:CrashLoopBackOff", Family.ERROR, (0, 1),
    ),
    (
        "init done", pod("a", status(state=waiting("PodInitializing")), phase="Pending",
                         init=(status("i", ended(0)),)),
        "PodInitializing", Family.INIT, (0, 1),
    ),
    (
        "sidecar counts", with_sidecar(pod("a", status(), init=(status("side"),))),
        "Running", Family.RUNNING, (2, 2),
    ),
    (
        "sidecar broke later",
        with_sidecar(pod("a", status(), init=(status("side", waiting("CrashLoopBackOff")),))),
        "Init:CrashLoopBackOff", Family.ERROR, (1, 2),
    ),
    (
        "evicted", pod("a", status(state=ended(137)), phase="Failed", reason="Evicted"),
        "Error", Family.ERROR, (0, 1),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "word", "family", "ready"), CASES)
def test_status(name: str, given: Pod, word: str, family: Family, ready: tuple[int, int]) -> None:
    line = pod_status_line(given)
    assert (line.word, line.family, (line.ready, line.wanted)) == (word, family, ready)


def test_a_rejected_pod_is_known_by_having_nothing_made_of_it() -> None:
    rejected = {p.metadata.name: pod_status_line(p).rejected for p in gallery()}
    assert [name for name, yes in rejected.items() if yes] == ["too-big-n1"]


def test_pod_cells() -> None:
    crashed = pod(
        "web", status(state=waiting("CrashLoopBackOff"), restarts=4, last=ended(1, seconds=12)),
        age=timedelta(minutes=3, seconds=10),
    )  # fmt: skip
    row = pod_row(crashed, Usage(12, 3 * 1024 * 1024))
    assert shown(row) == [
        "web-n1", "0/1", "✖ CrashLoopBackOff", "4 (12s ago)", "12m", "3Mi", "172.17.0.2", "3m10s",
    ]  # fmt: skip
    assert shown(row, short=True)[3] == "4"
    assert len(row.cells) == len(row.sort) == len(POD_COLUMNS)
    assert shown(pod_row(crashed, None))[4:6] == ["-", "-"]


def test_names_from_outside_cannot_draw() -> None:
    evil = "\x1b]0;owned\x07we\u202eb\x1b[2J"
    named = msgspec.structs.replace(
        pod("a", status()), metadata=msgspec.structs.replace(pod("a").metadata, name=evil)
    )
    assert pod_row(named, None).cells[0].text == "web"
    row = event_row(event("a", "Re\x1b[31mason", "two\nlines\x07"))
    assert row.cells[1].text == "· Reason"
    assert row.cells[3].text == "two lines␇"


def test_other_namespaces_are_named() -> None:
    elsewhere = pod("a", status())
    elsewhere = msgspec.structs.replace(
        elsewhere, metadata=msgspec.structs.replace(elsewhere.metadata, namespace="kube-system")
    )
    assert pod_row(elsewhere, None).cells[0].text == "kube-system/a-n1"


def test_manifest_rows_tell_file_line_and_column() -> None:
    row = manifest_row(broken())
    assert row is not None
    assert [cell.text for cell in row.cells[:3]] == ["hello.yaml:9:7", "-", "✖ InvalidManifest"]
    assert row.tail is not None
    assert row.tail.text == 'spec.containers[0].imago: unknown field "imago" → image'
    kept = manifest_row(broken(state=ManifestState.LAST_GOOD))
    assert kept is not None
    assert kept.cells[2].text == "▲ KeepsLastGood"
    assert manifest_row(manifest("fine.yaml")) is None
    ignored = manifest_row(manifest("a.swp", ManifestState.IGNORED, message="an editor's"))
    assert ignored is not None
    assert ignored.pin > 1 > row.pin


def test_events_of_one_second_keep_their_order() -> None:
    first = event_row(event("a", "Created", "", seen=5, version=9))
    second = event_row(event("a", "Started", "", seen=5, version=10))
    assert second.sort[0] > first.sort[0]


def test_event_cells() -> None:
    row = event_row(event("web", "BackOff", "Back-off", warning=True, count=7, container="app"))
    assert shown(row) == ["10s", "▲ BackOff ×7", "web-n1/app", "Back-off"]


def test_containers_without_status_do_not_break_a_row() -> None:
    bare = pod("a", phase="Pending")
    spec = msgspec.structs.replace(bare.spec, containers=(Container(name="x"), Container(name="y")))
    assert pod_row(msgspec.structs.replace(bare, spec=spec), None).cells[1].text == "0/2"
