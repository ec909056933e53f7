"""The real kubectl that ``scripts/kubectl.py`` downloads."""

from __future__ import annotations

import pytest
from kubectl import NEWEST, path_of


def kubectl(version: str = NEWEST) -> str:
    """Return the path of this version's program. Fail the test if it is missing."""
    path = path_of(version)
    if not path.is_file():
        pytest.fail(f"kubectl {version} is missing: run make kubectl")
    return str(path)
