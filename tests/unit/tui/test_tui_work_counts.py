"""The work for a key, for a frame of lines and for a change: counted, not timed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tui_scene import node, pod, status

from podtui.api.v1 import Pod
from podtui.tui.model.usage import Usage
from podtui.tui.views.logs import lines as log_lines
from podtui.tui.views.logs.lines import LogLines
from podtui.tui.views.node.gauges import Shares, gauges, requests_of


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """Record the first argument of each call of a function from now on."""
    calls: list[Any] = []
    original = getattr(owner, name)

    def counted(*args: Any, **settings: Any) -> Any:
        calls.append(args[0] if args else None)
        return original(*args, **settings)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_a_lines_level_is_computed_without_its_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = LogLines()
    lines.write([b"ERROR it broke", *[b"  at %d" % n for n in range(5)], b"fine", b"  at all"])
    lines.write([b"INFO line %d" % n for n in range(2000)])
    looked = counting(monkeypatch, log_lines, "level_of")
    levels = [lines.level(n) for n in range(12)]
    assert len(looked) <= 30
    whole = lines._levels_of(lines.buffer.chunks[0])
    assert levels == list(whole[:12])


@given(st.lists(st.sampled_from([b"ERROR a", b"INFO b", b"plain", b"  goes on"]), min_size=1),
       st.data())  # fmt: skip
def test_a_lines_level_matches_that_of_the_whole_log(texts: list[bytes], data: Any) -> None:
    lines, together = LogLines(), LogLines()
    for text in texts:
        tag = data.draw(st.sampled_from([0, 1]))
        lines.add([1], [text], tag)
        together.add([1], [text], tag)
    whole = together._levels_of(together.buffer.chunks[0])
    assert [lines.level(n) for n in range(len(texts))] == list(whole)


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
    sorts = kept.sorts
    again = [requests_of(one) for one in pods(20)]
    assert gauges(node(), again, {}, Usage(1, 1), kept)[0].shares is first[0].shares
    assert kept.sorts == sorts
    more = [*again[:-1], requests_of(pod("p19", status(), requests={"cpu": "1"}))]
    assert gauges(node(), more, {}, None, kept) == gauges(node(), more, {}, None)
    assert kept.sorts == 2 * sorts
    assert gauges(node(), more[1:], {}, None, kept) == gauges(node(), more[1:], {}, None)
