"""What the node's screen says, as plain functions."""

from __future__ import annotations

import json

import pytest
from tui_scene import ago, gallery, node, now

from podtui.api.local import NodeMetrics
from podtui.api.quantity import milli_value
from podtui.api.v1 import ObjectMeta
from podtui.tui.cells import Line, line_width
from podtui.tui.model import Model
from podtui.tui.node_gauges import ask_of, gauges
from podtui.tui.node_history import KEPT, NodeHistory, Sample
from podtui.tui.node_plot import history_lines, span_of
from podtui.tui.usage import Usage
from podtui.tui.what_if_wish import WishError, is_wish, parse_wish

GAUGES = gauges(node(), [ask_of(p) for p in gallery()], {}, Usage(410, 2300 << 20))


def text(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()


# --- history


def test_history_is_bounded_and_takes_each_sample_once() -> None:
    history = NodeHistory()
    for at in range(KEPT + 10):
        history.add(float(at), Usage(at, 0))
        history.add(float(at), Usage(0, 0))
    assert len(history.samples) == KEPT
    assert [s.cpu for s in history.samples][-2:] == [KEPT + 8, KEPT + 9]


def test_the_model_keeps_what_the_node_used_even_where_nothing_changed() -> None:
    model = Model()
    for seconds in (9, 6, 3):
        metrics = NodeMetrics(metadata=ObjectMeta(name="n1"), timestamp=ago(seconds=seconds),
                              window="3s", usage={"cpu": "410m", "memory": "1Gi"})  # fmt: skip
        model.measure((), metrics)
    model.measure((), None)
    assert [now() - s.at for s in model.node_history.samples] == [9, 6, 3]


@pytest.mark.parametrize(("oldest", "span"), [(5, 120), (119, 120), (130, 300), (9999, 3600)])
def test_a_plot_shows_no_more_time_than_there_is(oldest: float, span: float) -> None:
    assert span_of([Sample(now() - oldest, 1, 1)], now()) == span


@pytest.mark.parametrize(("width", "height"), [(78, 18), (118, 28), (196, 52), (40, 10)])
def test_plots_fit_their_place(width: int, height: int) -> None:
    samples = [Sample(now() - n, 400 + n, n << 20) for n in range(100, 0, -3)]
    lines = history_lines(GAUGES, samples, now(), width, height)
    assert max(map(line_width, lines)) <= width
    assert len(lines) <= max(height, 11)
    whole = "\n".join(map(text, lines))
    assert "cpu 0.4 now (11%) · 0.5 highest" in whole
    assert "━" in whole
    assert "█" in whole or "▁" in whole


def test_a_node_that_nobody_measures_says_so() -> None:
    assert "Nothing is measured" in text(history_lines(GAUGES, [], now(), 78, 18)[0])


# --- wishes


def test_a_wish_becomes_a_pod() -> None:
    wish = parse_wish("cpu=500m mem=1Gi hostPort=8080,127.0.0.1:53/udp priority=7 name=web")
    pod = json.loads(wish.manifest())
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"] == {"name": "web", "namespace": "default"}
    assert pod["spec"]["priority"] == 7
    assert milli_value(container["resources"]["requests"]["cpu"]) == 500
    assert container["resources"]["requests"]["memory"] == "1Gi"
    assert [(p["hostPort"], p["protocol"], p["hostIP"]) for p in container["ports"]] == [
        (8080, "TCP", ""), (53, "UDP", "127.0.0.1"),
    ]  # fmt: skip


def test_of_huge_pages_and_devices_a_limit_is_asked_for() -> None:
    pod = json.loads(parse_wish("hugepages-2Mi=4Mi example.com/gpu=1 cpu=1").manifest())
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"hugepages-2Mi": "4Mi", "example.com/gpu": "1"}


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("cpus=1", "did you mean cpu?"),
        ("colour=red", "there are cpu, memory"),
        ("cpu=many", "'many' is no quantity"),
        ("cpu=", "cpu: how much?"),
        ("hostPort=x", "'x' is no number"),
        ("hostPort=70000", "not within 1-65535"),
        ("priority=high", "'high' is no number"),
        ("web.yaml", "neither a wish"),
    ],
)
def test_what_is_wrong_with_a_wish(typed: str, words: str) -> None:
    with pytest.raises(WishError, match=words.replace("?", r"\?")):
        parse_wish(typed)


@pytest.mark.parametrize(
    ("typed", "wish"), [("cpu=1", True), ("cpu=1 web", False), ("web.yaml", False), ("", False)]
)
def test_a_wish_is_not_a_file(typed: str, wish: bool) -> None:
    assert is_wish(typed) is wish
