from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from podtui.cli import build_parser, main
from podtui.cli.parser import parse
from podtui.settings import Resolved


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "PODTUI_ROOT_DIR", "PODTUI_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_common_options_work_before_and_after_the_command() -> None:
    parser = build_parser()
    assert parser.parse_args(["--root-dir", "/a", "status"]).rootDir == "/a"
    assert parser.parse_args(["status", "--root-dir", "/a"]).rootDir == "/a"
    assert parser.parse_args(["status"]).rootDir is None


LINES = (
    "", "--readonly", "--root-dir /a --theme=podtui-light", "--theme status", "--engine memory",
    "--context c -A", "--help", "--he", "--version", "--root-dir", "--bad", "a b", "-- a",
    "--theme light --he", "agent --bad", "status -o json",
)  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_quick_parser_agrees_with_the_full_one(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def result(parse: Callable[[list[str]], argparse.Namespace]) -> object:
        try:
            found = vars(parse(line.split()))
        except SystemExit as end:
            found = end.code
        return found, capsys.readouterr()

    assert result(parse) == result(build_parser().parse_args)


def test_no_agent_is_status_3(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 3
    assert main(["stop"]) == 3
    assert "no agent is running" in capsys.readouterr().err


def test_the_screen_requires_a_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(home)]) == 2
    assert "needs a terminal" in capsys.readouterr().err


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the folders on which a screen was opened, without starting an agent or a screen."""
    folders: list[str] = []

    def opened(resolved: Resolved, **_: object) -> int:
        folders.append(str(resolved.settings.staticPodPath))
        return 0

    monkeypatch.setattr("podtui.agent.control.start_background", lambda *_: None)
    monkeypatch.setattr("podtui.tui.run.run_tui", opened)
    monkeypatch.setattr(gc, "disable", lambda: None)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    return folders


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("stats", "status"), ("staus -o json", "status"), ("exce web -- ls", "exec"),
        ("--engine memory stpo", "stop"), ("help", "--help"), ("doctr --help", "doctor"),
        ("portforward web 80", "port-forward"),
    ],
)  # fmt: skip
def test_a_mistyped_command_is_an_error_with_a_suggestion(
    home: Path,
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    meant: str,
) -> None:
    monkeypatch.chdir(home)
    assert main(line.split()) == 2
    assert f"did you mean 'podtui {meant}'?" in capsys.readouterr().err
    assert (started, list(home.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("logs", "no command 'logs': use the screen, or 'kubectl logs'"),
        ("get pods", "no command 'get'"),
        ("foo bar", "foo: no such command or folder"),
    ],
)
def test_a_word_that_is_no_folder_is_an_error_if_it_looks_like_a_command(
    home: Path,
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    message: str,
) -> None:
    monkeypatch.chdir(home)
    assert main(line.split()) == 2
    assert message in capsys.readouterr().err
    assert (started, list(home.iterdir())) == ([], [])


@pytest.mark.parametrize("word", ["stats", "./stats", "pods"])
def test_an_existing_folder_is_not_taken_for_a_mistyped_command(
    home: Path, started: list[str], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(home)
    (home / word).mkdir()
    assert main([word]) == 0
    assert started == [str(home / word)]


@pytest.mark.parametrize("answer", ["", "n", EOFError()])
def test_a_new_folder_is_not_created_without_confirmation(
    home: Path, started: list[str], monkeypatch: pytest.MonkeyPatch, answer: str | EOFError
) -> None:
    def confirm(question: str) -> str:
        assert str(home / "new/pods") in question
        if isinstance(answer, EOFError):
            raise answer
        return answer

    monkeypatch.setattr("builtins.input", confirm)
    assert main([str(home / "new/pods")]) == 2
    assert (started, list(home.iterdir())) == ([], [])
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert main([str(home / "new/pods")]) == 0
    assert started == [str(home / "new/pods")]
    assert (home / "new/pods").is_dir()


def test_a_new_folder_is_created_with_a_flag(home: Path, started: list[str]) -> None:
    assert main([str(home / "pods"), "--create"]) == 0
    assert started == [str(home / "pods")]
    (home / "file").touch()
    assert main([str(home / "file/pods"), "--create"]) == 2
    assert len(started) == 1


def test_web_requires_a_flag_to_create_a_folder(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["web", str(home / "pods")]) == 2
    assert "--create creates it" in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_a_configured_folder_may_be_missing_at_start(
    home: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([f"--static-pod-path={home}/later"]) == 0
    monkeypatch.setenv("PODTUI_STATIC_POD_PATH", str(home / "mine"))
    assert main([]) == 0
    monkeypatch.delenv("PODTUI_STATIC_POD_PATH")
    monkeypatch.chdir(home)
    assert main([]) == 0
    assert started == [str(home / name) for name in ("later", "mine", ".config/podtui/static_pods")]
    assert not any((home / name).exists() for name in ("later", "mine", ".config"))


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
    error = capsys.readouterr().err
    assert f"TERM={term}" in error
    assert "podtui status" in error


def test_a_bad_setting_is_status_2(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--node-name", "no spaces please"]) == 2
    assert "nodeName" in capsys.readouterr().err


def test_config_shows_the_source_of_each_setting(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "--node-name", "n1"]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("nodeName"))
    assert line.split() == ["nodeName", '"n1"', "#", "command", "line"]


def test_down_requires_confirmation(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_check_of_nothing_is_a_usage_error(home: Path) -> None:
    assert main(["check", str(home / "none.yaml")]) == 2


GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n"


def test_check_reads_the_standard_input(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(text: str, *arguments: str) -> tuple[int, str]:
        (home / "given").write_text(text)
        with (home / "given").open() as file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            code = main(["check", *arguments, "--node-name", "n1", f"--root-dir={home}"])
        return code, capsys.readouterr().out

    assert check(GOOD, "-") == (0, "-: ok: pod default/a-n1\n1 file, 0 errors, 0 warnings\n")
    code, output = check(GOOD.replace("image: a", "imag: a"), "-")
    assert code == 1
    assert '-:4:31: error: unknown field "imag" (spec.containers[0].imag)' in output
    assert "\n  4 | spec: {" in output
    (home / "file.yaml").write_text(GOOD.replace("name: a}", "name: b}"))
    code, output = check(GOOD, "-", str(home / "file.yaml"), "-", "-o", "json")
    assert (code, [one["path"] for one in json.loads(output)]) == (0, ["-", f"{home}/file.yaml"])
    assert check("", "-")[1].startswith("-:1:1: error: ")


@pytest.mark.parametrize("command", ["status", "why"])
def test_without_an_agent_the_complete_start_command_is_shown(
    home: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, f"--root-dir={home}/r"]) == 3
    assert f" --root-dir {home}/r' starts one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["status", "why", "stop", "down --yes", "kubeconfig", "doctor", "agent"]
)
def test_the_root_directory_of_another_user_is_an_error_in_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    root = home / "r"
    root.mkdir()

    def denying(call: Callable[..., object]) -> Callable[..., object]:
        def checked(path: object, *rest: object, **more: object) -> object:
            if isinstance(path, str | Path) and Path(path).parent == root:
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *rest, **more)

        return checked

    for name in ("open", "stat"):
        monkeypatch.setattr(os, name, denying(getattr(os, name)))
    assert main([*command.split(), f"--root-dir={root}", "--engine=memory"]) == 1
    printed = capsys.readouterr()
    assert f"{root}: permission denied; run podtui as the owner" in printed.out + printed.err


def test_stop_names_the_command_that_adopts_the_containers(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It includes the agent's folder, which differs from the default folder here."""
    (home / "r").mkdir()
    left = {"staticPodPath": "/my pods", "nodeName": "n1", "engine": "auto"}
    (home / "r/podtui.lock").write_text(json.dumps(left))
    monkeypatch.setattr("podtui.agent.control.stop", lambda _: True)
    assert main(["stop", f"--root-dir={home}/r"]) == 0
    assert f" --root-dir {home}/r '/my pods'' continues with them" in capsys.readouterr().out
