from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podtui.agent.control import AgentProcess
from podtui.agent.lock import AgentLock, AgentRecord
from podtui.settings import Settings, resolve
from podtui.tui.commands.agent import shortened
from podtui.tui.run import theme_folders, theme_for_terminal


def test_paths_are_shown_relative_to_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/user")
    assert shortened(tmp_path / "static_pods") == "./static_pods"
    assert shortened(Path("/home/user/pods")) == "~/pods"
    assert shortened(Path("/srv/pods")) == "/srv/pods"
    assert (theme_folders()[0] / "podtui-dark.yaml").is_file()


def test_the_last_log_lines_of_a_stopped_agent_are_shown(tmp_path: Path) -> None:
    settings = resolve({"rootDir": str(tmp_path)}, {}).settings
    log = settings.agent_log_path
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as agent:
        agent.wait(timeout=120)
        process = AgentProcess(settings, [], agent)
        assert process.problem == f"it ended with status 3; see {log}"
        assert process.crashed
        log.write_text("one\ndisk is full\n")
        assert process.problem.endswith("disk is full")
    found = AgentProcess(settings, [])
    assert found.problem == ""
    assert not found.crashed


@pytest.mark.parametrize("killed", [False, True])
def test_a_lost_agent_is_restarted_with_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Also a stopped one, and from a screen opened without a folder."""
    settings = resolve({"rootDir": str(tmp_path)}, {}).settings
    words: list[list[str]] = []

    def started(settings: Settings, arguments: list[str]) -> None:
        words.append([*arguments])

    monkeypatch.setattr("podtui.agent.control.start_background", started)
    lock = AgentLock(settings.lock_path)
    lock.acquire(
        AgentRecord(
            pid=1, version="0", nodeName="n1", staticPodPath="/m", engine="memory", started=""
        )
    )
    left = settings.lock_path.read_text()
    lock.release()
    if killed:
        settings.lock_path.write_text(left)
    own = ["--static-pod-path=/default", "--engine=auto"]
    theirs = ["--static-pod-path=/m", "--engine=memory", "--node-name=n1"]
    process = AgentProcess(settings, own)
    process.restart()
    process.restart("/wild")
    process.start()
    process.start({"staticPodPath", "engine"})
    assert words == [
        [*own, *theirs],
        [*own, *theirs, "--static-pod-path=/wild"],
        [*own, *theirs] if killed else own,
        [*own, "--node-name=n1"] if killed else own,
    ]


@pytest.mark.parametrize(
    ("environ", "theme"),
    [
        ({"TERM": "linux"}, "podtui-terminal"),
        ({"TERM": "ansi"}, "podtui-terminal"),
        ({"TERM": "xterm"}, "podtui-terminal"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, ""),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "tmux-256color"}, ""),
        ({"TERM": "xterm-direct"}, ""),
        ({"TERM": "xterm-kitty"}, ""),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "podtui-terminal"),
    ],
)
def test_colours_follow_the_terminal(environ: dict[str, str], theme: str) -> None:
    assert theme_for_terminal(environ) == theme


def test_an_empty_no_color_is_ignored() -> None:
    environ = {"TERM": "xterm-256color", "NO_COLOR": ""}
    assert theme_for_terminal(environ) == ""
    assert "NO_COLOR" not in environ
