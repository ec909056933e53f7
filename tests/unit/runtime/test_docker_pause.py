"""The pause program: the committed files match the source, and it does its two jobs."""

from __future__ import annotations

import importlib.util
import io
import os
import platform
import select
import shutil
import signal
import struct
import subprocess
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
from repository import ROOT

from podtui.errors import EngineError
from podtui.runtime.docker.pause import (
    POD_DIRECTORY,
    SPARE_DIRECTORIES,
    SPARE_FILES,
    pause_program,
    pause_tar,
)

SCRIPT = ROOT / "scripts" / "build_pause.py"
MACHINES = {"amd64": 62, "arm64": 183}


@pytest.fixture(scope="module")
def build_pause() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_pause", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("architecture", MACHINES)
def test_the_committed_program_matches_its_source(
    build_pause: ModuleType, architecture: str
) -> None:
    built = build_pause.assemble(architecture)
    if built is None:
        pytest.skip(f"no assembler for {architecture} here")
    assert built == pause_program(architecture)


@pytest.mark.parametrize("architecture", MACHINES)
def test_pause_is_a_small_static_program(architecture: str) -> None:
    program = pause_program(architecture)
    assert len(program) < 512
    kind, machine = struct.unpack_from("<HH", program, 16)
    (entry,) = struct.unpack_from("<Q", program, 24)
    (segments,) = struct.unpack_from("<H", program, 56)
    load, flags, offset, address, _, in_file, in_memory, _ = struct.unpack_from(
        "<IIQQQQQQ", program, 64
    )
    assert (program[:4], kind, machine) == (b"\x7fELF", 2, MACHINES[architecture])
    assert (segments, load, flags, offset) == (1, 1, 5, 0)
    assert in_file == in_memory == len(program)
    assert address < entry < address + in_file


def test_architecture_names_of_engines() -> None:
    assert pause_program("x86_64") == pause_program("amd64")
    assert pause_program("aarch64") == pause_program("arm64")
    with pytest.raises(EngineError, match="s390x"):
        pause_program("s390x")


def test_the_image_has_the_spares_with_their_modes() -> None:
    with tarfile.open(fileobj=io.BytesIO(pause_tar("amd64"))) as tar:
        top = POD_DIRECTORY.removeprefix("/")
        modes = {member.name: member.mode for member in tar.getmembers()}
        assert modes["pause"] == 0o755
        assert {modes[f"{top}/{name}"] for name in SPARE_DIRECTORIES} == {0o777}
        assert {modes[f"{top}/{name}"] for name in SPARE_FILES} == {0o666}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs the amd64 program")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pause_waits_and_ends_at_once_on_sigterm(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "pause"
    path.write_bytes(pause_program("amd64"))
    path.chmod(0o755)
    with subprocess.Popen([path]) as process:
        handle = os.pidfd_open(process.pid)
        try:
            # It keeps waiting after a SIGCHLD without a child to reap.
            process.send_signal(signal.SIGCHLD)
            assert not select.select([handle], [], [], 0.1)[0]
            process.send_signal(number)
            assert process.wait(5) == 0
        finally:
            os.close(handle)


# --- its second job

RUNS_ON = {"amd64": "x86_64", "arm64": "aarch64"}


@pytest.fixture(params=MACHINES)
def pause(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Return the command that runs the program, if this machine can run it."""
    machine = RUNS_ON[request.param]
    path = tmp_path / "pause"
    path.write_bytes(pause_program(request.param))
    path.chmod(0o755)
    if platform.machine() == machine:
        return [str(path)]
    emulator = shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
    if emulator is None:
        pytest.skip(f"no emulator for {request.param} here")
    return [emulator, str(path)]


def run_in(folder: Path, pause: list[str], *arguments: str) -> int:
    return subprocess.run([*pause, *arguments], cwd=folder, timeout=120, check=False).returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a volume in the middle of an update."""
    folder = tmp_path / "volume"
    (folder / "..old" / "deep").mkdir(parents=True)
    (folder / "..old" / "deep" / "file").write_text("1")
    (folder / "..data").symlink_to("..old")
    (folder / "..data_tmp").symlink_to("..new")
    (folder / "gone").symlink_to("..data/gone")
    return folder


def test_pause_switches_a_link_and_removes_old_files(pause: list[str], folder: Path) -> None:
    gone = ["..old/deep/file", "..old/deep", "..old", "gone", "missing"]
    assert run_in(folder, pause, "..data_tmp", "..data", *gone) == 0
    assert {path.name for path in folder.iterdir()} == {"..data"}
    assert os.readlink(folder / "..data") == "..new"


def test_pause_removes_nothing_unless_the_link_was_switched(pause: list[str], folder: Path) -> None:
    assert run_in(folder, pause, "nosuch", "..data", "..old/deep/file") == 1
    assert (folder / "..old" / "deep" / "file").exists()
    assert os.readlink(folder / "..data") == "..old"


def test_pause_reports_failed_removals_and_removes_the_rest(pause: list[str], folder: Path) -> None:
    assert run_in(folder, pause, "..data_tmp", "..data", "..old", "gone") == 1
    assert {path.name for path in folder.iterdir()} == {"..data", "..old"}


def test_a_path_may_be_renamed_to_itself(pause: list[str], folder: Path) -> None:
    assert run_in(folder, pause, "gone", "gone", "gone") == 0
    assert not (folder / "gone").is_symlink()
