"""A wheel in a clean environment finds its data files."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from repository import ROOT
from uv import find_uv_bin

# Like pip, but ten times faster; without a registry or a cache.
INSTALL = ("pip", "install", "--quiet", "--offline", "--no-cache", "--no-config", "--no-deps")
PROBE = """
import podtui.resources as resources
from podtui.runtime.docker.pause import pause_program
assert "site-packages" in resources.__file__, resources.__file__
print(*sorted(p.name for p in resources.shipped("themes").iterdir()))
print(*sorted(p.name for p in resources.shipped("static_pods").iterdir()))
print(*sorted(p.name for p in resources.shipped("templates").iterdir()))
print(*(len(pause_program(arch)) for arch in ("amd64", "arm64")))
from podtui.web.server import page_files
print(*page_files())
"""


def test_wheel_carries_themes_samples_and_pause(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "clean"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    subprocess.run(
        [find_uv_bin(), *INSTALL, "--python", python, wheel],
        check=True,
        capture_output=True,
    )
    # Use the dependencies of this environment, without its path files, so that the checkout itself
    # cannot be imported.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shown = subprocess.run(
        [python, "-c", PROBE], check=True, capture_output=True, text=True, cwd=tmp_path
    ).stdout.splitlines()
    assert "podtui-dark.yaml" in shown[0].split()
    assert {"web.yaml", "counter.yaml", "pipeline.yaml", "gallery"} <= set(shown[1].split())
    assert "service.yaml" in shown[2].split()
    assert all(0 < int(size) < 4096 for size in shown[3].split())
    page = {"index.html", "load.js", "page.mjs", "xterm.mjs", "DejaVuSansMono.woff2"}
    assert page <= set(shown[4].split())
    version = subprocess.run(
        [home / "bin" / "podtui", "--version"], check=True, capture_output=True, text=True
    )
    assert version.stdout.startswith("podtui ")
