"""podtui installed as an application, by pipx and by uv, from the folder and from a wheel.

The dependencies come from the package index: the declared ones must be sufficient.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT
from uv import find_uv_bin

PIPX = Path(sys.executable).with_name("pipx")
IMPORT_ALL = """
import importlib, pkgutil, podtui
assert "site-packages" in podtui.__file__, podtui.__file__
for module in pkgutil.walk_packages(podtui.__path__, "podtui."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=500, **options
    )  # type: ignore[call-overload]
    assert isinstance(done, subprocess.CompletedProcess)
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    run(*build, check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.parametrize("source", ["folder", "wheel"])
@pytest.mark.parametrize("installer", ["pipx", "uv"])
def test_the_installed_program_works(
    wheel: Path, tmp_path: Path, installer: str, source: str
) -> None:
    bin_folder, home = tmp_path / "bin", tmp_path / "home"
    environment = {
        **os.environ,
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(bin_folder),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "UV_TOOL_BIN_DIR": str(bin_folder),
    }
    what = ROOT if source == "folder" else wheel
    command = [PIPX] if installer == "pipx" else [find_uv_bin(), "tool"]
    done = run(*command, "install", what, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    venv = tmp_path / ("pipx/venvs/podtui" if installer == "pipx" else "uv/podtui")
    done = run(venv / "bin/python", "-c", IMPORT_ALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = "man/man1" if installer == "pipx" else "uv/podtui/share/man/man1"
    assert (tmp_path / page / "podtui.1").read_text().startswith(".TH PODTUI 1")

    user = {"HOME": str(home), "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    assert run("podtui", "--version", env=user, cwd=tmp_path).stdout.startswith("podtui ")
    checked = run("podtui", "check", ROOT / "static_pods/web.yaml", env=user, cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    # The message names a command that works in this shell.
    assert "'podtui' starts one" in run("podtui", "status", env=user, cwd=tmp_path).stderr
    away = {**user, "PATH": "/usr/bin:/bin"}
    message = run("bin/podtui", "status", env=away, cwd=tmp_path).stderr
    assert "'bin/podtui' starts one" in message
