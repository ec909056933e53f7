"""Agents in separate processes."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from agent_home import doctor_report, set_home
from tmux_harness import wait_until

from podtui.agent.lock import read_agent
from podtui.cli import main
from podtui.client.blocking import get_bytes, get_json
from podtui.settings import resolve
from soak.fuzz import ANSWERS

NOWHERE = "unix:///nowhere/engine.sock"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return set_home(tmp_path, monkeypatch)


@pytest.fixture
def agent(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a simulated agent."""
    with running_agent(root) as process:
        yield process


@contextmanager
def running_agent(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "podtui", "agent", "--engine", "memory"],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    try:
        while not (root / "podtui.sock").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline, "the agent does not serve"
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait(60)


def test_the_token_is_in_no_process_list_and_in_no_record(
    agent: subprocess.Popen[bytes], root: Path
) -> None:
    assert main(["kubeconfig"]) == 0
    token = resolve({}).settings.pki_path.joinpath("token").read_bytes().strip()
    assert token in (root / "kubeconfig").read_bytes()
    process = psutil.Process(agent.pid)
    for one in (process, *process.children(recursive=True)):
        for name in ("cmdline", "environ"):
            assert token not in Path(f"/proc/{one.pid}/{name}").read_bytes()
    records = list(root.glob("records.db*"))
    assert records
    for path in records:
        assert token not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0, path


def test_impossible_settings_end_the_agent_with_a_message(root: Path) -> None:
    command = [sys.executable, "-m", "podtui", "agent", "--engine", "memory"]
    environment = {**os.environ, "PODTUI_CPU_MANAGER_POLICY": "static"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "podtui: [cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to"
        " be greater than zero"
    )


def test_stop_and_down_say_that_simulated_pods_end(
    root: Path, agent: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stop", "--engine", NOWHERE]) == 0
    output = capsys.readouterr().out
    assert "simulated pods (--engine memory) with it" in output
    assert "run on" not in output
    assert agent.wait(60) == 0

    assert main(["down", "--yes"]) == 0
    assert "simulated pods (--engine memory) end with their agent" in capsys.readouterr().out


class _HungEngine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers version requests only; other requests hang."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.requested = threading.Event()
        super().__init__(str(path), _HungAnswers)


class _HungAnswers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HungEngine

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        known = {"_ping": "OK", **{key.strip("/"): value for key, value in ANSWERS.items()}}
        if name not in ("_ping", "version", "info"):
            self.server.requested.set()
            threading.Event().wait(120)
        body = json.dumps(known.get(name, {})).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests out of the test's output."""


STOPPED_SOON = """
import sys
import podtui.agent.run as run
from podtui.cli import main
run.STOP_SECONDS = 0.5
sys.exit(main(["agent", "--engine", sys.argv[1]]))
"""


def test_an_agent_whose_engine_hangs_can_be_stopped(root: Path, tmp_path: Path) -> None:
    """The running call has a time limit of 60 s, and cannot be cancelled."""
    with _HungEngine(tmp_path / "engine.sock") as engine:
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        process = subprocess.Popen(
            [sys.executable, "-c", STOPPED_SOON, f"unix://{tmp_path}/engine.sock"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert engine.requested.wait(120), "the agent sent no request"
            process.terminate()
            _, text = process.communicate(timeout=120)
        finally:
            process.kill()
            engine.shutdown()
    assert process.returncode == 0
    assert b"stopped without it" in text
    assert read_agent(root / "podtui.lock") is None


def test_commands_refer_to_the_running_agent(tmp_path: Path) -> None:
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
        text, healthy = doctor_report(tmp_path, rootDir=str(root), engine=nowhere)
        assert healthy, text
        assert f"✓ manifests: {folder}" in text
        assert "✓ engine of the agent: " in text
        assert "node its-node is Ready" in text
        assert "none.sock" not in text

        text, _ = doctor_report(tmp_path, rootDir=str(tmp_path / "another"), engine=nowhere)
        assert f"✓ another agent: process {process.pid}, root directory {root}" in text
        assert f"doctor --root-dir {root}" in text
        assert "none.sock" in text
    finally:
        process.kill()
        process.wait(60)


POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: busybox}]}
"""


def create(root: Path, path: str, body: object) -> int:
    """Send an object to the API, and return the status."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.0\r\nContent-Type: application/json\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(str(root / "podtui.sock"))
        connection.sendall(f"{head}Host: podtui\r\nContent-Length: {len(data)}\r\n\r\n".encode())
        connection.sendall(data)
        return int(connection.recv(64).split()[1])


def test_a_file_name_that_is_not_utf8_does_not_end_persistence(root: Path, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "pods")
    with open(folder + b"/caf\xe9.yaml", "wb") as file:
        file.write(POD)
    manifests = "/apis/podtui.dev/v1alpha1/manifests"
    config_maps = "/api/v1/namespaces/default/configmaps"

    def names(path: str) -> list[str]:
        items = get_json(root / "podtui.sock", path, timeout=120)["items"]
        return [item["metadata"]["name"] for item in items]

    with running_agent(root):
        wait_until(lambda: [name[:4] for name in names("/api/v1/pods")] == ["web-"], 120)
        wait_until(lambda: names(manifests) == ["caf\\xe9.yaml"], 120)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
        assert create(root, config_maps, body) == 201
        assert get_bytes(root / "podtui.sock", "/readyz") == b"ok"
        assert main(["status"]) == 0
    # The agent was killed, and its socket is left.
    (root / "podtui.sock").unlink()
    with running_agent(root):
        assert "kept" in names(config_maps)
        wait_until(lambda: names(manifests) == ["caf\\xe9.yaml"], 120)
