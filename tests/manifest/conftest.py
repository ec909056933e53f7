"""For the tests of this folder: it on the import path (for ``manifests``), and a folder to fill."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "m"
    path.mkdir()
    return path
