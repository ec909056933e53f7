"""A private container engine that can be started, stopped, killed and frozen without affecting
others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import docker
import docker.errors

IMAGE: Final = "busybox:1.36"
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
ISOLATED: Final = "PODTUI_SOAK_ISOLATED"
_SAMPLE_IMAGE: Final = Path(__file__).resolve().parent.parent / "scripts" / "sample_image.py"


def isolate(arguments: Sequence[str]) -> None:
    """Restart this program in its own network, mount and process namespaces.

    The engine's bridge, its mounts and all processes end with the namespaces, however the program
    ends. PID 1 is a shell, which reaps the orphans of an engine.
    """
    if os.environ.get(ISOLATED):
        _raise_loopback()
        return
    shell = 'trap : INT TERM; "$@"; exit $?'
    command = [
        "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
        "sh", "-c", shell, "soak", sys.executable, "-m", "soak", *arguments,
    ]  # fmt: skip
    os.environ[ISOLATED] = "1"
    os.execvp(command[0], command)


def _raise_loopback() -> None:
    """Set loopback up: it is down in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", _IFF_UP)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


def wait_until(condition: Callable[[], object], what: str, timeout: float) -> None:
    """Poll until ``condition`` holds. Raises TimeoutError."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout:.0f} s: {what}")
        time.sleep(0.1)


class Engine:
    """A dockerd with its own data, state and socket below ``base``."""

    def __init__(self, base: Path, prefix: Sequence[str] = ()) -> None:
        """``prefix``: a command that runs the engine, such as ``unshare``."""
        self.base = base
        self.prefix = prefix
        self.socket = base / "docker.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def volumes_path(self) -> Path:
        """The path of its volumes."""
        return self.base / "data" / "volumes"

    @property
    def client(self) -> Any:
        if self._client is None:
            self._client = docker.APIClient(base_url=self.url, version="1.41", timeout=60)
        return self._client

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the engine and wait until it answers."""
        self.base.mkdir(parents=True, exist_ok=True)
        with (self.base / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self.prefix, "dockerd", "--data-root", str(self.base / "data"),
                    "--exec-root", str(self.base / "exec"),
                    "--pidfile", str(self.base / "pid"), "--host", self.url,
                    "--shutdown-timeout", "10",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_until(self._answers, "the private engine answers", 60)

    def load_image(self) -> None:
        """Build the sample image in it: a registry may not be available."""
        subprocess.run(
            [sys.executable, str(_SAMPLE_IMAGE), "--tag", IMAGE],
            env={**os.environ, "DOCKER_HOST": self.url}, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the engine and wait until it has exited."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        self._forget_client()
        # A killed engine leaves its PID file; with a reused PID the next one would not start.
        (self.base / "pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def remove(self) -> None:
        """Stop the engine and delete its files."""
        self.stop()
        for mount in _mounts_below(self.base):
            subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
        shutil.rmtree(self.base, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the private engine ended: see {self.base / 'log'}")
        with contextlib.suppress(docker.errors.DockerException, OSError):
            # The SDK leaves a socket open that it cannot connect.
            with socket.socket(socket.AF_UNIX) as any_socket:
                any_socket.connect(str(self.socket))
            return bool(self.client.ping())
        self._forget_client()
        return False

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    # --- its objects

    def containers(self, label: str) -> list[dict[str, Any]]:
        return self._list(lambda: self.client.containers(all=True, filters={"label": label}))

    def volumes(self, label: str) -> list[str]:
        found = self.client.volumes(filters={"label": label})["Volumes"] or []
        return [str(volume["Name"]) for volume in found]

    def networks(self, label: str = "") -> list[str]:
        """Return the names; all of them without a label."""
        found = self._list(
            lambda: self.client.networks(filters={"label": label} if label else None)
        )
        return [str(network["Name"]) for network in found]

    def _list(self, ask: Callable[[], object]) -> list[dict[str, Any]]:
        return cast("list[dict[str, Any]]", ask())


def _mounts_below(path: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    found = [line.split()[1] for line in lines]
    return sorted((one for one in found if one.startswith(f"{path}/")), reverse=True)
