from __future__ import annotations

import http.client
from pathlib import Path

import pytest
from agent_home import doctor_report

from podtui.resources import typed_program
from podtui.runtime.docker.locate import find_engine
from podtui.why.pod_rules import engine_advice


def test_a_simulated_engine_is_a_warning_not_a_failure(tmp_path: Path) -> None:
    text, healthy = doctor_report(tmp_path, engine="memory")
    assert healthy
    assert "! engine: SIMULATED" in text
    assert f"none runs; '{typed_program()}' starts one" in text


def test_a_missing_socket_fails_with_a_remedy(tmp_path: Path) -> None:
    text, healthy = doctor_report(tmp_path, engine=f"unix://{tmp_path}/none.sock")
    assert not healthy
    assert "no such socket" in text
    assert "→ install Docker or Podman" in text


def test_a_forbidden_socket_does_not_suggest_starting_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(http.client.HTTPConnection, "request", denied)
    text, healthy = doctor_report(tmp_path, engine="unix:///var/run/docker.sock")
    assert not healthy
    assert "permission denied" in text
    for way in ("usermod -aG docker", "log in again", "rootless", "DOCKER_HOST"):
        assert way in text
    assert "start" not in text.split("engine:")[-1]
    message = find_engine("unix:///var/run/docker.sock").explain()
    assert "permission denied" in message
    assert engine_advice(message) in text, "why and the node's condition agree"


def test_a_root_directory_readable_by_others_is_a_warning(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    text, _ = doctor_report(tmp_path, engine="memory", rootDir=str(root))
    assert f"chmod 700 {root}" in text
