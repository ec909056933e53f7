from __future__ import annotations

import http.client
import subprocess
import sys
from pathlib import Path

import pytest
from tmux_harness import wait_until

from podtui.cli.doctor import examine
from podtui.client.simple import get_json
from podtui.resources import typed_program
from podtui.runtime.docker.locate import find_engine
from podtui.settings import resolve
from podtui.why.waiting import engine_advice


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


def test_a_socket_of_others_is_not_answered_with_start_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(http.client.HTTPConnection, "request", denied)
    text, healthy = report(tmp_path, engine="unix:///var/run/docker.sock")
    assert not healthy
    assert "permission denied" in text
    for way in ("usermod -aG docker", "log in again", "rootless", "DOCKER_HOST"):
        assert way in text
    assert "start" not in text.split("engine:")[-1]
    said = find_engine("unix:///var/run/docker.sock").explain()
    assert "permission denied" in said
    assert engine_advice(said) in text, "why and the node's condition say the same"


def test_it_is_about_the_agent_that_runs(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "its pods"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "podtui", "agent", f"--root-dir={root}", "--engine=memory",
         f"--static-pod-path={folder}", "--node-name=its-node"],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    nowhere = f"unix://{tmp_path}/none.sock"
    try:
        wait_until(lambda: (root / "podtui.sock").exists(), "the agent serves")

        def is_ready() -> bool:
            (node,) = get_json(root / "podtui.sock", "/api/v1/nodes")["items"] or [{}]
            conditions = node.get("status", {}).get("conditions", [])
            return ("Ready", "True") in {(one["type"], one["status"]) for one in conditions}

        wait_until(is_ready, "its node is ready")
        text, healthy = report(tmp_path, rootDir=str(root), engine=nowhere)
        assert healthy, text
        assert f"✓ manifests: {folder}" in text
        assert "✓ engine of the agent: " in text
        assert "node its-node is Ready" in text
        assert "none.sock" not in text

        text, _ = report(tmp_path, rootDir=str(tmp_path / "another"), engine=nowhere)
        assert f"✓ another agent: process {process.pid}, root directory {root}" in text
        assert f"doctor --root-dir {root}" in text
        assert "none.sock" in text
    finally:
        process.kill()
        process.wait(10)


def test_a_root_directory_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    text, _ = report(tmp_path, engine="memory", rootDir=str(root))
    assert f"chmod 700 {root}" in text
