"""A cluster as seen by a client: an agent's API behind TLS with client certificates. The screen,
the commands and kubectl read one kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cluster_server import Authority, server_context
from real_kubectl import kubectl
from tmux_harness import PODTUI, ROOT, Machine, wait_until

SIMULATED = pytest.mark.parametrize("machine", ["memory"], indirect=True)

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: SPACE}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: busybox:1.36
    command: ["sh", "-c", "COMMAND"]
"""


class Front:
    """TLS in front of a unix socket, in a separate thread; clients without a certificate are
    refused.
    """

    def __init__(self, socket: Path, folder: Path) -> None:
        self._socket = socket
        self._folder = folder
        self._authority = Authority()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(120)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(self._serve())
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self) -> asyncio.Server:
        context = server_context(self._authority, self._folder, "127.0.0.1")
        context.verify_mode = ssl.CERT_REQUIRED
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, back = await asyncio.open_unix_connection(self._socket)
        with suppress(OSError, asyncio.CancelledError):
            async with asyncio.TaskGroup() as group:
                group.create_task(_pipe(reader, back))
                group.create_task(_pipe(inner, writer))

    def kubeconfig(self, name: str, **context: str) -> Path:
        cert, key = self._authority.issue("anne")
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "prod",
            "clusters": [
                {
                    "name": "eu-1",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self.port}",
                        "certificate-authority-data": _base64(self._authority.pem),
                    },
                }
            ],
            "users": [
                {
                    "name": "anne",
                    "user": {
                        "client-certificate-data": _base64(cert),
                        "client-key-data": _base64(key),
                    },
                }
            ],
            "contexts": [
                {"name": "prod", "context": {"cluster": "eu-1", "user": "anne"} | context},
                {"name": "other", "context": {"cluster": "eu-1", "user": "anne"}},
            ],
        }
        path = self._folder / name
        path.write_text(json.dumps(document))
        return path


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def cluster_front(machine: Machine, tmp_path: Path) -> Iterator[Front]:
    """Serve two namespaces with pods behind TLS."""
    for name, space, command in (
        ("web", "default", "while sleep 0.2; do echo tick 1; done"),
        ("job", "batch", "exit 3"),
    ):
        text = POD.replace("NAME", name).replace("SPACE", space).replace("COMMAND", command)
        machine.write(f"{name}.yaml", text)
    agent = subprocess.Popen(
        [*PODTUI, "agent"],
        env=machine.env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    made = Front(machine.root / "podtui.sock", tmp_path)
    try:
        wait_until(lambda: (machine.root / "podtui.sock").exists(), "an agent")
        made.start()
        yield made
    finally:
        made.stop()
        agent.terminate()
        agent.wait(120)


def test_the_screen_shows_a_cluster(machine: Machine, cluster_front: Front) -> None:
    terminal = machine.terminal
    path = cluster_front.kubeconfig("config")
    machine.screen(120, 36, "--kubeconfig", str(path))
    # Parts of the screen appear one after the other.
    for part in ("prod", "eu-1", "as anne", "namespace all", "NAMESPACE", "batch"):
        terminal.wait_for(part)
    shown = terminal.wait_for(r"web-\S+ .*Running")
    # Actions that only an agent offers are hidden, although this server is an agent.
    assert "Edit" not in shown
    assert "Restart" not in shown.replace("RESTARTS", "")
    terminal.keys("Down")
    terminal.wait_for(r"Logs · web-\S+")
    terminal.wait_for(r"tick \d+")
    terminal.keys("Enter")
    shown = terminal.wait_for(r"1 Overview +3 Events +4 Logs +5 YAML")
    assert "Manifest" not in shown
    assert "Probes" not in shown
    terminal.type("y")
    terminal.wait_for(r"kind: Pod")
    terminal.type("s")
    terminal.wait_for(r"^/ #")
    terminal.type("echo in-$((40+2))")
    terminal.keys("Enter")
    terminal.wait_for(r"^in-42")
    terminal.type("exit")
    terminal.keys("Enter")
    terminal.wait_for(r"kind: Pod")
    shown = terminal.wait_for(r"creationTimestamp: '")
    created = re.findall(r"creationTimestamp: '(\S+)'", shown)[0]
    terminal.keys("C-d")
    terminal.wait_for(r"its kubelet recreates the mirror pod")
    terminal.type("y")
    terminal.wait_for(rf"creationTimestamp: '(?!{created})")
    terminal.keys("Escape")
    terminal.type(":")
    terminal.wait_for(r"^ *: *")
    terminal.type("ctx")
    terminal.keys("Enter")
    terminal.wait_for(r"Switch to a context")
    terminal.keys("Enter")
    terminal.wait_for(r"cluster ● other")
    terminal.type("q")
    terminal.wait_for(r"Pane is dead")
    assert "No agent" not in terminal.screen()


def test_commands_and_kubectl_agree(machine: Machine, cluster_front: Front, tmp_path: Path) -> None:
    path = cluster_front.kubeconfig("config", namespace="batch")
    name = f"web-{machine.env.get('PODTUI_NODE_NAME', '')}".rstrip("-")
    given = ("--kubeconfig", str(path))

    def running() -> bool:
        done = machine.run("status", *given)
        return done.returncode == 0 and "Running" in done.stdout

    wait_until(running, "a pod that runs")
    table = machine.run("status", *given)
    assert "NAMESPACE" in table.stdout
    assert "batch" in table.stdout
    name = next(word for word in table.stdout.split() if word.startswith("web-"))
    one = machine.run("status", *given, "-n", "batch")
    assert "web-" not in one.stdout
    assert "job-" in one.stdout
    listing = json.loads(machine.run("status", *given, "-A", "-o", "json").stdout)
    assert {item["kind"] for item in listing["items"]} == {"Node", "Pod"}
    done = machine.run(
        "exec", *given, "-n", "default", name, "--", "sh", "-c", "echo $((6*7)); exit 5"
    )
    assert (done.stdout, done.returncode) == ("42\n", 5)

    def is_reported() -> bool:
        why = machine.run("why", *given, "-n", "batch")
        return why.returncode == 1 and "job-" in why.stdout and "3" in why.stdout

    wait_until(is_reported, "why the job does not run")
    wrong = machine.run("status", *given, "--context", "nowhere")
    assert wrong.returncode == 2
    assert "context 'nowhere' does not exist; available: other, prod" in wrong.stderr
    refused = machine.run("stop", "--root-dir", str(machine.root), *given)
    assert refused.returncode == 2
    result = subprocess.run(
        [kubectl(), *given, f"--cache-dir={tmp_path / 'cache'}", "get", "pods", "-A"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert name in result.stdout, result.stderr


@SIMULATED
def test_an_untrusted_client_gets_an_error(machine: Machine, cluster_front: Front) -> None:
    path = cluster_front.kubeconfig("config")
    document = json.loads(path.read_text())
    document["users"][0]["user"] = {"token": "x"}
    path.write_text(json.dumps(document))
    done = machine.run("status", "--kubeconfig", str(path))
    assert done.returncode == 3
    assert f"127.0.0.1:{cluster_front.port}" in done.stderr
    document["clusters"][0]["cluster"].pop("certificate-authority-data")
    path.write_text(json.dumps(document))
    done = machine.run("status", "--kubeconfig", str(path))
    assert done.returncode == 3
    assert "its certificate is not trusted" in done.stderr
