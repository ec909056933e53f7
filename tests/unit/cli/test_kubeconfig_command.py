"""``podtui kubeconfig`` without an agent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from agent_home import set_home

from podtui.cli import main


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return set_home(tmp_path, monkeypatch)


def test_before_the_first_agent(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0)
    try:
        assert main(["kubeconfig"]) == 0
    finally:
        os.umask(before)
    path = root / "kubeconfig"
    captured = capsys.readouterr()
    assert captured.out == f"{path}\n"
    assert f"no agent is running for {root}" in captured.err
    assert "podtui agent' starts one" in captured.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert main(["kubeconfig"]) == 0
    assert path.read_text() == text


def test_without_a_server_there_is_no_kubeconfig(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODTUI_ENABLE_SERVER", "false")
    assert main(["kubeconfig"]) == 2
    assert "enableServer is false" in capsys.readouterr().err
    assert not (root / "kubeconfig").exists()
