"""Query systemd for a machine shutdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtui.agent import systemd


def script(folder: Path, text: str) -> str:
    path = folder / "systemctl"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "stopping"),
    [
        ('test "$1" = is-system-running && echo stopping; exit 1', True),
        ("echo running", False),
        ("echo degraded; exit 1", False),
        ("echo stopping-not-at-all", False),
        ("exit 4", False),
    ],
)
def test_shutdown_states_of_systemd(tmp_path: Path, text: str, stopping: bool) -> None:
    assert systemd.machine_is_stopping(script(tmp_path, text)) is stopping


def test_without_systemd_no_shutdown_is_detected() -> None:
    assert systemd.machine_is_stopping("/nowhere/systemctl") is False


def test_a_hanging_systemd_does_not_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert systemd.machine_is_stopping(script(tmp_path, "exec sleep 60"), timeout=0.05) is False
    assert "does not report" in caplog.text
