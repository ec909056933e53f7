"""The work for a key, for a frame of lines and for a change: counted, not timed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recorded_calls import record_calls
from tui_scene import FOLDER, REJECTED, node, now, pod, status

from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.v1 import ObjectMeta, Pod
from podtui.client.protocol import Changed, Synced
from podtui.tui.model import model as model_module
from podtui.tui.model.model import Model
from podtui.tui.model.usage import Usage
from podtui.tui.views.logs import lines as log_lines
from podtui.tui.views.logs.levels import Level
from podtui.tui.views.logs.lines import LogLines, Query
from podtui.tui.views.node.allocation import Shares, gauges, requests_of
from podtui.tui.views.why import Explanations
from podtui.why import node_pods


def filtered(lines: LogLines, least: Level) -> list[int]:
    """Return the lines of at least this level, by a scan of the whole log."""
    lines.query = Query(level=least)
    lines.rebuild()
    shown = lines.rows.shown
    assert shown is not None
    while shown.scan_more():
        pass
    return [shown.at(rank) for rank in range(shown.count)]


def test_a_lines_level_is_computed_without_its_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = LogLines()
    lines.write([b"ERROR it broke", *[b"  at %d" % n for n in range(5)], b"fine", b"  at all"])
    lines.write([b"INFO line %d" % n for n in range(2000)])
    calls = record_calls(monkeypatch, log_lines, "level_of")
    levels = [lines.level(n) for n in range(12)]
    assert len(calls) <= 30
    assert levels == [Level.ERROR] * 6 + [Level.UNKNOWN] * 2 + [Level.INFO] * 4
    assert filtered(lines, Level.ERROR) == list(range(6))


@example([(b"ERROR a", 0), (b"  goes on", 1), (b"  goes on", 0)])
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"ERROR a", b"INFO b", b"plain", b"  goes on"]),
            st.sampled_from([0, 1]),
        ),
        min_size=1,
    )
)
def test_a_lines_level_matches_that_of_the_whole_log(texts: list[tuple[bytes, int]]) -> None:
    lines, together = LogLines(), LogLines()
    for text, tag in texts:
        lines.add([1], [text], tag)
        together.add([1], [text], tag)
    levels = [lines.level(n) for n in range(len(texts))]
    for least in (Level.INFO, Level.ERROR):
        expected = [n for n, level in enumerate(levels) if level.rank >= least]
        assert filtered(together, least) == expected


def test_a_line_at_the_end_of_a_long_trace_has_its_level() -> None:
    lines = LogLines()
    lines.write([b"ERROR it broke", *[b"  at %d" % n for n in range(300)]])
    assert lines.level(300).name == "ERROR"


# --- the node


def pods(count: int) -> list[Pod]:
    return [pod(f"p{n}", status(), requests={"cpu": f"{n}m"}) for n in range(count)]


def test_shares_are_sorted_again_when_requests_change() -> None:
    kept = Shares()
    asks = [requests_of(one) for one in pods(20)]
    first = gauges(node(), asks, {}, None, kept)
    again = [requests_of(one) for one in pods(20)]
    unchanged = gauges(node(), again, {}, Usage(1, 1), kept)
    assert all(
        after.shares is before.shares for after, before in zip(unchanged, first, strict=True)
    )
    more = [*again[:-1], requests_of(pod("p19", status(), requests={"cpu": "1"}))]
    changed = gauges(node(), more, {}, None, kept)
    assert changed == gauges(node(), more, {}, None)
    assert all(
        after.shares is not before.shares for after, before in zip(changed, first, strict=True)
    )
    assert gauges(node(), more[1:], {}, None, kept) == gauges(node(), more[1:], {}, None)


# --- the pods


def test_the_causes_of_many_failures_read_each_pod_and_file_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 40
    rejected = [
        pod(f"r{n}", phase="Failed", reason="UnexpectedAdmissionError", message=REJECTED,
            requests={"cpu": "64"})
        for n in range(count)
    ]  # fmt: skip
    files = [
        Manifest(
            metadata=ObjectMeta(name=f"r{n}.yaml"),
            spec=ManifestSpec(path=f"{FOLDER}/r{n}.yaml"),
            status=ManifestStatus(state=ManifestState.ACCEPTED),
        )
        for n in range(count)
    ]
    model = Model()
    model.fold(Pod, Synced((*pods(count), *rejected)))
    model.fold(Manifest, Synced(tuple(files)))
    requests = record_calls(monkeypatch, node_pods, "requested")
    indexes = record_calls(monkeypatch, model_module, "ManifestIndex")
    explanations = Explanations(model)
    causes = {explanations.cause_of(one, now()) for one in rejected}
    assert causes == {"node lacks 62 cpu"}
    assert len(requests) == count, "ended pods hold nothing"
    assert len(indexes) == 1
    model.fold(Pod, Changed((pod("big", status(), requests={"cpu": "60"}),)))
    assert explanations.cause_of(rejected[0], now())
    assert len(requests) == 2 * count + 1, "a change of the pods is seen"
