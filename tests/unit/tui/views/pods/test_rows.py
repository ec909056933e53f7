from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
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

from podtui.api.health import pod_health
from podtui.api.local import ManifestState
from podtui.api.v1 import (
    Container,
    ContainerPort,
    ContainerState,
    ContainerStateTerminated,
    Pod,
)
from podtui.cli.status import health_words
from podtui.tui.model.usage import Usage
from podtui.tui.views.events import EVENT_COLUMNS, event_row
from podtui.tui.views.header import WORDS
from podtui.tui.views.pod_status import Family, pod_status_line
from podtui.tui.views.pods.rows import POD_COLUMNS, manifest_row, pod_row
from podtui.tui.views.why import health_text
from podtui.tui.widgets.cells import Row
from podtui.tui.widgets.format import address_key, natural_key
from podtui.why import Facts, diagnose
from podtui.why.report import Report

FIRST = ("name", "ready", "status", "restarts", "cpu", "memory", "ip", "age")


def cell(row: Row, key: str, *, short: bool = False) -> str:
    columns = POD_COLUMNS if len(row.cells) == len(POD_COLUMNS) else EVENT_COLUMNS
    place = [column.key for column in columns].index(key)
    return row.cells[place].shown(now(), short=short)


def shown(row: Row, keys: Iterable[str] = FIRST) -> list[str]:
    return [cell(row, key) for key in keys]


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
        "NotReady", Family.ERROR, (1, 2),
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
    line = pod_status_line(given, 0.0)
    assert (line.word, line.family, (line.ready, line.wanted)) == (word, family, ready)


@pytest.mark.parametrize(("name", "given", "word", "family", "ready"), CASES)
def test_status_header_and_why_use_one_word_for_the_health(
    name: str, given: Pod, word: str, family: Family, ready: tuple[int, int]
) -> None:
    health = str(pod_health(given, 0.0).health)
    row = {"object": msgspec.to_builtins(given)}
    assert health_words({"rows": [row]}, 0.0) == [health]
    assert WORDS[pod_status_line(given, 0.0).family] == health
    diagnosis = diagnose(Facts(pod=given, now=0.0))
    assert Report("web", diagnosis).state == health
    assert "".join(span.text for span in health_text(diagnosis, None)).endswith(f" {health}")


def test_a_rejected_pod_has_no_sandbox() -> None:
    rejected = {p.metadata.name: pod_status_line(p, 0.0).rejected for p in gallery()}
    assert [name for name, yes in rejected.items() if yes] == ["too-big-n1"]


def test_pod_cells() -> None:
    crashed = pod(
        "web", status(state=waiting("CrashLoopBackOff"), restarts=4, last=ended(1, seconds=12)),
        age=timedelta(minutes=3, seconds=10),
    )  # fmt: skip
    row = pod_row(crashed, Usage(12, 3 * 1024 * 1024), now=0.0)
    assert shown(row) == [
        "web-n1", "0/1", "✖ CrashLoopBackOff", "4 (12s ago)", "12m", "3Mi", "172.17.0.2", "3m10s",
    ]  # fmt: skip
    assert cell(row, "restarts", short=True) == "4"
    assert len(row.cells) == len(row.sort) == len(row.values) == len(POD_COLUMNS)
    assert shown(pod_row(crashed, None, now=0.0))[4:6] == ["-", "-"]


def test_outside_names_contain_no_control_sequences() -> None:
    evil = "\x1b]0;owned\x07we\u202eb\x1b[2J"
    named = msgspec.structs.replace(
        pod("a", status()), metadata=msgspec.structs.replace(pod("a").metadata, name=evil)
    )
    assert cell(pod_row(named, None, now=0.0), "name") == "web"
    row = event_row(event("a", "Re\x1b[31mason", "two\nlines\x07"))
    assert cell(row, "reason") == "· Reason"
    assert cell(row, "message") == "two lines␇"


def test_other_namespaces_are_shown() -> None:
    elsewhere = pod("a", status())
    elsewhere = msgspec.structs.replace(
        elsewhere, metadata=msgspec.structs.replace(elsewhere.metadata, namespace="kube-system")
    )
    assert cell(pod_row(elsewhere, None, now=0.0), "name") == "kube-system/a-n1"
    apart = pod_row(elsewhere, None, namespaced=True, now=0.0)
    assert shown(apart, ("namespace", "name")) == ["kube-system", "a-n1"]


def test_manifest_rows_show_file_line_and_column() -> None:
    row = manifest_row(broken())
    assert row is not None
    assert shown(row, ("name", "ready", "status")) == ["hello.yaml:9:7", "-", "✖ InvalidManifest"]
    assert row.tail is not None
    assert row.tail.text == 'unknown field "imago" → image · spec.containers[0].imago'
    kept = manifest_row(broken(state=ManifestState.LAST_GOOD))
    assert kept is not None
    assert cell(kept, "status") == "▲ KeepsLastGood"
    assert kept.fault
    assert manifest_row(manifest("fine.yaml")) is None
    ignored = manifest_row(manifest("a.swp", ManifestState.IGNORED, message="an editor's"))
    assert ignored is not None
    assert ignored.pin > 1 > row.pin
    assert not ignored.fault


def test_events_of_one_second_keep_their_order() -> None:
    first = event_row(event("a", "Created", "", seen=5, version=9))
    second = event_row(event("a", "Started", "", seen=5, version=10))
    assert second.sort[0] > first.sort[0]


def test_event_cells() -> None:
    row = event_row(event("web", "BackOff", "Back-off", warning=True, count=7, container="app"))
    assert shown(row, ("seen", "reason", "object", "message")) == [
        "10s", "▲ BackOff ×7", "web-n1/app", "Back-off",
    ]  # fmt: skip
    assert shown(row, ("type", "count", "source")) == ["Warning", "7", "kubelet"]


def test_containers_without_status_do_not_break_a_row() -> None:
    bare = pod("a", phase="Pending")
    spec = msgspec.structs.replace(bare.spec, containers=(Container(name="x"), Container(name="y")))
    assert cell(pod_row(msgspec.structs.replace(bare, spec=spec), None, now=0.0), "ready") == "0/2"


MI = 1024 * 1024


@pytest.mark.parametrize(
    ("used", "memory", "of_request", "of_limit"),
    [
        (Usage(50, 69 * MI), "69Mi", "138%", "69%"),
        (Usage(50, 70 * MI), "▲70Mi", "140%", "▲70%"),
        (Usage(50, 90 * MI), "✖90Mi", "180%", "✖90%"),
        (None, "-", "-", "-"),
    ],
)
def test_usage_near_its_limit_is_marked_by_symbol_and_colour(
    used: Usage | None, memory: str, of_request: str, of_limit: str
) -> None:
    given = pod("a", status(), requests={"memory": "50Mi"}, limits={"memory": "100Mi"})
    row = pod_row(given, used, now=0.0)
    assert cell(row, "memory") == memory
    assert cell(row, "memory-requests").strip("✖") == of_request
    assert cell(row, "memory-limits") == of_limit
    assert cell(row, "cpu-requests") == "-"


def test_wide_cells() -> None:
    plain = pod("a", status("x"), status("y"))
    ports = (
        ContainerPort(containerPort=80, hostPort=8080, protocol="TCP"),
        ContainerPort(containerPort=53, protocol="UDP"),
    )
    first, *others = plain.spec.containers
    spec = msgspec.structs.replace(
        plain.spec, containers=(msgspec.structs.replace(first, ports=ports), *others), nodeName="n1"
    )
    row = pod_row(msgspec.structs.replace(plain, spec=spec), None, now=0.0)
    assert shown(row, ("ports", "image", "node")) == ["8080→80,53/UDP", "busybox:1.36 +1", "n1"]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (pod("a", status()), False),
        (pod("a", status(ready=False)), True),
        (pod("a", phase="Pending"), True),
        (pod("a", status(state=waiting("CrashLoopBackOff"))), True),
        (pod("a", status(state=ended(0)), phase="Succeeded"), False),
        (pod("a", status(state=ended(1)), phase="Failed"), True),
        (pod("a", status(ready=False), deleted=True), False),
    ],
)
def test_unhealthy_pods(given: Pod, fault: bool) -> None:
    assert pod_row(given, None, now=0.0).fault is fault


def test_addresses_and_names_sort_naturally() -> None:
    names = sorted(["web-10", "web-2", "Web-1", "a"], key=natural_key)
    assert names == ["a", "Web-1", "web-2", "web-10"]
    found = sorted(["10.0.0.10", "10.0.0.9", "fd00::1", "-"], key=address_key)
    assert found == ["-", "10.0.0.9", "10.0.0.10", "fd00::1"]


@given(st.lists(st.text(max_size=12), min_size=2, max_size=2))
def test_any_two_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(names, key=natural_key) == sorted(sorted(names), key=natural_key)
