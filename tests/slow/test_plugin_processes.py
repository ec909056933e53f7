"""The processes of a credential plugin end with the command that started them."""

from __future__ import annotations

import asyncio
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
}


def kubeconfig(folder: Path) -> Path:
    """Return a kubeconfig whose plugin writes the ids of its processes and never ends."""
    plugin = folder / "plugin"
    plugin.write_text(
        "#!/bin/sh\nsleep 3600 &\n"
        f"echo $$ $! > {folder}/new && mv {folder}/new {folder}/started\nwait\n"
    )
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
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
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "podtui", *COMMANDS[command][:1],
        "--context", "a", "--kubeconfig", str(kubeconfig(tmp_path)), *COMMANDS[command][1:],
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
        os.close(ours)
        os.close(theirs)
        if process.returncode is None:
            process.kill()
            await process.wait()
