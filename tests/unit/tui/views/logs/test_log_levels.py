from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.views.logs.filters import parse_log_filter
from podtui.tui.views.logs.levels import Level, level_of
from podtui.tui.views.logs.lines import LogLines, Query

T, D, I, W, E, F, U = (  # noqa: E741
    Level.TRACE, Level.DEBUG, Level.INFO, Level.WARN, Level.ERROR, Level.FATAL, Level.UNKNOWN,
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "level"),
    [
        # words in brackets
        (b"[ERROR] no such file", E), (b"2026/11/21 12:00:00 [error] 7#7: *1 open() failed", E),
        (b"<warn> low", W), (b"(info) up", I), (b"|DEBUG| x", D), (b"[ WARN ] x", W),
        (b"[core:error] [pid 1] x", E), (b"[2026-11-21] [TRACE] x", T),
        # bare words
        (b"ERROR something", E), (b"2026-11-21 12:00:00,123 WARNING root: x", W),
        (b"12:00:00.123 [main] INFO  o.s.Boot - started", I), (b"WARN: x", W),
        (b"2026-11-21 12:00:00 UTC [7] FATAL:  the database is starting up", F),
        (b"2026-11-21 12:00:00 UTC [7] LOG:  ready", I), (b"CRITICAL - x", F),
        (b"7:M 21 Nov 2026 12:00:00 ERR x", E), (b"12:00PM INF up", I), (b"12:00PM WRN up", W),
        (b"level 3 - Warning - x", W), (b"Error: cannot", E), (b"error: cannot", E),
        (b"panic: runtime error: index out of range", F), (b"fatal: not a git repository", F),
        (b"nginx: [emerg] bind() failed", F), (b"warning: unused", W), (b"app: error: x", E),
        # logfmt
        (b'time="2026-11-21T12:00:00Z" level=error msg="it"', E), (b"ts=1 level=warn x", W),
        (b'lvl=dbug level="info" msg=x', I), (b"severity=CRITICAL x", F), (b"level=unheard x", U),
        # JSON
        (b'{"ts":1,"level":"error","msg":"no info here"}', E), (b'{"severity":"WARNING"}', W),
        (b'{"level":30,"msg":"x"}', I), (b'{"level":50}', E), (b'{"level":60}', F),
        (b'{"lvl" : "Debug"}', D), (b'{"log.level":"trace"}', T), (b'{"@l":"Fatal"}', F),
        (b'{"severity":3}', E), (b'{"msg":"ERROR level"}', U),
        # klog
        (b"I1121 12:00:00.000000       1 main.go:7] up", I), (b"E1121 12:00:00.0 1 x] y", E),
        (b"W1121 12:00:00.0 1 x] ERROR y", W), (b"F1121 12:00:00.0 1 x] y", F),
        # syslog
        (b"<3>1 2026 host x", E), (b"<134>Nov 21 host x: up", I), (b"<12>x", W), (b"<0>x", F),
        (b"<999>x", U),
        # single letters
        (b"[E] x", E), (b"11-21 12:00:00.000  1  1 W/Tag: x", W),
        # colours
        (b"\x1b[31mERROR\x1b[0m x", E), (b"\x1b[2m12:00\x1b[0m \x1b[33mWRN\x1b[0m x", W),
        # progress bars
        (b"ERROR at 10%\rINFO at 100%\r", I), (b"x" * 9999 + b"\rWARN x", W),
        # no level
        (b"", U), (b"GET /healthz 200 1ms", U), (b"listening on :8080", U),
        (b"the informer has no errors", U), (b"retry after an error, once more", U),
        (b"x" * 500 + b" ERROR y", U), (b"INFORMATIVE", U), (b"no ERRORS", U),
        (b"catalog: ok", U), (b"/var/log: full", U),
    ],
)  # fmt: skip
def test_levels(line: bytes, level: Level) -> None:
    assert level_of(line) is level


@given(st.binary(max_size=300))
def test_every_line_has_a_level(line: bytes) -> None:
    assert isinstance(level_of(line), Level)


def filled(*texts: bytes, tags: bytes = b"") -> LogLines:
    lines = LogLines()
    for number, text in enumerate(texts):
        lines.add([1], [text], tags[number] if tags else 0)
    return lines


def shown(lines: LogLines) -> list[bytes]:
    lines.refresh()
    while lines.work():
        pass
    rows = (lines.rows.line_at(row) for row in range(lines.rows.rows))
    return [lines.buffer[at[0]] for at in rows if at is not None]


def test_a_stack_trace_has_the_level_of_its_error() -> None:
    trace = [b"ERROR it failed", b"  at x.y(z)", b"\tat b", b"Caused by: c", b"on we go"]
    lines = filled(b"INFO up", *trace)
    lines.query = Query(level=Level.ERROR)
    lines.rebuild()
    assert shown(lines) == trace[:4]


def test_a_trace_of_one_source_does_not_take_the_level_of_another() -> None:
    lines = filled(b"ERROR a", b"INFO b", b"  a's trace", b"  b's", tags=b"\0\1\0\1")
    lines.query = Query(level=Level.WARN)
    lines.rebuild()
    assert shown(lines) == [b"ERROR a", b"  a's trace"]


def test_a_trace_continues_across_chunks() -> None:
    lines = LogLines()
    lines.add([1] * 5000, [b"ERROR" if n % 10 == 0 else b"  at %d" % n for n in range(5000)], 0)
    lines.query = Query(level=Level.ERROR)
    lines.rebuild()
    assert len(shown(lines)) == 5000
    lines.buffer.close()


def test_lines_without_a_level_are_shown_with_info_and_hidden_with_warn() -> None:
    lines = filled(b"plain", b"DEBUG d", b"WARN w")
    for level, expected in (
        (Level.UNKNOWN, [b"plain", b"DEBUG d", b"WARN w"]),
        (Level.INFO, [b"plain", b"WARN w"]),
        (Level.WARN, [b"WARN w"]),
    ):
        lines.query = Query(level=level)
        lines.rebuild()
        assert shown(lines) == expected


def test_filter_level_and_search_combine() -> None:
    lines = filled(b"WARN apple", b"WARN pear", b"INFO apple", b"WARN apple two")
    lines.query = Query(parse_log_filter("apple"), Level.WARN)
    lines.rebuild()
    lines.search(parse_log_filter("two|pear").pattern)
    assert shown(lines) == [b"WARN apple", b"WARN apple two"]
    assert lines.found is not None
    assert [lines.found.at(n) for n in range(lines.found.count)] == [3]
