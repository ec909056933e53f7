"""Make sure that a container engine answers and has the sample image.

``ensure`` finds an engine. If none answers, it starts an installed one, or installs the
distribution's ``docker.io``: after a question on a terminal, without a question if ``CI=true`` or
if root has no terminal. It prints one word: ``auto``, or ``memory`` if there is no engine. ``stop``
stops only the engine that ``ensure`` started.

Uses only the standard library, because it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".cache"
PID_FILE = STATE / "dockerd.pid"
LOG_FILE = STATE / "dockerd.log"
DECLINED = STATE / "engine-declined"
NETWORK_TOOLS = {"nft": "nftables", "conntrack": "conntrack"}
"""The programs that Services in pods need, with their Debian packages."""
DEFAULT_SOCKET = "/var/run/docker.sock"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(5)
        self.sock.connect(self._path)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def sockets() -> list[str]:
    """Return the sockets at which an engine may answer, best first."""
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://"):
        return [host.removeprefix("unix://")]
    found = [DEFAULT_SOCKET]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        found += [f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"]
    return [*found, "/run/podman/podman.sock"]


def answering() -> str | None:
    """Return the first socket at which an engine answers."""
    if os.environ.get("DOCKER_HOST", "").startswith(("tcp://", "ssh://")):
        return os.environ["DOCKER_HOST"]
    return next(filter(answers, sockets()), None)


def answers(path: str) -> bool:
    """Return True if an engine answers at a unix socket."""
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def unattended() -> bool:
    return os.environ.get("CI") == "true" or (os.geteuid() == 0 and not sys.stdin.isatty())


def agreed(question: str) -> bool:
    """Return True if the user agrees, or in an unattended run."""
    if unattended():
        return True
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def as_root(command: list[str]) -> list[str]:
    return command if os.geteuid() == 0 else ["sudo", *command]


def run(command: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return (
        subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        ).returncode
        == 0
    )


def install(packages: list[str]) -> bool:
    if shutil.which("apt-get") is None:
        say("This script installs packages with apt-get alone, which is not here.")
        return False
    return run(as_root(["apt-get", "update", "-qq"])) and run(
        as_root(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages])
    )


def find_program(name: str) -> str | None:
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin:/usr/local/sbin"
    return shutil.which(name, path=path)


def wait_for_engine(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answering():
            return True
        time.sleep(0.2)
    return False


def start() -> bool:
    """Start the installed engine: with systemd if it runs, else as a separate process."""
    if Path("/run/systemd/system").is_dir():
        return run(as_root(["systemctl", "start", "docker"])) and wait_for_engine(60)
    dockerd = find_program("dockerd")
    if dockerd is None or os.geteuid() != 0:
        return False
    STATE.mkdir(exist_ok=True)
    with LOG_FILE.open("ab") as log:
        process = subprocess.Popen(
            [dockerd], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    PID_FILE.write_text(str(process.pid))
    say(f"Starting {dockerd} (log: {LOG_FILE.relative_to(ROOT)}) …")
    return wait_for_engine(90)


def ensure() -> str:
    """Return ``auto`` if an engine finally answers, else ``memory``."""
    if answering():
        add_network_tools()
        return "auto"
    if DECLINED.exists() and not unattended():
        say(f"No container engine (you declined one; remove {DECLINED.relative_to(ROOT)} to be")
        say("asked again): the pods will be SIMULATED.")
        return "memory"
    if find_program("dockerd") is None:
        say("No container engine answers, and none is installed.")
        if not agreed("Install Debian's docker.io, and start it?"):
            return decline()
        if not install(["docker.io", "iptables", *NETWORK_TOOLS.values()]):
            return decline()
    elif not agreed("The Docker engine is installed but does not run. Start it?"):
        return decline()
    if not start():
        say(f"The engine did not come up; see {LOG_FILE.relative_to(ROOT)}.")
        return decline()
    add_network_tools()
    return "auto"


def add_network_tools() -> None:
    """Install what Services in pods need, if that can be done without a question."""
    missing = [package for name, package in NETWORK_TOOLS.items() if find_program(name) is None]
    if missing and unattended():
        install(missing)


def decline() -> str:
    if not unattended():
        STATE.mkdir(exist_ok=True)
        DECLINED.touch()
    say("Going on without an engine: the pods will be SIMULATED.")
    say("For real ones install Docker (https://docs.docker.com/engine/install/) or Podman, and")
    say("see 'podtui doctor'.")
    return "memory"


def busybox() -> str | None:
    """Return a static busybox of this machine; install it if that is allowed."""
    for candidate in ("/bin/busybox", "/usr/bin/busybox"):
        if Path(candidate).exists() and is_static(candidate):
            return candidate
    if shutil.which("apt-get") is None or not agreed(
        "Install busybox-static, for the sample image?"
    ):
        return None
    return "/bin/busybox" if install(["busybox-static"]) else None


def is_static(path: str) -> bool:
    """Return True if an ELF file needs no interpreter, as static programs."""
    data = Path(path).read_bytes()
    return data[:4] == b"\x7fELF" and b"/ld-linux" not in data and b"/ld-musl" not in data


def peer() -> None:
    """Install podman for benchmarks; they continue without it if that is not allowed."""
    missing = [name for name in ("podman", "catatonit", "runc") if find_program(name) is None]
    if missing and agreed(f"Install {' and '.join(missing)}, to measure against podman?"):
        install(missing)


def stop() -> None:
    """Stop the engine that `start` started as a process, and wait for it."""
    if not PID_FILE.exists():
        return
    pid = int(PID_FILE.read_text() or 0)
    PID_FILE.unlink()
    try:
        if b"dockerd" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 60
        while (
            time.monotonic() < deadline and b"dockerd" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ):
            time.sleep(0.1)
    except (ProcessLookupError, FileNotFoundError):
        return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("ensure", "busybox", "peer", "stop"))
    command = parser.parse_args().command
    if command == "ensure":
        print(ensure())
    elif command == "busybox":
        path = busybox()
        if path is None:
            return 1
        print(path)
    elif command == "peer":
        peer()
    else:
        stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
