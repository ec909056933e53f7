"""A root directory and a manifest folder for one test of the command line and its agent."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from podtui.cli.doctor import examine
from podtui.settings import resolve

UNSET = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "PODTUI_CONFIG", "PODTUI_ENGINE", "KUBECONFIG")


def set_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the environment and return the root directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PODTUI_ROOT_DIR", str(tmp_path / "root"))
    monkeypatch.setenv("PODTUI_STATIC_POD_PATH", str(tmp_path / "pods"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "root").mkdir()
    (tmp_path / "pods").mkdir()
    return tmp_path / "root"


def doctor_report(tmp_path: Path, **flags: str) -> tuple[str, bool]:
    """Return the text of ``podtui doctor`` with these settings, and whether all is well."""
    environ = {"HOME": str(tmp_path), "PODTUI_NODE_NAME": "n1"}
    return examine(resolve(flags, environ, working=tmp_path).settings)
