from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtui.tui.views.logs.export import (
    MOST_COPIED,
    Export,
    clipboard_text,
    export_of,
    file_name,
    pager_command,
)
from podtui.tui.views.logs.filters import parse_log_filter
from podtui.tui.views.logs.line_buffer import CUT, EVENT, GAP
from podtui.tui.views.logs.lines import LogLines, Query
from podtui.tui.views.logs.target import DEFAULT_RANGE, describe_cut
from podtui.tui.views.logs.times import SECOND

NOON = 1795262400 * SECOND


def lines() -> LogLines:
    held = LogLines()
    held.add([NOON, NOON + 1], [b"\x1b[31mone\x1b[0m\x1b[2J", b"two"], 0)
    held.add([NOON + 2], [b"Pulled  x"], EVENT)
    held.add([NOON + 3], [b"other"], 1)
    held.add([NOON + 3], ["… 3 lines not shown".encode()], GAP)
    return held


def test_lines_are_exported_with_times_and_names_without_events(tmp_path: Path) -> None:
    export = export_of(lines(), names=("app", "side"))
    path = tmp_path / "x.log"
    assert export.save(path) == 4
    assert path.read_text().splitlines() == [
        "2026-11-21T12:00:00.000000000Z app \x1b[31mone\x1b[0m\x1b[2J",
        "2026-11-21T12:00:00.000000001Z app two",
        "2026-11-21T12:00:00.000000003Z side other",
        "--- … 3 lines not shown",
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        export.save(path)


def test_exports_shown_or_all_lines() -> None:
    held = lines()
    held.query = Query(parse_log_filter("two"))
    held.rebuild()
    shown = [line.rsplit(b" ", 1)[-1] for line in export_of(held).lines()]
    assert shown == [b"two", b"shown"]
    assert len(list(export_of(held, everything=True).lines())) == 4


def test_a_symbolic_link_at_the_path_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "x.log").symlink_to(target)
    with pytest.raises(FileExistsError):
        export_of(lines()).save(tmp_path / "x.log")
    assert not target.exists()


def test_a_pager_gets_no_sequences_except_colours() -> None:
    path = export_of(lines()).temporary()
    try:
        assert path.read_bytes().splitlines()[0].endswith(b" \x1b[31mone\x1b[0m\x1b[0m")
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        path.unlink()


def test_a_pager_gets_the_time_and_the_last_text_of_a_progress_bar() -> None:
    held = LogLines()
    held.add([NOON], [b"10%\r100%\r"], 0)
    export = export_of(held, names=("app", "side"))
    path = export.temporary()
    stamp = "2026-11-21T12:00:00.000000000Z"
    assert path.read_text() == f"{stamp} app 100%\n"
    path.unlink()
    assert [*export.lines()] == [f"{stamp} app 10%\r100%\r".encode()]


def test_a_file_does_not_say_how_to_scroll() -> None:
    held = LogLines()
    held.add([NOON], [describe_cut(DEFAULT_RANGE, 0).encode()], CUT)
    assert [line.decode() for line in export_of(held).lines()] == [
        "--- ▲ last 5,000 lines when opened"
    ]


def test_a_partly_written_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def lines_then_trouble(export: Export, change: object = bytes) -> Iterator[bytes]:
        yield b"one"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Export, "lines", lines_then_trouble)
    with pytest.raises(OSError, match="No space"):
        export_of(lines()).save(tmp_path / "x.log")
    with pytest.raises(OSError, match="No space"):
        export_of(lines()).temporary()
    assert list(tmp_path.iterdir()) == []


def test_copied_text_is_plain_and_limited() -> None:
    assert clipboard_text([b"\x1b[31ma\x1b[0m", b"b\x1b]0;x\x07"]) == ("a\nb", 2)
    text, count = clipboard_text([b"x" * 1000] * 1000)
    assert len(text) <= MOST_COPIED
    assert count == 99
    assert clipboard_text([b"y" * 10_000_000])[1] == 1


@pytest.mark.parametrize(
    ("pager", "command"),
    [
        ("", ["less", "-R", "-S"]),
        ("less", ["less", "-R", "-S"]),
        ("/usr/bin/less -M", ["/usr/bin/less", "-M", "-R", "-S"]),
        ("most -w", ["most", "-w"]),
    ],
)
def test_pagers(pager: str, command: list[str]) -> None:
    assert pager_command({"PAGER": pager}) == command


def test_file_names() -> None:
    assert file_name(["web-app"], "S", filtered=False) == "web-app-S.log"
    assert file_name(["../a/b", "c"], "S", filtered=True) == "a_b-and-1-more-filtered-S.log"
