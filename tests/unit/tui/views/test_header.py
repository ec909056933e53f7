from __future__ import annotations

import random

import pytest
from msgspec import structs
from tui_records import line_text
from tui_scene import ended, node, pod, status, waiting

from podtui.api.names import CLUSTER, CLUSTER_UNAVAILABLE
from podtui.api.v1 import Node, NodeCondition, Pod
from podtui.client.protocol import Synced
from podtui.tui.model.model import Model
from podtui.tui.model.usage import Usage
from podtui.tui.views.header import Amounts, Detail, header, meters, status_line
from podtui.tui.views.node.allocation import gauges
from podtui.tui.views.node.overview import machine_lines, node_lines
from podtui.tui.views.pod_status import Family
from podtui.tui.views.pods.rows import Totals, pod_row, requests_and_limits
from podtui.tui.widgets.cells import line_width
from podtui.tui.widgets.format import percent

GI = 1 << 30
CPU = Amounts("cpu", 410, 650, 3800)
MEMORY = Amounts("memory", 2 * GI, 7 * GI, 8 * GI)


@pytest.mark.parametrize(
    ("detail", "wanted"),
    [
        (Detail.TINY, " cpu 11%  mem 25% "),
        (Detail.USED, " cpu used 11%  mem used 25% "),
        (Detail.SHORT, " cpu requested 17% used 11%  mem requested 88% used 25% "),
        (
            Detail.PERCENT,
            " cpu ┃░░░░░ requested 17% used 11%  mem █┃███░ requested 88% used 25% ",
        ),
        (
            Detail.LONG,
            (
                " cpu █┃░░░░░░░░░░ requested 0.65 ┃used 0.41 of 3.8 "
                " mem ███┃██████░░ requested 7Gi ┃used 2Gi of 8Gi "
            ),
        ),
    ],
)
def test_meters(detail: Detail, wanted: str) -> None:
    assert line_text(meters((CPU, MEMORY), detail)) == wanted


def test_an_overcommitted_node_without_usage() -> None:
    over = Amounts("cpu", None, 9000, 4000)
    assert line_text(meters((over,), Detail.TINY)) == ""
    assert "██████ requested 225% used ?" in line_text(meters((over,), Detail.PERCENT))


def test_gauges_of_header_and_node_pane_agree() -> None:
    found = gauges(node(), [], {}, Usage(410, 2 * GI))
    for gauge, name in zip(found, ("cpu", "memory"), strict=False):
        gauge = structs.replace(gauge, requested=gauge.allocatable // 3)
        head = Amounts(name, gauge.used, gauge.requested, gauge.allocatable)
        line = line_text(meters((head,), Detail.PERCENT))
        pane = line_text(node_lines([gauge], [], width=76, height=8)[0])
        requested = percent(gauge.requested, gauge.allocatable)
        used = percent(gauge.used or 0, gauge.allocatable)
        assert f"requested {requested} used {used}" in line
        assert requested in pane.partition(" █ ")[2].partition("┃")[0]
        assert used in pane.partition(" █ ")[2].partition("┃")[2]


def scene() -> tuple[Model, Totals]:
    model = Model()
    model.fold(Node, Synced((node(),)))
    model.node_use = Usage(410, 2300 << 20)
    totals = Totals()
    for given in (
        pod("a", status(), requests={"cpu": "500m"}),
        pod("b", status(state=waiting("CrashLoopBackOff")), uid="b"),
        pod("c", status(ready=False), uid="c"),
        pod("d", status(state=ended(0)), phase="Succeeded", uid="d"),
        pod("e", phase="Pending", uid="e"),
    ):
        totals.put(given, pod_row(given, None, now=0.0), requests_and_limits(given))
    return model, totals


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
def test_the_header_fits_with_states_and_figures(width: int) -> None:
    model, totals = scene()
    left, right = header(model, totals, width)
    assert line_width(left) + line_width(right) <= width
    for part in ("n1", "Ready", "● 1", "◐ 1", "○ 1", "✖ 1", "✔ 1"):
        assert part in line_text(left)
    assert "cpu" in line_text(right)
    assert "mem" in line_text(right)
    assert ("not ready" in line_text(left)) is (width >= 120)
    # Percentages name what they measure.
    assert "used" in line_text(right)
    assert ("requested" in line_text(right)) is (width >= 160)


def test_the_header_counts_the_pods_of_the_shown_namespace() -> None:
    model, totals = scene()
    given = pod("f", status(), uid="f")
    given = structs.replace(given, metadata=structs.replace(given.metadata, namespace="team"))
    totals.put(given, pod_row(given, None, now=0.0), requests_and_limits(given))
    left, _ = header(model, totals, 80, "team")
    assert line_text(left).split("Ready", 1)[1].split() == ["team", "●", "1", "running"]
    left, _ = header(model, totals, 80)
    assert "● 2" in line_text(left)
    long = header(model, totals, 80, "n" * 63)
    assert sum(map(line_width, long)) <= 80


def test_totals_count_existing_pods() -> None:
    dice = random.Random(7)
    totals, left = Totals(), dict[str, Pod]()
    states = (status(), status(ready=False), status(state=waiting("CrashLoopBackOff")))
    for _ in range(300):
        name = dice.choice("abcdef")
        if dice.random() < 0.3:
            left.pop(name, None)
            totals.drop(name)
            continue
        phase = dice.choice(("Running", "Succeeded"))
        left[name] = pod(name, dice.choice(states), uid=name, phase=phase,
                         requests={"cpu": f"{dice.randrange(900)}m"})  # fmt: skip
        totals.put(left[name], pod_row(left[name], None, now=0.0), requests_and_limits(left[name]))
    fresh = Totals()
    for given in left.values():
        fresh.put(given, pod_row(given, None, now=0.0), requests_and_limits(given))
    assert (totals.counts, totals.cpu, totals.memory) == (fresh.counts, fresh.cpu, fresh.memory)
    assert sum(totals.counts.values()) == len(left)


def test_terminated_pods_use_no_resources() -> None:
    done = pod("a", status(state=ended(0)), phase="Succeeded", requests={"cpu": "1"})
    totals = Totals()
    totals.put(done, pod_row(done, None, now=0.0), requests_and_limits(done))
    assert totals.cpu == 0
    assert totals.counts[Family.COMPLETED] == 1


def member(url: str, problem: str = "") -> Node:
    item = node()
    meta = structs.replace(item.metadata, annotations={CLUSTER: url})
    lost = NodeCondition(type=CLUSTER_UNAVAILABLE, status="True", message=problem)
    conditions = (*item.status.conditions, *([lost] if problem else []))
    status = structs.replace(item.status, conditions=conditions)
    return structs.replace(item, metadata=meta, status=status)


def bottom_line(item: Node) -> str:
    model = Model()
    model.fold(Node, Synced((item,)))
    return line_text(status_line(model, "", "/m", 120, simulated=False))


def test_the_status_line_names_the_cluster_of_a_node_and_why_it_is_lost() -> None:
    url = "https://10.0.0.1:6443"
    assert "cluster 10.0.0.1:6443 ·" in bottom_line(member(url))
    lost = bottom_line(member(url, "connection refused"))
    assert "cluster lost: connection refused ·" in lost
    assert "cluster" not in bottom_line(node())
    text = "\n".join(map(line_text, machine_lines(member(url), 80)))
    assert "Cluster    https://10.0.0.1:6443" in text
