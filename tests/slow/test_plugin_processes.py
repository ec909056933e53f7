"""The processes of a credential plugin end with the command that started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
import yaml

COMMANDS = {
    "status": ("status",),
    "why": ("why", "web"),
    "exec": ("exec", "web", "--", "true"),
    "screen": (),
    "open screen": (),
}


def kubeconfig(folder: Path, *, runs: int = 0) -> Path:
    """Return a kubeconfig whose plugin writes the ids of its processes and never ends, after
    ``runs`` in which it returns a token that has expired."""
    version = "client.authentication.k8s.io/v1"
    status = {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}
    answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    plugin = folder / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        f"echo run >> {folder}/runs\n"
        f"if [ $(wc -l < {folder}/runs) -le {runs} ]; then echo '{answer}'; exit; fi\n"
        "sleep 3600 &\n"
        f"echo $$ $! > {folder}/new && mv {folder}/new {folder}/started\nwait\n"
    )
    plugin.chmod(0o755)
    user = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"exec": user}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def alive(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_signal_ends_the_plugin_too(
    tmp_path: Path, command: str, ending: signal.Signals
) -> None:
    # The first token lets the screen open; then it needs the plugin again.
    config = kubeconfig(tmp_path, runs=1 if command == "open screen" else 0)
    ours, theirs = os.openpty()
    loop = asyncio.get_running_loop()
    # A screen waits until its terminal takes what it draws.
    loop.add_reader(ours, os.read, ours, 65536)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "podtui", *COMMANDS[command][:1],
        "--context", "a", "--kubeconfig", str(config), *COMMANDS[command][1:],
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        stdin=theirs,
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(120):
            while not (tmp_path / "started").exists():
                assert process.returncode is None
                await asyncio.sleep(0.02)
            numbers = [int(text) for text in (tmp_path / "started").read_text().split()]
            assert all(map(alive, numbers))
            process.send_signal(ending)
            _, complaint = await process.communicate()
            assert process.returncode == 128 + ending, complaint
            assert b"Traceback" not in complaint
            while any(map(alive, numbers)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    finally:
        loop.remove_reader(ours)
        os.close(ours)
        os.close(theirs)
        if process.returncode is None:
            process.kill()
            await process.wait()
