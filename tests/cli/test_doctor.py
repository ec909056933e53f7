from __future__ import annotations

from pathlib import Path

import pytest

from podtui.agent.doctor import examine
from podtui.resources import typed_program
from podtui.settings import resolve


def report(tmp_path: Path, **flags: str) -> tuple[str, bool]:
    environ = {"HOME": str(tmp_path), "PODTUI_NODE_NAME": "n1"}
    return examine(resolve(flags, environ, working=tmp_path).settings)


def test_a_simulated_engine_is_a_warning_not_a_failure(tmp_path: Path) -> None:
    text, healthy = report(tmp_path, engine="memory")
    assert healthy
    assert "! engine: SIMULATED" in text
    assert f"none runs; '{typed_program()}' starts one" in text


def test_a_socket_that_is_not_there_fails_and_says_what_to_do(tmp_path: Path) -> None:
    text, healthy = report(tmp_path, engine=f"unix://{tmp_path}/none.sock")
    assert not healthy
    assert "no such socket" in text
    assert "→ install Docker or Podman" in text


def test_a_root_directory_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    text, _ = report(tmp_path, engine="memory", rootDir=str(root))
    assert f"chmod 700 {root}" in text


@pytest.mark.engine
def test_a_real_engine_is_described(tmp_path: Path) -> None:
    text, healthy = report(tmp_path)
    assert healthy, text
    assert "✓ engine: docker " in text
