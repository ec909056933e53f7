from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tui_scene import event

from podtui.api.v1 import Event, EventSeries, ObjectMeta, ObjectReference
from podtui.tui.views.logs.line_buffer import EVENT, RULE
from podtui.tui.views.logs.merge import MOST_WAITING, OPENING, WINDOW, EventLines, Merger
from podtui.tui.views.logs.times import SECOND

WEB = ObjectReference(kind="Pod", namespace="default", name="web")


def texts(runs) -> list[bytes]:
    return [text for run in runs for text in run.texts]


def test_one_log_waits_for_nothing() -> None:
    merger = Merger([0], 0.0)
    merger.take(0, [5, 3], [b"a", b"b"], 0.0)
    assert texts(merger.ready(0.0)) == [b"a", b"b"]


def test_two_logs_are_merged_by_time() -> None:
    merger = Merger([0, 1], 0.0)
    merger.take(0, [1, 4, 6], [b"a1", b"a4", b"a6"], 0.0)
    assert texts(merger.ready(0.1)) == []
    merger.take(1, [2, 4, 5], [b"b2", b"b4", b"b5"], 0.2)
    runs = merger.ready(0.2)
    assert texts(runs) == [b"a1", b"b2", b"a4", b"b4", b"b5"]
    assert [run.tag for run in runs] == [0, 1, 0, 1]
    assert texts(merger.ready(0.2 + WINDOW)) == [b"a6"]


def test_the_wait_for_a_quiet_log_is_short() -> None:
    merger = Merger([0, 1], 0.0)
    merger.take(0, [1], [b"a"], 0.0)
    assert texts(merger.ready(OPENING - 0.01)) == []
    assert texts(merger.ready(OPENING)) == [b"a"]
    merger.take(1, [2], [b"b"], 3.0)
    merger.take(0, [3], [b"c"], 3.0)
    assert texts(merger.ready(3.1)) == [b"b"]
    assert texts(merger.ready(3.0 + WINDOW)) == [b"c"]


def test_an_ended_log_is_not_awaited() -> None:
    merger = Merger([0, 1], 0.0)
    merger.finish(1)
    merger.take(0, [1], [b"a"], 0.0)
    assert texts(merger.ready(0.0)) == [b"a"]


def test_late_lines_are_shown_late() -> None:
    merger = Merger([0, 1], 0.0)
    merger.take(0, [100], [b"a"], 0.0)
    merger.take(1, [100], [b"b"], 0.0)
    assert len(texts(merger.ready(0.0))) == 2
    merger.take(1, [50], [b"late"], 1.0)
    assert texts(merger.ready(1.0)) == [b"late"]


def test_the_merge_buffer_is_bounded() -> None:
    merger = Merger([0, 1], 0.0)
    count = MOST_WAITING + 10
    merger.take(0, list(range(1, count + 1)), [b"x"] * count, 0.0)
    out = len(texts(merger.ready(0.0)))
    assert merger.waiting <= MOST_WAITING
    assert out + merger.waiting == count


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=60), st.data())
def test_no_line_is_lost_and_each_log_keeps_its_order(
    arrivals: list[tuple[int, int]], data: st.DataObject
) -> None:
    merger = Merger([0, 1, 2], 0.0)
    now, newest = 0.0, [0, 0, 0]
    sent: list[list[bytes]] = [[], [], []]
    seen: list[bytes] = []
    for number, (source, step) in enumerate(arrivals):
        newest[source] += step
        text = b"%d %d" % (source, number)
        sent[source].append(text)
        merger.take(source, [newest[source]], [text], now)
        now += data.draw(st.sampled_from([0.0, 0.1, 1.0]))
        seen += texts(merger.ready(now))
    seen += texts(merger.ready(now + 10))
    assert not merger.waits
    for source in range(3):
        assert [t for t in seen if t.startswith(b"%d " % source)] == sent[source]


def test_events_are_ordered_by_time_and_delay_no_lines() -> None:
    merger = Merger([0], 0.0)
    merger.take_event(EVENT, 5, b"pulled")
    merger.take_event(EVENT, 99, b"unhealthy")
    merger.take(0, [1, 7], [b"a", b"b"], 0.1)
    runs = merger.ready(0.1)
    assert texts(runs) == [b"a", b"pulled", b"b"]
    assert [run.tag for run in runs] == [0, EVENT, 0]
    assert texts(merger.ready(0.2)) == []
    assert texts(merger.ready(0.11 + WINDOW)) == [b"unhealthy"]


def test_events_wait_for_older_lines() -> None:
    merger = Merger([0], 0.0)
    merger.take_event(EVENT, 5, b"pulled")
    assert texts(merger.ready(1.0)) == []
    merger.take(0, [1], [b"a"], 1.0)
    assert texts(merger.ready(1.0)) == [b"a"]
    merger.take(0, [9], [b"b"], 1.1)
    assert texts(merger.ready(1.1)) == [b"pulled", b"b"]


def test_the_schedulers_event_comes_before_those_of_the_kubelet() -> None:
    second = "2026-01-02T03:04:05"
    pulled = Event(
        metadata=ObjectMeta(name="web.2", resourceVersion="10"),
        involvedObject=WEB,
        reason="Pulled",
        lastTimestamp=f"{second}Z",
    )
    scheduled = Event(
        metadata=ObjectMeta(name="web.1", resourceVersion="9"),
        involvedObject=WEB,
        reason="Scheduled",
        eventTime=f"{second}.900000Z",
        series=EventSeries(count=2, lastObservedTime=f"{second}.950000Z"),
    )
    events = EventLines()
    lines = list(events.take([pulled, scheduled]))
    assert [text.split()[0] for _, _, text in lines] == [b"Scheduled", b"Pulled"]
    assert lines[0][1] == lines[1][1]
    assert lines[0][2].endswith(b"(x2)")
    assert list(events.take([pulled, scheduled])) == []


def test_a_back_off_is_shown_below_the_lines_of_its_second() -> None:
    """It follows the end of the container; its time is in whole seconds."""
    text = "Back-off restarting failed container app in pod web-n1_default(uid-web)"
    ((tag, stamp, line),) = EventLines().take([event("web", "BackOff", text, warning=True)])
    second = stamp // SECOND * SECOND
    merger = Merger([0], 0.0)
    merger.take(0, [second + SECOND // 2], [b"it broke"], 0.0)
    merger.take_event(tag, stamp, line)
    merger.finish(0)
    assert texts(merger.ready(WINDOW))[0] == b"it broke"


def test_events_are_shown_without_logs() -> None:
    merger = Merger([0], 0.0)
    merger.take_event(EVENT, 5, b"pulling")
    merger.finish(0)
    assert texts(merger.ready(WINDOW)) == [b"pulling"]


def test_a_separator_keeps_its_position() -> None:
    merger = Merger([0, 1], 0.0)
    merger.take(0, [1], [b"before"], 0.0)
    merger.take(0, [1], [b"restarted"], 0.0, RULE)
    merger.take(0, [2], [b"after"], 0.0)
    merger.take(1, [9], [b"other"], 0.0)
    runs = merger.ready(0.0)
    assert texts(runs) == [b"before", b"restarted", b"after"]
    assert [run.tag for run in runs] == [0, RULE, 0]


def test_an_event_of_a_pod_with_several_containers_names_its_container() -> None:
    started = event("web", "Started", "Container started", container="app")
    ((_, _, text),) = EventLines().take([started], names_container=True)
    assert text == b"Started  app: Container started"
    ((_, _, text),) = EventLines().take([started])
    assert text == b"Started  Container started"
    ((_, _, text),) = EventLines().take([event("web", "Scheduled", "it is")], names_container=True)
    assert text == b"Scheduled  it is"
