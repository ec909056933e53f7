"""Messages of ``stop``, ``down`` and the end of the screen about the agent and its engine."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from agent_home import set_home

from podtui.agent.control import AgentFailed
from podtui.agent.lock import AgentLock, AgentRecord, last_engine, read_agent
from podtui.cli import main
from podtui.resources import typed_program

NOWHERE = "unix:///nowhere/engine.sock"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return set_home(tmp_path, monkeypatch)


def served_by(root: Path, engine: str) -> None:
    """Leave the state of a stopped agent of that engine."""
    lock = AgentLock(root / "podtui.lock")
    lock.acquire(
        AgentRecord(
            pid=4711, version="0", nodeName="n1", staticPodPath="/m", engine=engine, started="now"
        )
    )
    lock.release()


def test_commands_use_the_programs_name_in_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Path(sys.executable).with_name("podtui")
    monkeypatch.setenv("PATH", f"/usr/bin:{script.parent}")
    assert typed_program() == "podtui"
    (tmp_path / "podtui").symlink_to(script)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typed_program() == "podtui", "installed as by pipx and uv"

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(script.parents[1])
    monkeypatch.setattr(sys, "argv", ["bin/podtui"])
    assert typed_program() == "bin/podtui"
    monkeypatch.setattr(sys, "argv", ["/somewhere/pytest"])
    assert typed_program() == str(script)

    other = tmp_path / "other"
    other.mkdir()
    (other / "podtui").write_text("#!/bin/sh\n")
    (other / "podtui").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert typed_program() == str(script), "PATH has a different podtui"

    monkeypatch.setattr(sys, "executable", str(other / "my/my python"))
    assert typed_program() == f"'{other}/my/my python' -m podtui"


def test_the_engine_is_known_after_the_agent_stopped(root: Path) -> None:
    path = root / "podtui.lock"
    assert last_engine(path) is None
    served_by(root, NOWHERE)
    assert last_engine(path) == NOWHERE
    assert read_agent(path) is None
    for damaged in ("", "[]", "{}", '{"engine": 3}', '{"engine": ""}', "{"):
        path.write_text(damaged)
        assert last_engine(path) is None


def test_a_new_lock_holder_is_not_mistaken_for_the_previous_one(root: Path) -> None:
    served_by(root, NOWHERE)
    lock = AgentLock(root / "podtui.lock")
    left = (root / "podtui.lock").read_text()
    lock.acquire(
        AgentRecord(pid=1, version="0", nodeName="n", staticPodPath="/", engine="auto", started="")
    )
    (root / "podtui.lock").write_text(left)
    assert read_agent(root / "podtui.lock") is None, "stop must not signal the previous pid"
    lock.release()


@pytest.mark.parametrize("answer", ["", "n", "yesterday", EOFError()])
def test_down_does_nothing_without_confirmation(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str | EOFError,
) -> None:
    def confirm(question: str) -> str:
        assert question == (
            "Stop the agent, and remove every container, volume, log and API object of"
            f" {root}? [y/N] "
        )
        if isinstance(answer, EOFError):
            raise answer
        return answer

    served_by(root, "memory")
    (root / "records.db").touch()
    monkeypatch.setattr("builtins.input", confirm)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main(["down"]) == 0
    assert capsys.readouterr().out.strip() == "Nothing was changed."
    assert (root / "records.db").exists()
    monkeypatch.setattr("builtins.input", lambda _: " Y ")
    assert main(["down"]) == 0
    assert not (root / "records.db").exists()


def test_down_uses_the_engine_of_the_last_agent(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served_by(root, NOWHERE)
    monkeypatch.setenv("PODTUI_ENGINE", "memory")
    assert main(["down", "--yes"]) == 1
    assert "/nowhere/engine.sock" in capsys.readouterr().err

    assert main(["down", "--yes", "--engine", "memory"]) == 0
    assert "(--engine memory)" in capsys.readouterr().out
    assert last_engine(root / "podtui.lock") == NOWHERE, "its containers are still there"


def test_the_agent_reads_the_settings_file_of_the_environment(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in another directory."""
    given: list[str] = []

    def start(_: object, arguments: list[str]) -> object:
        given.extend(arguments)
        raise AgentFailed("not today")

    (tmp_path / "mine.yaml").write_text("maxPods: 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PODTUI_CONFIG", "mine.yaml")
    monkeypatch.setattr("podtui.agent.control.start_background", start)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(gc, "disable", lambda: None)
    assert main(["--root-dir", str(root)]) == 1
    assert f"--config={tmp_path}/mine.yaml" in given


def test_an_interrupt_before_the_agent_has_its_lock_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import time; time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code])
    monkeypatch.setattr("podtui.agent.control.start_background", lambda *_: child)
    monkeypatch.setattr("podtui.tui.run.run_tui", lambda *_, **__: 0)
    monkeypatch.setattr(sys, "stdin", type("Tty", (), {"isatty": lambda _: True})())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(gc, "disable", lambda: None)
    monkeypatch.setenv("COLUMNS", "1000")
    try:
        assert main(["--root-dir", str(root)]) == 0
        out, err = capsys.readouterr()
        assert f"The agent (process {child.pid}) is still starting, for" in out
        assert f"podtui stop --root-dir {root}    stop the agent, leave its containers" in out
        assert err == ""
        monkeypatch.setenv("COLUMNS", "80")
        assert main(["--root-dir", str(root)]) == 0
        out, _ = capsys.readouterr()
        assert f"podtui stop --root-dir {root}\n      stop the agent, leave its containers" in out
        assert main(["--root-dir", str(root), "--engine", "memory"]) == 0
        assert "stop the agent, its simulated pods end with it" in capsys.readouterr().out
    finally:
        child.kill()
        child.wait(10)
    assert main(["--root-dir", str(root)]) == 0
    out, err = capsys.readouterr()
    assert "No agent is running." in err
    assert "starting" not in out
