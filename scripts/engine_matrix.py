"""Run the runtime contract on every engine that Debian provides, each set up here by one command.

``contract [NAME …]`` starts each engine in turn, gives it the sample image, runs the contract
suite and the tests of Services on it, and stops it; ``start NAME`` prints the
engine's URL and leaves it running until ``stop NAME``. Docker as root is not in the list:
`scripts/engine.py` starts it, and every test runs on it.

Systemd is not needed: packages come from ``apt-get``, each engine has its own storage folder, the
cgroup manager is cgroupfs. The mount namespace of each engine has these changes:

* ``/dev/net/tun`` is open to all users, as udev makes it: slirp4netns opens it as the test user.
* Where the machine has cgroup v1 with some controllers on v2 (hybrid), the v2 hierarchy is hidden:
  crun refuses to start a container beside it.
* Podman does not find ``dpkg-query``: it would query the packages of its parts for each
  ``/version`` and ``/info``, which takes longer than most cases of the contract.

The rootless engines run as the user ``podtui-engines``, which is created once and kept.
"""

from __future__ import annotations

import argparse
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import ROOT, STATE, answers, find_program, install, say

USER = "podtui-engines"
DATA = Path("/var/tmp/podtui-engines")
RUN = Path("/run/podtui-engines")
IMAGE = "busybox:1.36"
# What an engine must do; the ignored file tests the API over the engine.
TESTS = (
    "tests/contract",
    "--ignore=tests/contract/test_client_sessions.py",
    "tests/engine/test_services.py",
    "tests/e2e/test_names_from_pods.py",
    "tests/e2e/test_published_services.py",
    "tests/e2e/test_api_from_pods.py",
)
ROOTLESS_SCRIPTS = ("/usr/share/docker.io/contrib/dockerd-rootless.sh", "dockerd-rootless.sh")
START_SECONDS = 60.0
STOP_SECONDS = 30.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PODMAN_PACKAGES = {
    "podman": "podman",
    "crun": "crun",
    "conmon": "conmon",
    "iptables": "iptables",
    # The tests inspect containers with Docker's command line.
    "docker": "docker.io",
}
ROOTLESS_PACKAGES = {"newuidmap": "uidmap", "slirp4netns": "slirp4netns"}


@dataclass(frozen=True)
class Engine:
    """``programs`` maps each program that it needs to its Debian package."""

    name: str
    rootless: bool
    socket_name: str
    programs: dict[str, str]

    @property
    def data(self) -> Path:
        return DATA / self.name

    @property
    def run(self) -> Path:
        return RUN / self.name

    @property
    def socket(self) -> Path:
        return self.run / self.socket_name

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid_file(self) -> Path:
        """The socket's directory belongs to the engine, this one to root."""
        return RUN / f"{self.name}.pid"

    def command(self) -> list[str]:
        if self.socket_name == "docker.sock":
            script = next(
                (path for name in ROOTLESS_SCRIPTS if (path := shutil.which(name))), None
            ) or str(ROOTLESS_SCRIPTS[0])
            return ["/bin/sh", script]
        storage = [] if self.rootless else ["--root", str(self.data), "--runroot", str(self.run)]
        return ["podman", *storage, "system", "service", "--time=0", self.url]


ENGINES = (
    Engine(
        "docker-rootless",
        True,
        "docker.sock",
        {"dockerd": "docker.io", "rootlesskit": "rootlesskit", **ROOTLESS_PACKAGES},
    ),
    Engine("podman", False, "podman.sock", PODMAN_PACKAGES),
    Engine("podman-rootless", True, "podman.sock", {**PODMAN_PACKAGES, **ROOTLESS_PACKAGES}),
)
BY_NAME = {engine.name: engine for engine in ENGINES}


def start(engine: Engine) -> str:
    """Return its URL. Raises SystemExit with the reason if it cannot run here."""
    if answers(str(engine.socket)):
        return engine.url
    missing = {package for program, package in engine.programs.items() if not find_program(program)}
    if missing and not install(sorted(missing)):
        raise SystemExit(f"{engine.name}: cannot install {', '.join(sorted(missing))}")
    owner = _user() if engine.rootless else pwd.getpwuid(0)
    stop(engine)
    for folder in (engine.data, engine.run):
        folder.mkdir(parents=True)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    STATE.mkdir(exist_ok=True)
    log = STATE / f"{engine.name}.log"
    command = ["unshare", "--mount", "--propagation", "slave", sys.executable, __file__]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "enter", engine.name],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    engine.pid_file.write_text(str(process.pid))
    deadline = time.monotonic() + START_SECONDS
    while not answers(str(engine.socket)):
        if process.poll() is not None or time.monotonic() > deadline:
            last = log.read_text(errors="replace").splitlines()[-10:]
            stop(engine)
            raise SystemExit("\n".join([f"{engine.name} cannot run on this machine:", *last]))
        time.sleep(0.2)
    return engine.url


def _user() -> pwd.struct_passwd:
    """Create the user of the rootless engines, with its own subordinate IDs."""
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        for file in ("/etc/subuid", "/etc/subgid"):
            # useradd assigns subordinate IDs only if these files exist.
            Path(file).touch()
        subprocess.run(["useradd", "--system", "--shell", "/bin/sh", USER], check=True)
        first = 1 << 20
        ids = ["--add-subuids", f"{first}-{first + 65535}", "--add-subgids"]
        subprocess.run(["usermod", *ids, f"{first}-{first + 65535}", USER], check=True)
        return pwd.getpwnam(USER)


def enter(engine: Engine) -> None:
    """Become the engine, in the mount namespace that `start` created."""
    # Containers share mounts with each other, but not with the machine.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    tun = Path("/dev/net/tun")
    if tun.exists() and tun.stat().st_mode & 0o006 != 0o006:
        own = RUN / f"{engine.name}.tun"
        own.unlink(missing_ok=True)
        os.mknod(own, 0o020666, os.makedev(10, 200))
        own.chmod(0o666)
        subprocess.run(["mount", "--bind", str(own), str(tun)], check=True)
    unified = Path("/sys/fs/cgroup/unified")
    if unified.is_mount():
        subprocess.run(["umount", str(unified)], check=True)
    if engine.name.startswith("podman") and (dpkg := shutil.which("dpkg-query")):
        subprocess.run(["mount", "--bind", "/dev/null", dpkg], check=True)
    environment = {
        "PATH": SEARCH_PATH,
        "HOME": str(engine.data),
        "XDG_RUNTIME_DIR": str(engine.run),
        "XDG_CONFIG_HOME": str(engine.data / "config"),
        "CONTAINERS_CONF": str(_containers_conf(engine)),
        "STORAGE_DRIVER": "overlay",
        "LANG": "C.UTF-8",
    }
    command = engine.command()
    if engine.rootless:
        command = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups", *command]
    os.chdir(engine.data)
    os.execvpe(command[0], command, environment)


def _containers_conf(engine: Engine) -> Path:
    """Return podman's configuration: no systemd, and limits that root may set here. Podman
    itself lowers its process limit to the highest process ID."""
    highest = int(Path("/proc/sys/kernel/pid_max").read_text())
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = min(highest, resource.getrlimit(resource.RLIMIT_NPROC)[1] % (1 << 63))
    limits = [f'"nofile={files}:{files}"', f'"nproc={processes}:{processes}"']
    path = RUN / f"{engine.name}.conf"
    path.write_text(
        f"[containers]\ndefault_ulimits = [{', '.join(limits)}]\n"
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    return path


def stop(engine: Engine) -> None:
    """Stop the engine with its containers, and remove its storage."""
    if engine.pid_file.exists():
        pid = int(engine.pid_file.read_text() or 0)
        if engine.name == "podman" and _alive(pid):
            remove = [*engine.command()[:5], "rm", "--all", "--force", "--time", "0"]
            enter_it = ["nsenter", "--mount", "--target", str(pid)]
            environment = {**os.environ, "CONTAINERS_CONF": str(RUN / f"{engine.name}.conf")}
            subprocess.run(
                [*enter_it, *remove], env=environment, stdout=subprocess.DEVNULL, check=False
            )
        _end([pid])
        engine.pid_file.unlink()
    _end(_processes_of(engine))
    for folder in (engine.data, engine.run):
        if folder.exists():
            shutil.rmtree(folder)
    for ending in ("conf", "tun"):
        (RUN / f"{engine.name}.{ending}").unlink(missing_ok=True)


def _processes_of(engine: Engine) -> list[int]:
    """Return the remaining processes of the engine: its own have its storage in their
    environment, containers have it among their mounts."""
    marks = [
        f"{name}={value}".encode()
        for name, value in (("XDG_RUNTIME_DIR", engine.run), ("HOME", engine.data))
    ]
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                mounts = (entry / "mountinfo").read_text()
            except OSError:
                continue
            if f"{engine.data}/" in mounts or any(mark in environment for mark in marks):
                found.append(int(entry.name))
    return found


def _end(pids: Sequence[int]) -> None:
    """Send SIGTERM, then SIGKILL to the remaining processes."""
    deadline = time.monotonic() + STOP_SECONDS
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(_alive, pids):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        while any(map(_alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.1)


def _alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def contract(engines: Sequence[Engine], arguments: Sequence[str]) -> int:
    """Return the number of engines that fail the contract."""
    results: list[str] = []
    broken = 0
    for engine in engines:
        began = time.monotonic()
        try:
            url = start(engine)
            environment = {**os.environ, "DOCKER_HOST": url, "PODTUI_TEST_ENGINE": url}
            say(f"{engine.name}: {url}")
            made = subprocess.run(
                [sys.executable, "scripts/sample_image.py", "--ensure", IMAGE],
                env=environment,
                cwd=ROOT,
                check=False,
            )
            tested = (
                made.returncode
                or subprocess.run(
                    [sys.executable, "-m", "pytest", *TESTS, "-m", "engine", *arguments],
                    env=environment,
                    cwd=ROOT,
                    check=False,
                ).returncode
            )
            word = "keeps the contract" if tested == 0 else "DOES NOT keep the contract"
        except SystemExit as error:
            tested, word = 1, str(error)
        finally:
            stop(engine)
        broken += tested != 0
        results.append(f"{engine.name}: {word} ({time.monotonic() - began:.0f} s)")
    print("\n".join(results))
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("contract", "start", "stop", "enter"))
    parser.add_argument("names", nargs="*", choices=[*BY_NAME, []], metavar="NAME")
    options, arguments = parser.parse_known_args()
    if os.geteuid() != 0:
        say("Only root can set up other engines: their contract is not tested here.")
        return 1 if os.environ.get("CI") == "true" else 0
    engines = [BY_NAME[name] for name in options.names] or list(ENGINES)
    if options.command == "contract":
        return 1 if contract(engines, arguments) else 0
    for engine in engines:
        if options.command == "start":
            print(start(engine))
        elif options.command == "stop":
            stop(engine)
        else:
            enter(engine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
