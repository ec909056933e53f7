"""A real registry on a loopback port, for the duration of a test."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT

PROGRAM = "docker-registry"
USER, PASSWORD = "ann", "hunter2"
# bcrypt of the password.
_ENTRY = f"{USER}:$2y$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.\n"
SAMPLE = "busybox:1.36"
_ENGINE_SCRIPT = ROOT / "scripts" / "engine.py"


@dataclass(frozen=True, slots=True)
class Registry:
    host: str
    port: int

    def image(self, repository: str) -> str:
        return f"{self.host}:{self.port}/{repository}"


def _program() -> str:
    """Return the registry's path. Install it if permitted, else skip the test."""
    found = shutil.which(PROGRAM)
    if found is not None:
        return found
    spec = importlib.util.spec_from_file_location("engine_script", _ENGINE_SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    if script.unattended() and script.install([PROGRAM]):
        found = shutil.which(PROGRAM)
    if found is None:
        pytest.skip(f"NO REGISTRY: {PROGRAM} is not installed and may not or cannot be")
    return found


@contextmanager
def registry(folder: Path, *, login: bool = False) -> Iterator[Registry]:
    """Serve images from ``folder``; with ``login`` only to `USER` with `PASSWORD`."""
    program = _program()
    host = socket.gethostbyname("localhost")
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = int(probe.getsockname()[1])
    config = [
        "version: 0.1",
        "log: {level: error, accesslog: {disabled: true}}",
        f"storage: {{filesystem: {{rootdirectory: {folder / 'images'}}}}}",
        f"http: {{addr: '{host}:{port}'}}",
    ]
    if login:
        (folder / "users").write_text(_ENTRY)
        config.append(f"auth: {{htpasswd: {{realm: test, path: {folder / 'users'}}}}}")
    (folder / "registry.yml").write_text("\n".join(config) + "\n")
    with (folder / "registry.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "serve", str(folder / "registry.yml")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait(server, host, port, folder / "registry.log")
        yield Registry(host, port)
    finally:
        server.terminate()
        server.wait(timeout=120)


def _wait(server: subprocess.Popen[bytes], host: str, port: int, log: Path) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection((host, port), timeout=1):
                return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the registry did not come up:\n{log.read_text()}")
            time.sleep(0.05)


@contextmanager
def pushed_image(
    raw: Any, name: str, auth: dict[str, str] | None = None, changes: Sequence[str] = ()
) -> Iterator[None]:
    """Push an image of that name to its registry; it exists nowhere else when the block begins
    or ends.
    """
    made = raw.create_container(SAMPLE, "true")["Id"]
    repository, _, tag = name.rpartition(":")
    try:
        raw.commit(made, repository, tag, changes=[f"LABEL unique={uuid.uuid4().hex}", *changes])
    finally:
        raw.remove_container(made)
    try:
        lines = raw.push(repository, tag, auth_config=auth, stream=True, decode=True)
        assert [line for line in lines if "error" in line] == []
    finally:
        raw.remove_image(name)
    try:
        yield
    finally:
        if raw.images(name):
            raw.remove_image(name)
