"""The paths of the programs that podtui is compared with; ``make bench`` installs them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_OURS = Path(__file__).resolve().parent.parent / ".cache" / "peers" / "bin"
NOT_HERE = "not installed here, so not measured"


def peer(name: str) -> str | None:
    """Return the path of a program, None if it is not installed."""
    return shutil.which(name, path=f"{_OURS}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
