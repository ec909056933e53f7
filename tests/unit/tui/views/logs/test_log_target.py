from __future__ import annotations

from msgspec import structs
from tui_scene import ended, event, pod, status

from podtui.tui.views.logs.line_buffer import EVENT, EVENT_WARNING, SOURCES, LineBuffer
from podtui.tui.views.logs.merge import EventLines
from podtui.tui.views.logs.target import (
    DEFAULT_RANGE,
    RANGES,
    LogTarget,
    container_status,
    describe_cut,
    describe_end,
    describe_previous,
    has_completed,
    source_names,
    targets_of,
)


def target(pod: str, container: str, namespace: str = "default") -> LogTarget:
    return LogTarget(f"{namespace}/{pod}", namespace, pod, container)


def test_logs_have_the_shortest_distinct_names() -> None:
    assert source_names([target("web", "app"), target("web", "side")]) == ("app", "side")
    assert source_names([target("web", "app"), target("db", "app")]) == ("web", "db")
    assert source_names([target("web", "a"), target("web", "b"), target("db", "a")]) == (
        "web/a", "web/b", "db/a",
    )  # fmt: skip
    assert source_names([target("web", "a"), target("web", "a", "other")]) == (
        "default/web", "other/web",
    )  # fmt: skip
    assert source_names([target("web", "a\x1b[2J")]) == ("a",)


def test_targets_of_pods() -> None:
    web, db = pod("web", status("app"), status("side")), pod("db", status("app"))
    assert [(t.pod, t.container) for t in targets_of([web, db], lambda _: "app")] == [
        ("web-n1", "app"), ("db-n1", "app"),
    ]  # fmt: skip
    both = targets_of([web, db], lambda _: "app", everything=True)
    assert [t.container for t in both if t.pod == "web-n1"] == ["app", "side"]
    assert len(both) == 3
    assert {t.range for t in both} == {DEFAULT_RANGE}
    assert len(targets_of([web] * 200, lambda _: "app", everything=True)) == SOURCES


def test_separators_between_instances() -> None:
    again = pod("web", status(restarts=3, last=ended(137, seconds=1)))
    found = container_status(again, "app")
    assert describe_end("app", found).startswith("app ended with exit code 137 (Error), restart 3")
    assert describe_previous("app", found).startswith("app, the instance of restart 2")
    assert describe_end("app", None) == "app started again"
    first = container_status(pod("web", status(restarts=1, last=ended(0, seconds=1))), "app")
    assert describe_previous("app", first).startswith("app, the first instance")


def test_each_occurrence_of_an_event_is_shown_once() -> None:
    lines = EventLines()
    one = event("web", "BackOff", "again \x1b[2J and again", count=1, warning=True)
    merged = list(lines.take([one]))
    assert [(tag, text) for tag, _, text in merged] == [
        (EVENT_WARNING, b"BackOff  again  and again")
    ]
    assert merged[0][1] > 0
    assert list(lines.take([one])) == []
    more = event("web", "BackOff", "again", count=4)
    assert [text for _, _, text in lines.take([more])] == [b"BackOff  again (x4)"]


def test_events_before_the_range_are_not_shown() -> None:
    lines = EventLines(since=4e9)
    assert list(lines.take([event("web", "Started", "x")])) == []
    assert EVENT != EVENT_WARNING


def test_an_event_with_an_invalid_time_comes_first() -> None:
    lines, buffer = EventLines(), LineBuffer()
    late = structs.replace(event("web", "Odd", "x"), lastTimestamp="9999-12-31T23:59:59Z")
    ((tag, moment, text),) = lines.take([late])
    buffer.append([text], [moment], tag)
    assert buffer.stamp(0) == 0


def test_the_row_above_a_cut_log_says_which_part_is_shown() -> None:
    since = next(r for r in RANGES if r.since == 300)
    assert describe_cut(DEFAULT_RANGE, 0) == "▲ last 5,000 lines when opened · scroll up for more"
    assert describe_cut(DEFAULT_RANGE, 5000, "app").startswith("▲ app: last 10,000 lines when")
    assert describe_cut(since, 0) == "▲ last 5m when opened · scroll up for more"
    longest = describe_cut(since, 5000)
    assert longest.startswith("▲ last 5m and 5,000 lines before when opened")
    assert len(longest) < 72, "it fits into 80 columns"


def test_an_init_container_has_completed_unless_it_runs_again() -> None:
    done, failed = status("init", ended(0)), status("init", ended(1))
    assert has_completed(pod("web", status(), init=[done]), "init")
    assert not has_completed(pod("web", status(), init=[failed]), "init")
    assert not has_completed(pod("web", status(), init=[status("init")]), "init")
    assert not has_completed(pod("web", status("app", ended(0))), "app")
    sidecar = pod("web", status(), init=[done])
    init = structs.replace(sidecar.spec.initContainers[0], restartPolicy="Always")
    sidecar = structs.replace(sidecar, spec=structs.replace(sidecar.spec, initContainers=(init,)))
    assert not has_completed(sidecar, "init")
