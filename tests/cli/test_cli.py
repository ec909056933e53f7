from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fresh_imports import after_each, forbidden_among

from podtui import cli
from podtui.cli import build_parser, main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "PODTUI_ROOT_DIR", "PODTUI_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_common_options_stand_before_or_after_the_command() -> None:
    parser = build_parser()
    assert parser.parse_args(["--root-dir", "/a", "status"]).root_dir == "/a"
    assert parser.parse_args(["status", "--root-dir", "/a"]).root_dir == "/a"
    assert parser.parse_args(["status"]).root_dir is None


LINES = (
    "", "--readonly", "--root-dir /a --theme=podtui-light", "--theme status", "--engine memory",
    "--context c -A", "--help", "--he", "--version", "--root-dir", "--bad", "a b", "-- a",
    "--theme light --he", "agent --bad", "status -o json",
)  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_screens_quick_parser_says_what_the_whole_one_says(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(parse: Callable[[list[str]], argparse.Namespace]) -> object:
        try:
            found = vars(parse(line.split()))
        except SystemExit as end:
            found = end.code
        return found, capsys.readouterr()

    assert said(cli._parse) == said(build_parser().parse_args)


def test_no_agent_is_status_3(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 3
    assert main(["stop"]) == 3
    assert "no agent runs" in capsys.readouterr().err


def test_the_screen_wants_a_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(home)]) == 2
    assert "needs a terminal" in capsys.readouterr().err


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_show_the_screen_is_refused(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    term: str,
) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", term)
    assert main([str(home)]) == 2
    said = capsys.readouterr().err
    assert f"TERM={term}" in said
    assert "podtui status" in said


def test_a_bad_setting_is_status_2(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--node-name", "no spaces please"]) == 2
    assert "nodeName" in capsys.readouterr().err


def test_config_says_where_each_setting_comes_from(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "--node-name", "n1"]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("nodeName"))
    assert line.split() == ["nodeName", '"n1"', "#", "command", "line"]


def test_down_asks_first(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_check_of_nothing_is_a_usage_error(home: Path) -> None:
    assert main(["check", str(home / "none.yaml")]) == 2


def loaded(*arguments: str) -> set[str]:
    """The modules that a command line loads, asked of a fresh Python."""
    code = (
        "import sys, json, contextlib, io\n"
        "from podtui.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        f"    main({list(arguments)!r})\n"
        "json.dump(sorted({m.partition('.')[0] for m in sys.modules}), sys.stdout)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("arguments", [("--help",), ("status", "--root-dir", "/nowhere")])
def test_light_commands_load_neither_screen_nor_engine(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments) & {"textual", "rich", "docker", "aiohttp", "requests"}


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("podtui.api.v1", {"yaml", "docker", "textual", "aiohttp", "sqlite3"}),
        ("podtui.manifest.diagnose", {"docker", "textual", "aiohttp", "sqlite3"}),
        ("podtui.store", {"docker", "textual", "aiohttp", "yaml"}),
        ("podtui.kubelet.kubelet", {"docker", "textual", "yaml", "aiohttp"}),
        ("podtui.server", {"docker", "textual", "yaml"}),
        ("podtui.client", {"docker", "textual", "yaml"}),
        ("podtui.runtime.memory", {"docker", "textual", "yaml", "aiohttp"}),
        ("podtui.tui.app", {"docker", "sqlite3"}),
    ],
)
def test_rooms_load_without_what_they_must_not_know(module: str, forbidden: set[str]) -> None:
    assert forbidden_among(module, forbidden) == set()


def test_a_room_that_loads_what_it_must_not_know_is_found() -> None:
    assert forbidden_among("podtui.client.simple", {"json", "docker"}) == {"json"}
    assert forbidden_among("podtui.client", {"sqlite3"}) == set(), "the store brought it"
    assert forbidden_among("podtui.manifest.diagnose", {"yaml", "docker"}) == {"yaml"}


def test_the_screen_room_never_loads_the_kubelet() -> None:
    loaded = after_each(("podtui.tui.app",))["podtui.tui.app"]
    rooms = {name.split(".")[1] for name in loaded if name.startswith("podtui.")}
    assert not rooms & {"kubelet", "runtime", "store", "manifest", "server"}
