"""Output of commands contains no control sequences from outside texts."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from podtui.agent import control
from podtui.agent.log import PlainLines
from podtui.cli import doctor, main, sessions
from podtui.errors import ApiError
from podtui.runtime.docker.locate import Endpoint, EngineSearch, TriedEndpoint

EVIL = "\x1b]0;pwned\x07\x1b[2J\x1bc\x9b2J\r\b\0\u202eevil\u2066\u061c\x1b]8;;x:y\x1b\\"


def control_characters(text: str) -> list[str]:
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [ascii(c) for c in text if c != "\n" and unicodedata.category(c) in kinds]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root directory with the state of an agent."""
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setenv("PODTUI_CONFIG", "")
    from podtui.settings import resolve

    socket = resolve({"rootDir": str(root)}, config=None).settings.socket_path
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.touch()
    return root


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(arguments)
    captured = capsys.readouterr()
    output = captured.out + captured.err
    assert output.strip()
    assert control_characters(output) == []
    return output


def test_the_table_of_status(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def table(*_: object, **__: object) -> dict[str, Any]:
        return {"columnDefinitions": [{"name": f"N{EVIL}"}], "rows": [{"cells": [f"web{EVIL}"]}]}

    monkeypatch.setattr("podtui.cli.status.get_json", table)
    assert "web" in run(capsys, "status", "--root-dir", str(root))


def test_the_log_of_the_agent() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(PlainLines())
    log = logging.Logger("podtui.x")
    log.addHandler(handler)
    log.info("probe failed: %s", f"no{EVIL}\n2026-01-01 00:00:00,000 I podtui.x: all is well")
    try:
        raise ValueError(f"worse{EVIL}")
    except ValueError:
        log.exception("and then")
    output = out.getvalue()
    assert control_characters(output) == []
    first, second, *trace = output.splitlines()
    assert "probe failed: no" in first
    assert first.endswith("all is well")
    assert second.endswith("podtui.x: and then")
    assert trace[0].startswith("Traceback")
    assert trace[-1].startswith("ValueError: worse")


@pytest.mark.parametrize("command", [("status",), ("why",), ("why", "web")])
def test_refusals_of_the_agent(
    command: tuple[str, ...],
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ApiError(500, "InternalError", f"no{EVIL}")

    monkeypatch.setattr("podtui.cli.status.get_json", refuse)
    monkeypatch.setattr("podtui.cli.why.get_json", refuse)
    assert "podtui: " in run(capsys, *command, "--root-dir", str(root))


def test_errors_of_exec_and_messages_of_cp(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise ApiError(404, "NotFound", f"pods {EVIL} not found")

    monkeypatch.setattr(sessions, "run_session", refuse)
    assert "not found" in run(capsys, "exec", "--root-dir", str(root), "web", "--", "sh")

    def copied(*_: object) -> str:
        return f"1 file of {EVIL}"

    monkeypatch.setattr(sessions, "run_session", copied)
    assert "1 file of" in run(capsys, "cp", "--root-dir", str(root), "web:/x", "y")


def test_findings_of_doctor(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def search(_: object) -> EngineSearch:
        endpoint = Endpoint(url=f"tcp://host{EVIL}", source=f"context{EVIL}")
        return EngineSearch(None, (TriedEndpoint(endpoint, f"refused{EVIL}"),))

    monkeypatch.setattr(doctor, "find_engine", search)
    assert "refused" in run(capsys, "doctor", "--root-dir", str(root))


def test_effective_settings(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PODTUI_STATIC_POD_PATH", str(root / EVIL.replace("\0", "")))
    assert "staticPodPath" in run(capsys, "config", "--root-dir", str(root))


def test_findings_of_check(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = root / "\x1b]0;pwned\x07\x1b[2J\u202e.yaml"
    file.write_text(f'kind: Pod # {EVIL}\nmetadata: {{name: "a\\e[2J"}}\nspec: {{"x\\e[2J": 1}}\n')
    assert "error" in run(capsys, "check", "--root-dir", str(root), str(file))
    checks = json.loads(run(capsys, "check", "-o", "json", "--root-dir", str(root), str(file)))
    assert checks[0]["path"].endswith("\x1b]0;pwned\x07\x1b[2J\u202e.yaml")


def test_last_log_lines_of_a_stopped_agent(tmp_path: Path) -> None:
    from podtui.text.terminal_text import lines

    log = tmp_path / "agent.log"
    log.write_text(f"one{EVIL}\ntwo\n")
    assert lines(control.tail(log)).split("\n")[-1] == "two"
    assert control_characters(lines(control.tail(log))) == []
