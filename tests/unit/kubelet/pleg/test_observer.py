"""Termination messages and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import ctr, make_pod

from podtui.api.times import optional_rfc3339, parse_time, rfc3339
from podtui.kubelet.pleg.observer import (
    cut,
    log_tail,
    message_limit,
    needs_logs,
    termination_message,
)

LOGS = "FallbackToLogsOnError"


def test_reads_the_end_of_the_message_file():
    content = b"x" * 6000 + b"end"
    assert termination_message(content=content) == "x" * 4093 + "end"


@pytest.mark.parametrize(
    ("policy", "content", "code", "reason", "expected"),
    [
        (LOGS, b"", 1, "Error", True),
        (LOGS, b"", 137, "OOMKilled", True),
        (LOGS, b"", 0, "Completed", False),
        (LOGS, b"text", 1, "Error", False),
        (LOGS, b"", 128, "StartError", False),
        ("File", b"", 1, "Error", False),
    ],
)
def test_fallback_to_logs_on_error(policy, content, code, reason, expected):
    assert needs_logs(policy, content, code, reason) is expected
    text = termination_message(
        content=content, log=b"log", policy=policy, exit_code=code, reason=reason
    )
    assert text == ("log" if expected else content.decode())


def test_the_end_of_the_log():
    lines = b"".join(b"%d\n" % number for number in range(200))
    assert log_tail(lines) == b"".join(b"%d\n" % number for number in range(120, 200))
    assert log_tail(b"y" * 5000) == b"y" * 2048
    assert log_tail(b"") == b""


def test_the_runtimes_message_takes_precedence():
    assert termination_message(content=b"b", runtime_message="a") == "a: b"
    assert termination_message(content=b"", runtime_message="a") == "a"
    assert termination_message(content=b"") == ""


def test_invalid_utf8_is_replaced():
    assert termination_message(content=b"\xff") == "\ufffd"


def test_a_pod_s_messages_share_12_kib():
    assert message_limit(make_pod()) == 12288
    assert message_limit(make_pod(ctr("a"), ctr("b"), init=(ctr("i"),))) == 4096


@given(st.text(max_size=50), st.integers(min_value=0, max_value=60))
def test_truncation_keeps_the_start_and_whole_characters(text, limit):
    found = cut(text, limit)
    assert text.startswith(found)
    assert len(found.encode()) <= limit
    if len(text.encode()) <= limit:
        assert found == text


def test_times():
    moment = datetime(2026, 1, 2, 3, 4, 5, 999999, tzinfo=UTC)
    assert rfc3339(moment) == "2026-01-02T03:04:05Z"
    assert rfc3339(moment.astimezone(timezone(timedelta(hours=2)))) == "2026-01-02T03:04:05Z"
    assert optional_rfc3339(None) is None
    assert optional_rfc3339(moment) == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-01-02T03:04:05Z", 0),
        ("2026-01-02T03:04:05.123456789Z", 123456),
        ("2026-01-02T03:04:05.5Z", 500000),
        ("2026-01-02T05:04:05.123456789+02:00", 123456),
    ],
)
def test_reading_times(text, micros):
    assert parse_time(text) == datetime(2026, 1, 2, 3, 4, 5, micros, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"])
def test_invalid_times(text):
    assert parse_time(text) is None
