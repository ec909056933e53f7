"""The content of the node screen, as pure functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs
from tui_scene import ago, gallery, node, now, pod, status

from podtui.api.insight import NodeInsight
from podtui.api.local import Lack, NodeImage, NodeMetrics, PodToRemove, PortHolder, WhatIf
from podtui.api.names import WOULD_EVICT, WOULD_FIT
from podtui.api.quantity import milli_value
from podtui.api.v1 import NodeCondition, ObjectMeta
from podtui.tui.model.model import Model
from podtui.tui.model.usage import KEPT, NodeHistory, Sample, Usage
from podtui.tui.screens.node.tabs import manifest_files, question
from podtui.tui.views.node.allocation import gauges, rejections, requests_of
from podtui.tui.views.node.history import PastUsage, history_lines, observed_usage, recorded_usage
from podtui.tui.views.node.overview import condition_lines, overview_lines, resource_lines
from podtui.tui.views.node.tables import image_row, image_summary, rejected_row, share_row
from podtui.tui.views.node.what_if import QueryError, is_query, parse_query, verdict_lines
from podtui.tui.widgets.cells import Line, Row, line_width

GAUGES = gauges(node(), [requests_of(p) for p in gallery()], {}, Usage(410, 2300 << 20))


def text(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()


def test_an_unscheduled_pod_holds_nothing() -> None:
    waits = pod("waits", requests={"cpu": "1", "memory": "1Gi"})
    assert waits.spec.nodeName
    held = {one.resource: one.requested for one in gauges(node(), [requests_of(waits)], {}, None)}
    assert held["cpu"] == 1000
    waits = structs.replace(waits, spec=structs.replace(waits.spec, nodeName=""))
    free = gauges(node(), [requests_of(waits)], {}, None)
    assert {one.requested for one in free} == {0}


# --- history


def test_history_is_bounded_without_duplicate_samples() -> None:
    history = NodeHistory()
    for at in range(KEPT + 10):
        history.add(float(at), Usage(at, 0))
        history.add(float(at), Usage(0, 0))
    assert len(history.samples) == KEPT
    assert [s.cpu for s in history.samples][-2:] == [KEPT + 8, KEPT + 9]


def test_the_model_keeps_node_usage_without_changes() -> None:
    model = Model()
    for seconds in (9, 6, 3):
        metrics = NodeMetrics(metadata=ObjectMeta(name="n1"), timestamp=ago(seconds=seconds),
                              window="3s", usage={"cpu": "410m", "memory": "1Gi"})  # fmt: skip
        model.set_usage((), metrics)
    model.set_usage((), None)
    assert [now() - s.at for s in model.node_history.samples] == [9, 6, 3]


@pytest.mark.parametrize(
    ("oldest", "span", "words"),
    [(120, "15m", "the last 2m"), (7200, "15m", "the last 14m"), (7200, "6h", "the last 120m")],
)
def test_a_plot_is_limited_to_the_available_time(oldest: float, span: str, words: str) -> None:
    samples = [Sample(now() - at, 1, 1) for at in range(int(oldest), 0, -60)]
    past = observed_usage(samples, now(), span)
    lines = history_lines(GAUGES, past, now(), span, 78, 18)
    assert words in text(lines[-1])
    assert f"up to {span}" in text(lines[-1])


def test_the_agents_history_includes_pods_and_disk() -> None:
    times = tuple(now() - 10 * n for n in range(20, 0, -1))
    insight = NodeInsight(
        time=now(), times=times, cpu=(400.0,) * 20, memory=(3 << 30,) * 20,
        pods=tuple(range(20)), storage=(None, *[7 << 30] * 19),
    )  # fmt: skip
    lines = history_lines(GAUGES, recorded_usage(insight), now(), "1h", 240, 30)
    whole = "\n".join(map(text, lines))
    for words in ("cpu 0.4 now", "memory 3Gi now", "pods 19 now", "storage 7Gi now"):
        assert words in whole
    assert "limit 110" in whole
    assert max(map(line_width, lines)) <= 240


@pytest.mark.parametrize(("width", "height"), [(78, 18), (118, 28), (196, 52), (40, 10)])
def test_plots_fit_their_area(width: int, height: int) -> None:
    samples = [Sample(now() - n, 400 + n, n << 20) for n in range(100, 0, -3)]
    lines = history_lines(GAUGES, observed_usage(samples, now(), "1h"), now(), "1h", width, height)
    assert max(map(line_width, lines)) <= width
    assert len(lines) <= max(height, 13)
    whole = "\n".join(map(text, lines))
    assert "cpu 0.4 now · 0.5 peak" in whole
    assert "━" in whole
    assert "█" in whole or "▁" in whole


@pytest.mark.parametrize("oldest", [59, 117, 3300])
@pytest.mark.parametrize(("width", "height"), [(77, 17), (77, 18), (60, 17), (60, 21)])
def test_the_agents_history_fits_with_its_legend(width: int, height: int, oldest: int) -> None:
    times = tuple(now() - at for at in range(oldest, 0, -10))
    many = len(times)
    insight = NodeInsight(time=now(), times=times, cpu=(400.0,) * many, memory=(3 << 30,) * many,
                       pods=(7,) * many, storage=(7.0 * (1 << 30),) * many)  # fmt: skip
    lines = history_lines(GAUGES, recorded_usage(insight), now(), "1h", width, height)
    assert len(lines) <= height
    assert "allocatable" in " ".join(map(text, lines[-2:])).replace("  ", " ")


def test_a_node_without_usage_says_so() -> None:
    assert "No measurements" in text(history_lines(GAUGES, PastUsage(), now(), "1h", 78, 18)[0])


# --- wishes


def test_what_if_input_becomes_a_pod() -> None:
    wish = parse_query("cpu=500m mem=1Gi hostPort=8080,127.0.0.1:53/udp priority=7 name=web")
    pod = json.loads(wish.manifest())
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"] == {"name": "web", "namespace": "default"}
    assert pod["spec"]["priority"] == 7
    assert milli_value(container["resources"]["requests"]["cpu"]) == 500
    assert container["resources"]["requests"]["memory"] == "1Gi"
    assert [(p["hostPort"], p["protocol"], p["hostIP"]) for p in container["ports"]] == [
        (8080, "TCP", ""), (53, "UDP", "127.0.0.1"),
    ]  # fmt: skip


def test_huge_pages_and_devices_require_limits() -> None:
    pod = json.loads(parse_query("hugepages-2Mi=4Mi example.com/gpu=1 cpu=1").manifest())
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"hugepages-2Mi": "4Mi", "example.com/gpu": "1"}


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("cpus=1", "did you mean cpu?"),
        ("colour=red", "known: cpu, memory"),
        ("cpu=many", "'many' is not a quantity"),
        ("cpu=", "cpu: missing value"),
        ("hostPort=x", "'x' is not a number"),
        ("hostPort=70000", "must be between 1 and 65535"),
        ("priority=high", "'high' is not a number"),
        ("web.yaml", "neither a request"),
    ],
)
def test_errors_of_what_if_input(typed: str, words: str) -> None:
    with pytest.raises(QueryError, match=words.replace("?", r"\?")):
        parse_query(typed)


@pytest.mark.parametrize(
    ("typed", "wish"), [("cpu=1", True), ("cpu=1 web", False), ("web.yaml", False), ("", False)]
)
def test_what_if_input_is_not_a_file(typed: str, wish: bool) -> None:
    assert is_query(typed) is wish


# --- overview


@pytest.mark.parametrize(("width", "height"), [(75, 20), (117, 32), (195, 56)])
def test_the_overview_shows_each_resource_completely(width: int, height: int) -> None:
    lines = overview_lines(node(), GAUGES, 1, now(), width, height)
    assert max(map(line_width, lines)) <= width
    rows = [" ".join(text(line).split()) for line in lines]
    assert rows[0] == "CAPACITY ALLOCATABLE REQUESTED LIMITS USED"
    assert "cpu 4 3.8 0.65 17% - 0.41 11%" in rows
    assert "memory 8Gi 7.5Gi 800Mi 10% 512Mi 7% 2.2Gi 30%" in rows
    assert "pods 110 110 7 6% - -" in rows
    assert "✖ 1 pod was rejected 5: details" in rows
    assert "Engine docker 20.10.24" in rows


def test_high_usage_is_marked_besides_its_colour() -> None:
    full = [requests_of(pod("a", status(), requests={"cpu": "3", "memory": "7Gi"}))]
    lines = resource_lines(gauges(node(), full, {}, None), 100, spacious=False)
    assert "3  79%▲" in text(lines[1])
    assert "7Gi  93%✖" in text(lines[3])


def test_conditions_with_their_age_and_the_eviction_order() -> None:
    base = node()
    pressure = NodeCondition(
        type="MemoryPressure", status="True", reason="KubeletHasInsufficientMemory",
        message="kubelet has insufficient memory available",
        lastTransitionTime=ago(minutes=5),
    )  # fmt: skip
    conditions = (pressure, *base.status.conditions)
    meta = structs.replace(base.metadata, annotations={WOULD_EVICT: "default/web-n1"})
    under = structs.replace(
        base, metadata=meta, status=structs.replace(base.status, conditions=conditions)
    )
    output = "\n".join(map(text, condition_lines(under, now(), 120)))
    assert "✖ MemoryPressure  True    for 5m      KubeletHasInsufficientMemory" in output
    assert "✔ Ready" in output
    assert "▲ default/web-n1 would be evicted first" in output
    assert "✖ Ready" in "\n".join(map(text, condition_lines(node(ready=False), now(), 120)))


# --- tables


def cells(row: Row) -> list[str]:
    return [cell.shown(now()) for cell in row.cells]


def test_a_pods_share_is_of_allocatable() -> None:
    web = pod("web", status(), requests={"cpu": "1", "memory": "1Gi"}, limits={"memory": "2Gi"})
    row = share_row(web, requests_of(web), Usage(3000, 1 << 20), {"cpu": 4000, "memory": 4 << 30})
    assert cells(row) == ["web-n1", "1000m", "-", "3000m", "▲75%", "1Gi", "2Gi", "1Mi", "25%", "-"]
    assert cells(share_row(web, requests_of(web), None, {}))[3] == "-"


def test_an_image_with_its_age_and_its_users() -> None:
    image = NodeImage(
        id="sha256:a", names=("busybox:1.36", "busybox:latest"), sizeBytes=4 << 20,
        created=ago(days=3), usedBy=("default/web-n1", "other/job-n1"), collectable=True,
    )  # fmt: skip
    row = image_row(image)
    assert cells(row) == ["busybox:1.36 +1", "4Mi", "3d", "2", "web-n1 other/job-n1", "collected"]
    bare = NodeImage(id="sha256:b", sizeBytes=12 << 20)
    assert cells(image_row(bare)) == ["sha256:b", "12Mi", "-", "-", "-", "kept"]
    assert image_summary((image, bare)) == "2 images, 16Mi · 1 unused, 12Mi (75%)"


def test_a_rejected_pod_shows_missing_resources_and_whether_it_fits_now() -> None:
    refused = next(p for p in gallery() if p.status.reason)
    (rejection,) = rejections([requests_of(refused)], GAUGES)
    row = rejected_row(refused, rejection)
    assert cells(row)[:3] == ["too-big-n1", "✖ no room", "UnexpectedAdmissionError"]
    assert cells(row)[4] == "cpu: requests 64, 3.15 free"
    meta = structs.replace(refused.metadata, annotations={WOULD_FIT: "true"})
    (rejection,) = rejections([requests_of(structs.replace(refused, metadata=meta))], GAUGES)
    assert cells(rejected_row(refused, rejection))[1] == "✔ fits"


# --- verdicts

LACK = Lack(resource="cpu", requested=4000, used=650, capacity=3800)
HOLDER = PortHolder(port=8080, protocol="TCP", namespace="default", pod="web-n1")
PROGRAM = PortHolder(
    port=53, protocol="UDP", hostIP="127.0.0.1", process="dns\x1b[31mmasq", pid=612
)
LEAVER = PodToRemove(namespace="other", name="web-n1", uid="u", frees={"cpu": 500}, ports=(8080,))


def verdict(width: int = 74, **fields: object) -> list[str]:
    meta = ObjectMeta(name="new-n1", namespace="default")
    answer = WhatIf(metadata=meta, **{"admitted": True, **fields})  # type: ignore[arg-type]
    lines = verdict_lines(answer, width)
    assert max(map(line_width, lines)) <= width
    return [" ".join(text(line).split()) for line in lines]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "✔ new-n1 fits"),
        ({"admitted": False, "reason": "NodePorts"}, "✖ new-n1 does not fit: NodePorts"),
        ({"holders": (PROGRAM,)}, "▲ new-n1 would be admitted, but could not start"),
        ({"leave": (LEAVER,)}, "▲ new-n1 would be admitted, and other pods would be preempted"),
    ],
)
def test_the_verdict_in_a_line(fields: dict[str, object], words: str) -> None:
    assert verdict(**fields)[0] == words


@pytest.mark.parametrize("width", [60, 74, 190])
def test_a_refusal_in_full(width: int) -> None:
    lines = verdict(
        width, admitted=False, reason="R", message="In the kubelet's words. " * 5, replaces=True,
        lacks=(LACK,), holders=(HOLDER, PROGRAM), leave=(LEAVER,), remarks=("No pod is ended.",),
    )  # fmt: skip
    whole = " ".join(lines)
    assert "cpu 4 3.15 3.8 0.85" in lines
    assert "8080/TCP web-n1 pod" in lines
    assert "127.0.0.1:53/UDP dnsmasq (pid 612) outside podtui" in whole
    assert "✖ other/web-n1 frees cpu 0.5, port 8080" in lines
    assert "▸ No pod is ended." in lines


# --- questions


def test_files_of_the_folder_and_of_folders_inside_it(tmp_path: Path) -> None:
    for name in ("web.yaml", "gallery/job.yml", "gallery/notes.txt", ".trash/old.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("kind: Pod")
    found = manifest_files([tmp_path / "web.yaml"])
    assert found == {
        "web.yaml": tmp_path / "web.yaml",
        "gallery/job.yml": tmp_path / "gallery/job.yml",
    }
    assert question("gallery/job.yml", found) == b"kind: Pod"
    assert question(f" {tmp_path}/web.yaml ", {}) == b"kind: Pod"
    assert json.loads(question("cpu=1", found))["kind"] == "Pod"
    with pytest.raises(QueryError, match="neither"):
        question("gallery/job", found)
    with pytest.raises(QueryError, match="home directory of an unknown user"):
        question("~nosuchuser/web.yaml", found)
    (tmp_path / "web.yaml").write_bytes(b"#" * (1 << 20) + b"\nkind: Pod")
    with pytest.raises(QueryError, match="larger than 1 MiB"):
        question("web.yaml", found)
    (tmp_path / "web.yaml").unlink()
    with pytest.raises(QueryError, match="No such file"):
        question("web.yaml", found)
